"""Checkpoints and savepoints of one incarnation, from the driver's side.

A checkpoint begins right after the commit of an epoch: every slot is told before the next commit can reach it, so all
snapshots are of the same epoch. The rest runs in a thread beside the epochs: wait for the slots, write ``_metadata``,
append the log record (the commit), publish the sinks' files, tell the slots, drop what is subsumed.

A savepoint is taken together with a checkpoint of the same epoch. The savepoint's record comes first, the checkpoint's
second, so a restart always goes back to files of the lineage's own, never to a folder that a user may move away. One
that takes long goes on beside later checkpoints (``driver.beside``), unless the job ends with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sparkstate import clock, errors, phases
from sparkstate.checkpoint import coordinator
from sparkstate.checkpoint.coordinator import Backlog
from sparkstate.checkpoint.metadata import Committable
from sparkstate.control.documents import SavepointPhase, SavepointRequest
from sparkstate.driver.answers import Answers, take_snapshot
from sparkstate.driver.away import Ending
from sparkstate.driver.beside import PATIENCE_S, Beside
from sparkstate.driver.due import Due, asked
from sparkstate.driver.durable import Durable
from sparkstate.driver.pending_checkpoint import PendingCheckpoint, parts_of
from sparkstate.driver.requests import Requests
from sparkstate.driver.told import Told
from sparkstate.driver.unsaved import Unsaved
from sparkstate.driver.view import JobView
from sparkstate.handles import ShardHandle
from sparkstate.keygroups import KeySpace
from sparkstate.log.records import SavepointCommitted
from sparkstate.settings import CheckpointSettings
from sparkstate.slots import protocol
from sparkstate.slots.group import SlotGroup
from sparkstate.spark.position import Captured
from sparkstate.spark.watermarks import Watermarks

_Staged = tuple[Committable, ...]
_T = TypeVar("_T")
_OF_THE_JOB = (errors.Fenced, errors.SlotLost)
"""Whatever else goes wrong with a savepoint is the failure of who asked for it."""


class Checkpoints:
    """One at a time. ``after_commit`` is called in the epoch's thread; the rest happens in threads of its own."""

    def __init__(
        self,
        group: SlotGroup,
        durable: Durable,
        settings: CheckpointSettings,
        requests: Requests,
        view: JobView,
        clock_: clock.Clock,
        phases_: phases.Phases,
        key_space: KeySpace,
        base: int,
    ) -> None:
        self._group = group
        self._durable = durable
        self._settings = settings
        self._due = Due(settings, clock_)
        self._requests = requests
        self._told = Told(view, requests, durable, clock_)
        self._clock = clock_
        self._phases = phases_
        self._key_space = key_space
        self._base = base
        self._current: PendingCheckpoint | None = None
        self._fatal: errors.SparkstateError | None = None
        self._abandoned = threading.Event()
        self._beside = Beside(
            group, durable, settings, clock_, self._abandoned.is_set, requests, self._savepoint_ended
        )
        self.closed_by: str | None = None
        self.unsaved = Unsaved(clock_)
        self.usual_s: float | None = None
        """What the newest completed checkpoint took; None before the first. One with a savepoint does not count."""

    # -- in the epoch's thread ----------------------------------------------------------------------------------

    def stop_requested(self) -> SavepointRequest | None:
        """The next open savepoint request, if it asks to stop the job."""
        request = self.next_request()
        return request if request is not None and request.stop else None

    def next_request(self) -> SavepointRequest | None:
        """The oldest savepoint request that nobody serves. One is served at a time; the others wait."""
        request = self._requests.next_open()
        return None if request is None or self._beside.trigger_id == request.trigger_id else request

    def wants_epoch(self) -> bool:
        """Whether :meth:`after_commit` may have something to do at the end of the epoch at hand: a checkpoint is due
        or asked for, or the job is to stop. Then Spark must not go on before; otherwise it may.
        """
        if self._fatal is not None:
            return True
        under_way = self._current is not None  # read first: a request is served until it is None
        wanted = asked(self.next_request(), checkpoint=self._requests.checkpoint_asked())
        return self._due.wants_epoch(wanted, self._backlog, under_way=under_way)

    def after_commit(
        self, epoch: int, watermarks: Watermarks, position: Callable[[], Captured], *, changed: bool
    ) -> None:
        """Begin what is due. Raises what a checkpoint's failure means for the job."""
        self.require_sound()
        under_way = self._current is not None
        request = self.next_request()
        # What is asked for stays so while one is under way, which may be of an earlier epoch.
        wanted = asked(request, checkpoint=not under_way and self._requests.take_checkpoint())
        if self._due.begins(wanted, self.unsaved.held_bytes, under_way=under_way, changed=changed):
            self.start(epoch, watermarks, position(), request)

    def require_sound(self) -> None:
        """Raises what a checkpoint's failure means for the job.

        Nothing may be stored after that: where a checkpoint committed and its output could not be published, the slots
        still hold the rows that it staged, and the next one would stage them again. A savepoint that is asked for
        stays so; the next incarnation takes it, or the job's end fails it.
        """
        if self._fatal is not None:
            raise self._fatal

    def hold_back(self) -> str | None:
        """Why the job must take nothing in before a checkpoint has completed; None: it need not wait."""
        return coordinator.hold_back(self._settings, self._backlog)

    @property
    def _backlog(self) -> Backlog:
        return self.unsaved.backlog(storage_away=self.is_stuck)

    def is_due(self) -> bool:
        """Whether a checkpoint may begin now, while nothing is taken in: none is under way, and its time has come or
        what was away answers again."""
        if self._current is not None or self._fatal is not None:
            return self._fatal is not None
        return self._due.is_now(self.unsaved.held_bytes) or (self.is_stuck and self._durable.probe())

    def given_up(self) -> bool:
        """Whether the job is to end and must not wait for what is under way: at once, or because a storage is away
        that may stay so."""
        current = self._current
        target = current is not None and current.savepoint is not None
        ending = self._requests.terminated.is_set() and self._durable.places.failing(savepoints=target)
        return bool(ending) or self._requests.cancelled.is_set() or self._abandoned.is_set()

    def start(
        self,
        epoch: int,
        watermarks: Watermarks,
        position: Captured,
        request: SavepointRequest | None = None,
        *,
        drained: bool = False,
    ) -> PendingCheckpoint:
        """Tell the slots, and return; wait for ``ended`` where the job must not go on before.

        Raises what :meth:`require_sound` raises.
        """
        self.require_sound()
        pending = PendingCheckpoint(
            checkpoint_id=self._durable.ids.new(),
            epoch=epoch,
            watermarks=watermarks,
            position=position,
            key_space=self._key_space,
            drained=drained,
            trigger_ms=self._clock.now_ms(),
            began=self._clock.monotonic(),
            mark=self.unsaved.mark(),
            savepoint=request,
            base=self._base,
        )
        self._current = pending
        self._due.began(pending.checkpoint_id)
        if request is not None:
            pending.savepoint_id = self._durable.ids.new()
        self._told.began(pending)
        self._tell_slots(pending)
        threading.Thread(target=self._run, args=(pending,), name="checkpoint", daemon=True).start()
        return pending

    def _tell_slots(self, pending: PendingCheckpoint) -> None:
        take_snapshot(self._group, pending.checkpoint_id, pending.epoch, base=pending.base)
        request = pending.savepoint
        if request is None:
            return
        number = pending.savepoint_id
        begin = partial(self._durable.begin_savepoint, request, number, self._group.incarnation)
        url = self._of_the_request(pending, begin)
        if url is not None:
            pending.savepoint_url = url
            take_snapshot(self._group, number, pending.epoch, url=url)

    def _of_the_request(self, pending: PendingCheckpoint, action: Callable[[], _T]) -> _T | None:
        """What ``action`` returns; None if it failed, which is the failure of the savepoint's request alone."""
        try:
            return action()
        except _OF_THE_JOB:
            raise
        except Exception as error:
            self._fail_savepoint(pending, error)
            return None

    def wait(self, *, beside: bool = True) -> None:
        """Wait for the checkpoint under way, if there is one, and for the savepoint ``beside``, until only its record
        is missing. Raises ``Ending`` once they are given up."""
        current = self._current
        if current is not None:
            current.wait(self.given_up)
        if beside:
            self._beside.wait(self.given_up)

    def settle(self) -> None:
        """:meth:`wait`, and raise what a checkpoint's failure means for the job."""
        self.wait()
        self.require_sound()

    def settle_before(self, request: SavepointRequest) -> bool:
        """:meth:`settle` before a savepoint that stops the job. False: that failed, since a storage stays away."""
        until, places = self._clock.monotonic() + self._settings.timeout_s, self._durable.places
        try:
            current = self._current
            if current is not None:
                current.wait(
                    lambda: self.given_up() or (self._clock.monotonic() > until and bool(places.awaited))
                )
        except Ending:
            if self.given_up():
                raise
            assert request.trigger_id is not None
            self._requests.update(request.trigger_id, SavepointPhase.FAILED, failure=places.told)
            return False
        self.require_sound()
        return True

    @property
    def under_way_s(self) -> float:
        """For how long the checkpoint under way has been; 0 if there is none."""
        current = self._current
        return 0.0 if current is None else self._clock.monotonic() - current.began

    @property
    def is_awaited(self) -> bool:
        """Whether what is under way is waited for in any case: a savepoint, which somebody has asked for (one beside
        needs one more checkpoint then), or what is committed and has only its output to publish."""
        current = self._current
        awaited = current is not None and (current.savepoint is not None or current.committed)
        return awaited or self._beside.trigger_id is not None

    @property
    def is_stuck(self) -> bool:
        """Whether a storage fails that checkpoints need, so that one may never end."""
        return bool(self._durable.places.failing())

    def abandon(self) -> None:
        """The incarnation ends: nobody waits for what is under way any more."""
        self._abandoned.set()

    def note_pause(self, milliseconds: float) -> None:
        """How long a commit waited for the checkpoint under way."""
        current = self._current
        if current is not None:
            current.pause_ms = max(current.pause_ms, milliseconds)

    # -- in the checkpoint's thread -----------------------------------------------------------------------------

    def _run(self, pending: PendingCheckpoint) -> None:
        try:
            self._complete(pending)
        except errors.SparkstateError as error:
            self._failed(pending, error)
        except Exception as error:
            self._failed(pending, errors.SparkstateError(f"{type(error).__name__}: {error}"))
        finally:
            pending.position.release()
            self._current = None
            pending.ended.set()

    def _complete(self, pending: PendingCheckpoint) -> None:
        self._of_the_request(pending, partial(self._beside.make_folder, pending))
        answers = Answers(self._group, pending.checkpoint_id, self._clock, self._abandoned.is_set)
        replies = answers.in_time(self._settings.timeout_s)
        savepoint = self._savepoint_replies(pending)
        self._enter(phases.Phase.CHECKPOINT_METADATA, pending)
        committables = tuple(staged for reply in replies for staged in reply.committables)
        record = None if savepoint is None else self._write_savepoint(pending, savepoint, committables)
        if record is not None:
            record = self._beside.recorded(pending, record)
        metadata = self._durable.commit_checkpoint(
            parts_of(pending, replies, committables, pending.checkpoint_id, self._group),
            self._abandoned.is_set,
            lambda: self._before_record(pending),
        )
        pending.committed = True
        self._base = pending.checkpoint_id
        self.unsaved.committed(pending.mark)
        self._enter(phases.Phase.CHECKPOINT_PUBLISH, pending)
        self._durable.publish(metadata, self._abandoned.is_set)
        self._enter(phases.Phase.CHECKPOINT_COMPLETE, pending)
        self._tell_ended(pending.checkpoint_id, completed=True)
        self._told.completed(pending, metadata.shards)
        self._due.completed(pending.checkpoint_id)
        self._durable.places.clear()
        self.unsaved.completed(pending.mark)
        if pending.savepoint_id < 0:
            self.usual_s = self._clock.monotonic() - pending.began
        if record is not None and pending.savepoint is not None:
            self._finish_savepoint(pending, pending.savepoint, metadata.shards)
        self._durable.subsume()

    def _before_record(self, pending: PendingCheckpoint) -> None:
        self._enter(phases.Phase.CHECKPOINT_COMMIT, pending)
        self._beside.record()

    def _finish_savepoint(
        self, pending: PendingCheckpoint, request: SavepointRequest, shards: Sequence[ShardHandle]
    ) -> None:
        assert request.trigger_id is not None
        if request.stop:
            self._durable.close_lineage(pending.savepoint_url, request.trigger_id, self._abandoned.is_set)
            self.closed_by = pending.savepoint_url
        self._savepoint_ended(pending, shards)

    def _savepoint_ended(
        self, pending: PendingCheckpoint, outcome: Sequence[ShardHandle] | Exception
    ) -> None:
        if not isinstance(outcome, Exception):
            self._tell_ended(pending.savepoint_id, completed=True)
            self._told.savepoint_completed(pending, outcome)
            return
        if isinstance(outcome, _OF_THE_JOB):
            self._fatal = self._fatal or outcome
        self._fail_savepoint(pending, outcome)

    def _savepoint_replies(self, pending: PendingCheckpoint) -> list[protocol.SnapshotState] | None:
        """None: there is none, it has failed, or it goes on beside."""
        request = pending.savepoint
        if request is None or not pending.savepoint_url:
            return None
        answers = Answers(self._group, pending.savepoint_id, self._clock, self._abandoned.is_set)
        if request.stop or pending.drained:
            return self._of_the_request(pending, partial(answers.in_time, self._settings.timeout_s))
        within = self._of_the_request(pending, partial(answers.within, PATIENCE_S))
        if within is None and pending.savepoint_url:
            self._beside.begin(pending, answers)
        return within

    def _write_savepoint(
        self, pending: PendingCheckpoint, replies: list[protocol.SnapshotState], staged: _Staged
    ) -> SavepointCommitted | None:
        """Into the storage that the request names."""
        parts = parts_of(pending, replies, staged, pending.savepoint_id, self._group)
        return self._of_the_request(pending, partial(self._beside.write, pending, parts))

    # -- failures -----------------------------------------------------------------------------------------------

    def _failed(self, pending: PendingCheckpoint, error: errors.SparkstateError) -> None:
        if pending.committed:
            # What a restart goes back to is complete, but its output is not all visible, or a slot does not know:
            # a new incarnation publishes.
            self._fatal = error
        else:
            if isinstance(error, errors.StorageUnavailable):
                self._durable.note_away(f"store checkpoint {pending.checkpoint_id}", error)
            lost = error if isinstance(error, (errors.Fenced, errors.SlotLost)) else None
            self._fatal = lost or self._due.failed(pending.checkpoint_id, error) or self._fatal
            self._tell_ended(pending.checkpoint_id, completed=False)
            self._durable.discard(pending.checkpoint_id)
        self._told.failed(pending, error)
        self._fail_savepoint(pending, error)
        pending.failure = error

    def _fail_savepoint(self, pending: PendingCheckpoint, error: Exception) -> None:
        if pending.savepoint is None or pending.savepoint.trigger_id is None:
            return
        url, pending.savepoint_url = pending.savepoint_url, ""
        self._told.savepoint_failed(pending, error)
        self._tell_ended(pending.savepoint_id, completed=False)
        self._durable.leftovers.of_savepoint(url)

    def _tell_ended(self, checkpoint_id: int, *, completed: bool) -> None:
        request = protocol.CheckpointDone(checkpoint_id=checkpoint_id, completed=completed)
        try:
            self._group.ask(lambda _: request, protocol.Ok)
        except errors.SlotLost as error:
            # Whoever feeds that slot next learns it as well; the files it would have reused are uploaded again.
            self._fatal = self._fatal or error

    def _enter(self, phase: phases.Phase, pending: PendingCheckpoint) -> None:
        self._phases.enter(
            phase, epoch=pending.epoch, checkpoint=pending.checkpoint_id, incarnation=self._group.incarnation
        )
