"""Counts a key's rows until a timer at the end of their ten seconds; rows that come too late go aside.

Each row also asks for an alarm, ``v`` milliseconds of processing time later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, OutputTag, TimeDomain, Types, ValueStateDescriptor

TEN_S = 10_000
COUNTED = OutputTag("counted", "k string, at bigint, rows bigint")
ALARMS = OutputTag("alarms", "k string")
LATE = OutputTag("late")


class Day(KeyedProcessFunction):
    """Puts out each row that is in time, and the number of rows when their ten seconds are over."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        self.count.update((self.count.value() or 0) + 1)
        timers = ctx.timer_service()
        timers.register_event_time_timer((row.at // TEN_S + 1) * TEN_S)
        timers.register_processing_time_timer(timers.current_processing_time() + row.v)
        yield row.k, row.id

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[OutputTag, tuple[Any, ...]]]:
        if ctx.time_domain() is TimeDomain.PROCESSING_TIME:
            yield ALARMS, (ctx.get_current_key(),)
            return
        yield COUNTED, (ctx.get_current_key(), timestamp, self.count.value())
        self.count.clear()


def job(spark: Any, params: dict[str, str]) -> None:
    """The function that the driver calls."""
    reader = spark.readStream.schema("k string, id bigint, v bigint, at bigint")
    rows = reader.option("maxFilesPerTrigger", 1).parquet(params["input"])
    day = sparkstate.keyed(rows, "k", event_time="at", delay=500).process(
        Day(), uid="day", output_schema="k string, id bigint", late_output=LATE
    )
    day.sink(sparkstate.FileSink(f"{params['output']}/in-time"))
    day.side_output(COUNTED).sink(sparkstate.FileSink(f"{params['output']}/counted"))
    day.side_output(ALARMS).sink(sparkstate.FileSink(f"{params['output']}/alarms"))
    day.side_output(LATE).sink(sparkstate.FileSink(f"{params['output']}/late"))
