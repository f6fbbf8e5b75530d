"""A slot without its sockets: each request of the protocol, and the parts that carry it out.

Concurrency. Requests arrive on several connections. ``epochs`` guards user code and overlays, and lets the records of
an epoch wait for the commit of every earlier one; an epoch's finish waits for its records. ``commit_gate`` orders
commits and the synchronous part of snapshots: a commit waits until the snapshots accepted before it are prepared (this
wait is the pause of a checkpoint). Feeding and finishing go on beside them.
A thread that needs both takes the gate first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from sparkstate import clock, disposal, errors, phases
from sparkstate.backends import allocation
from sparkstate.local_state import inheritance
from sparkstate.slots import protocol, reading
from sparkstate.slots.commit_gate import CommitGate
from sparkstate.slots.epochs import Epochs
from sparkstate.slots.incoming import Incoming
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.report import Report
from sparkstate.slots.slot_state import SlotState
from sparkstate.slots.snapshots import SnapshotJobs, Snapshots
from sparkstate.slots.snapshotting import SnapshotWorker


class SlotRuntime:
    """The live slot. ``directory`` is private to this process and on the device of the state."""

    def __init__(self, plan: SlotPlan, directory: Path, clock_: clock.Clock, phases_: phases.Phases) -> None:
        self.plan = plan
        allocation.limit_arenas(plan.backend.state_bytes)
        self._phases = phases_
        self._state = SlotState(plan, directory, clock_)
        self._epochs = Epochs(self._state, phases_, clock_)
        jobs = SnapshotJobs()
        self._gate = CommitGate(jobs.all_prepared, clock_)
        worker = SnapshotWorker(plan, directory / "snapshots", clock_, phases_)
        self._snapshots = Snapshots(self._state, jobs, self._gate, worker, self._epochs)
        self._report = Report(self._state, self._gate, clock_)

    # -- life ---------------------------------------------------------------------------------------------------

    def restore(self, request: protocol.RestoreShards) -> protocol.Restored:
        """Build the stores, fill them from the handles, then open the operators (Flink: restore before open)."""
        self._phases.enter(phases.ProcessPhase.RESTORE, incarnation=self.plan.incarnation)
        restored = self._state.restore_stores(request)
        if request.checkpoint_id >= 0:
            self._snapshots.worker.restored(request.checkpoint_id, request.shards)
        self._state.open_operators(request)
        threading.Thread(target=_load_pandas, name="load", daemon=True).start()
        return restored

    def restored_so_far(self) -> protocol.Transferred:
        """How far :meth:`restore` is; nothing of nothing before it. Takes no lock."""
        transfer = self._state.transfer
        return protocol.Transferred(done_bytes=transfer.done_bytes, total_bytes=transfer.total_bytes)

    def end(self) -> None:
        """Close the user's functions, before the process ends. The stores stay open: closing would flush them first,
        and the next incarnation waits for their memory."""
        self._epochs.end()

    def close(self) -> None:
        """Close operators, sinks and stores, every one. Raises the first of their errors."""
        disposal.close_all([self.end, self._dispose])

    def _dispose(self) -> None:
        with self._epochs.paused():
            disposal.close_all([self._snapshots.worker.close, self._state.close])

    # -- one epoch ----------------------------------------------------------------------------------------------

    def begin_feed(self, request: protocol.Feed) -> Incoming:
        """Where this task's batches go: to the overlay of its attempt."""
        self._check_incarnation(request.incarnation)
        return self._epochs.begin_feed(request)

    def finish(self, request: protocol.Finish) -> protocol.Finished:
        """The driver's choice of attempt; timers fire; the output of the epoch is complete."""
        self._check_incarnation(request.incarnation)
        return self._epochs.finish(request)

    def output(self, request: protocol.ReadOutput) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The finished output of an operator; may be read any number of times until the release."""
        self._check_incarnation(request.incarnation)
        return self._epochs.output(request)

    def commit(self, request: protocol.Commit) -> protocol.Committed:
        """Overlays become state, sinks hold the output, which stays readable; the next epoch's turn begins."""
        self._check_incarnation(request.incarnation)
        with self._gate.commit() as waited_ms:
            event, processing, sweep = self._epochs.commit(request)
            held_bytes = self._state.output.weigh()
        turns = self._epochs.turns
        if (
            not turns.any_committed()
        ):  # every slot is restored: what is still left is of shards that went elsewhere
            base = self._state.directory.parent
            threading.Thread(target=inheritance.discard, args=(base,), daemon=True).start()
        self._snapshots.worker.committed()
        turns.committed(request.epoch)
        return protocol.Committed(
            next_event_timer=event,
            next_processing_timer=processing,
            waited_ms=waited_ms,
            held_bytes=held_bytes,
            swept=sweep.removed,
            next_sweep=sweep.next_ms,
        )

    def release(self, request: protocol.Release) -> None:
        """Nobody reads the output of this epoch and earlier ones any more."""
        self._check_incarnation(request.incarnation)
        self._epochs.release(request.epoch)

    # -- snapshots ----------------------------------------------------------------------------------------------

    def snapshot(self, request: protocol.Snapshot) -> None:
        """Accept a snapshot of the state as of the last commit; it is prepared before the next one."""
        self._check_incarnation(request.incarnation)
        self._snapshots.begin(request)

    def snapshot_state(self, request: protocol.SnapshotPoll) -> protocol.SnapshotState:
        """How far that snapshot is; waits for its end as long as the request says."""
        return self._snapshots.wait(request)

    def checkpoint_done(self, request: protocol.CheckpointDone) -> None:
        """Told by the driver; only now are the checkpoint's files a base for increments. Waits for no commit."""
        self._snapshots.end(request)

    def quiesce(self) -> None:
        """Told that the next snapshot is the last."""
        for store in self._state.stores.values():
            store.quiesce()

    # -- questions ----------------------------------------------------------------------------------------------

    def status(self) -> protocol.SlotStatus:
        """Sizes and memory now. While a commit is at the stores, their sizes are those of the last time. Raises what a
        function has raised where nobody waited for it."""
        self._epochs.notifications.require_sound()
        return self._report.status()

    def read_state(self, request: protocol.ReadState) -> protocol.StateValue:
        """One key's committed value, as JSON."""
        return reading.read_state(self._state, self._gate, request)

    def read_operator_state(self, request: protocol.ReadOperatorState) -> protocol.StateValue:
        """The committed operator state of that name, as JSON."""
        return reading.read_operator_state(self._state, self._gate, request)

    # -- details ------------------------------------------------------------------------------------------------

    def _check_incarnation(self, incarnation: int) -> None:
        if incarnation != self.plan.incarnation:
            raise errors.Fenced(
                f"the request is of incarnation {incarnation}, this slot serves incarnation {self.plan.incarnation}"
            )


def _load_pandas() -> None:
    """Arrow looks for pandas when it first converts anything, and loads it where it is installed. That takes half a
    second: nobody waits for it while Spark still plans the first epoch, but it was in the middle of that epoch."""
    pa.array([0]).to_numpy()
