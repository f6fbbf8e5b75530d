"""An alert for each device that falls silent, in sparkstate."""

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, MapStateDescriptor, RuntimeContext, Types, ValueStateDescriptor

HOUR_MS = 3_600_000


class Silence(KeyedProcessFunction):
    def open(self, ctx: RuntimeContext) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.kinds = ctx.get_map_state(MapStateDescriptor("kinds", Types.STRING(), Types.LONG()))
        self.alarm = ctx.get_state(ValueStateDescriptor("alarm", Types.LONG()))

    def process_element(self, row: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.total.update((self.total.value() or 0) + row.value)
        self.kinds.put(row.kind, (self.kinds.get(row.kind) or 0) + 1)
        at = ctx.timestamp() + HOUR_MS
        before = self.alarm.value()
        if before is None or at > before:
            if before is not None:
                ctx.timer_service().delete_event_time_timer(before)
            ctx.timer_service().register_event_time_timer(at)
            self.alarm.update(at)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, int, str]]:
        shown = ",".join(f"{kind}:{count}" for kind, count in sorted(self.kinds.items()))
        yield ctx.get_current_key(), self.total.value(), shown
        for state in (self.total, self.kinds, self.alarm):
            state.clear()


def job(spark: Any, params: dict[str, str]) -> None:
    readings = (
        spark.readStream.schema("device string, kind string, value long, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(params["input"])
    )
    (
        sparkstate.keyed(readings.withWatermark("at", "10 minutes"), "device")
        .process(Silence(), uid="silence", output_schema="device string, total long, kinds string")
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
