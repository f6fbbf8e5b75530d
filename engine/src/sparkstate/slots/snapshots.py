"""The snapshots of a slot, each from the driver's request to its last word on it."""

from __future__ import annotations

import threading

from sparkstate import errors, user_errors
from sparkstate.local_state import folders, verified_files
from sparkstate.slots import protocol
from sparkstate.slots.commit_gate import CommitGate
from sparkstate.slots.epochs import Epochs
from sparkstate.slots.restoring import state_metas
from sparkstate.slots.slot_state import SlotState
from sparkstate.slots.snapshotting import SnapshotJob, SnapshotWorker


class SnapshotJobs:
    """Those that were accepted and are not over, by the checkpoint's id; for any thread."""

    def __init__(self) -> None:
        self._jobs: dict[int, SnapshotJob] = {}
        self._at_the_stores: list[SnapshotJob] = []
        """Those that are over and perhaps still being prepared: the driver may give one up because another slot or its
        storage has failed, and a commit beside it would lose what it writes."""
        self._lock = threading.Lock()

    def add(self, job: SnapshotJob) -> None:
        """It is accepted."""
        with self._lock:
            self._jobs[job.request.checkpoint_id] = job

    def find(self, checkpoint_id: int) -> SnapshotJob | None:
        """None: it was never asked for, or is over."""
        with self._lock:
            return self._jobs.get(checkpoint_id)

    def remove(self, checkpoint_id: int) -> SnapshotJob | None:
        """It is over; as :meth:`find`. Commits wait for it all the same until it is prepared."""
        with self._lock:
            job = self._jobs.pop(checkpoint_id, None)
            if job is not None:
                self._at_the_stores.append(job)
            return job

    def all_prepared(self) -> bool:
        """Whether none of them needs the stores as they are any more."""
        with self._lock:
            self._at_the_stores = [job for job in self._at_the_stores if not job.prepared]
            return not self._at_the_stores and all(job.prepared for job in self._jobs.values())


class Snapshots:
    """Accepts snapshots at the gate, has ``worker`` make them, and hears what became of them."""

    def __init__(
        self, state: SlotState, jobs: SnapshotJobs, gate: CommitGate, worker: SnapshotWorker, epochs: Epochs
    ) -> None:
        self._state = state
        self._jobs = jobs
        self._gate = gate
        self.worker = worker
        self._epochs = epochs

    def begin(self, request: protocol.Snapshot) -> None:
        """Accept a snapshot of the state as of the last commit; it is prepared before the next one. May be repeated."""
        state = self._state
        with self._gate.between_commits():
            if self._jobs.find(request.checkpoint_id) is not None:
                return
            rotated = {} if request.target_url else state.output.rotate(request.checkpoint_id)
            job = SnapshotJob(request, state.stores, state.output.writers, rotated, state_metas(state.stores))
            try:
                job.operator_images = self._epochs.snapshot_operator_state(
                    request.checkpoint_id, request.timestamp_ms
                )
            except errors.SparkstateError as error:
                if error.__cause__ is not None:
                    user_errors.log_stack(error.__cause__)
                job.failure = error  # of this snapshot: the driver says what that means for the job
            self._jobs.add(job)
        self.worker.submit(job, self._gate.look_again)

    def wait(self, request: protocol.SnapshotPoll) -> protocol.SnapshotState:
        """How far that snapshot is; waits for its end as long as the request says."""
        job = self._jobs.find(request.checkpoint_id)
        if job is None:
            raise errors.SlotLost(f"slot {self._state.plan.slot} knows no snapshot {request.checkpoint_id}")
        job.ended.wait(request.wait_s)
        return job.state()

    def end(self, request: protocol.CheckpointDone) -> None:
        """The driver's last word: only now are a checkpoint's files a base for increments. Waits for no commit."""
        job = self._jobs.remove(request.checkpoint_id)
        if job is None:
            return
        if not request.completed:
            job.given_up.set()  # else gigabytes go on into a folder that nobody wants, and the next savepoint waits
        if job.request.target_url:
            return
        self._epochs.notifications.tell(request.checkpoint_id, completed=request.completed)
        if request.completed:
            self._gate.when_free(job.forget_output)
        self.worker.ended(request.checkpoint_id, request.completed)
        if request.completed and self._state.plan.backend.local_recovery:
            self._note_verified(job)

    def _note_verified(self, job: SnapshotJob) -> None:
        copy = self.worker.local_copy.folder(job.request.checkpoint_id)
        for shard in job.shards:
            store = folders.shard_folder(self._state.directory / folders.STORES, shard.shard)
            verified_files.record(store, shard, folders.shard_folder(copy, shard.shard))
