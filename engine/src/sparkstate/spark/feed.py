"""The tasks in Spark's Python workers: bring rows to their slot, fetch an output from it. No state, no user code."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import clock, columns, errors, keys, phases
from sparkstate.slots import batches as slot_batches
from sparkstate.slots import client, protocol
from sparkstate.slots.handshake import Role
from sparkstate.spark import watermarks

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
    """One task's word: what it fed to which slot. ``largest``: largest event time by source number and part."""

    slot: int
    attempt: int
    rows: int
    largest: dict[tuple[int, str], int]
    reason: str | None
    message: str | None


def encode_largest(largest: Mapping[tuple[int, str], int]) -> bytes:
    """The ``largest`` column of an acknowledgement row."""
    return msgspec.msgpack.encode([(source, part, time) for (source, part), time in largest.items()])


def decode_largest(data: bytes) -> dict[tuple[int, str], int]:
    """The inverse of :func:`encode_largest`."""
    found = msgspec.msgpack.decode(data, type=list[tuple[int, str, int]])
    return {(source, part): time for source, part, time in found}


@dataclass(frozen=True)
class Parts:
    """How a row tells which source, and which part of it, it came from."""

    sources: int = 1
    """Where there are several, the batches have the hidden column ``columns.SOURCE``."""
    columns: tuple[str, ...] = ()
    """The columns that tell parts of a source apart."""

    def note_largest(self, batch: pa.RecordBatch, largest: dict[tuple[int, str], int]) -> None:
        """Raise what is known by the event times of a batch: one grouping a batch, nothing a row."""
        if batch.num_rows == 0 or columns.TIMESTAMP not in batch.schema.names:
            return
        times = batch.column(columns.TIMESTAMP)
        names = [*([columns.SOURCE] if self.sources > 1 else ()), *self.columns]
        if not names:
            self._raise_to(largest, (0, watermarks.WHOLE), pc.max(times).as_py())
            return
        numbered = [str(number) for number in range(len(names))]
        table = pa.table([times, *(batch.column(name) for name in names)], names=["t", *numbered])
        grouped = table.group_by(numbered).aggregate([("t", "max")])
        groups = zip(*(grouped[number].to_pylist() for number in numbered), strict=True)
        for values, time in zip(groups, grouped["t_max"].to_pylist(), strict=True):
            self._raise_to(largest, self._part(values), time)

    def _part(self, values: tuple[Any, ...]) -> tuple[int, str]:
        source = values[0] if self.sources > 1 else 0
        if not self.columns:
            return source, watermarks.WHOLE
        return source, watermarks.part_label(self.columns, values[len(values) - len(self.columns) :])

    def _raise_to(self, largest: dict[tuple[int, str], int], part: tuple[int, str], time: int | None) -> None:
        if time is None or time <= largest.get(part, time - 1):
            return
        # Where this many are known, one source has too many, and the driver refuses the job: no more are needed.
        if part in largest or len(largest) <= watermarks.MOST_PARTS * self.sources:
            largest[part] = time


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
    parts: Parts

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
        values = [slot, attempt, rows, encode_largest(largest)]
        values += [failed.reason, failed.message] if failed else [None, None]
        arrays = [pa.array([value], field.type) for value, field in zip(values, ACK_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=ACK_SCHEMA)

    def _stream(
        self, address: client.SlotAddress, attempt: int, batches: Iterator[pa.RecordBatch]
    ) -> tuple[int, dict[tuple[int, str], int], protocol.Reply]:
        rows, largest = 0, dict[tuple[int, str], int]()
        with client.connect(address, keys.for_task(self.key), Role.TASK, socket.gethostname()) as connection:
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
                    _enter(phases.ProcessPhase.FEED, self.epoch, self.incarnation)
                rows += batch.num_rows
                self.parts.note_largest(batch, largest)
            sender.end()
            return rows, largest, protocol.receive_reply(connection)


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
        with client.connect(address, keys.for_task(self.key), Role.TASK, socket.gethostname()) as connection:
            protocol.send(connection, request)
            reply = protocol.receive_reply(connection)
            if isinstance(reply, protocol.Failed):
                raise client.error_of(reply.reason, reply.message)
            for number, batch in enumerate(slot_batches.receive(connection)):
                yield batch
                if number == 0:
                    _enter(phases.ProcessPhase.OUTPUT, self.epoch, self.incarnation)


def _enter(phase: phases.ProcessPhase, epoch: int, incarnation: int) -> None:
    """A worker's phases begin when the first batch is under way: before that the worker has done nothing."""
    worker = phases.Phases("worker", clock.SystemClock(), os.environ)
    worker.enter(phase, epoch=epoch, incarnation=incarnation)
