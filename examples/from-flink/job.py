"""The total of each device and day, in sparkstate."""

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, MapStateDescriptor, RuntimeContext, Types

DAY_MS = 24 * 3_600_000


class DailyTotals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.totals = runtime_context.get_map_state(MapStateDescriptor("totals", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        day = ctx.timestamp() // DAY_MS
        self.totals.put(day, (self.totals.get(day) or 0) + value.value)
        ctx.timer_service().register_event_time_timer((day + 1) * DAY_MS - 1)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, int, int]]:
        day = timestamp // DAY_MS
        yield ctx.get_current_key(), day, self.totals.get(day)
        self.totals.remove(day)


def job(spark: Any, params: dict[str, str]) -> None:
    readings = (
        spark.readStream.schema("device string, value long, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(params["input"])
    )
    (
        sparkstate.keyed(readings.withWatermark("at", "10 minutes"), "device")
        .process(DailyTotals(), uid="daily-totals", output_schema="device string, day long, total long")
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
