"""Bringing an epoch's rows to the slots: the Spark job, and the answers of its tasks (RFC 0033).

Each task reads a part of the epoch and sends every row straight to the slot that owns its key group, so rows are not
shuffled by Spark. All tasks of a job bring their rows to one attempt in each slot. When a task breaks off or runs
twice, its rows cannot be told from the others any more, and a second job brings all of them to a second attempt.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping
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
from sparkstate.spark.fed_rows import FedRows

_TRIES: Final = 4
"""How often the rows of an epoch are brought: as often as Spark runs a task by default."""
_log = logging.getLogger("sparkstate.driver")


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


@dataclass(frozen=True)
class _Shipment:
    """Rows in the partitions whose tasks bring them."""

    rows: DataFrame
    is_combined: bool = False
    """Whether Spark combines them, which changes their columns."""


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
        self._functions(_Shipment(rows)).apply(feed.drop, rows).collect()

    def _of_epoch(self, frame: DataFrame) -> DataFrame:
        return frame if self._is_selected else self._shipping.of_epoch(frame)

    def note(self, rows: int, fed: FedRows) -> None:
        """The slots counted so many rows of an epoch that brought them ``fed``."""
        self._choice = self._choice.after(rows, fed.rows, fed.is_combined)

    def _shipment(self, rows: DataFrame, *, is_coalesced: bool) -> _Shipment:
        """The rows as they are, or combined by Spark where that is worth it."""
        made = self.operator.combining
        if made is None or not (made.is_forced or self._choice.combines):
            return _Shipment(self._in_tasks(rows, is_coalesced=is_coalesced))
        combined = self._shipping.combined(rows.coalesce(self._tasks))
        return _Shipment(self._in_tasks(combined), is_combined=True)

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
        shipment = self._shipment(rows, is_coalesced=is_coalesced)
        told = combining.naming_overflows(self.operator.uid, times.epoch)
        with told if shipment.is_combined else contextlib.nullcontext():
            return self._bring(shipment, times, range(1, _TRIES + 1))

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
            more = self._fed(_Shipment(self._in_tasks(rows)), times, first, first_part=self._tasks)
        except errors.FeedBroken as error:
            _log_again(times.epoch, first, error)
            every = self._shipping.of_epoch(frame).union(rows)
            return self._bring(_Shipment(self._in_tasks(every)), times, range(first + 1, first + _TRIES))
        return before.joined(more)

    def _bring(self, shipment: _Shipment, times: EpochTimes, attempts: range) -> FedRows:
        for attempt in attempts:
            try:
                return self._fed(shipment, times, attempt)
            except errors.FeedBroken as error:
                if attempt == attempts[-1]:
                    raise
                _log_again(times.epoch, attempt, error)
        raise AssertionError("the last try returns or raises")

    def _fed(self, shipment: _Shipment, times: EpochTimes, attempt: int, *, first_part: int = 0) -> FedRows:
        acks = self._acks(shipment, self._task(attempt, times, first_part))
        return FedRows.of(acks, attempt, is_combined=shipment.is_combined)

    def _acks(self, shipment: _Shipment, task: feed.FeedTask) -> list[feed.Ack]:
        """Run the tasks; their answers. Raises the slots' error if there is one, the most telling one first."""
        told = self._functions(shipment).apply(task.__call__, shipment.rows).collect()
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

    def _functions(self, shipment: _Shipment) -> arrow_functions.ArrowFunctions:
        """Those for the columns of the rows, which combining alone changes."""
        made = self._made.get(shipment.is_combined)
        if made is None:
            schema = plans.schema_of(feed.ACK_DDL, "an acknowledgement")
            made = arrow_functions.ArrowFunctions(self._session, "feed", shipment.rows.columns, schema)
            self._made[shipment.is_combined] = made
        return made

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
