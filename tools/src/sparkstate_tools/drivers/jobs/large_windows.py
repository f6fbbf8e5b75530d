"""Windows over the rows of ``large_rows.py``. None of them ends before the
input does: all rows under ``process``, one value of each window under ``aggregate`` (sessions) and ``agg``."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import totals
from pyspark.sql import functions as F

import sparkstate
from sparkstate import AggregateFunction, Types
from sparkstate.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    WindowFunction,
)
from sparkstate_tools.drivers import large_rows

SCHEMA = "k string, start bigint, rows bigint, digest bigint"


class Checksums(ProcessWindowFunction):
    """One digest of all rows of a window, in whatever order they lie."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        digest = 0
        for row in elements:
            digest ^= zlib.crc32(row.noise)
        yield key, context.window().start, len(elements), digest


class Extremes(AggregateFunction):
    """The number of rows, and the greatest noise of all."""

    def create_accumulator(self) -> tuple[int, bytes]:
        return 0, b""

    def add(self, value: Any, accumulator: tuple[int, bytes]) -> tuple[int, bytes]:
        return accumulator[0] + 1, max(accumulator[1], value.noise)

    def get_result(self, accumulator: tuple[int, bytes]) -> tuple[int, bytes]:
        return accumulator

    def merge(self, acc_a: tuple[int, bytes], acc_b: tuple[int, bytes]) -> tuple[int, bytes]:
        return acc_a[0] + acc_b[0], max(acc_a[1], acc_b[1])


class NamedFunction(WindowFunction):
    """Key and window before the result."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Iterator[Any]:
        for rows, greatest in inputs:
            yield key, window.start, rows, zlib.crc32(greatest)


def job(spark: Any, params: dict[str, str]) -> None:
    parts = (
        F.sha2(F.concat_ws("-", F.lit(part), F.col("id")), 512) for part in range(large_rows.NOISE_PARTS)
    )
    rows = totals.source(spark, params).withColumn("noise", F.unhex(F.concat(*parts)))
    keyed = sparkstate.keyed(rows, "k", event_time="at", delay=large_rows.STAYS_OPEN_MS)
    made = {
        "rows": keyed.window(TumblingEventTimeWindows.of(large_rows.ROWS_WINDOW_MS)).process(
            Checksums(), uid="rows", output_schema=SCHEMA
        ),
        "sessions": keyed.window(EventTimeSessionWindows.with_gap(large_rows.GAP_MS)).aggregate(
            Extremes(),
            NamedFunction(),
            uid="sessions",
            output_schema=SCHEMA,
            accumulator_type=Types.TUPLE([Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())]),
        ),
        "agg": keyed.window(TumblingEventTimeWindows.of(large_rows.FILE_MS)).agg(
            F.count("*").alias("rows"), F.max("noise").alias("greatest"), uid="agg"
        ),
    }
    for name, stream in made.items():
        stream.sink(sparkstate.FileSink(f"{params['output']}/{name}"))
