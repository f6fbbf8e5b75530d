"""A slot's runtime and server within the test's own process, fed by hand."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import cloudpickle
import pyarrow as pa

from sparkstate import clock, columns, phases
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.keygroups import KeySpace
from sparkstate.operators.spec import OperatorSpec
from sparkstate.serde.types import Types
from sparkstate.settings import S3Settings, StateBackendSettings
from sparkstate.sinks import file_sink
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots import batches as slot_batches
from sparkstate.slots import client, protocol
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.handshake import Role
from sparkstate.slots.plan import SinkPlan, SlotPlan
from sparkstate.slots.runtime import SlotRuntime
from sparkstate.slots.server import SlotServer
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.state_backend import CustomStateBackend
from sparkstate.storage import open_store

KEY = "a-key-for-slot-tests"
LINEAGE = "0123456789abcdef"
IDENTITY = "00" * 16
KEY_SPACE = KeySpace(8, 4)
ROWS = pa.schema([("k", pa.string()), ("v", pa.int64()), (columns.KEY_GROUP, pa.int32())])
OUT = pa.schema([("k", pa.string()), ("total", pa.int64())])


class Sum(KeyedProcessFunction):
    """Running sum per key; the value 13 is an error."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        if row.v == 13:
            raise ValueError("13 brings bad luck")
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        yield row.k, total


cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))


def plan(
    folder: Path, slot: int = 0, slots: int = 1, incarnation: int = 1, backend: str = "hashmap"
) -> SlotPlan:
    """One operator ``sum`` whose output goes to files below ``folder/out``. Makes what a driver makes before.

    ``backend`` may be the class of an own one, as ``module:Class``.
    """
    for made in (folder / "out", folder / "storage" / LINEAGE):
        made.mkdir(parents=True, exist_ok=True)
    file_sink.begin(open_store(str(folder / "out")), LINEAGE, incarnation)
    spec = OperatorSpec(
        uid="sum",
        function=Sum(),
        row_columns=("k", "v"),
        key_columns=("k",),
        key_type=Types.STRING(),
        output_schema=OUT,
    )
    return SlotPlan(
        slot=slot,
        slots=slots,
        incarnation=incarnation,
        lineage=LINEAGE,
        key_space=KEY_SPACE,
        operators=(spec,),
        sinks=(SinkPlan(uid="sum", operator="sum", tag=None, sink=FileSink(str(folder / "out"))),),
        backend=CustomStateBackend(backend).effective_settings(StateBackendSettings())
        if ":" in backend
        else StateBackendSettings(type="rocksdb" if backend == "rocksdb" else "hashmap"),
        storage_url=str(folder / "storage"),
        s3=S3Settings(),
        inline_threshold_bytes=0,
        write_buffer_bytes=4096,
    )


