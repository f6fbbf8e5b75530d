"""The benchmark's job: a keyed sum by a per-record Python function that answers every record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sparkstate
from sparkstate import KeyedProcessFunction, Types, ValueStateDescriptor


class Sum(KeyedProcessFunction):
    """Running sum per key."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        yield row.k, total


def nothing(frame: Any, epoch: int) -> None:
    """Read the output and drop it, as the contenders do."""
    frame.write.format("noop").mode("overwrite").save()


def job(spark: Any, params: dict[str, str]) -> None:
    rows = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(params["input"])
    sparkstate.keyed(rows, "k").process(Sum(), uid="sum", output_schema="k long, total long").sink(nothing)
