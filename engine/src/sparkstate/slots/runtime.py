"""What a slot does, without its sockets: stores, operators, overlays, held output.

Concurrency. Requests arrive on several connections. ``_run`` guards user code and overlays: one Arrow batch, one finish
at a time. Rows of a task are taken at any time (``slots.attempts``) and processed in a thread of its own, after the
commit of every earlier epoch (``slots.incoming``); an epoch's finish waits for it. ``_commit_gate`` orders commits and
the synchronous part of snapshots: a commit waits until the snapshots accepted before it are prepared (this wait is the
pause of a checkpoint); feeding and finishing go on beside them.
"""

from __future__ import annotations

import functools
import itertools
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkstate import clock, errors, phases
from sparkstate.backends import loader
from sparkstate.backends.base import ShardStore, StoreFactory
from sparkstate.local_state import folders, inheritance, verified_files
from sparkstate.operators import kinds
from sparkstate.operators.base import EpochOverlay, Operator
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.spec import JobFacts
from sparkstate.sinks.file_sink import FileSinkWriter, Rotated
from sparkstate.slots import outputs, protocol, reporting
from sparkstate.slots.attempts import Attempts
from sparkstate.slots.incoming import LIMIT_BYTES, Incoming
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.restoring import restore_shards, state_metas
from sparkstate.slots.snapshotting import SnapshotJob, SnapshotWorker

_log = logging.getLogger("sparkstate.slots")
_GATE_S = 0.1
"""How long a question for sizes waits for a commit. One may take minutes; the answer is also the sign that the slot
lives."""