def rows(*pairs: tuple[str, int], group: int = 0) -> pa.RecordBatch:
    """Rows (key, value), all in one key group."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([k for k, _ in pairs], pa.string()),
            pa.array([v for _, v in pairs], pa.int64()),
            pa.array([group] * len(pairs), pa.int32()),
        ],
        schema=ROWS,
    )


class Slot:
    """A served slot. ``client`` is the driver's end, :meth:`feed` a Spark task's."""

    def __init__(self, folder: Path, the_plan: SlotPlan, tcp_host: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        recorder = phases.Phases("slot-0", clock.SystemClock(), {})
        self.plan = the_plan
        self.fed: Counter[tuple[int, int]] = Counter()
        """Rows that were taken, by epoch and attempt."""
        self.begun: set[int] = set()
        """Epochs that were fed, or finished without rows."""
        self.server = SlotServer(
            KEY,
            IDENTITY,
            folder / "s",
            tcp_host,
            lambda p: SlotRuntime(p, folder, clock.SystemClock(), recorder),
            clock.SystemClock(),
        )
        self.server.start()
        self.address = SlotAddress(
            0, "here", os.getpid(), str(folder / "s"), self.server.tcp_port, tcp_host or "", "", IDENTITY
        )
        self.client = client.SlotClient(self.address, KEY, "here")
        self.client.call(protocol.Configure(plan=cloudpickle.dumps(the_plan)), protocol.Ok)

    @classmethod
    def of_rocksdb(
        cls, folder: Path, incarnation: int, share: tuple[int, int] = (0, 1), **backend: object
    ) -> Self:
        """One of ``share`` (its number, how many there are), below ``folder/slots``; ``backend`` changes settings."""
        the_plan = plan(folder, *share, incarnation=incarnation, backend="rocksdb")
        the_plan = dataclasses.replace(the_plan, backend=dataclasses.replace(the_plan.backend, **backend))
        return cls(folder / "slots" / f"{incarnation}-0", the_plan)

    def restore(self, *shards: Any, url: str = "", checkpoint_id: int = -1) -> protocol.Restored:
        request = protocol.RestoreShards(shards=tuple(shards), base_url=url, checkpoint_id=checkpoint_id)
        return self.client.call(request, protocol.Restored)

    def feed(
        self,
        epoch: int,
        attempt: int,
        *batches: pa.RecordBatch,
        incarnation: int = 1,
        part: int = 0,
        task: int | None = None,
        follows: int | None = None,
        anew: bool = False,
    ) -> protocol.Reply:
        """Stream batches as one task does. By default ``task`` is the attempt's only one, and the rows follow the epoch
        that was begun before."""
        earlier = max((begun for begun in self.begun if begun < epoch), default=-1)
        self.begun.add(epoch)
        with client.connect(self.address, KEY, Role.TASK, "here") as connection:
            protocol.send(
                connection,
                protocol.Feed(
                    incarnation=incarnation,
                    epoch=epoch,
                    operator="sum",
                    attempt=attempt,
                    anew=anew,
                    part=part,
                    task=attempt if task is None else task,
                    follows=earlier if follows is None else follows,
                    watermark=MIN_WATERMARK,
                    processing_time=0,
                ),
            )
            slot_batches.send_all(connection, ROWS, batches)
            reply = protocol.receive_reply(connection)
        if isinstance(reply, protocol.FeedAck):
            self.fed[epoch, attempt] += reply.rows
        return reply

    def finish(
        self,
        epoch: int,
        attempt: int,
        rows: int | None = None,
        watermark: int = MIN_WATERMARK,
        processing_time: int = 0,
    ) -> protocol.Finished:
        """End an attempt, or with -1 an epoch without rows here; ``rows`` are those that were fed, by default."""
        self.begun.add(epoch)
        request = protocol.Finish(
            incarnation=self.plan.incarnation,
            epoch=epoch,
            operator="sum",
            attempt=attempt,
            rows=self.fed[epoch, attempt] if rows is None else rows,
            watermark_before=MIN_WATERMARK,
            watermark=watermark,
            processing_time=processing_time,
        )
        return self.client.call(request, protocol.Finished)

    def commit(self, epoch: int) -> None:
        self.client.call(protocol.Commit(incarnation=self.plan.incarnation, epoch=epoch), protocol.Committed)

    def release(self, epoch: int) -> None:
        self.client.call(protocol.Release(incarnation=self.plan.incarnation, epoch=epoch), protocol.Ok)

    def epoch(self, epoch: int, *batches: pa.RecordBatch) -> None:
        """A whole epoch with one attempt."""
        self.feed(epoch, 1, *batches, incarnation=self.plan.incarnation)
        self.finish(epoch, 1)
        self.commit(epoch)
        self.release(epoch)

    def output(self, epoch: int) -> list[dict[str, Any]]:
        return [row for batch in self.batches_of_output(epoch) for row in batch.to_pylist()]

    def batches_of_output(self, epoch: int) -> Iterator[pa.RecordBatch]:
        """As a task reads them; one that is closed before its end breaks off."""
        with client.connect(self.address, KEY, Role.TASK, "here") as connection:
            request = protocol.ReadOutput(incarnation=self.plan.incarnation, epoch=epoch, operator="sum")
            protocol.send(connection, request)
            assert isinstance(protocol.receive_reply(connection), protocol.Ok)
            yield from slot_batches.receive(connection)

    def value(self, key: str, group: int = 0) -> str:
        request = protocol.ReadState(operator="sum", state="total", key=f'"{key}"', key_group=group)
        return self.client.call(request, protocol.StateValue).value

    def snapshot(self, checkpoint_id: int, epoch: int, base: int = -1) -> protocol.SnapshotState:
        """Take a checkpoint and wait for it."""
        request = protocol.Snapshot(
            incarnation=self.plan.incarnation, checkpoint_id=checkpoint_id, epoch=epoch, base=base
        )
        self.client.call(request, protocol.Ok)
        while True:
            state = self.client.call(
                protocol.SnapshotPoll(checkpoint_id=checkpoint_id), protocol.SnapshotState
            )
            if state.done:
                assert not state.failure, state.failure
                return state

    def done(self, checkpoint_id: int, completed: bool = True) -> None:
        self.client.call(
            protocol.CheckpointDone(checkpoint_id=checkpoint_id, completed=completed), protocol.Ok
        )

    def close(self) -> None:
        self.client.close()
        self.server.close()
