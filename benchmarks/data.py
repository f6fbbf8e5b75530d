"""The benchmark's input: Parquet files of keys and values, seeded, one file an epoch."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUPS = 8
"""Of a file of rows: Spark's tasks get whole row groups. With pyarrow's own, of a million rows, one task got seven
eighths of an epoch, and the other processor waited for it."""


def write(path: Path, rows: int, keys: int, seed: int) -> None:
    """One file of ``rows`` rows with random keys below ``keys``; 0: every key of every file is another one."""
    rng = np.random.default_rng(seed)
    if keys:
        chosen = rng.integers(0, keys, rows)
    else:  # spread over all 64-bit numbers, as random identifiers are; odd multipliers lose no number
        chosen = np.arange(seed * rows, (seed + 1) * rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        chosen = chosen.astype(np.int64)
    # Each file is a minute of event time, in order. Loads without windows do not read it.
    at = pa.array((seed * rows + np.arange(rows)) * 60_000_000 // rows, pa.timestamp("us", "UTC"))
    table = pa.table({"k": chosen, "v": rng.integers(0, 100, rows), "at": at})
    pq.write_table(table, path, row_group_size=max(1, -(-rows // ROW_GROUPS)))


def fill(path: Path, keys: range, seed: int) -> None:
    """One file that has each of these keys once, in random order."""
    chosen = np.random.default_rng(seed).permutation(np.arange(keys.start, keys.stop))
    pq.write_table(pa.table({"k": chosen, "v": np.zeros(len(chosen), np.int64)}), path)


def make(folder: Path, rows: int, epochs: int, keys: int, fills: int = 0) -> Path:
    """``epochs`` files whose times of change are in their order, which is the order Spark reads them in.

    The first ``fills`` of them bring every key once, together.
    """
    folder.mkdir(parents=True)
    for number in range(epochs):
        path = folder / f"{number:04d}.parquet"
        if number < fills:
            fill(path, range(keys * number // fills, keys * (number + 1) // fills), seed=number)
        else:
            write(path, rows, keys, seed=number)
        os.utime(path, (1_700_000_000 + number,) * 2)
    return folder