class SlotRuntime:
    """The live slot. ``directory`` is private to this process and on the device of the state."""

    def __init__(self, plan: SlotPlan, directory: Path, clock_: clock.Clock, phases_: phases.Phases) -> None:
        self.plan = plan
        self._directory = directory
        self._clock = clock_
        self._phases = phases_
        self._run = threading.Lock()
        self._turns = threading.Condition()
        self._committed = -1
        self._incoming_numbers = itertools.count()
        self._commit_gate = threading.Condition()
        self._attempts = Attempts()
        self._operators: dict[str, Operator[Any]] = {}
        self._factory: StoreFactory = loader.create_store_factory(plan.backend, directory / folders.STORES)
        self._stores: dict[int, ShardStore] = {}
        self._budget = EpochBudget(directory / "overlays", self._factory)
        self._sinks = {
            sink.uid: FileSinkWriter(
                sink.sink, sink.uid, plan.slot, plan.incarnation, plan.lineage, directory / "held", plan.s3
            )
            for sink in plan.sinks
        }
        self._snapshots = SnapshotWorker(plan, directory / "snapshots", clock_, phases_)
        self._jobs: dict[int, SnapshotJob] = {}
        self._jobs_lock = threading.Lock()
        self._ended: deque[SnapshotJob] = deque()
        """Snapshots of completed checkpoints whose output the sinks may let go of, at the gate."""
        self._sizes = (0, 0)
        self._held_bytes = 0
        self._processing_time = 0
        self._warned = False

    # -- life ---------------------------------------------------------------------------------------------------

    def restore(self, request: protocol.RestoreShards) -> protocol.Restored:
        """Build the stores, fill them from the handles, then open the operators (Flink: restore before open)."""
        self._phases.enter(phases.Phase.RESTORE, incarnation=self.plan.incarnation)
        plan = self.plan
        for shard in plan.key_space.shards_of_slot(plan.slot, plan.slots):
            folder = folders.shard_folder(self._directory / folders.STORES, shard)
            self._stores[shard] = self._factory.create(
                shard, plan.key_space.key_groups_of_shard(shard), folder
            )
        restored = restore_shards(plan, self._stores, request, self._directory / folders.DOWNLOADS)
        if request.checkpoint_id >= 0:
            self._snapshots.restored(request.checkpoint_id, request.shards)
        facts = JobFacts(parameters=plan.parameters, attempt=max(plan.incarnation - 1, 0))
        for spec in plan.operators:
            operator = kinds.make(
                spec, self._stores, plan.key_space, self._clock, plan.slot, plan.slots, self._budget, facts
            )
            self._operators[spec.uid] = operator
            operator.open()
        threading.Thread(target=_load_pandas, name="load", daemon=True).start()
        return restored

    def end(self) -> None:
        """Close the user's functions, before the process ends. It takes its stores with it: closing those would flush
        them first, and the next incarnation waits for their memory."""
        self._attempts.drop()
        with self._run:
            for operator in self._operators.values():
                operator.close()

    def close(self) -> None:
        """Close operators and stores."""
        self.end()
        with self._run:
            self._snapshots.close()
            for sink in self._sinks.values():
                sink.close()
            for store in self._stores.values():
                store.close()
            self._factory.close()

    # -- one epoch ----------------------------------------------------------------------------------------------

    def begin_feed(self, request: protocol.Feed) -> Incoming:
        """A fresh overlay for this task attempt; where its batches go."""
        self._check_incarnation(request.incarnation)
        operator = self._operator(request.operator)
        self._phases.enter(phases.Phase.FEED, epoch=request.epoch, incarnation=request.incarnation)
        overlay = operator.begin(request.epoch, request.watermark, request.processing_time)
        receive = functools.partial(
            Incoming,
            functools.partial(self._feed, operator, overlay),
            functools.partial(self._has_turn, request.epoch),
            functools.partial(self._wait_for_turn, request.epoch),
            self._directory / "incoming" / str(next(self._incoming_numbers)),
            self._budget.waiting_bytes(LIMIT_BYTES),
        )
        return self._attempts.open(request.epoch, request.operator, request.attempt, overlay, receive)

    def _feed(self, operator: Operator[Any], overlay: EpochOverlay, batch: pa.RecordBatch) -> None:
        with self._run:
            operator.process_batch(overlay, batch)

    def _has_turn(self, epoch: int) -> bool:
        """Whether every earlier epoch that was fed is committed: records see the state that it left."""
        return not any(self._committed < earlier < epoch for earlier in self._attempts.epochs())

    def _wait_for_turn(self, epoch: int) -> None:
        with self._turns:
            self._turns.wait_for(lambda: self._has_turn(epoch))

    def finish(self, request: protocol.Finish) -> protocol.Finished:
        """The driver's choice of attempt; timers fire; the output of the epoch is complete."""
        self._check_incarnation(request.incarnation)
        operator = self._operator(request.operator)
        epoch, uid, attempt = request.epoch, request.operator, request.attempt
        incoming = self._attempts.take_incoming(epoch, uid, attempt)
        if incoming is not None:
            incoming.wait()
        with self._run:
            self._phases.enter(phases.Phase.FINISH, epoch=epoch, incarnation=request.incarnation)
            overlay = self._attempts.take(epoch, uid, attempt)
            if overlay is None:
                if attempt >= 0:
                    raise errors.SlotLost(f"slot {self.plan.slot} has no attempt {attempt} of epoch {epoch}")
                overlay = operator.begin(epoch, request.watermark_before, request.processing_time)
            operator.finish(overlay, request.watermark)
            self._attempts.set_winner(epoch, uid, overlay)
            return protocol.Finished(
                rows_in=overlay.rows_in,
                rows_by_tag=outputs.rows_by_tag(operator.spec, overlay),
                late_rows=overlay.late_rows,
                timers_fired=overlay.timers_fired,
                dropped_rows=overlay.dropped_rows,
            )

    def output(self, request: protocol.ReadOutput) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The finished output of an operator; may be read any number of times until the release."""
        self._check_incarnation(request.incarnation)
        overlay = self._attempts.winner(request.epoch, request.operator)
        if overlay is None:
            raise errors.SlotLost(f"slot {self.plan.slot} has no output of epoch {request.epoch}")
        self._phases.enter(phases.Phase.OUTPUT, epoch=request.epoch, incarnation=request.incarnation)
        schema = outputs.output_schema(self._operators[request.operator].spec, request.tag)
        return schema, iter(overlay.output(request.tag))

    def commit(self, request: protocol.Commit) -> protocol.Committed:
        """Overlays become state, sinks hold the output, which stays readable; the next epoch's turn begins."""
        self._check_incarnation(request.incarnation)
        started = self._clock.monotonic()
        with self._commit_gate:
            self._commit_gate.wait_for(self._nothing_to_prepare)
            waited_ms = (self._clock.monotonic() - started) * 1000
            self._settle()
            with self._run:
                self._phases.enter(phases.Phase.COMMIT, epoch=request.epoch, incarnation=request.incarnation)
                self._commit(request.epoch)
                self._attempts.committed(request.epoch)
                event, processing = self._next_timers()
                held = self._held_bytes = self._held()
        if self._committed < 0:  # every slot is restored: what is still left is of shards that went elsewhere
            threading.Thread(target=inheritance.discard, args=(self._directory.parent,), daemon=True).start()
        self._snapshots.committed()
        with self._turns:
            self._committed = max(self._committed, request.epoch)
            self._turns.notify_all()
        return protocol.Committed(
            next_event_timer=event, next_processing_timer=processing, waited_ms=waited_ms, held_bytes=held
        )

    def release(self, request: protocol.Release) -> None:
        """Nobody reads the output of this epoch and earlier ones any more."""
        self._check_incarnation(request.incarnation)
        self._attempts.release(request.epoch)

    def _commit(self, epoch: int) -> None:
        winners = []
        for spec in self.plan.operators:
            overlay = self._attempts.winner(epoch, spec.uid)
            if overlay is not None:
                winners.append((self._operators[spec.uid], overlay))
        commit_overlays(winners)
        by_uid = {operator.spec.uid: (operator.spec, overlay) for operator, overlay in winners}
        for sink in self.plan.sinks:
            if sink.operator in by_uid:
                spec, overlay = by_uid[sink.operator]
                self._sinks[sink.uid].hold(outputs.visible(spec, sink.tag, overlay))

    def _held(self) -> int:
        return sum(sink.held_bytes for sink in self._sinks.values())

    def _next_timers(self) -> tuple[int | None, int | None]:
        pairs = [operator.next_timer() for operator in self._operators.values()]
        event = [pair[0] for pair in pairs if pair[0] is not None]
        processing = [pair[1] for pair in pairs if pair[1] is not None]
        return min(event, default=None), min(processing, default=None)

    # -- snapshots ----------------------------------------------------------------------------------------------

    def snapshot(self, request: protocol.Snapshot) -> None:
        """Accept a snapshot of the state as of the last commit; it is prepared before the next one."""
        self._check_incarnation(request.incarnation)
        with self._commit_gate:
            self._settle()
            if self._job(request.checkpoint_id) is not None:
                return
            rotated = {} if request.canonical else self._rotate_sinks(request.checkpoint_id)
            job = SnapshotJob(request, self._stores, self._sinks, rotated, state_metas(self._stores))
            with self._jobs_lock:
                self._jobs[request.checkpoint_id] = job
        self._snapshots.submit(job, self._prepared)

    def _rotate_sinks(self, checkpoint_id: int) -> dict[str, tuple[Rotated, ...]]:
        rotated = {uid: sink.rotate(checkpoint_id) for uid, sink in self._sinks.items()}
        return {uid: parts for uid, parts in rotated.items() if parts}

    def _prepared(self) -> None:
        with self._commit_gate:
            self._commit_gate.notify_all()

    def _nothing_to_prepare(self) -> bool:
        with self._jobs_lock:
            return all(job.prepared for job in self._jobs.values())

    def _job(self, checkpoint_id: int) -> SnapshotJob | None:
        with self._jobs_lock:
            return self._jobs.get(checkpoint_id)

    def snapshot_state(self, request: protocol.SnapshotPoll) -> protocol.SnapshotState:
        """How far that snapshot is; waits for its end as long as the request says."""
        job = self._job(request.checkpoint_id)
        if job is None:
            raise errors.SlotLost(f"slot {self.plan.slot} knows no snapshot {request.checkpoint_id}")
        job.ended.wait(request.wait_s)
        return job.state()

    def checkpoint_done(self, request: protocol.CheckpointDone) -> None:
        """Told by the driver; only now are the checkpoint's files a base for increments. Waits for no commit."""
        with self._jobs_lock:
            job = self._jobs.pop(request.checkpoint_id, None)
        if job is not None and not request.completed:
            job.given_up.set()
        if job is not None and not job.request.canonical:
            if request.completed:
                self._ended.append(job)
                self._settle_if_free()
            self._snapshots.ended(request.checkpoint_id, request.completed)
            if request.completed and self.plan.backend.local_recovery:
                copy = self._snapshots.local_copy.folder(request.checkpoint_id)
                for shard in job.shards:
                    store = folders.shard_folder(self._directory / folders.STORES, shard.shard)
                    verified_files.record(store, shard, folders.shard_folder(copy, shard.shard))

    def _settle_if_free(self) -> None:
        """Now, unless a commit is at work: then before the next one."""
        if self._commit_gate.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._commit_gate.release()

    def _settle(self) -> None:
        while self._ended:
            self._ended.popleft().settle()

    def rest(self) -> None:
        """The last snapshot is to come."""
        for store in self._stores.values():
            store.rest()

    # -- questions ----------------------------------------------------------------------------------------------

    def status(self) -> protocol.SlotStatus:
        """Sizes and memory now. While a commit is at the stores, their sizes are those of the last time."""
        if self._commit_gate.acquire(timeout=_GATE_S):
            try:
                stats = [store.stats() for store in list(self._stores.values())]
                self._sizes = sum(stat.bytes for stat in stats), sum(stat.rows for stat in stats)
                self._held_bytes = self._held()
            finally:
                self._commit_gate.release()
        state_bytes, state_rows = self._sizes
        operators = dict(self._operators)
        self._warn_of_heap(state_bytes)
        return protocol.SlotStatus(
            slot=self.plan.slot,
            pid=os.getpid(),
            shards=tuple(self._stores),
            state_bytes=state_bytes,
            state_rows=state_rows,
            rss_bytes=reporting.resident_bytes(),
            memory={**self._factory.memory(), "overlays": self._budget.used_bytes()},
            metrics=dict(self._factory.metrics()),
            held_bytes=self._held_bytes,
            user_metrics=reporting.user_metrics(operators, self._clock.monotonic()),
            user_metrics_not_shown=reporting.metrics_not_shown(operators),
        )

    def _warn_of_heap(self, state_bytes: int) -> None:
        """State on the heap has no bound but the process's; that it outgrows what the job was given for it is
        said once."""
        backend, overlays = self.plan.backend, self._budget.used_bytes()
        if backend.type != "hashmap" or self._warned or state_bytes + overlays <= backend.heap_state_bytes:
            return
        self._warned = True
        _log.warning(
            "slot %d holds %d bytes of state (encoded) and %d bytes of the running epochs on the heap; "
            "stateMemoryPerSlot is %d: raise it, add slots, or use the rocksdb backend, which keeps to its memory",
            self.plan.slot,
            state_bytes,
            overlays,
            backend.heap_state_bytes,
        )

    def read_state(self, request: protocol.ReadState) -> protocol.StateValue:
        """One key's committed value, as JSON."""
        operator = self._operator(request.operator)
        key: Any = json.loads(request.key)
        namespace = None if request.namespace is None else json.loads(request.namespace)
        kinds = {
            spec.name: spec.kind.value
            for store in self._stores.values()
            for spec in store.tables()
            if spec.uid == request.operator
        }
        with self._commit_gate:
            try:
                value = operator.read_state(
                    request.state, tuple(key) if isinstance(key, list) else key, namespace, request.key_group
                )
            except errors.StateError as error:
                raise errors.SpecInvalid(str(error)) from error
        return protocol.StateValue(kind=kinds.get(request.state, "value"), value=json.dumps(value))

    # -- details ------------------------------------------------------------------------------------------------

    def _operator(self, uid: str) -> Operator[Any]:
        try:
            return self._operators[uid]
        except KeyError:
            raise errors.SpecInvalid(
                f"there is no operator {uid!r}; this job has {', '.join(sorted(self._operators)) or 'none yet'}"
            ) from None

    def _check_incarnation(self, incarnation: int) -> None:
        if incarnation != self.plan.incarnation:
            raise errors.Fenced(
                f"the request is of incarnation {incarnation}, this slot serves incarnation {self.plan.incarnation}"
            )


def _load_pandas() -> None:
    """Arrow looks for pandas when it first converts anything, and loads it where it is installed: half a second, which
    costs nobody anything while Spark still plans the first epoch."""
    pa.array([0]).to_numpy()
