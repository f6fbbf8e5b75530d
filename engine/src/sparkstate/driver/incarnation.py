"""One incarnation: slots, a restored state, a query, epochs and checkpoints, until the end, a failure or a stop."""

from __future__ import annotations

import contextlib
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from sparkstate import errors, phases
from sparkstate.checkpoint.restore import Restored
from sparkstate.control.documents import Phase, SavepointRequest
from sparkstate.driver import draining, failing, leaving
from sparkstate.driver.aside import Aside
from sparkstate.driver.away import Ending, heard
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.crew import Crew
from sparkstate.driver.parts import End, Parts
from sparkstate.driver.pausing import Pauses
from sparkstate.functions import MIN_WATERMARK
from sparkstate.keygroups import KeySpace
from sparkstate.slots.client import SlotAddress
from sparkstate.spark import epochs, position, query, watermarks
from sparkstate.spark.query import DataFrame
from sparkstate.spark.watermarks import Watermarks

_WATCH_S = 1.0
_SILENT_S = 30.0
"""A slot that gives no sign of life for so long hangs. It takes no lock that a commit holds to give one."""
_LAST_EPOCH_S = 10.0
"""How long the end of an incarnation waits for the end of an epoch that nobody asks for any more."""


class Incarnation:
    """Use once: :meth:`run`, which returns how it ended or raises why it failed."""

    def __init__(self, parts: Parts, restored: Restored, number: int, key_space: KeySpace) -> None:
        self._parts = parts
        self._restored = restored
        self.number = number
        self._key_space = key_space
        self._crew: Crew | None = None
        self._query: query.Query | None = None
        self._runner: epochs.EpochRunner | None = None
        self._checkpoints: Checkpoints | None = None
        self._lost: errors.SparkstateError | None = None
        self._manned = threading.Event()
        self._filled = threading.Event()
        self._over = threading.Event()
        self._aside = Aside()
        self._pauses = Pauses(parts, lambda: self._lost, self._over)
        self._last_epoch = restored.metadata.epoch if restored.metadata else -1
        self._has_committed = False
        self._stopped_by_savepoint = False
        # What came from outside of the lineage is to lie in it, also when no input follows: whose savepoint that was
        # may delete it.
        self._idle_since_commit = restored.metadata is None or restored.plan.record is not None

    # -- life ---------------------------------------------------------------------------------------------------

    def run(self, before: tuple[SlotAddress, ...] = ()) -> End:
        """From starting slots to the end. Leaves no slot and no directory behind, however it ends.

        ``before``: where this driver's slots have been until now."""
        try:
            self._start(before)
            return self._work()
        finally:
            self._end()

    @property
    def addresses(self) -> tuple[SlotAddress, ...]:
        """Where its slots are, once all of them run."""
        return self._crew.group.addresses if self._crew is not None else ()

    def _start(self, before: tuple[SlotAddress, ...]) -> None:
        """Slots start, and Spark plans the first epoch, which waits for them and for their state."""
        parts = self._parts
        parts.phases.enter(phases.Phase.RESTORE, incarnation=self.number)
        parts.view.note_phase(Phase.RESTORING)
        with ThreadPoolExecutor(1, thread_name_prefix="crew") as pool:
            starting = pool.submit(Crew.start, parts, self.number, self._key_space, before)
            try:
                seed, trigger = self._seed(), parts.settings.trigger
                self._query = query.Query(
                    parts.session, parts.declared, seed, trigger, self._on_epoch, parts.clock
                )
                self._query.start()
            finally:
                self._crew = starting.result()
        parts.reached("the slots have started")
        self._crew.watch_executors(self._over, self._note_lost)
        self._runner = epochs.EpochRunner(
            parts.session,
            parts.declared,
            self._key_space,
            self._crew.group,
            self._watermarks(),
            parts.clock,
            parts.phases,
            self._pauses.may_go_on,
            parts.settings.sink_timeout_s,
        )
        self._manned.set()
        with self._runner.paused.measured():
            read = heard(partial(self._crew.restore, self._restored), parts.requests.ending)
        parts.reached(f"their state is restored ({read})")
        self._checkpoints = self._new_checkpoints(self._crew)
        self._runner.end_rehearsal()
        self._filled.set()

    def _new_checkpoints(self, crew: Crew) -> Checkpoints:
        parts, metadata = self._parts, self._restored.metadata
        own = metadata is not None and self._restored.same_lineage and metadata.kind == "checkpoint"
        return Checkpoints(
            crew.group,
            parts.durable,
            parts.settings.checkpoint,
            parts.requests,
            parts.view,
            parts.clock,
            parts.phases,
            self._key_space,
            base=metadata.checkpoint_id if own and metadata is not None else -1,
        )

    def _watermarks(self) -> Watermarks:
        fresh = watermarks.fresh(self._parts.declared.sources, self._parts.clock.now_ms())
        metadata = self._restored.metadata
        if metadata is None:
            return fresh
        return fresh.restored(watermarks.stored_in(metadata))

    def _seed(self) -> Path:
        directory = self._parts.work_dir / "query" / f"{self.number:05d}"
        self._parts.durable.seed_position(self._restored, directory, heartbeat=self._heartbeat)
        return directory

    # -- epochs -------------------------------------------------------------------------------------------------

    def _work(self) -> End:
        assert self._query is not None and self._checkpoints is not None
        watcher = threading.Thread(target=self._watch, name="slot-watch", daemon=True)
        watcher.start()
        self._parts.view.note_phase(Phase.RUNNING)
        while not self._query.wait(0.2):
            if self._parts.requests.terminated.is_set():
                return self._terminate()
            if self._parts.requests.cancelled.is_set():
                return self._cancel()
            failure = self._lost or self._aside.failure
            if isinstance(failure, errors.SlotLost):
                assert self._crew is not None
                self._query.abandon(self._crew.group.interrupt)
                raise failure
            if failure is not None:
                self._query.stop()
                raise self._why(failure)
        if self._lost is not None:
            raise self._lost
        if self._stopped_by_savepoint:
            return End.SAVEPOINT
        if self._query.failure is not None:
            raise self._why(self._query.failure)
        return self._drain()

    def _cancel(self) -> End:
        assert self._query is not None
        self._parts.view.note_phase(Phase.STOPPING)
        self._query.stop()
        return End.CANCELLED

    def _terminate(self) -> End:
        """End after the epoch that runs, with a checkpoint of it if that is worth its time.

        The next pod waits for this end. So it waits neither for Spark's next micro-batch, which would end the query,
        nor for an orderly end of session, slots and folders: they go with the process, which ends soon.
        """
        assert self._query is not None and self._runner is not None and self._checkpoints is not None
        assert self._crew is not None
        self._parts.view.note_phase(Phase.STOPPING)
        self._crew.rest()
        self._query.hold()
        if self._stopped_by_savepoint:
            return End.SAVEPOINT
        if self._query.failure is not None:
            raise self._why(self._query.failure)
        self._settle()
        with contextlib.suppress(Ending):  # what does not answer is not waited for
            self._save_last_epoch(self._checkpoints, self._runner.watermarks)
        self._parts.durable.release()
        self._parts.reached(self._parts.view.last_checkpoint_told())
        self._parts.saved(self._checkpoints.unsaved.work_s)
        return End.TERMINATED

    def _save_last_epoch(self, checkpoints: Checkpoints, at: Watermarks) -> None:
        """If waiting for that costs less than what it spares the next attempt."""
        if checkpoints.is_stuck:
            return  # the next attempt publishes what is committed, and repeats the rest
        usual_s, begun_s = checkpoints.usual_s, checkpoints.under_way_s
        worth = leaving.is_worth_its_time(checkpoints.unsaved.work_s, usual_s, begun_s)
        if worth or checkpoints.is_awaited:
            checkpoints.wait(beside=False)
            repeat_s = checkpoints.unsaved.work_s
            if repeat_s > 0 and leaving.is_worth_its_time(repeat_s, checkpoints.usual_s):
                self._save(checkpoints, at)
            # A savepoint beside has perhaps not the time, and the epochs are saved.
            if checkpoints.is_awaited:
                checkpoints.wait()
            if checkpoints.is_awaited:
                self._save(checkpoints, at)

    def _save(self, checkpoints: Checkpoints, at: Watermarks) -> None:
        last = checkpoints.start(self._last_epoch, at, self._position(self._last_epoch, at))
        last.settle(checkpoints.given_up)

    def _on_epoch(self, frame: DataFrame | None, epoch: int) -> None:
        """The callback of a Spark micro-batch.

        Where nothing is to be done at the end of the epoch, its end goes on beside the next one's beginning.
        """
        self._await_state(frame)
        assert self._runner is not None and self._checkpoints is not None
        if frame is None:  # whether timers are due is known when the epoch before is complete
            self._aside.settle()
        fed = self._runner.begin(frame, epoch)
        self._aside.settle()
        if frame is not None and not self._checkpoints.wants_epoch():
            self._aside.start(lambda: self._complete(fed, idle=False))
            return
        result = self._complete(fed, idle=frame is None)
        request = self._checkpoints.stop_requested()
        if request is not None:
            self._stop_with_savepoint(request, epoch)
            return
        checkpoints, at = self._checkpoints, result.watermarks
        changed = not self._idle_since_commit
        checkpoints.after_commit(epoch, at, lambda: self._position(epoch, at), changed=changed)
        with self._runner.paused.measured():
            self._pauses.hold_back(
                checkpoints, lambda: checkpoints.start(epoch, at, self._position(epoch, at))
            )

    def _await_state(self, frame: DataFrame | None) -> None:
        """What the first epoch does until the slots hold their state."""
        self._wait_for(self._manned)
        assert self._runner is not None
        if frame is not None and not self._filled.is_set():
            self._runner.rehearse(frame)
        self._wait_for(self._filled)

    def _wait_for(self, event: threading.Event) -> None:
        while not event.wait(0.2):
            if self._over.is_set():
                raise failing.NeverBegun

    def _complete(self, fed: epochs.Fed, *, idle: bool) -> epochs.EpochResult:
        assert self._runner is not None
        result = self._runner.complete(fed)
        self._after(result, fed.epoch, idle=idle and result.timers_fired == 0)
        return result

    def _settle(self) -> None:
        """Wait for the last epoch's end, once Spark begins no more."""
        try:
            self._aside.settle()
        except BaseException as error:
            raise self._why(error) from error

    def _after(self, result: epochs.EpochResult, epoch: int, *, idle: bool) -> None:
        assert self._checkpoints is not None
        if not self._has_committed:
            self._has_committed = True
            self._parts.reached(f"epoch {epoch} is the first to commit")
        self._last_epoch = epoch
        self._idle_since_commit = self._idle_since_commit and idle
        self._checkpoints.note_pause(result.waited_ms)
        self._checkpoints.unsaved.note_held(result.held_bytes)
        if not idle:
            self._checkpoints.unsaved.note_work(result.duration_ms / 1000)
        self._parts.view.note_epoch(
            epoch,
            result.rows,
            result.watermarks.current,
            result.duration_ms / 1000,
            result.next_event_timer,
            result.next_processing_timer,
            result.late_rows,
            result.dropped_rows,
        )

    def _position(self, epoch: int, at: Watermarks) -> position.Captured:
        """What the query has read up to that epoch, for a checkpoint."""
        of_spark = 0 if at.current == MIN_WATERMARK else at.current
        return position.capture(self._query_directory, epoch, of_spark, heartbeat=self._heartbeat)

    @property
    def _query_directory(self) -> Path:
        assert self._query is not None
        return self._query.directory

    @property
    def _heartbeat(self) -> bool:
        return not self._parts.settings.trigger.available_now

    def _stop_with_savepoint(self, request: SavepointRequest, epoch: int) -> None:
        """One operation: no epoch commits after it. If it fails the job goes on."""
        assert self._runner is not None and self._checkpoints is not None and self._query is not None
        if not self._checkpoints.settle_before(request) or self._checkpoints.stop_requested() != request:
            return
        self._parts.view.note_phase(Phase.STOPPING)
        archive = self._position(epoch, self._runner.watermarks)
        if request.drain:
            epoch += 1
            self._after(self._runner.run(None, epoch, ended=True), epoch, idle=False)
        started = self._checkpoints.start(
            epoch, self._runner.watermarks, archive, request, drained=request.drain
        )
        started.wait(self._checkpoints.given_up)
        if self._checkpoints.closed_by is None:
            self._checkpoints.require_sound()  # else the failure was the request's alone
            if request.drain:
                # Of a kind that no restart strategy counts: it was the request's failure, not the job's.
                raise errors.StorageUnavailable(
                    "the savepoint of a drained job failed; the job goes back to its checkpoint"
                )
            self._parts.view.note_phase(Phase.RUNNING)
            return
        self._stopped_by_savepoint = True
        raise failing.StoppedBySavepoint

    def _drain(self) -> End:
        """Bounded input has ended: watermark +∞, a last epoch, a last checkpoint."""
        assert self._runner is not None and self._checkpoints is not None
        self._parts.view.note_phase(Phase.STOPPING)
        self._settle()
        self._checkpoints.settle()
        archive = position.Captured()
        if self._last_epoch >= 0 and (self._query_directory / "offsets").is_dir():
            newest = max(
                int(p.name) for p in (self._query_directory / "offsets").iterdir() if p.name.isdigit()
            )
            archive = self._position(newest, self._runner.watermarks)
        epoch = self._last_epoch + 1
        self._after(self._runner.run(None, epoch, ended=True), epoch, idle=False)
        draining.last_checkpoints(
            self._checkpoints, epoch, self._runner.watermarks, archive, self._parts.requests.ending
        )
        return End.INPUT_ENDED

    # -- watching -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Ask the slots how they are, so that a dead one is noticed also when no rows come."""
        assert self._crew is not None
        group = self._crew.group
        while not self._over.wait(_WATCH_S if self._parts.view.status().slots else 0.1):
            try:
                replies = group.status(_SILENT_S)
            except errors.SlotLost as error:
                self._note_lost(error)
                return
            except errors.SparkstateError:
                continue
            self._parts.view.note_slots(group.addresses, replies)

    def _note_lost(self, error: errors.SlotLost) -> None:
        if not self._over.is_set():
            self._lost = self._lost or error

    def _why(self, failure: BaseException) -> errors.SparkstateError:
        return failing.reason(failure, self._crew.group if self._crew is not None else None)

    def read_state(self, uid: str, state: str, key: JsonValue, namespace: JsonValue) -> tuple[str, JsonValue]:
        """One key's committed state: kind and value."""
        assert self._crew is not None
        return self._crew.read_state(uid, state, key, namespace)

    # -- the end ------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._over.set()
        if self._checkpoints is not None:
            self._checkpoints.abandon()
        if self._runner is not None:
            self._runner.end_rehearsal()
        if self._query is not None:
            with contextlib.suppress(Exception):
                self._query.stop()
        self._aside.close(_LAST_EPOCH_S)
        if self._runner is not None:
            self._runner.close()
        if self._crew is not None:
            self._crew.stop()
        directory = self._parts.work_dir / "query" / f"{self.number:05d}"
        for folder in (directory, position.links_of(directory)):
            shutil.rmtree(folder, ignore_errors=True)
