"""Built-in aggregates of sliding windows. ``params``: ``keys``, with commas between them; ``size``, ``slide``; ``uid``;
``phases`` (``two``: Spark combines rows, so only aggregates that allow it). With ``gap``, there are sessions
as well, which go to ``<output>-sessions``."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

import sparkstate
from sparkstate.windows import EventTimeSessionWindows, SlidingEventTimeWindows
from sparkstate_tools.drivers import window_rows


def job(spark: Any, params: dict[str, str]) -> None:
    rows = (
        spark.readStream.schema(window_rows.DDL)
        .option("maxFilesPerTrigger", 1)
        .parquet(params["input"])
        .withWatermark("at", window_rows.DELAY)
    )
    windows = SlidingEventTimeWindows.of(params["size"], params["slide"])
    phases: Any = params.get("phases", "auto")
    ends = [F.first("v").alias("first"), F.last("v", ignorenulls=True).alias("last")]
    is_combined = phases == "two"
    made = window_rows.combinable_aggregates() if is_combined else [*window_rows.aggregates(), *ends]
    stream = sparkstate.keyed(rows, params["keys"].split(","))
    (
        stream.window(windows)
        .agg(*made, uid=params.get("uid", "windows"), phases=phases)
        .sink(sparkstate.FileSink(params["output"], format="parquet"))
    )
    if "gap" in params:
        (
            stream.window(EventTimeSessionWindows.with_gap(params["gap"]))
            .agg(F.count("*").alias("rows"), F.sum("v").alias("total"), *ends, uid="sessions")
            .sink(sparkstate.FileSink(params["output"] + "-sessions", format="parquet"))
        )
