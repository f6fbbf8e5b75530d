"""The generator of rows in Spark: a file stream of ranges, from which Spark's ``explode(sequence(…))`` makes rows.

A range is 4,096 rows, so that an epoch of a million rows reads two files of a few hundred bytes each.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CHUNK = 4096


def make(folder: Path, rows: int, epoch_rows: int, parts: int) -> Path:
    """Files for ``parts`` tasks of each epoch; together they name each row once. Times of change keep their order."""
    folder.mkdir(parents=True)
    for epoch, begin in enumerate(range(0, rows, epoch_rows)):
        end = min(begin + epoch_rows, rows)
        for part in range(parts):
            first = list(range(begin + part, end, CHUNK * parts))
            last = [min(one + (CHUNK - 1) * parts, end - 1) for one in first]
            path = folder / f"{epoch:05d}-{part}.parquet"
            pq.write_table(pa.table({"first": first, "last": last}), path)
            os.utime(path, (1_700_000_000 + epoch,) * 2)
    return folder


def numbers(spark: Any, folder: str, parts: int) -> Any:
    """The streaming DataFrame of the rows' numbers ``i``; an epoch a trigger."""
    ranges = (
        spark.readStream.schema("first long, last long").option("maxFilesPerTrigger", parts).parquet(folder)
    )
    return ranges.selectExpr(f"explode(sequence(first, last, {parts})) AS i")


def stream(spark: Any, folder: str, parts: int, key: str, value: str, time: str | None = None) -> Any:
    """The streaming DataFrame of ``k``, ``v`` and, where given, the event time ``ts``; an epoch a trigger."""
    columns = [f"{key} AS k", f"{value} AS v"]
    return numbers(spark, folder, parts).selectExpr(
        *columns, *([f"timestamp_millis({time}) AS ts"] if time else [])
    )
