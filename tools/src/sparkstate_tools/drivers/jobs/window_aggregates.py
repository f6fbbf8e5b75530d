"""Built-in aggregates of sliding windows. ``params``: ``keys``, with commas between them; ``size``, ``slide``."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

import sparkstate
from sparkstate.windows import SlidingEventTimeWindows
from sparkstate_tools.drivers import window_rows


def job(spark: Any, params: dict[str, str]) -> None:
    rows = (
        spark.readStream.schema(window_rows.DDL)
        .option("maxFilesPerTrigger", 1)
        .parquet(params["input"])
        .withWatermark("at", window_rows.DELAY)
    )
    windows = SlidingEventTimeWindows.of(params["size"], params["slide"])
    ends = [F.first("v").alias("first"), F.last("v", ignorenulls=True).alias("last")]
    (
        sparkstate.keyed(rows, params["keys"].split(","))
        .window(windows)
        .agg(*window_rows.aggregates(), *ends, uid="windows")
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
