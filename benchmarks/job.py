"""The benchmark's job: a keyed sum by a per-record Python function that answers every record.

``params``: ``input`` (folder of Parquet files); ``answered`` (a file to which the sink appends the time at which it
had read an epoch's output; used for latency); ``function`` (one of ``keyed_sums.FUNCTIONS``; or ``windows``, a sum per
key and minute of event time, and ``sliding``, per hour that slides by a minute; or ``window-records``, the sum of
``windows`` by an ``AggregateFunction`` that is called per record).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from keyed_sums import FUNCTIONS

import sparkstate
from sparkstate import AggregateFunction, Types
from sparkstate.windows import ProcessWindowFunction, SlidingEventTimeWindows, TumblingEventTimeWindows


def sink(answered: str | None) -> Callable[[Any, int], None]:
    """Read the output and drop it, as the contenders do; note when."""

    def nothing(frame: Any, epoch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()
        if answered:
            with open(answered, "a", encoding="ascii") as file:
                file.write(f"{time.time()}\n")

    return nothing


class Sum(AggregateFunction):
    """The sum of a window's rows, one by one."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, row: Any, accumulator: int) -> int:
        return int(accumulator + row.v)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, one: int, other: int) -> int:
        return one + other


class WithKey(ProcessWindowFunction):
    """Key and sum of a window."""

    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterator[tuple[int, int]]:
        for total in elements:
            yield key, total


def windows(spark: Any, params: dict[str, str]) -> Any:
    """Sums of windows, by built-in aggregates or by a function per record."""
    from pyspark.sql import functions as F

    reader = spark.readStream.schema("k long, v long, at timestamp").option("maxFilesPerTrigger", 1)
    rows = reader.parquet(params["input"]).withWatermark("at", "0 seconds")
    assigner = {
        "windows": TumblingEventTimeWindows.of("1 minute"),
        "sliding": SlidingEventTimeWindows.of("1 hour", "1 minute"),
        "window-records": TumblingEventTimeWindows.of("1 minute"),
    }[params["function"]]
    windowed = sparkstate.keyed(rows, "k").window(assigner)
    if params["function"] == "window-records":
        return windowed.aggregate(
            Sum(), WithKey(), uid="sum", output_schema="k long, total long", accumulator_type=Types.LONG()
        )
    return windowed.agg(F.sum("v").alias("total"), uid="sum")


def summed(spark: Any, params: dict[str, str]) -> Any:
    """The sum of each key, by one of ``FUNCTIONS``."""
    rows = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(params["input"])
    return sparkstate.keyed(rows, "k").process(
        FUNCTIONS[params["function"]](), uid="sum", output_schema="k long, total long"
    )


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    if params["function"] in ("windows", "sliding", "window-records"):
        windows(spark, params).sink(sink(params.get("answered")))
        return
    summed(spark, params).sink(sink(params.get("answered")))
