"""One incarnation: slots, a restored state, a query, epochs and checkpoints, until the end, a failure or a stop."""

from __future__ import annotations

import contextlib
import enum
import json
import shutil
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
from pydantic import JsonValue
from pyspark.sql import DataFrame, SparkSession

from sparkstate import clock, errors, phases
from sparkstate.checkpoint.restore import Restored
from sparkstate.control.documents import Phase, SavepointRequest
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.durable import Durable
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.functions import MIN_WATERMARK
from sparkstate.keygroups import KeySpace
from sparkstate.log.fence import FenceGuard, Verdict
from sparkstate.settings import JobSettings
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.group import SlotGroup
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.restoring import shards_needed
from sparkstate.spark import epochs, graph, planning, plans, position, query, slotlaunch
from sparkstate.spark.watermarks import SourceTime, Watermarks

_WATCH_S = 1.0


class End(enum.Enum):
    """How an incarnation ended when it did not fail."""

    INPUT_ENDED = "input-ended"
    SAVEPOINT = "savepoint"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What lives longer than one incarnation."""

    settings: JobSettings
    session: SparkSession
    declared: graph.Graph
    durable: Durable
    guard: FenceGuard
    requests: Requests
    view: JobView
    clock: clock.Clock
    phases: phases.Phases
    token: str
    work_dir: Path
    python_path: tuple[str, ...]


class Incarnation:
    """Use once: :meth:`run`, which returns how it ended or raises why it failed."""

    def __init__(self, parts: Parts, restored: Restored, number: int, key_space: KeySpace) -> None:
        self._parts = parts
        self._restored = restored
        self.number = number
        self._key_space = key_space
        self._group: SlotGroup | None = None
        self._directory = parts.work_dir / "slots"
        self._query: query.Query | None = None
        self._runner: epochs.EpochRunner | None = None
        self._checkpoints: Checkpoints | None = None
        self._lost: errors.SparkstateError | None = None
        self._over = threading.Event()
        self._last_epoch = restored.metadata.epoch if restored.metadata else -1
        self._stopped_by_savepoint = False
        self._idle_since_commit = True

    # -- life ---------------------------------------------------------------------------------------------------

    def run(self) -> End:
        """From starting slots to the end. Leaves no slot and no directory behind, however it ends."""
        try:
            self._start()
            return self._work()
        finally:
            self._end()

    def _start(self) -> None:
        parts = self._parts
        parts.phases.enter(phases.Phase.RESTORE, incarnation=self.number)
        parts.view.note_phase(Phase.RESTORING)
        start = slotlaunch.StartSlot(
            str(self._directory),
            self.number,
            parts.token,
            parts.python_path,
            tcp=parts.settings.deployment == "cluster",
        )
        addresses = slotlaunch.launch(parts.session.sparkContext, parts.settings.slots, start)
        self._group = SlotGroup(addresses, parts.token, self.number, socket.gethostname())
        self._group.each(
            lambda slot: protocol.Configure(plan=cloudpickle.dumps(self._plan(slot))), protocol.Ok
        )
        self._restore_slots(self._group)
        watermarks = self._watermarks()
        self._runner = epochs.EpochRunner(
            parts.session,
            parts.declared,
            self._key_space,
            self._group,
            watermarks,
            parts.clock,
            parts.phases,
            self._may_go_on,
            parts.settings.sink_timeout_s,
        )
        metadata = self._restored.metadata
        own = metadata is not None and self._restored.same_lineage and metadata.kind == "checkpoint"
        self._checkpoints = Checkpoints(
            self._group,
            parts.durable,
            parts.settings.checkpoint,
            parts.requests,
            parts.view,
            parts.clock,
            parts.phases,
            base=metadata.checkpoint_id if own and metadata is not None else -1,
        )
        self._query = query.Query(
            parts.session, parts.declared, self._seed(), parts.settings.trigger, self._on_epoch
        )

    def _plan(self, slot: int) -> SlotPlan:
        settings, durable = self._parts.settings, self._parts.durable
        return SlotPlan(
            slot=slot,
            slots=settings.slots,
            incarnation=self.number,
            lineage=durable.lineage.id,
            key_space=self._key_space,
            operators=planning.operator_specs(self._parts.declared),
            read_by_spark=self._parts.declared.outputs_read_by_spark(),
            sinks=planning.sink_plans(self._parts.declared),
            backend=settings.backend,
            storage_url=durable.root.url,
            s3=settings.s3,
            inline_threshold_bytes=settings.checkpoint.inline_threshold_bytes,
            write_buffer_bytes=settings.checkpoint.write_buffer_bytes,
        )

    def _restore_slots(self, group: SlotGroup) -> None:
        metadata, store = self._restored.metadata, self._restored.store
        if metadata is None or store is None:
            group.each(lambda _: protocol.RestoreShards(), protocol.Restored)
            return
        own = self._restored.same_lineage and metadata.kind == "checkpoint"
        group.each(
            lambda slot: protocol.RestoreShards(
                shards=shards_needed(self._key_space, slot, len(group), metadata.shards),
                base_url=store.url,
                checkpoint_id=metadata.checkpoint_id if own else -1,
            ),
            protocol.Restored,
        )

    def _watermarks(self) -> Watermarks:
        now = self._parts.clock.now_ms()
        fresh = Watermarks(
            tuple(SourceTime(s.delay_ms, s.idle_timeout_ms, now) for s in self._parts.declared.sources)
            if any(s.event_time for s in self._parts.declared.sources)
            else (),
        )
        metadata = self._restored.metadata
        if metadata is None:
            return fresh
        largest = [metadata.source_watermarks.get(str(i)) for i in range(len(fresh.sources))]
        return fresh.restored(metadata.watermark, largest)

    def _seed(self) -> Path:
        directory = self._parts.work_dir / "query" / f"{self.number:05d}"
        archive = self._parts.durable.read_position(self._restored)
        if archive:
            position.seed(directory, archive)
        return directory

    # -- epochs -------------------------------------------------------------------------------------------------

    def _work(self) -> End:
        assert self._query is not None and self._checkpoints is not None
        watcher = threading.Thread(target=self._watch, name="slot-watch", daemon=True)
        watcher.start()
        self._query.start()
        self._parts.view.note_phase(Phase.RUNNING)
        while not self._query.wait(0.2):
            if self._parts.requests.cancelled.is_set():
                return self._cancel()
            if self._lost is not None:
                self._parts.session.sparkContext.cancelAllJobs()
                self._query.stop()
                break
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

    def _on_epoch(self, frame: DataFrame | None, epoch: int) -> None:
        """The callback of a Spark micro-batch."""
        assert self._runner is not None and self._query is not None and self._checkpoints is not None
        result = self._runner.run(frame, epoch)
        self._after(result, epoch, idle=frame is None and result.timers_fired == 0)
        request = self._checkpoints.stop_requested()
        if request is not None:
            self._stop_with_savepoint(request, epoch)
            return
        self._checkpoints.after_commit(
            epoch,
            result.watermarks,
            lambda: position.capture(self._query_directory, epoch, _spark_watermark(result.watermarks)),
            changed=not self._idle_since_commit,
        )

    def _after(self, result: epochs.EpochResult, epoch: int, *, idle: bool) -> None:
        assert self._checkpoints is not None
        self._last_epoch = epoch
        self._idle_since_commit = self._idle_since_commit and idle
        self._checkpoints.note_pause(result.waited_ms)
        self._parts.view.note_epoch(
            epoch,
            result.rows,
            result.watermarks.current,
            result.duration_ms / 1000,
            result.next_event_timer,
            result.next_processing_timer,
        )

    @property
    def _query_directory(self) -> Path:
        assert self._query is not None
        return self._query.directory

    def _stop_with_savepoint(self, request: SavepointRequest, epoch: int) -> None:
        """One operation: no epoch commits after it. If it fails the job goes on."""
        assert self._runner is not None and self._checkpoints is not None and self._query is not None
        self._checkpoints.wait()
        if self._checkpoints.stop_requested() != request:
            return
        self._parts.view.note_phase(Phase.STOPPING)
        archive = position.capture(self._query_directory, epoch, _spark_watermark(self._runner.watermarks))
        if request.drain:
            epoch += 1
            self._after(self._runner.run(None, epoch, ended=True), epoch, idle=False)
        started = self._checkpoints.start(
            epoch, self._runner.watermarks, archive, request, drained=request.drain
        )
        started.ended.wait()
        if started.failure is not None:
            raise started.failure
        if self._checkpoints.closed_by is None:
            if request.drain:
                raise errors.StorageError(
                    "the savepoint of a drained job failed; the job goes back to its checkpoint"
                )
            self._parts.view.note_phase(Phase.RUNNING)
            return
        self._stopped_by_savepoint = True
        raise StoppedBySavepoint

    def _drain(self) -> End:
        """Bounded input has ended: watermark +∞, a last epoch, a last checkpoint."""
        assert self._runner is not None and self._checkpoints is not None
        self._parts.view.note_phase(Phase.STOPPING)
        self._checkpoints.wait()
        archive = b""
        if self._last_epoch >= 0 and (self._query_directory / "offsets").is_dir():
            newest = max(
                int(p.name) for p in (self._query_directory / "offsets").iterdir() if p.name.isdigit()
            )
            archive = position.capture(
                self._query_directory, newest, _spark_watermark(self._runner.watermarks)
            )
        epoch = self._last_epoch + 1
        self._after(self._runner.run(None, epoch, ended=True), epoch, idle=False)
        request = self._parts.requests.next_open()
        started = self._checkpoints.start(epoch, self._runner.watermarks, archive, request, drained=True)
        started.ended.wait()
        if started.failure is not None:
            raise started.failure
        return End.INPUT_ENDED

    def _may_go_on(self) -> None:
        """Before every epoch, sink call and commit: still ours? While the storage is away, wait here."""
        parts = self._parts
        while True:
            if self._lost is not None:
                raise self._lost
            if parts.guard.check() is Verdict.GO:
                if parts.view.phase is Phase.PAUSED:
                    parts.view.note_phase(Phase.RUNNING)
                return
            if parts.requests.cancelled.is_set():
                raise errors.StorageUnavailable("the job was cancelled while its storage was away")
            parts.view.note_phase(Phase.PAUSED)
            parts.clock.sleep(0.2)

    # -- watching -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Ask the slots how they are, so that a dead one is noticed also when no rows come."""
        assert self._group is not None
        request = protocol.Status()
        while not self._over.wait(_WATCH_S if self._parts.view.status().slots else 0.1):
            try:
                replies = self._group.ask(lambda _: request, protocol.SlotStatus, 30.0)
            except errors.SlotLost as error:
                if not self._over.is_set():
                    self._lost = error
                return
            except errors.SparkstateError:
                continue
            self._parts.view.note_slots(self._group.addresses, replies)

    def _why(self, failure: BaseException) -> errors.SparkstateError:
        """The reason behind a failed query: ours as it is; Spark's own becomes a lost slot if one is dead."""
        if isinstance(failure, errors.SparkstateError):
            return failure
        if self._group is not None:
            try:
                self._group.ask(lambda _: protocol.Status(), protocol.SlotStatus, 10.0)
            except errors.SlotLost as error:
                return error
            except errors.SparkstateError as error:
                return error
        text = str(failure)
        cause = text if len(text) < 2000 else text[:1000] + " … " + text[-900:]
        failed = errors.JobFailed(f"Spark failed: {cause}")
        failed.__cause__ = failure
        return failed

    def read_state(self, uid: str, state: str, key: JsonValue, namespace: JsonValue) -> tuple[str, JsonValue]:
        """One key's committed state: kind and value."""
        assert self._group is not None
        operator = self._parts.declared.operators.get(uid)
        if operator is None:
            raise errors.SpecInvalid(
                f"there is no operator {uid!r}; this job has {', '.join(sorted(self._parts.declared.operators))}"
            )
        group = plans.key_group_of(
            self._parts.session,
            plans.input_type(self._parts.declared, operator),
            operator.keys,
            key,
            self._key_space.max_parallelism,
        )
        slot = self._key_space.slot_of_shard(self._key_space.shard_of_key_group(group), len(self._group))
        reply = self._group.ask_one(
            slot,
            protocol.ReadState(
                operator=uid,
                state=state,
                key=json.dumps(key),
                key_group=group,
                namespace=None if namespace is None else json.dumps(namespace),
            ),
            protocol.StateValue,
        )
        return reply.kind, json.loads(reply.value)

    # -- the end ------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._over.set()
        if self._checkpoints is not None:
            self._checkpoints.abandon()
        if self._query is not None:
            with contextlib.suppress(Exception):
                self._query.stop()
        if self._runner is not None:
            self._runner.close()
        if self._group is not None:
            for slot in range(len(self._group)):
                with contextlib.suppress(errors.SparkstateError):
                    self._group.ask_one(slot, protocol.Stop(), protocol.Ok)
            self._await_gone(self._group.addresses)
            self._group.close()
        shutil.rmtree(self._parts.work_dir / "query" / f"{self.number:05d}", ignore_errors=True)

    def _await_gone(self, addresses: tuple[SlotAddress, ...]) -> None:
        """A stopped slot removes its folder; what a killed one left is removed here (same host only)."""
        deadline = self._parts.clock.monotonic() + 10
        for address in addresses:
            folder = Path(address.unix_path).parent
            alive = Path(f"/proc/{address.pid}")
            while alive.exists() and folder.exists() and self._parts.clock.monotonic() < deadline:
                self._parts.clock.sleep(0.05)
            if address.host == socket.gethostname():
                shutil.rmtree(folder, ignore_errors=True)


class StoppedBySavepoint(errors.SparkstateError):
    """Ends the query from within its callback after a stop with savepoint; no failure."""


def _spark_watermark(watermarks: Watermarks) -> int:
    return 0 if watermarks.current == MIN_WATERMARK else watermarks.current
