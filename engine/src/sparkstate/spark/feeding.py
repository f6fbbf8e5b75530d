"""Bringing an epoch's rows to the slots: the Spark job, and the answers of its tasks (RFC 0033).

Each task reads a part of the epoch and sends every row straight to the slot that owns its key group, so rows are not
shuffled by Spark. All tasks of a job bring their rows to one attempt in each slot. When a task breaks off or runs
twice, its rows cannot be told from the others any more, and a second job brings all of them to a second attempt.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark import SparkConf
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkstate import columns, errors
from sparkstate.keygroups import KeySpace
from sparkstate.slots import client
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import arrow_functions, combining, feed, graph, plans, shipping

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
    attempt: int = 1
    """The attempt that brought them; without a meaning where each task has its own."""
    is_combined: bool = False
    """Whether a row may stand for several, which Spark has combined."""


@dataclass(frozen=True)
class EpochTimes:
    """The facts about an epoch that tasks tell the slots."""

    epoch: int
    follows: int
    """The epoch whose commit the rows wait for in the slots; -1: none."""
    watermark: int
    """Of the epoch before."""
    now: int
    """The epoch's processing time, ms."""


class Feeding:
    """Brings the rows of one operator. It prepares once whatever is the same for all epochs."""

    def __init__(
        self,
        session: SparkSession,
        declared: graph.Graph,
        operator: graph.Operator,
        key_space: KeySpace,
        group: SlotGroup,
        *,
        is_selected: bool = False,
    ) -> None:
        """``is_selected``: the query has selected the columns to ship (``shipping.in_query``), and its frames have no
        more partitions than :func:`tasks_at_once` says."""
        self.operator = operator
        self._is_selected = is_selected
        self._session = session
        self._group = group
        self._made: dict[bool, arrow_functions.ArrowFunctions] = {}
        # Not ``getConf``, which copies all settings: 190 calls of the JVM.
        self._has_copies = runs_copies(session.sparkContext._conf)
        self._slot_of_group = key_space.slots_of_key_groups(len(group))
        owners = np.frombuffer(self._slot_of_group, np.uint16)
        groups = [int(np.argmax(owners == slot)) for slot in range(len(group))]
        self._shipping = shipping.Shipping(declared, operator, key_space.max_parallelism, groups)
        self._key_space = key_space
        self._tasks = tasks_at_once(session, len(group))
        self._parts = _parts(declared, operator)
        self._choice = combining.Choice()
        if self._has_copies and operator.is_mixed:
            raise errors.SpecInvalid(
                f"operator {operator.uid!r} connects an input of the job with another operator's output, and "
                "spark.speculation is on: a copy of a task would bring its rows a second time; turn it off"
            )

    def upstreams(self) -> Iterator[tuple[int, tuple[str, str | None]]]:
        """The outputs that feed it, each with the number of its input."""
        for number, each in enumerate(self.operator.inputs):
            if each.upstream is not None:
                yield number, each.upstream

    def rehearse(self, frame: DataFrame) -> None:
        """Take one row of an epoch's frame to a Python worker, which drops it. No slot is called."""
        rows = self._in_tasks(self._of_epoch(frame.limit(1)), is_coalesced=self._is_selected)
        self._functions(rows, is_combined=False).apply(feed.drop, rows).collect()

    def _of_epoch(self, frame: DataFrame) -> DataFrame:
        return frame if self._is_selected else self._shipping.of_epoch(frame)

    def note(self, rows: int, fed: FedRows) -> None:
        """The slots counted so many rows of an epoch that brought them ``fed``."""
        shipped = sum(slot.rows for slot in fed.slots.values())
        self._choice = self._choice.after(rows, shipped, fed.is_combined)

    def _combined(self, rows: DataFrame) -> tuple[DataFrame, bool]:
        """The rows to ship, and whether Spark combines them."""
        made = self.operator.combining
        if made is None or not (made.is_forced or self._choice.combines):
            return rows, False
        return self._shipping.combined(rows.coalesce(self._tasks)), True

    def _in_tasks(self, rows: DataFrame, *, is_coalesced: bool = False) -> DataFrame:
        """In as many partitions as tasks run at once."""
        if self._has_copies:
            return rows.repartitionById(len(self._group), self._slot)
        return rows if is_coalesced else rows.coalesce(self._tasks)

    @functools.cached_property
    def _slot(self) -> Column:
        space = self._key_space
        return plans.slot_of(F.col(columns.KEY_GROUP), space.max_parallelism, space.shards, len(self._group))

    def run(self, frame: DataFrame, times: EpochTimes) -> FedRows:
        """Bring all rows of an epoch; they wait in the slots for the commit of the one that it follows. Raises the
        slots' error, or Spark's about a task that failed for good."""
        return self._run(self._of_epoch(frame), times, is_coalesced=self._is_selected)

    def _run(self, rows: DataFrame, times: EpochTimes, *, is_coalesced: bool = False) -> FedRows:
        chosen, is_combined = self._combined(rows)
        in_tasks = self._in_tasks(chosen, is_coalesced=is_coalesced and not is_combined)
        told = combining.naming_overflows(self.operator.uid, times.epoch)
        with told if is_combined else contextlib.nullcontext():
            fed = self._bring(in_tasks, times, range(1, _TRIES + 1), is_combined=is_combined)
        return dataclasses.replace(fed, is_combined=is_combined)

    def run_outputs(
        self,
        outputs: Mapping[int, DataFrame],
        times: EpochTimes,
        before: FedRows | None = None,
        frame: DataFrame | None = None,
    ) -> FedRows:
        """Bring rows of other operators' outputs, by the number of the input. ``before`` tells what was brought of the
        epoch's ``frame``: these go to the same attempt. If that breaks, all rows are brought to another one."""
        rows = self._shipping.of_outputs(outputs)
        if before is None or frame is None:
            return self._run(rows, times)
        first = before.attempt
        try:
            more = self._fed(self._in_tasks(rows), times, first, first_part=self._tasks)
        except errors.FeedBroken as error:
            _log_again(times.epoch, first, error)
            every = self._shipping.of_epoch(frame).union(rows)
            return self._bring(self._in_tasks(every), times, range(first + 1, first + _TRIES))
        return _both(before, more)

    def _bring(
        self, rows: DataFrame, times: EpochTimes, attempts: range, *, is_combined: bool = False
    ) -> FedRows:
        for attempt in attempts:
            try:
                return self._fed(rows, times, attempt, is_combined=is_combined)
            except errors.FeedBroken as error:
                if attempt == attempts[-1]:
                    raise
                _log_again(times.epoch, attempt, error)
        raise AssertionError("the last try returns or raises")

    def _fed(
        self,
        rows: DataFrame,
        times: EpochTimes,
        attempt: int,
        *,
        first_part: int = 0,
        is_combined: bool = False,
    ) -> FedRows:
        task = self._task(attempt, times, first_part)
        return _fed(self._acks(rows, task, is_combined=is_combined), attempt)

    def _acks(self, rows: DataFrame, task: feed.FeedTask, *, is_combined: bool) -> list[feed.Ack]:
        """Run the tasks; their answers. Raises the slots' error if there is one, the most telling one first."""
        told = self._functions(rows, is_combined=is_combined).apply(task.__call__, rows).collect()
        acks = [
            feed.Ack(
                row.attempt, tuple(row.rows), feed.decode_largest(bytes(row.largest)), row.reason, row.message
            )
            for row in told
        ]
        failures = [client.error_of(ack.reason, ack.message or "") for ack in acks if ack.reason is not None]
        if failures:
            raise min(failures, key=lambda failure: isinstance(failure, errors.FeedBroken))
        return acks

    def _functions(self, rows: DataFrame, *, is_combined: bool) -> arrow_functions.ArrowFunctions:
        """Those for the columns of the rows, which combining alone changes."""
        if is_combined not in self._made:
            schema = plans.schema_of(feed.ACK_DDL, "an acknowledgement")
            self._made[is_combined] = arrow_functions.ArrowFunctions(
                self._session, "feed", rows.columns, schema
            )
        return self._made[is_combined]

    def _task(self, attempt: int, times: EpochTimes, first_part: int) -> feed.FeedTask:
        return feed.FeedTask(
            addresses=self._group.addresses,
            slot_of_group=self._slot_of_group,
            key=self._group.key_of_tasks,
            incarnation=self._group.incarnation,
            epoch=times.epoch,
            operator=self.operator.uid,
            attempt=None if self._has_copies else attempt,
            first_part=first_part,
            follows=times.follows,
            watermark=times.watermark,
            processing_time=times.now,
            parts=self._parts,
        )


