"""Windows over the rows of ``totals.py``, record by record: of each kind, under each way to fill and to fire them.

``params["windows"]`` names the outputs, with commas between them. No output depends on the order of a key's rows
within an epoch, which has one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import totals

import sparkstate
from sparkstate import AggregateFunction, OutputTag, Types
from sparkstate.windows import (
    CountTrigger,
    CountWindow,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowFunction,
)

SCHEMA = "k string, start bigint, end bigint, total bigint, rows bigint"
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
BEHIND = OutputTag("behind")
DELAY_MS = 500


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


class MembersFunction(WindowFunction):
    """The number of the window and its rows, one by one."""

    def apply(self, key: Any, window: CountWindow, inputs: Any) -> Iterator[Any]:
        for row in inputs:
            yield key, window.id, row.id


class RestFunction(ProcessWindowFunction):
    """The rows that the evictor has left, one by one."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        for row in elements:
            yield key, row.id


class FirstRowsEvictor(Evictor):
    """Removes the first two rows. A window that forgets its rows when it fires has the others then."""

    def evict_before(self, elements: list[Any], size: int, window: Any, ctx: Any) -> None:
        del elements[:2]

    def evict_after(self, elements: list[Any], size: int, window: Any, ctx: Any) -> None:
        pass


def tumbling(keyed: Any) -> Any:
    return keyed.window(TumblingEventTimeWindows.of(300)).aggregate(
        Sums(), NamedFunction(), uid="tumbling", output_schema=SCHEMA, accumulator_type=PAIR
    )


def sliding(keyed: Any) -> Any:
    return keyed.window(SlidingEventTimeWindows.of(600, 200, 50)).process(
        ListedFunction(), uid="sliding", output_schema=SCHEMA
    )


def session(keyed: Any) -> Any:
    return keyed.window(EventTimeSessionWindows.with_gap("20 ms")).aggregate(
        Sums(), NamedFunction(), uid="session", output_schema=SCHEMA, accumulator_type=PAIR
    )


def dynamic(keyed: Any) -> Any:
    """Sessions that last the longer, the greater the value of a row is."""
    sessions = EventTimeSessionWindows.with_dynamic_gap(lambda row: 2 + 3 * row.v)
    return keyed.window(sessions).aggregate(
        Sums(), NamedFunction(), uid="dynamic", output_schema=SCHEMA, accumulator_type=PAIR
    )


def reduced(keyed: Any) -> Any:
    """One row of a window: the greatest id, the sum of values, the earliest time."""
    return keyed.window(TumblingEventTimeWindows.of(300)).reduce(
        lambda one, other: (one.k, max(one.id, other.id), one.v + other.v, min(one.at, other.at)),
        uid="reduced",
        output_schema="k string, id bigint, v bigint, at bigint",
    )


def counted(keyed: Any) -> Any:
    """Each three rows of a key."""
    return keyed.count_window(3).apply(
        MembersFunction(), uid="counted", output_schema="k string, number bigint, id bigint"
    )


def purged(keyed: Any) -> Any:
    """Of each four rows of a key the last two."""
    every_four = PurgingTrigger.of(CountTrigger.of(4))
    return (
        keyed.window(GlobalWindows.create())
        .trigger(every_four)
        .evictor(FirstRowsEvictor())
        .process(RestFunction(), uid="purged", output_schema="k string, id bigint")
    )


def again(keyed: Any) -> Any:
    """Windows that late rows make fire again; rows that are later than that are in the side output."""
    return (
        keyed.window(TumblingEventTimeWindows.of(100))
        .allowed_lateness("150 ms")
        .side_output_late_data(BEHIND)
        .process(ListedFunction(), uid="again", output_schema=SCHEMA)
    )


def epochs(keyed: Any) -> Any:
    """By wall time, which is the same in a whole epoch: so each window has the rows of one epoch."""
    return keyed.window(TumblingProcessingTimeWindows.of(1)).aggregate(
        Sums(), NamedFunction(), uid="epochs", output_schema=SCHEMA, accumulator_type=PAIR
    )


STREAMS: Mapping[str, Callable[[Any], Any]] = {
    made.__name__: made
    for made in (tumbling, sliding, session, dynamic, reduced, counted, purged, again, epochs)
}


def job(spark: Any, params: dict[str, str]) -> None:
    keyed = sparkstate.keyed(totals.source(spark, params), "k", event_time="at", delay=DELAY_MS)
    output = params["output"]
    for name in params["windows"].split(","):
        stream = STREAMS[name](keyed)
        stream.sink(sparkstate.FileSink(f"{output}/{name}"))
        if name == "again":
            stream.side_output(BEHIND).sink(sparkstate.FileSink(f"{output}/behind"))
