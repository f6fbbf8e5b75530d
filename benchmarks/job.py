"""The benchmark's job: a keyed sum by a per-record Python function that answers every record.

``params``: ``input`` (folder of Parquet files); ``answered`` (a file to which the sink appends the time at which it
had read an epoch's output; used for latency); ``function`` (``sum``, ``batches``, ``added`` or ``padded``; or
``windows``, a sum per key and minute of event time, and ``sliding``, per hour that slides by a minute).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import sparkstate
from sparkstate import KeyedBatchFunction, KeyedProcessFunction, Types, ValueStateDescriptor
from sparkstate.windows import SlidingEventTimeWindows, TumblingEventTimeWindows


class Sum(KeyedProcessFunction):
    """Running sum per key."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        yield row.k, total


class BatchSum(KeyedBatchFunction):
    """The same sum over Arrow batches."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        before = self.total.get(keys, default=0)
        self.total.update(keys, pc.add(before, keys.sum("v")))
        yield batch.set_column(1, "total", keys.cumulative_sum("v", start=before))


class Added(BatchSum):
    """The same sum, answered once for each key of a batch."""

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        total = pc.add(self.total.get(keys, default=0), keys.sum("v"))
        self.total.update(keys, total)
        yield pa.RecordBatch.from_arrays([keys.values, total], names=["k", "total"])


NOISE = random.Random(1).randbytes(1 << 20)
"""What no compression makes smaller."""
PADDING = 504


class PaddedSum(KeyedProcessFunction):
    """The same with 512 bytes of state for every key."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        stored = self.total.value()
        total = row.v if stored is None else int.from_bytes(stored[:8], "big") + row.v
        start = (row.k * 7919 + total) % (len(NOISE) - PADDING)
        self.total.update(total.to_bytes(8, "big") + NOISE[start : start + PADDING])
        yield row.k, total


FUNCTIONS = {"sum": Sum, "batches": BatchSum, "added": Added, "padded": PaddedSum}


def sink(answered: str | None) -> Callable[[Any, int], None]:
    """Read the output and drop it, as the contenders do; note when."""

    def nothing(frame: Any, epoch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()
        if answered:
            with open(answered, "a", encoding="ascii") as file:
                file.write(f"{time.time()}\n")

    return nothing


def windows(spark: Any, params: dict[str, str]) -> Any:
    """Built-in aggregates of windows."""
    from pyspark.sql import functions as F

    reader = spark.readStream.schema("k long, v long, at timestamp").option("maxFilesPerTrigger", 1)
    rows = reader.parquet(params["input"]).withWatermark("at", "0 seconds")
    assigner = {
        "windows": TumblingEventTimeWindows.of("1 minute"),
        "sliding": SlidingEventTimeWindows.of("1 hour", "1 minute"),
    }[params["function"]]
    return sparkstate.keyed(rows, "k").window(assigner).agg(F.sum("v").alias("total"), uid="sum")


def job(spark: Any, params: dict[str, str]) -> None:
    """What the driver calls."""
    if params["function"] in ("windows", "sliding"):
        windows(spark, params).sink(sink(params.get("answered")))
        return
    rows = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(params["input"])
    processed = sparkstate.keyed(rows, "k").process(
        FUNCTIONS[params["function"]](), uid="sum", output_schema="k long, total long"
    )
    processed.sink(sink(params.get("answered")))
