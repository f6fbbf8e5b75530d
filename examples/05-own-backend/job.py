"""Visits of sensors: readings with pauses of at most half an hour are one visit, told when it is over.

Readings come out of order. Each waits in a map until the watermark has passed its time; then those of a visit go into a
list, in order. The job has a value, a list, a map and timers, so its backend has to keep all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sparkstate
from sparkstate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkstate import RuntimeContext

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PAUSE_MS = 30 * 60_000

READING = "sensor string, level long, at timestamp"
VISIT = "sensor string, began timestamp, ended timestamp, readings long, rises long"


class Visits(KeyedProcessFunction):
    """Keyed by sensor. A rise is a reading that is higher than the one before it in the same visit."""

    def open(self, ctx: RuntimeContext) -> None:
        self.waiting = ctx.get_map_state(
            MapStateDescriptor("waiting", Types.LONG(), Types.LIST(Types.LONG()))
        )
        self.levels = ctx.get_list_state(ListStateDescriptor("levels", Types.LONG()))
        self.began = ctx.get_state(ValueStateDescriptor("began", Types.LONG()))
        self.last = ctx.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, reading: Any, ctx: KeyedProcessFunction.Context) -> None:
        at = ctx.timestamp()
        self.waiting.put(at, sorted([*(self.waiting.get(at) or []), reading.level]))
        ctx.timer_service().register_event_time_timer(at)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, datetime, datetime, int, int]]:
        waiting = self.waiting.get(timestamp)
        if waiting is not None:
            self.levels.add_all(waiting)
            self.waiting.remove(timestamp)
            if self.began.value() is None:
                self.began.update(timestamp)
            self.last.update(timestamp)
            ctx.timer_service().register_event_time_timer(timestamp + PAUSE_MS)
        elif self.last.value() == timestamp - PAUSE_MS:
            levels = list(self.levels.get())
            rises = sum(later > earlier for earlier, later in itertools.pairwise(levels))
            began, ended = moment(self.began.value()), moment(self.last.value())
            yield ctx.get_current_key(), began, ended, len(levels), rises
            for state in (self.levels, self.began, self.last):
                state.clear()


def moment(milliseconds: int) -> datetime:
    """From milliseconds since the Unix epoch."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def job(spark: SparkSession, params: Mapping[str, str]) -> None:
    """Parameters: ``input`` and ``output``, both folders."""
    readings = spark.readStream.schema(READING).option("maxFilesPerTrigger", 1).parquet(params["input"])
    (
        sparkstate.keyed(readings.withWatermark("at", "10 minutes"), "sensor")
        .process(Visits(), uid="visits", output_schema=VISIT)
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
