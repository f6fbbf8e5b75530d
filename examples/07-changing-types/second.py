"""Version 2: the count is longer, a field has another name, and two are new, one of them an enum."""

import enum
from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor


class Level(enum.Enum):
    """How high the last reading of a device was."""

    UNKNOWN = "?"
    NORMAL = "n"
    HIGH = "h"


HIGH_FROM = 80


class Profiles(KeyedProcessFunction):
    """Goes on with the profiles of version 1."""

    def open(self, runtime_context: RuntimeContext) -> None:
        profile = Types.ROW_NAMED(
            ["readings", "top", "lowest", "level"],
            [Types.LONG(), Types.LONG(), Types.LONG(), Types.ENUM(Level)],
            aliases={"top": "highest"},
            defaults={"level": Level.UNKNOWN},
        )
        self.profile = runtime_context.get_state(ValueStateDescriptor("profile", profile))

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, int, int, int, str, str]]:
        given = value.value
        level = Level.HIGH if given >= HIGH_FROM else Level.NORMAL
        before = self.profile.value()
        if before is None:
            now, earlier = (1, given, given, level), Level.UNKNOWN
        else:
            lowest = given if before.lowest is None else min(before.lowest, given)
            now, earlier = (before.readings + 1, max(before.top, given), lowest, level), before.level
        self.profile.update(now)
        yield value.device, *now[:3], level.name, earlier.name


def job(spark: Any, params: dict[str, str]) -> None:
    readings = (
        spark.readStream.schema("device string, value long, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(params["input"])
    )
    columns = "device string, readings long, top long, lowest long, level string, earlier string"
    (
        sparkstate.keyed(readings, "device")
        .process(Profiles(), uid="profiles", output_schema=columns)
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
