"""Input for ``jobs/window_aggregates.py``: random rows with event times out of order, and the aggregates of them."""

from __future__ import annotations

import datetime
import decimal
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparkstate_tools.drivers import totals

DDL = "k string, n bigint, v int, x double, d decimal(12,2), s string, at timestamp"
DELAY = "2 seconds"
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int64()),
        ("v", pa.int32()),
        ("x", pa.float64()),
        ("d", pa.decimal128(12, 2)),
        ("s", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def aggregates() -> list[Any]:
    """The aggregates of the job, for Spark's own windows too. ``first`` and ``last`` differ from Spark's."""
    from pyspark.sql import functions as F

    return [
        *combinable_aggregates(),
        F.min("s").alias("first name"),
        F.max(F.upper("s")).alias("last name"),
        F.approx_count_distinct("s", 0.02).alias("names"),
    ]


def combinable_aggregates() -> list[Any]:
    """Those for which Spark can combine rows before they reach the slots."""
    from pyspark.sql import functions as F

    return [
        F.count("*"),
        F.count("v").alias("values"),
        F.sum("v").alias("total"),
        F.sum(F.col("v") * 2 + 1).alias("odd"),
        F.avg("v").alias("mean"),
        F.avg("d").alias("price"),
        F.sum("d").alias("paid"),
        F.min("x").alias("least"),
        F.max("x").alias("greatest"),
        F.max("at").alias("newest"),
        F.stddev("x").alias("spread"),
        F.var_pop("v").alias("variance"),
    ]


def make_input(folder: Path, files: int, rows: int = 400, seed: int = 3, first: int = 0) -> None:
    """Write ``files`` files, numbered from ``first``. Event time grows by a second a file, and is disordered by less
    than 1.5 seconds."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + files):
        # Even times in even files: so no two rows have one time, and there is one first and one last.
        times = rng.sample(range(number % 2, 1500, 2), rows)
        made = [_row(rng, number * 1000 + time) for time in times]
        path = folder / f"{number:05d}.parquet"
        temporary = path.with_name(f".{path.name}")
        pq.write_table(pa.Table.from_pylist(made, schema=SCHEMA), temporary)
        os.utime(temporary, (totals.changed_s(number), totals.changed_s(number)))
        temporary.rename(path)


def _row(rng: random.Random, at_ms: int) -> dict[str, Any]:
    def perhaps(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    return {
        "k": perhaps(f"key-{rng.randrange(6)}"),
        "n": perhaps(rng.randrange(4)),
        "v": perhaps(rng.randrange(-50, 50)),
        "x": perhaps(rng.choice([rng.gauss(0, 1), 1e6, -0.25])),
        "d": perhaps(decimal.Decimal(rng.randrange(-9_999_999, 9_999_999)) / 100),
        "s": perhaps(rng.choice(["ä", "B", "b", "", "zebra"])),
        "at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=at_ms),
    }