def _log_again(epoch: int, attempt: int, error: Exception) -> None:
    _log.warning("epoch %d: its rows are brought again, try %d failed: %s", epoch, attempt, error)


def _parts(declared: graph.Graph, operator: graph.Operator) -> feed.Parts | feed.PartsOfInputs:
    """How the rows of each input tell their part of a source."""
    found = [
        feed.Parts(len(declared.sources), declared.parts_of(each)) if each.upstream is None else None
        for each in operator.inputs
    ]
    return feed.PartsOfInputs(tuple(found)) if len(found) > 1 else found[0] or feed.Parts()


def tasks_at_once(session: SparkSession, slots: int) -> int:
    """How many tasks bring the rows of an epoch, however many partitions its sources have."""
    parallelism: int = session.sparkContext.defaultParallelism
    return max(slots, parallelism)


def runs_copies(conf: SparkConf) -> bool:
    """Whether Spark may run copies of a slow task, which bring their rows a second time. Each task then gets an attempt
    of its own, so all rows of a slot have to come in one task, and Spark has to shuffle them."""
    return (conf.get("spark.speculation") or "").strip().lower() == "true"  # as Spark reads it


def _fed(acks: Sequence[feed.Ack], attempt: int) -> FedRows:
    slots: dict[int, FedSlot] = {}
    largest: dict[tuple[int, str], int] = {}
    for ack in acks:
        for slot, rows in enumerate(ack.rows):
            if rows:
                before = slots.get(slot, FedSlot(ack.attempt, 0))
                slots[slot] = dataclasses.replace(before, rows=before.rows + rows)
        for part, time in ack.largest.items():
            largest[part] = max(time, largest.get(part, time))
    return FedRows(slots, largest, attempt)


def _both(one: FedRows, other: FedRows) -> FedRows:
    """The rows that two jobs brought to one attempt. Outputs of operators tell no event times of sources."""
    slots = dict(one.slots)
    for number, slot in other.slots.items():
        slots[number] = FedSlot(slot.attempt, slot.rows + (slots[number].rows if number in slots else 0))
    return FedRows(slots, one.largest, one.attempt)


def rows_of_job(inputs: Sequence[graph.Input], fed: FedRows, rows_in: int, slots: int) -> int:
    """How many rows of the job's inputs an operator was brought: a row that every slot got is one. ``rows_in`` is what
    its slots counted, rows of other operators' outputs as well; of combined rows they count what these stand for."""
    brought = sum(slot.rows for slot in fed.slots.values())
    if fed.is_combined:
        return rows_in
    if not any(each.is_broadcast and each.upstream is None for each in inputs):
        return brought
    return rows_in if all(each.upstream is None for each in inputs) else brought // slots


def largest_of(fed: Iterable[FedRows]) -> dict[tuple[int, str], int]:
    """The largest event times that several operators' rows told."""
    largest: dict[tuple[int, str], int] = {}
    for each in fed:
        for part, time in each.largest.items():
            largest[part] = max(time, largest.get(part, time))
    return largest
