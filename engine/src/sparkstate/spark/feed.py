"""What runs in Spark's Python workers: bring rows to their slot, fetch an output from it. No state, no user code."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import clock, columns, errors, phases
from sparkstate.slots import batches as slot_batches
from sparkstate.slots import client, protocol
from sparkstate.slots.handshake import Role

ACK_DDL = "slot int, attempt bigint, rows bigint, largest binary, reason string, message string"
ACK_SCHEMA = pa.schema(
    [
        ("slot", pa.int32()),
        ("attempt", pa.int64()),
        ("rows", pa.int64()),
        ("largest", pa.binary()),
        ("reason", pa.string()),
        ("message", pa.string()),
    ]
)


@dataclass(frozen=True)
class Ack:
    """One task's word: what it fed to which slot. ``largest``: largest event time by source number."""

    slot: int
    attempt: int
    rows: int
    largest: dict[int, int]
    reason: str | None
    message: str | None


def decode_largest(data: bytes) -> dict[int, int]:
    """The ``largest`` column of an acknowledgement row."""
    return msgspec.msgpack.decode(data, type=dict[int, int])


@dataclass(frozen=True)
class FeedTask:
    """Streams one partition to the slot of the same number and returns an acknowledgement row."""

    addresses: tuple[client.SlotAddress, ...]
    key: str = field(repr=False)
    incarnation: int
    epoch: int
    operator: str
    watermark: int
    processing_time: int
    several_sources: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise errors.SlotLost("FeedTask runs within a Spark task only")
        slot, attempt = context.partitionId(), context.taskAttemptId()
        rows, largest, reply = self._stream(self.addresses[slot], attempt, batches)
        failed = reply if isinstance(reply, protocol.Failed) else None
        if failed is not None and failed.reason == "SlotLost":
            raise errors.SlotLost(failed.message)
        values = [slot, attempt, rows, msgspec.msgpack.encode(largest)]
        values += [failed.reason, failed.message] if failed else [None, None]
        arrays = [pa.array([value], field.type) for value, field in zip(values, ACK_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=ACK_SCHEMA)

    def _stream(
        self, address: client.SlotAddress, attempt: int, batches: Iterator[pa.RecordBatch]
    ) -> tuple[int, dict[int, int], protocol.Reply]:
        rows, largest = 0, dict[int, int]()
        with client.connect(address, self.key, Role.TASK, socket.gethostname()) as connection:
            protocol.send(
                connection,
                protocol.Feed(
                    incarnation=self.incarnation,
                    epoch=self.epoch,
                    operator=self.operator,
                    attempt=attempt,
                    watermark=self.watermark,
                    processing_time=self.processing_time,
                ),
            )
            sender = slot_batches.Sender(connection)
            for batch in batches:
                sender.send(batch)
                if not rows:
                    _enter(phases.Phase.FEED, self.epoch, self.incarnation)
                rows += batch.num_rows
                self._note_largest(batch, largest)
            sender.end()
            return rows, largest, protocol.receive_reply(connection)

    def _note_largest(self, batch: pa.RecordBatch, largest: dict[int, int]) -> None:
        if batch.num_rows == 0 or columns.TIMESTAMP not in batch.schema.names:
            return
        times = batch.column(columns.TIMESTAMP)
        if not self.several_sources:
            _raise_to(largest, 0, pc.max(times).as_py())
            return
        grouped = (
            pa.table([times, batch.column(columns.SOURCE)], names=["t", "s"])
            .group_by("s")
            .aggregate([("t", "max")])
        )
        for source, time in zip(grouped["s"].to_pylist(), grouped["t_max"].to_pylist(), strict=True):
            _raise_to(largest, source, time)


def _raise_to(largest: dict[int, int], source: int, time: int | None) -> None:
    if time is not None and time > largest.get(source, time - 1):
        largest[source] = time


def drop(rows: Iterator[Any]) -> Iterator[Any]:
    """A task that reads its rows, or batches of them, and does nothing with them."""
    for _ in rows:
        pass
    yield from ()


@dataclass(frozen=True)
class OutputTask:
    """Partition ``i`` reads the output that slot ``i`` finished in this epoch."""

    addresses: tuple[client.SlotAddress, ...]
    key: str = field(repr=False)
    incarnation: int
    epoch: int
    operator: str
    tag: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for _ in batches:
            pass
        context = TaskContext.get()
        if context is None:
            raise errors.SlotLost("OutputTask runs within a Spark task only")
        address = self.addresses[context.partitionId()]
        request = protocol.ReadOutput(
            incarnation=self.incarnation, epoch=self.epoch, operator=self.operator, tag=self.tag
        )
        with client.connect(address, self.key, Role.TASK, socket.gethostname()) as connection:
            protocol.send(connection, request)
            reply = protocol.receive_reply(connection)
            if isinstance(reply, protocol.Failed):
                raise client.error_of(reply.reason, reply.message)
            for number, batch in enumerate(slot_batches.receive(connection)):
                yield batch
                if number == 0:
                    _enter(phases.Phase.OUTPUT, self.epoch, self.incarnation)


def _enter(phase: phases.Phase, epoch: int, incarnation: int) -> None:
    """A worker's phases begin when the first batch is under way: before it has done nothing yet."""
    worker = phases.Phases("worker", clock.SystemClock(), os.environ)
    worker.enter(phase, epoch=epoch, incarnation=incarnation)
