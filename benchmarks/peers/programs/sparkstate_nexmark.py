"""sparkstate's jobs of Nexmark's queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import functions as F

import sparkstate
from peers import nexmark
from sparkstate import (
    AggregateFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from sparkstate.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    Time,
    TumblingEventTimeWindows,
)

SIZE, SLIDE, GAP = (
    Time.milliseconds(length) for length in (nexmark.SIZE_MS, nexmark.SLIDE_MS, nexmark.GAP_MS)
)
TOP = "start long, auction long, best long"
SESSION = "bidder long, start long, bids long"


class Top(KeyedProcessFunction):
    """The auctions with the highest ``best`` of a window, when all of the window are there."""

    def open(self, ctx: Any) -> None:
        self.best = ctx.get_state(ValueStateDescriptor("best", Types.LONG()))
        self.auctions = ctx.get_list_state(ListStateDescriptor("auctions", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> None:
        best = self.best.value()
        if best is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp())
        if best is None or row.best > best:
            self.best.update(row.best)
            self.auctions.update([row.auction])
        elif row.best == best:
            self.auctions.add(row.auction)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int, int]]:
        best = self.best.value()
        for auction in self.auctions.get():
            yield timestamp + 1 - nexmark.SIZE_MS, auction, best
        self.best.clear()
        self.auctions.clear()


class Count(AggregateFunction):
    """Rows of a session."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, row: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, one: int, other: int) -> int:
        return one + other


class Session(ProcessWindowFunction):
    """The key, the time of the first bid, and the number of bids."""

    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        (count,) = elements
        yield key, context.window().start, count


def answered(query: str, bids: Any) -> Any:
    """The stream of answers, whose columns are those of the query's answer."""
    if query == "q11":
        sessions = sparkstate.keyed(bids, "bidder").window(EventTimeSessionWindows.with_gap(GAP))
        return sessions.aggregate(
            Count(), Session(), uid="sessions", output_schema=SESSION, accumulator_type=Types.LONG()
        )
    tumbling = TumblingEventTimeWindows.of(SIZE)
    if query == "q12":
        return sparkstate.keyed(bids, "bidder").window(tumbling).agg(F.count("*").alias("bids"), uid="counts")
    auctions = sparkstate.keyed(bids, "auction")
    if query == "q5":
        each = auctions.window(SlidingEventTimeWindows.of(SIZE, SLIDE)).agg(
            F.count("*").alias("best"), uid="counts"
        )
    else:
        each = auctions.window(tumbling).agg(F.max("price").alias("best"), uid="highest")
    return each.keyed("window_start").process(Top(), uid="top", output_schema=TOP)


def written(query: str, frame: Any) -> Any:
    """The answers of an epoch as whole numbers."""
    if query != "q12":
        return frame
    return frame.selectExpr("bidder", "unix_millis(window_start)", "bids")
