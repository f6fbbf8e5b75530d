"""The job of ``totals.py`` with functions on Arrow batches: the same states, timers and outputs. With ``per`` as
``row`` it is that job, so a test can change from one to the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import totals

import sparkstate
from sparkstate import KeyedBatchFunction, ListStateDescriptor, Types, ValueStateDescriptor


class Totals(KeyedBatchFunction):
    """Numbers a key's rows and sums them; a timer 1000 ms after the last row tells when the key went quiet."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.timer = ctx.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        before = self.total.get(keys, default=0)
        self.total.update(keys, pc.add(before, keys.sum("v")))
        self.seen.add(keys, "id")
        old = self.timer.get(keys)
        due = pc.add(keys.max("at"), 1000)
        later = pc.fill_null(pc.greater(due, old), True)
        timers = ctx.timer_service()
        timers.delete_event_time_timers(keys, old, mask=later)
        timers.register_event_time_timers(keys, due, mask=later)
        self.timer.update(keys, due, mask=later)
        made = batch.select(["k", "id", "v"]).append_column("total", keys.cumulative_sum("v", start=before))
        yield ctx.with_timestamps(made, ctx.timestamps())

    def on_timers(self, timestamps: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        rows = pc.list_value_length(self.seen.get(keys))
        self.timer.clear(keys)
        yield totals.QUIET, pa.record_batch({"k": keys.values, "at": timestamps, "rows": rows})


class Groups(KeyedBatchFunction):
    """Counts the rows of a group of keys."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        before = self.count.get(keys, default=0)
        self.count.update(keys, pc.add(before, keys.size()))
        yield batch.select(["v"]).append_column("count", pc.add(keys.take(before), keys.rank()))


def job(spark: Any, params: dict[str, str]) -> None:
    rows = totals.source(spark, params)
    if params.get("per") == "row":
        totals.declare(rows, params)
        return
    out = params["output"]
    made = sparkstate.keyed(rows, "k", event_time="at", delay=500).process(
        Totals(), uid="totals", output_schema="k string, id bigint, v bigint, total bigint"
    )
    made.sink(sparkstate.FileSink(f"{out}/totals"))
    made.side_output(totals.QUIET).sink(sparkstate.FileSink(f"{out}/quiet"))
    groups = made.keyed("v").process(Groups(), uid="groups", output_schema="v bigint, count bigint")
    groups.sink(sparkstate.FileSink(f"{out}/groups"))
