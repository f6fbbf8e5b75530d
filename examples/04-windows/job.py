"""Readings of machines in windows: their runs by session windows, their load by sliding ones, late readings apart.

A gateway that was offline delivers its readings late. Up to two hours behind, they still change the windows that they
belong to, and each of those windows is put out again. Readings that come later than that go to a side output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import sparkstate
from sparkstate import AggregateFunction, OutputTag, Types
from sparkstate.windows import EventTimeSessionWindows, ProcessWindowFunction, SlidingEventTimeWindows, Time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GAP = Time.minutes(5)
LATENESS = "2 hours"

READING = "machine string, watts long, at timestamp"
RUN = "machine string, started timestamp, ended timestamp, readings long, peak long"
LATE = OutputTag("late")

SO_FAR = Types.TUPLE([Types.LONG(), Types.LONG()])
"""Of a run: the number of readings, the greatest one."""


class Peak(AggregateFunction):
    """Counts readings and keeps the greatest. Sessions merge, so accumulators do as well."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, reading: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, max(accumulator[1], reading.watts)

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], max(one[1], other[1])


class Run(ProcessWindowFunction):
    """A run goes from its first reading to its last one; the window ends a gap after that."""

    def process(
        self, machine: str, context: Any, elements: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[str, datetime, datetime, int, int]]:
        ((readings, peak),) = elements
        window = context.window()
        yield machine, utc(window.start), utc(window.end - GAP.to_milliseconds()), readings, peak


def utc(timestamp_ms: int) -> datetime:
    """The instant as an aware datetime."""
    return EPOCH + timedelta(milliseconds=timestamp_ms)


def job(spark: SparkSession, params: Mapping[str, str]) -> None:
    """Parameters: ``input`` and ``output``, both folders."""
    readings = spark.readStream.schema(READING).option("maxFilesPerTrigger", 1).parquet(params["input"])
    machines = sparkstate.keyed(readings.withWatermark("at", "10 minutes"), "machine")
    output = params["output"]

    runs = (
        machines.window(EventTimeSessionWindows.with_gap(GAP))
        .allowed_lateness(LATENESS)
        .aggregate(Peak(), Run(), uid="runs", output_schema=RUN, accumulator_type=SO_FAR)
    )
    runs.sink(sparkstate.FileSink(f"{output}/runs", format="parquet"))

    # Built-in aggregates call no Python for a reading, and a reading updates one slice of ten minutes, not six windows.
    load = (
        machines.window(SlidingEventTimeWindows.of("1 hour", "10 minutes"))
        .allowed_lateness(LATENESS)
        .side_output_late_data(LATE)
        .agg(F.avg("watts").alias("mean"), F.max("watts").alias("peak"), F.count("*").alias("n"), uid="load")
    )
    load.sink(sparkstate.FileSink(f"{output}/load", format="parquet"))
    load.side_output(LATE).sink(sparkstate.FileSink(f"{output}/late", format="parquet"))
