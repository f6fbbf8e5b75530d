"""Version 1: how many readings each device sent, and the highest one."""

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor


class Profiles(KeyedProcessFunction):
    """Keeps a profile of each device."""

    def open(self, runtime_context: RuntimeContext) -> None:
        profile = Types.ROW_NAMED(["readings", "highest"], [Types.INT(), Types.LONG()])
        self.profile = runtime_context.get_state(ValueStateDescriptor("profile", profile))

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, int, int]]:
        before = self.profile.value()
        readings = 1 if before is None else before.readings + 1
        highest = value.value if before is None else max(before.highest, value.value)
        self.profile.update((readings, highest))
        yield value.device, readings, highest


def job(spark: Any, params: dict[str, str]) -> None:
    readings = (
        spark.readStream.schema("device string, value long, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(params["input"])
    )
    (
        sparkstate.keyed(readings, "device")
        .process(Profiles(), uid="profiles", output_schema="device string, readings int, highest long")
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
