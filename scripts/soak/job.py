"""The job of the soak: running totals of a fixed set of keys, so that its state stops growing after a few epochs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, ListStateDescriptor, Types, ValueStateDescriptor

MINUTE_MS = 60_000


class Totals(KeyedProcessFunction):
    """Answers each row with its key's total; a timer at the end of each minute of event time clears the list."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.minute = ctx.get_list_state(ListStateDescriptor("minute", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        self.minute.add(row.id)
        ctx.timer_service().register_event_time_timer((row.at // MINUTE_MS + 1) * MINUTE_MS)
        yield row.id, total

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.minute.clear()


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    reader = spark.readStream.schema("k long, id long, v long, at long").option("maxFilesPerTrigger", 1)
    rows = reader.parquet(params["input"])
    sparkstate.keyed(rows, "k", event_time="at", delay=1000).process(
        Totals(), uid="totals", output_schema="id long, total long"
    ).sink(sparkstate.FileSink(params["output"]))
