"""sparkstate's jobs of Nexmark's queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

import sparkstate
from peers import nexmark
from sparkstate import (
    KeyedBatchFunction,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from sparkstate.batches.keys import BatchKeys
from sparkstate.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    Time,
    TumblingEventTimeWindows,
)

SIZE, SLIDE, GAP = (
    Time.milliseconds(length) for length in (nexmark.SIZE_MS, nexmark.SLIDE_MS, nexmark.GAP_MS)
)
TOP = "start long, auction long, best long"
ITEM = "person long, city long, state long, auction long"


class Top(KeyedBatchFunction):
    """The auctions with the highest ``best`` of a window, when all of the window are there."""

    def open(self, ctx: Any) -> None:
        self.best = ctx.get_state(ValueStateDescriptor("best", Types.LONG()))
        self.auctions = ctx.get_list_state(ListStateDescriptor("auctions", Types.LONG()))

    def process_batch(self, batch: pa.RecordBatch, keys: BatchKeys, ctx: Any) -> None:
        before, found = self.best.get(keys), keys.max("best")
        best = pc.max_element_wise(before, found)
        ends = ctx.timestamps().take(pa.array(keys.first_rows()))
        ctx.timer_service().register_event_time_timers(keys, ends, before.is_null())
        self.best.update(keys, best)
        self.auctions.clear(keys, pc.greater(best, before))
        is_best = pc.equal(batch.column("best"), keys.take(best)).to_numpy(zero_copy_only=False)
        codes, auctions = keys.codes[is_best], batch.column("auction").filter(pa.array(is_best))
        counts = np.bincount(codes, minlength=len(keys))
        ordered = auctions.take(pa.array(np.argsort(codes, kind="stable")))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self.auctions.add_all(keys, pa.ListArray.from_arrays(pa.array(starts), ordered))

    def on_timers(self, timestamps: pa.Array, keys: BatchKeys, ctx: Any) -> Iterator[pa.RecordBatch]:
        auctions = self.auctions.get(keys)
        windows = auctions.value_parent_indices()
        starts = pc.subtract(timestamps, nexmark.SIZE_MS - 1).take(windows)
        columns = [starts, auctions.flatten(), self.best.get(keys).take(windows)]
        yield pa.RecordBatch.from_arrays(columns, names=["start", "auction", "best"])
        self.best.clear(keys)
        self.auctions.clear(keys)


class LocalItems(KeyedCoProcessFunction):
    """Joins auctions with the person who sells, whichever of the two comes first."""

    def open(self, ctx: Any) -> None:
        kind = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.seller = ctx.get_state(ValueStateDescriptor("seller", kind))
        self.waiting = ctx.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

    def process_element1(self, person: Any, ctx: Any) -> Iterator[tuple[int, int, int, int]]:
        self.seller.update((person.city, person.state))
        for auction in self.waiting.get():
            yield person.person, person.city, person.state, auction
        self.waiting.clear()

    def process_element2(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, int, int]]:
        seller = self.seller.value()
        if seller is None:
            self.waiting.add(row.auction)
        else:
            yield row.seller, *seller, row.auction


def local_items(persons: Any, auctions: Any) -> Any:
    """The stream of answers of q3, for which event time does not matter."""
    local = persons.where(nexmark.IS_LOCAL)
    chosen = auctions.where(nexmark.IS_CHOSEN).select("seller", "auction")
    both = sparkstate.keyed(local, "person").connect(sparkstate.keyed(chosen, "seller"))
    return both.process(LocalItems(), uid="local", output_schema=ITEM)


class NewSellers(KeyedCoProcessFunction):
    """Persons who opened an auction in the window in which they came."""

    def open(self, ctx: Any) -> None:
        self.came = ctx.get_state(ValueStateDescriptor("came", Types.LONG()))
        self.sold = ctx.get_map_state(MapStateDescriptor("sold", Types.LONG(), Types.BOOLEAN()))

    def process_element1(self, person: Any, ctx: Any) -> None:
        self.came.update(self.start(ctx))

    def process_element2(self, auction: Any, ctx: Any) -> None:
        self.sold.put(self.start(ctx), True)

    def start(self, ctx: Any) -> int:
        """That of the row's window, which gets a timer for its last millisecond."""
        at: int = ctx.timestamp()
        start = at - at % nexmark.SIZE_MS
        ctx.timer_service().register_event_time_timer(start + nexmark.SIZE_MS - 1)
        return start

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int]]:
        start = timestamp + 1 - nexmark.SIZE_MS
        if self.came.value() == start:
            self.came.clear()
            if self.sold.contains(start):
                yield ctx.get_current_key(), start
        self.sold.remove(start)


def new_sellers(persons: Any, auctions: Any) -> Any:
    """The stream of answers of q8."""
    came, sold = persons.select("person", "ts"), auctions.select("seller", "ts")
    both = sparkstate.keyed(came, "person").connect(sparkstate.keyed(sold, "seller"))
    return both.process(NewSellers(), uid="new", output_schema="person long, start long")


def answered(query: str, events: Callable[[str], Any]) -> Any:
    """The stream of answers, whose columns are those of the query's answer; ``events`` gives those of a kind."""
    if query == "q3":
        return local_items(events("persons"), events("auctions"))
    if query == "q8":
        return new_sellers(events("persons"), events("auctions"))
    bids = events("bids")
    if query == "q11":
        windows = sparkstate.keyed(bids, "bidder").window(EventTimeSessionWindows.with_gap(GAP))
        return windows.agg(F.count("*").alias("bids"), uid="sessions")
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
    if query not in ("q11", "q12"):
        return frame
    return frame.selectExpr("bidder", "unix_millis(window_start)", "bids")
