"""The tasks in Spark's Python workers: bring rows to their slot, fetch an output from it. No state, no user code."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import clock, columns, errors, keys, phases
from sparkstate.slots import batches as slot_batches
from sparkstate.slots import client, protocol
from sparkstate.slots.handshake import Role
from sparkstate.spark import watermarks

ACK_DDL = "attempt bigint, rows array<bigint>, largest binary, reason string, message string"
ACK_SCHEMA = pa.schema(
    [
        ("attempt", pa.int64()),
        ("rows", pa.list_(pa.int64())),
        ("largest", pa.binary()),
        ("reason", pa.string()),
        ("message", pa.string()),
    ]
)


@dataclass(frozen=True)
class Ack:
    """One task's word: how many ``rows`` it fed to each slot. ``largest``: largest event time by source and part."""

    attempt: int
    rows: tuple[int, ...]
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
class PartsOfInputs:
    """The same for rows of an operator's two inputs. None: the input is an operator's output."""

    inputs: tuple[Parts | None, ...]

    def note_largest(self, batch: pa.RecordBatch, largest: dict[tuple[int, str], int]) -> None:
        """Raise what is known by the event times of a batch."""
        inputs = batch.column(columns.INPUT)
        for number, parts in enumerate(self.inputs):
            if parts is None:
                continue
            rows = batch.filter(pc.equal(inputs, number))
            names = [columns.TIMESTAMP, *([columns.SOURCE] if parts.sources > 1 else ())]
            own = {name: rows.column(columns.of_input(number, name)) for name in parts.columns}
            parts.note_largest(
                pa.RecordBatch.from_pydict({**{name: rows.column(name) for name in names}, **own}), largest
            )


@dataclass(frozen=True)
class FeedTask:
    """Streams each row of one partition to the slot of its key group, and returns an acknowledgement row."""

    addresses: tuple[client.SlotAddress, ...]
    slot_of_group: bytes
    """The slot of each key group, as 16-bit numbers of this machine's byte order."""
    key: str = field(repr=False)
    incarnation: int
    epoch: int
    operator: str
    attempt: int | None
    """Of all tasks of the job; None: each has one of its own, because Spark may run copies of it."""
    first_part: int
    """The number of the job's first part among those of the attempt."""
    follows: int
    """The epoch whose commit the rows wait for in the slots; -1: none."""
    watermark: int
    processing_time: int
    parts: Parts | PartsOfInputs

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise errors.SlotLost("FeedTask runs within a Spark task only")
        task = context.taskAttemptId()
        attempt = task if self.attempt is None else self.attempt
        with contextlib.ExitStack() as connections:
            stream = _Stream(self, connections, attempt, self.first_part + context.partitionId(), task)
            for batch in batches:
                stream.send(batch)
            failed = stream.end()
        if failed is not None and failed.reason == "SlotLost":
            raise errors.SlotLost(failed.message)
        values: list[Any] = [attempt, stream.rows, encode_largest(stream.largest)]
        values += [failed.reason, failed.message] if failed else [None, None]
        arrays = [pa.array([value], field.type) for value, field in zip(values, ACK_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=ACK_SCHEMA)


class _Stream:
    """The rows of one task on their way to the slots. A slot that gets none is not called."""

    def __init__(
        self, task: FeedTask, connections: contextlib.ExitStack, attempt: int, part: int, number: int
    ) -> None:
        self._task = task
        self._connections = connections
        self._key = keys.for_task(task.key)
        self._request = protocol.Feed(
            incarnation=task.incarnation,
            epoch=task.epoch,
            operator=task.operator,
            attempt=attempt,
            anew=task.attempt is not None,
            part=part,
            task=number,
            follows=task.follows,
            watermark=task.watermark,
            processing_time=task.processing_time,
        )
        self._slot_of_group = np.frombuffer(task.slot_of_group, np.uint16)
        self._senders: dict[int, slot_batches.Sender] = {}
        self.rows = [0] * len(task.addresses)
        """By slot."""
        self.largest: dict[tuple[int, str], int] = {}

    def send(self, batch: pa.RecordBatch) -> None:
        """Send each row to its slot."""
        if batch.num_rows == 0:
            return
        for slot, piece in split(without_requirements(batch), self._slot_of_group, len(self.rows)):
            sender = self._senders.get(slot) or self._connect(slot)
            sender.send(piece)
            if not any(self.rows):
                _enter(phases.ProcessPhase.FEED, self._task.epoch, self._task.incarnation)
            self.rows[slot] += piece.num_rows
        self._task.parts.note_largest(batch, self.largest)

    def end(self) -> protocol.Failed | None:
        """Say that this was all, and hear whether the slots took it. An error of the user's code counts most."""
        for sender in self._senders.values():
            sender.end()
        replies = [protocol.receive_reply(sender.channel) for sender in self._senders.values()]
        failures = [reply for reply in replies if isinstance(reply, protocol.Failed)]
        return min(failures, key=lambda failed: failed.reason in _OF_THE_FEED, default=None)

    def _connect(self, slot: int) -> slot_batches.Sender:
        address = self._task.addresses[slot]
        connection = client.connect(address, self._key, Role.TASK, socket.gethostname())
        self._connections.enter_context(connection)
        protocol.send(connection, self._request)
        sender = self._senders[slot] = slot_batches.Sender(connection)
        return sender


_OF_THE_FEED = ("FeedBroken", "SlotLost")


def without_requirements(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with columns that may all hold nulls. Two jobs of Spark may bring rows to one attempt: those of an
    input, and those of an operator's output. Their columns differ in whether Spark excludes nulls, and Arrow joins only
    batches of equal schemas."""
    return pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names)


def split(
    batch: pa.RecordBatch, slot_of_group: npt.NDArray[np.uint16], slots: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each slot that has any, in their order. Raises ``StateError`` for a key group that the job lacks."""
    slot = slot_of_group[_key_groups(batch, len(slot_of_group))]
    if slots == 1 or (slot == slot[0]).all():
        yield int(slot[0]), batch
        return
    # NumPy sorts 16-bit numbers by radix: a millisecond for 65,536 rows, and as much for all the copies.
    by_slot = batch.take(pa.array(np.argsort(slot, kind="stable")))
    counts = np.bincount(slot, minlength=slots)
    starts = np.cumsum(counts) - counts
    for number in np.flatnonzero(counts).tolist():
        yield number, by_slot.slice(starts[number], counts[number])


def _key_groups(batch: pa.RecordBatch, count: int) -> npt.NDArray[Any]:
    """Checked, because NumPy would count a negative one from the end of a table."""
    column = batch.column(columns.KEY_GROUP)
    groups: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)  # nulls become NaN
    if not (groups.min() >= 0 and groups.max() < count):
        strange = [g for g in pc.unique(column).to_pylist() if g is None or not 0 <= g < count]
        raise errors.StateError(
            f"a batch has rows of key group {strange[0]}; the job has key groups 0 to {count - 1}. "
            "This is a bug. Please report."
        )
    return groups


def drop(rows: Iterator[Any]) -> Iterator[Any]:
    """A task that reads its rows, or batches of them, and does nothing with them."""
    for _ in rows:
        pass
    yield from ()


@dataclass(frozen=True)
class OutputTask:
    """Reads the output that slots finished in this epoch: those whose numbers its rows are. A task may have several,
    because a user's function may coalesce what it is given."""

    addresses: tuple[client.SlotAddress, ...]
    key: str = field(repr=False)
    incarnation: int
    epoch: int
    operator: str
    tag: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                yield from self._read(self.addresses[slot])

    def _read(self, address: client.SlotAddress) -> Iterator[pa.RecordBatch]:
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
