"""Sums of windows over the rows of ``totals.py``, record by record: tumbling, sliding and sessions of each key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import totals

import sparkstate
from sparkstate import AggregateFunction, Types
from sparkstate.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowFunction,
)

SCHEMA = "k string, start bigint, end bigint, total bigint, rows bigint"


class Sums(AggregateFunction):
    """Sum and number of rows."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.v, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class NamedFunction(WindowFunction):
    """Key and window before the result."""

    def apply(self, key: Any, window: TimeWindow, inputs: Any) -> Iterator[Any]:
        for total, rows in inputs:
            yield key, window.start, window.end, total, rows


class ListedFunction(ProcessWindowFunction):
    """The same of all rows."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        window = context.window()
        yield key, window.start, window.end, sum(row.v for row in elements), len(elements)


def job(spark: Any, params: dict[str, str]) -> None:
    rows = totals.source(spark, params)
    keyed = sparkstate.keyed(rows, "k", event_time="at", delay=500)
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    made = {
        "tumbling": keyed.window(TumblingEventTimeWindows.of(300)).aggregate(
            Sums(), NamedFunction(), uid="tumbling", output_schema=SCHEMA, accumulator_type=pair
        ),
        "sliding": keyed.window(SlidingEventTimeWindows.of(600, 200, 50)).process(
            ListedFunction(), uid="sliding", output_schema=SCHEMA
        ),
        "session": keyed.window(EventTimeSessionWindows.with_gap("20 ms")).aggregate(
            Sums(), NamedFunction(), uid="session", output_schema=SCHEMA, accumulator_type=pair
        ),
    }
    for name, stream in made.items():
        stream.sink(sparkstate.FileSink(f"{params['output']}/{name}"))
