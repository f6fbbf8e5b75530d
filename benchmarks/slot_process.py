"""One real slot process, driven over its socket as driver and tasks drive it, without Spark."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa

from sparkstate import columns
from sparkstate.backends import allocation
from sparkstate.functions import MIN_WATERMARK, Context, KeyedProcessFunction, RuntimeContext
from sparkstate.handles import ShardHandle
from sparkstate.keygroups import KeySpace
from sparkstate.operators.spec import OperatorSpec
from sparkstate.serde.types import Types
from sparkstate.settings import S3Settings, StateBackendSettings
from sparkstate.slots import batches as wire
from sparkstate.slots import client, protocol
from sparkstate.slots.handshake import Role
from sparkstate.slots.plan import SlotPlan
from sparkstate.state.descriptors import ValueStateDescriptor

KEY_SPACE = KeySpace(128, 8)
INPUT = pa.schema([("k", pa.int64()), ("v", pa.int64()), (columns.KEY_GROUP, pa.int32())])
OUTPUT = pa.schema([("k", pa.int64()), ("size", pa.int64())])
LINEAGE = "0123456789abcdef"
BATCH_ROWS = 65_536
"""As Spark sends them."""
_NOISE_BYTES = 1 << 20


class Payload(KeyedProcessFunction):
    """A value of ``size`` bytes per key, which no compression makes smaller; every record reads and replaces it."""

    def __init__(self, size: int) -> None:
        self.size = size

    def open(self, ctx: RuntimeContext) -> None:
        self.noise = np.random.default_rng(7).bytes(_NOISE_BYTES)
        self.payload = ctx.get_state(ValueStateDescriptor("payload", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, row: Any, ctx: Context) -> Iterable[tuple[int, int]]:
        old = self.payload.value()
        at = (row.k * 7919 + row.v * 104_729) % (_NOISE_BYTES - self.size)
        self.payload.update(self.noise[at : at + self.size])
        yield row.k, 0 if old is None else len(old)


class Number(KeyedProcessFunction):
    """A whole number per key, which HashMap keeps in columns (RFC 0035); every record reads and replaces it."""

    def open(self, ctx: RuntimeContext) -> None:
        self.number = ctx.get_state(ValueStateDescriptor("number", Types.LONG()))

    def process_element(self, row: Any, ctx: Context) -> Iterable[tuple[int, int]]:
        total = (self.number.value() or 0) + row.v
        self.number.update(total)
        yield row.k, total


cloudpickle.register_pickle_by_value(sys.modules[__name__])


def batches(keys: np.ndarray, seed: int) -> Iterable[pa.RecordBatch]:
    """Rows for these keys, in the sizes that Spark sends."""
    values = np.random.default_rng(seed).integers(0, 1000, len(keys))
    for start in range(0, len(keys), BATCH_ROWS):
        part = keys[start : start + BATCH_ROWS]
        yield pa.record_batch(
            [
                pa.array(part),
                pa.array(values[start : start + BATCH_ROWS]),
                pa.array((part % KEY_SPACE.max_parallelism).astype(np.int32)),
            ],
            schema=INPUT,
        )


class SlotProcess:
    """The process. ``folder`` takes its working files and must not exist."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.key = secrets.token_hex(16)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sparkstate.slots"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **allocation.ENVIRONMENT, **(environment or {})},
            text=True,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        configuration = {
            "key": self.key,
            "directory": str(folder),
            "slot": 0,
            "watched_pid": os.getpid(),
            "tcp_host": None,
            "python_path": [],
        }
        self.process.stdin.write(json.dumps(configuration) + "\n")
        self.process.stdin.close()
        answer = json.loads(self.process.stdout.readline())
        self.pid = int(answer["pid"])
        self.address = client.SlotAddress(
            0, "here", self.pid, answer["unix_path"], identity=answer["identity"]
        )
        self.client = client.SlotClient(self.address, self.key, "here")
        self.questions = client.SlotClient(self.address, self.key, "here")

    def configure(
        self,
        backend: StateBackendSettings,
        storage_url: str,
        payload_bytes: int,
        s3: S3Settings | None = None,
        incarnation: int = 1,
    ) -> None:
        """One operator ``payload`` over (k, v). ``payload_bytes`` 0: its values are whole numbers."""
        spec = OperatorSpec(
            uid="payload",
            function=Payload(payload_bytes) if payload_bytes else Number(),
            row_columns=("k", "v"),
            key_columns=("k",),
            key_type=Types.LONG(),
            output_schema=OUTPUT,
        )
        self.incarnation = incarnation
        plan = SlotPlan(
            slot=0,
            slots=1,
            incarnation=incarnation,
            lineage=LINEAGE,
            key_space=KEY_SPACE,
            operators=(spec,),
            sinks=(),
            backend=backend,
            storage_url=storage_url,
            s3=s3 or S3Settings(),
            inline_threshold_bytes=20 * 1024,
            write_buffer_bytes=4096,
        )
        self.client.call(protocol.Configure(plan=cloudpickle.dumps(plan)), protocol.Ok)

    def restore(
        self, shards: Sequence[ShardHandle] = (), url: str = "", checkpoint_id: int = -1
    ) -> protocol.Restored:
        """Fill the stores; without shards they start empty."""
        request = protocol.RestoreShards(shards=tuple(shards), base_url=url, checkpoint_id=checkpoint_id)
        return self.client.call(request, protocol.Restored)

    def feed(self, epoch: int, rows: Iterable[pa.RecordBatch]) -> int:
        """Bring the rows as one task does."""
        request = protocol.Feed(
            incarnation=self.incarnation,
            epoch=epoch,
            operator="payload",
            attempt=1,
            anew=True,
            part=0,
            task=1,
            follows=-1,
            watermark=MIN_WATERMARK,
            processing_time=0,
        )
        with client.connect(self.address, self.key, Role.TASK, "here") as connection:
            protocol.send(connection, request)
            wire.send_all(connection, INPUT, rows)
            reply = protocol.receive_reply(connection)
        if not isinstance(reply, protocol.FeedAck):
            raise SystemExit(f"the slot refused the rows: {reply}")
        return reply.rows

    def read_output(self, epoch: int) -> int:
        """Read the epoch's output as the next Spark job does; the number of rows."""
        request = protocol.ReadOutput(incarnation=self.incarnation, epoch=epoch, operator="payload")
        with client.connect(self.address, self.key, Role.TASK, "here") as connection:
            protocol.send(connection, request)
            protocol.receive_reply(connection)
            return sum(batch.num_rows for batch in wire.receive(connection))

    def epoch(self, epoch: int, rows: Iterable[pa.RecordBatch]) -> protocol.Committed:
        """Feed, finish, output, commit."""
        fed = self.feed(epoch, rows)
        finish = protocol.Finish(
            incarnation=self.incarnation,
            epoch=epoch,
            operator="payload",
            attempt=1,
            rows=fed,
            watermark_before=MIN_WATERMARK,
            watermark=MIN_WATERMARK,
            processing_time=0,
        )
        self.client.call(finish, protocol.Finished)
        self.read_output(epoch)
        commit = protocol.Commit(incarnation=self.incarnation, epoch=epoch)
        return self.client.call(commit, protocol.Committed)

    def start_snapshot(self, checkpoint_id: int, epoch: int, base: int) -> None:
        """Ask for a checkpoint of the state as it is."""
        request = protocol.Snapshot(
            incarnation=self.incarnation, checkpoint_id=checkpoint_id, epoch=epoch, base=base
        )
        self.questions.call(request, protocol.Ok)

    def snapshot_state(self, checkpoint_id: int) -> protocol.SnapshotState:
        """How far it is; raises ``SystemExit`` if it failed."""
        state = self.questions.call(
            protocol.SnapshotPoll(checkpoint_id=checkpoint_id), protocol.SnapshotState
        )
        if state.failure:
            raise SystemExit(f"checkpoint {checkpoint_id} failed: {state.failure}")
        return state

    def end_snapshot(self, checkpoint_id: int) -> None:
        """Tell it that the checkpoint is complete."""
        self.questions.call(protocol.CheckpointDone(checkpoint_id=checkpoint_id, completed=True), protocol.Ok)

    def snapshot(self, checkpoint_id: int, epoch: int, base: int) -> protocol.SnapshotState:
        """Take a checkpoint and wait for it."""
        self.start_snapshot(checkpoint_id, epoch, base)
        while not (state := self.snapshot_state(checkpoint_id)).done:
            time.sleep(0.02)
        self.end_snapshot(checkpoint_id)
        return state

    def status(self) -> protocol.SlotStatus:
        """Sizes and memory."""
        return self.questions.call(protocol.Status(), protocol.SlotStatus)

    def resident_bytes(self) -> int:
        """All resident memory of the process, as the kernel counts it."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def stop(self) -> None:
        """End the process; it removes its folder."""
        self.client.call(protocol.Stop(), protocol.Ok)
        self.process.wait(60)


def payload_of(shards: Iterable[ShardHandle]) -> int:
    """Bytes of all files that the handles name."""
    return sum(file.size for shard in shards for file in shard.files)
