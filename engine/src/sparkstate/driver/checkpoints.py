"""When checkpoints and savepoints of one incarnation begin, and who waits for them: the part in the epochs' thread.

A checkpoint begins right after the commit of an epoch: every slot is told before the next commit can reach it, so all
snapshots are of the same epoch. The rest runs in a thread beside the epochs (``driver.completion``), with the savepoint
that the checkpoint takes along (``driver.companion``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sparkstate import clock, errors, phases
from sparkstate.checkpoint import coordinator
from sparkstate.checkpoint.coordinator import Backlog, PauseStep
from sparkstate.control.documents import SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import earlier_savepoint
from sparkstate.driver.answers import take_snapshot
from sparkstate.driver.checkpoint_coordinator import CheckpointCoordinator, open_requests
from sparkstate.driver.companion import Companion
from sparkstate.driver.completion import Completion
from sparkstate.driver.fatal_failure import FatalFailure
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.notifier import Notifier
from sparkstate.driver.pending_checkpoint import PendingCheckpoint, PendingSavepoint
from sparkstate.driver.requests import Requests
from sparkstate.driver.storage_outages import Ending
from sparkstate.driver.unsaved_work import UnsavedWork
from sparkstate.driver.view import JobView
from sparkstate.keygroups import KeySpace
from sparkstate.settings import CheckpointSettings
from sparkstate.slots.group import SlotGroup
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks


class Checkpoints:
    """One at a time. Every method is called in the epochs' thread, ``abandon`` and ``given_up`` in any.

    Made for one incarnation, it first tells of the savepoints that the incarnation before has completed.
    """

    def __init__(
        self,
        group: SlotGroup,
        job_storage: JobStorage,
        settings: CheckpointSettings,
        requests: Requests,
        view: JobView,
        clock_: clock.Clock,
        phases_: phases.Phases,
        key_space: KeySpace,
        base: int,
    ) -> None:
        self._group = group
        self._storage = job_storage
        self._settings = settings
        self._coordinator = CheckpointCoordinator(settings, clock_)
        self._requests = requests
        self._view = view
        self._notifier = Notifier(view, requests, job_storage, clock_)
        self._clock = clock_
        self._key_space = key_space
        self._current: PendingCheckpoint | None = None
        self._fatal = FatalFailure()
        self._abandoned = threading.Event()
        self.unsaved = UnsavedWork(clock_)
        self._companion = Companion(
            group,
            job_storage,
            settings,
            requests,
            self._notifier,
            self._fatal,
            clock_,
            self._abandoned.is_set,
        )
        self._long_savepoint = self._companion.long_savepoint
        self._completion = Completion(
            group, job_storage, settings, self._coordinator, self._notifier, self._fatal, self.unsaved,
            self._companion, clock_, phases_, base, self._abandoned.is_set,
        )  # fmt: skip
        earlier_savepoint.tell(job_storage.log.state, requests, view)

    @property
    def closed_by(self) -> str | None:
        """URL of the savepoint that has closed the lineage; None: none has."""
        return self._companion.closed_by

    @property
    def usual_s(self) -> float | None:
        """Seconds the newest completed checkpoint took; None before the first. One with a savepoint does not count."""
        return self._completion.usual_s

    def stop_requested(self) -> SavepointTrigger | None:
        """The next open savepoint request, if it asks to stop the job."""
        request = self.next_request()
        return request if request is not None and request.stop else None

    def next_request(self) -> SavepointTrigger | None:
        """The oldest savepoint request that nobody serves. One is served at a time; the others wait."""
        request = self._requests.next_open()
        return None if request is None or self._long_savepoint.trigger_id == request.trigger_id else request

    def wants_epoch(self) -> bool:
        """Whether :meth:`after_commit` may have something to do at the end of the epoch at hand: a checkpoint is due
        or asked for, or the job is to stop. Then Spark must not go on before; otherwise it may.
        """
        if self._fatal.error is not None:
            return True
        under_way = self._current is not None  # read first: when it becomes None, its request has ended
        wanted = open_requests(self.next_request(), checkpoint=self._requests.checkpoint_asked())
        return self._coordinator.wants_epoch(wanted, self._backlog, under_way=under_way)

    def after_commit(
        self, epoch: int, watermarks: Watermarks, position: Callable[[], CapturedPosition], *, changed: bool
    ) -> None:
        """Begin what is due. Raises what a checkpoint's failure means for the job.

        A savepoint that stops the job waits for the end of the next epoch, and so do those behind it. Its request came
        after the epochs' loop had called :meth:`stop_requested`, and only that loop drains and stops the job.
        """
        self.require_sound()
        under_way = self._current is not None
        request = self.next_request()
        if request is not None and request.stop:
            request = None
        # While a checkpoint is under way a wish for one stays: the one under way may be of an earlier epoch.
        wanted = open_requests(request, checkpoint=not under_way and self._requests.take_checkpoint())
        # A savepoint beside the checkpoints gets its record with the next one, and others wait for it: one that failed
        # is followed by another although no row has come. So is one whose storage was away, as when somebody had asked
        # for it: until one completes, that storage counts as away.
        changed = changed or self._long_savepoint.waits_for_record or self.is_stuck
        if self._coordinator.begins(wanted, self.unsaved.held_bytes, under_way=under_way, changed=changed):
            self.start(epoch, watermarks, position(), request)

    def require_sound(self) -> None:
        """Raises what a checkpoint's failure means for the job.

        Nothing may be stored after that: where a checkpoint committed and its output could not be published, the slots
        still hold the rows that it staged, and the next one would stage them again. A savepoint that is asked for
        stays so; the next incarnation takes it, or the job's end fails it.
        """
        if self._fatal.error is not None:
            raise self._fatal.error

    def hold_back(self) -> str | None:
        """Why the job must take nothing in before a checkpoint has completed; None: it need not wait."""
        return coordinator.hold_back(self._settings, self._backlog)

    @property
    def _backlog(self) -> Backlog:
        return self.unsaved.backlog(storage_away=self.is_stuck)

    def is_due(self) -> bool:
        """Whether a checkpoint begins now, while nothing is taken in.
        Asks a storage that is away whether it answers."""
        step = self._coordinator.pause_step(self._backlog, under_way=self._current is not None)
        return step is PauseStep.BEGIN or (step is PauseStep.PROBE and self._storage.probe())

    def given_up(self) -> bool:
        """Whether the job has to end without waiting for the work under way: at once, or because a storage is away
        that may stay so."""
        current = self._current
        target = current is not None and current.savepoint is not None
        ending = self._requests.terminated.is_set() and self._storage.outages.failing(savepoints=target)
        return bool(ending) or self._requests.cancelled.is_set() or self._abandoned.is_set()

    def start(
        self,
        epoch: int,
        watermarks: Watermarks,
        position: CapturedPosition,
        request: SavepointTrigger | None = None,
        *,
        drained: bool = False,
        only_with_savepoint: bool = False,
    ) -> PendingCheckpoint:
        """Tell the slots, and return; wait for ``ended`` where the job must not go on before.

        ``only_with_savepoint``: it fails if the savepoint that ``request`` asks for fails.
        Raises what :meth:`require_sound` raises.
        """
        self.require_sound()
        checkpoint_id = self._storage.ids.new()
        pending = PendingCheckpoint(
            checkpoint_id=checkpoint_id,
            epoch=epoch,
            watermarks=watermarks,
            position=position,
            key_space=self._key_space,
            drained=drained,
            trigger_ms=self._clock.now_ms(),
            began=self._clock.monotonic(),
            mark=self.unsaved.mark(),
            savepoint=None if request is None else PendingSavepoint(request, self._storage.ids.new()),
            only_with_savepoint=only_with_savepoint,
            base=self._completion.base,
        )
        self._current = pending
        self._coordinator.began(pending.checkpoint_id)
        self._notifier.began(pending)
        try:
            take_snapshot(
                self._group, pending.checkpoint_id, pending.epoch, pending.trigger_ms, base=pending.base
            )
            self._companion.begin(pending)
        except errors.SparkstateError as error:
            self._not_begun(pending, error)
            raise
        threading.Thread(target=self._run, args=(pending,), name="checkpoint", daemon=True).start()
        return pending

    def _not_begun(self, pending: PendingCheckpoint, error: errors.SparkstateError) -> None:
        """A slot did not take the order, which ends the incarnation. No thread ends this checkpoint: if nobody did, a
        request for a checkpoint would be answered with its number for ever. A savepoint that came with it stays asked
        for: the next incarnation takes it."""
        self._coordinator.failed(pending.checkpoint_id, error)
        self._notifier.failed(pending, error)
        pending.failure = error
        self._end(pending)

    def _run(self, pending: PendingCheckpoint) -> None:
        """The checkpoint's thread."""
        try:
            self._completion.run(pending)
        finally:
            self._end(pending)

    def _end(self, pending: PendingCheckpoint) -> None:
        pending.position.release()
        self._current = None
        pending.ended.set()

    def wait(self, *, long_savepoint: bool = True) -> None:
        """Wait for the checkpoint under way, if there is one, and for the long savepoint, until only its record is
        missing. Raises ``Ending`` once they are given up."""
        current = self._current
        if current is not None:
            current.wait(self.given_up)
        if long_savepoint:
            self._long_savepoint.wait(self.given_up)

    def settle(self) -> None:
        """:meth:`wait`, and raise what a checkpoint's failure means for the job."""
        self.wait()
        self.require_sound()

    def settle_before(self, request: SavepointTrigger) -> bool:
        """:meth:`settle` before a savepoint that stops the job. False: that failed, since a storage stays away.

        The wait has a bound because the request stayed pending for as long as the storage was away.
        """
        until, outages = self._clock.monotonic() + self._settings.timeout_s, self._storage.outages

        def is_given_up() -> bool:
            self._view.note_progress()  # or the kubelet would end the driver within a long checkpoint
            return self.given_up() or (self._clock.monotonic() > until and bool(outages.awaited))

        try:
            current = self._current
            if current is not None:
                current.wait(is_given_up)
        except Ending:
            if self.given_up():
                raise
            self._requests.update(request.trigger_id, SavepointPhase.FAILED, failure=outages.told)
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
        """Whether the driver waits for the work under way in any case: a savepoint, which somebody has asked for (one
        beside needs one more checkpoint then), or a committed one that has only its output to publish."""
        current = self._current
        awaited = current is not None and (current.savepoint is not None or current.committed)
        return awaited or self._long_savepoint.trigger_id is not None

    @property
    def is_stuck(self) -> bool:
        """Whether a storage fails that checkpoints need, so that one may never end."""
        return bool(self._storage.outages.failing())

    def abandon(self) -> None:
        """The incarnation ends: nobody waits for the work under way any more."""
        self._abandoned.set()

    def note_pause(self, milliseconds: float) -> None:
        """How long a commit waited for the checkpoint under way."""
        current = self._current
        if current is not None:
            current.pause_ms = max(current.pause_ms, milliseconds)
