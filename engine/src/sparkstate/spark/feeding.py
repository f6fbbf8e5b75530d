"""Bringing an epoch's rows to the slots: the Spark job, and the answers of its tasks (RFC 0033).

Each task reads a part of the epoch and sends every row straight to the slot that owns its key group, so rows are not
shuffled by Spark. All tasks of a job bring their rows to one attempt in each slot. When a task breaks off or runs
twice, its rows cannot be told from the others any more, and a second job brings all of them to a second attempt.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark import SparkConf
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkstate import columns, errors
from sparkstate.keygroups import KeySpace
from sparkstate.slots import client
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import feed, graph, plans

_TRIES: Final = 4
"""How often the rows of an epoch are brought: as often as Spark runs a task by default."""
_log = logging.getLogger("sparkstate.driver")


@dataclass(frozen=True)
class FedSlot:
    """The rows that a slot got: by which attempt, and how many."""

    attempt: int
    rows: int


@dataclass(frozen=True)
class FedRows:
    """An operator's rows of an epoch, as the successful tasks tell of them."""

    slots: dict[int, FedSlot]
    """Those that got rows."""
    largest: dict[tuple[int, str], int]
    """Largest event time by number of the source and its part."""


class Feeding:
    """Brings the rows of one operator. It prepares once whatever is the same for all epochs."""

    def __init__(
        self,
        session: SparkSession,
        declared: graph.Graph,
        operator: graph.Operator,
        key_space: KeySpace,
        group: SlotGroup,
    ) -> None:
        self.operator = operator
        self._group = group
        self._has_copies = runs_copies(session.sparkContext.getConf())
        self._selected = _selected(declared, operator, key_space.max_parallelism)
        self._key_space = key_space
        self._tasks = max(len(group), session.sparkContext.defaultParallelism)
        self._slot_of_group = key_space.slots_of_key_groups(len(group))
        self._parts = feed.Parts()
        if operator.upstream is None:
            self._parts = feed.Parts(len(declared.sources), declared.sources[0].parts)

    def shipped(self, frame: DataFrame) -> DataFrame:
        """The columns that a slot needs of each row, in as many partitions as tasks run at once."""
        rows = frame.select(*self._selected)
        if self._has_copies:
            return rows.repartitionById(len(self._group), self._slot)
        return rows.coalesce(self._tasks)

    @functools.cached_property
    def _slot(self) -> Column:
        space = self._key_space
        return plans.slot_of(F.col(columns.KEY_GROUP), space.max_parallelism, space.shards, len(self._group))

    def run(self, frame: DataFrame, epoch: int, follows: int, watermark: int, now: int) -> FedRows:
        """Bring all rows of ``epoch``; they wait in the slots for the commit of the one that it ``follows``. Raises the
        slots' error, or Spark's about a task that failed for good."""
        rows = self.shipped(frame)
        for attempt in range(1, _TRIES + 1):
            try:
                return _fed(_acks(rows, self._task(attempt, epoch, follows, watermark, now)))
            except errors.FeedBroken as error:
                if attempt == _TRIES:
                    raise
                _log.warning("epoch %d: its rows are brought again, try %d failed: %s", epoch, attempt, error)
        raise AssertionError("the last try returns or raises")

    def _task(self, attempt: int, epoch: int, follows: int, watermark: int, now: int) -> feed.FeedTask:
        return feed.FeedTask(
            addresses=self._group.addresses,
            slot_of_group=self._slot_of_group,
            key=self._group.key_of_tasks,
            incarnation=self._group.incarnation,
            epoch=epoch,
            operator=self.operator.uid,
            attempt=None if self._has_copies else attempt,
            follows=follows,
            watermark=watermark,
            processing_time=now,
            parts=self._parts,
        )


def runs_copies(conf: SparkConf) -> bool:
    """Whether Spark may run copies of a slow task, which bring their rows a second time. Each task then gets an attempt
    of its own, so all rows of a slot have to come in one task, and Spark has to shuffle them."""
    return (conf.get("spark.speculation") or "").strip().lower() == "true"  # as Spark reads it


def _selected(declared: graph.Graph, operator: graph.Operator, max_parallelism: int) -> tuple[Column, ...]:
    """The columns shipped: unresolved names, so they fit the frame of every epoch."""
    struct = plans.input_type(declared, operator)
    keys = [plans.canonical_key(name, struct[name].dataType) for name in operator.keys]
    group = plans.key_group(keys, max_parallelism).alias(columns.KEY_GROUP)
    parts = declared.sources[0].parts if operator.upstream is None else ()
    wanted = struct.names if operator.shipped is None else dict.fromkeys((*operator.shipped, *parts))
    selected = [F.col(f"`{name}`") for name in wanted]
    selected += [F.expr(sql).alias(name) for name, sql in operator.computed]
    hidden = hidden_keys(operator, struct)
    selected += [
        key.alias(name) for key, name in zip(keys, hidden, strict=True) if name.startswith(columns.KEY_PREFIX)
    ]
    selected.append(group)
    if operator.event_time is not None:
        event_time = plans.event_time_ms(operator.event_time, struct[operator.event_time].dataType)
        selected.append(event_time.alias(columns.TIMESTAMP))
    elif operator.upstream is not None and operator.upstream[1] is None:
        selected.append(F.col(columns.TIMESTAMP))
    if operator.upstream is None and len(declared.sources) > 1:
        selected.append(F.col(columns.SOURCE))
    return tuple(selected)


def hidden_keys(operator: graph.Operator, struct: Any) -> tuple[str, ...]:
    """The column that holds each canonical key: the user's own, or a hidden one where they differ (floats)."""
    return tuple(
        f"{columns.KEY_PREFIX}{i}" if struct[name].dataType.typeName() in ("float", "double") else name
        for i, name in enumerate(operator.keys)
    )


def _acks(rows: DataFrame, task: feed.FeedTask) -> list[feed.Ack]:
    """Run the tasks; their answers. Raises the slots' error if there is one, the most telling one first."""
    acks = [
        feed.Ack(
            row.attempt, tuple(row.rows), feed.decode_largest(bytes(row.largest)), row.reason, row.message
        )
        for row in rows.mapInArrow(task.__call__, feed.ACK_DDL).collect()
    ]
    failures = [client.error_of(ack.reason, ack.message or "") for ack in acks if ack.reason is not None]
    if failures:
        raise min(failures, key=lambda failure: isinstance(failure, errors.FeedBroken))
    return acks


def _fed(acks: Sequence[feed.Ack]) -> FedRows:
    slots: dict[int, FedSlot] = {}
    largest: dict[tuple[int, str], int] = {}
    for ack in acks:
        for slot, rows in enumerate(ack.rows):
            if rows:
                before = slots.get(slot, FedSlot(ack.attempt, 0))
                slots[slot] = dataclasses.replace(before, rows=before.rows + rows)
        for part, time in ack.largest.items():
            largest[part] = max(time, largest.get(part, time))
    return FedRows(slots, largest)
