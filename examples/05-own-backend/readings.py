"""Makes readings, and finds the visits by sorting: ``python readings.py FOLDER``."""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

BEGIN = datetime(2026, 4, 1, tzinfo=UTC)
HOURS = 24
PAUSE = timedelta(minutes=30)
SCHEMA = pa.schema([("sensor", pa.string()), ("level", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])

Reading = tuple[str, int, datetime]
"""Sensor, level and time."""
Visit = tuple[str, datetime, datetime, int, int]
"""Sensor, beginning, end, number of readings, number of rises."""


def make(sensors: int = 60, seed: int = 3) -> list[Reading]:
    """In order of time, up to five minutes mixed. Pauses are shorter and longer than half an hour."""
    chance = random.Random(seed)
    made: list[Reading] = []
    for sensor in range(sensors):
        at = BEGIN + timedelta(seconds=chance.randrange(7200))
        while at < BEGIN + timedelta(hours=HOURS):
            made.append((f"sensor-{sensor}", chance.randrange(100), at))
            at += timedelta(seconds=chance.choice([60, 300, 1799, 1800, 1801, 5400]))
    return sorted(made, key=lambda each: (each[2] + timedelta(seconds=chance.randrange(300)), each[0]))


def expected(readings: Sequence[Reading]) -> list[Visit]:
    """All visits."""
    by_sensor = defaultdict[str, list[tuple[datetime, int]]](list)
    for sensor, level, at in readings:
        by_sensor[sensor].append((at, level))
    visits: list[Visit] = []
    for sensor, found in by_sensor.items():
        visit: list[tuple[datetime, int]] = []
        for each in sorted(found):
            if visit and each[0] - visit[-1][0] > PAUSE:
                visits.append(_visit(sensor, visit))
                visit = []
            visit.append(each)
        visits.append(_visit(sensor, visit))
    return sorted(visits)


def _visit(sensor: str, found: Sequence[tuple[datetime, int]]) -> Visit:
    levels = [level for _, level in found]
    rises = sum(later > earlier for earlier, later in itertools.pairwise(levels))
    return sensor, found[0][0], found[-1][0], len(found), rises


def write(readings: Sequence[Reading], folder: str | Path) -> None:
    """A file for each hour."""
    per_file = -(-len(readings) // HOURS)
    target = Path(folder) / "input"
    target.mkdir(parents=True, exist_ok=True)
    for number in range(HOURS):
        rows = readings[number * per_file :][:per_file]
        path = target / f"{number:03d}.parquet"
        columns = list(zip(*rows, strict=True))
        pq.write_table(pa.table(columns, schema=SCHEMA), path)
        # Spark reads files in the order of their times, which it knows to the millisecond.
        seconds = BEGIN.timestamp() + number
        os.utime(path, (seconds, seconds))


if __name__ == "__main__":
    write(make(), sys.argv[1])
