"""When devices wake up: the first reading of a device, and the first one after it was forgotten. That takes four silent
hours of event time and the rest of the file in which they end."""

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, RuntimeContext, StateTtlConfig, Time, Types, ValueStateDescriptor


class Awakenings(KeyedProcessFunction):
    """Remembers a device for as long as it sends readings, and no longer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        ttl = (
            StateTtlConfig.new_builder(Time.hours(4))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .use_event_time()
            .build()
        )
        awake = ValueStateDescriptor("awake", Types.BOOLEAN())
        awake.enable_time_to_live(ttl)
        self.awake = runtime_context.get_state(awake)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        if not self.awake.value():
            self.awake.update(True)
            yield value.device, ctx.timestamp()


def job(spark: Any, params: dict[str, str]) -> None:
    readings = (
        spark.readStream.schema("device string, value long, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(params["input"])
    )
    (
        sparkstate.keyed(readings.withWatermark("at", "10 minutes"), "device")
        .process(Awakenings(), uid="awakenings", output_schema="device string, at_ms long")
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
