"""Makes a day of readings, and finds runs and load by sorting: ``python readings.py FOLDER``.

Readings come up to five minutes out of order. Two kinds of stretches are delivered behind the others, as by a gateway
that was offline: those of an hour, which still count, and those of six hours, which are late.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
HOURS = 24
MINUTE = timedelta(minutes=1)
GAP = 5 * MINUTE
HOUR, SLIDE = 60 * MINUTE, 10 * MINUTE
SCHEMA = pa.schema([("machine", pa.string()), ("watts", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
Run = tuple[str, datetime, datetime, int, int]
"""Machine, first and last reading, the number of readings, the greatest."""
Load = tuple[str, datetime, int, int, float]
"""Machine, start of the window, the number of readings, the greatest, the mean."""


@dataclass(frozen=True)
class Reading:
    """``behind`` is how long after ``at`` the reading is delivered."""

    machine: str
    watts: int
    at: datetime
    behind: timedelta = timedelta()

    @property
    def is_late(self) -> bool:
        """Whether no window takes it any more."""
        return self.behind > timedelta(hours=5)


def make_readings(machines: int = 12, seed: int = 1) -> list[Reading]:
    """In the order in which they are delivered."""
    chance = random.Random(seed)
    made = []
    for number in range(machines):
        at = BEGIN + chance.randrange(1, 60) * MINUTE
        for run in range(10):
            length = chance.randrange(25, 50)
            behind = {2: timedelta(hours=1), 4: timedelta(hours=6)}.get(run, timedelta())
            made += list(_run(chance, f"machine-{number}", at, length, behind))
            at += length * MINUTE + chance.randrange(20, 70) * MINUTE
    # The clock runs all day, so the watermark does not depend on the breaks of the other machines.
    made += list(_run(chance, "clock", BEGIN, HOURS * 60, timedelta()))
    return sorted((each for each in made if each.at < BEGIN + HOURS * HOUR), key=_delivered)


def _run(
    chance: random.Random, machine: str, at: datetime, minutes: int, behind: timedelta
) -> Iterator[Reading]:
    """A reading a minute. Those of the tenth to the twentieth minute come ``behind`` the others."""
    for minute in range(minutes):
        extra = behind if 10 <= minute < 20 else timedelta()
        mixed = timedelta(seconds=chance.randrange(0, 300))
        moment = at + minute * MINUTE + timedelta(seconds=chance.randrange(0, 30))
        yield Reading(machine, chance.randrange(200, 2000), moment, extra + mixed)


def _delivered(reading: Reading) -> tuple[datetime, str]:
    return reading.at + reading.behind, reading.machine


def punctual(readings: Iterable[Reading]) -> list[Reading]:
    """The same readings, as if no gateway had been offline."""
    return [replace(each, behind=timedelta()) for each in readings]


def expected_runs(readings: Iterable[Reading]) -> list[Run]:
    """The runs of all readings that are not late."""
    runs: list[list[Reading]] = []
    for reading in sorted(_counting(readings), key=lambda each: (each.machine, each.at)):
        if runs and runs[-1][-1].machine == reading.machine and reading.at <= runs[-1][-1].at + GAP:
            runs[-1].append(reading)
        else:
            runs.append([reading])
    return sorted(
        (run[0].machine, run[0].at, run[-1].at, len(run), max(each.watts for each in run)) for run in runs
    )


def expected_load(readings: Iterable[Reading]) -> list[Load]:
    """The windows of an hour that start every ten minutes, of all readings that are not late."""
    windows: dict[tuple[str, datetime], list[int]] = {}
    for reading in _counting(readings):
        last = BEGIN + (reading.at - BEGIN) // SLIDE * SLIDE
        for back in range(HOUR // SLIDE):
            windows.setdefault((reading.machine, last - back * SLIDE), []).append(reading.watts)
    return sorted(
        (*window, len(watts), max(watts), sum(watts) / len(watts)) for window, watts in windows.items()
    )


def _counting(readings: Iterable[Reading]) -> Iterator[Reading]:
    return (reading for reading in readings if not reading.is_late)


def last_runs(rows: Iterable[Run]) -> list[Run]:
    """Of all runs that were put out those that hold: a late reading lengthens a run, or joins two of them."""
    kept: list[Run] = []
    for row in sorted(rows, key=lambda each: (each[0], each[1], -each[2].timestamp(), -each[3])):
        if not kept or kept[-1][0] != row[0] or row[2] > kept[-1][2]:
            kept.append(row)
    assert all(one[0] != other[0] or one[2] < other[1] for one, other in pairwise(kept))
    return kept


def last_load(rows: Iterable[Load]) -> list[Load]:
    """Of each window the row with the most readings."""
    kept = {row[:2]: row for row in sorted(rows, key=lambda each: each[2])}
    return sorted(kept.values())


def write(readings: Sequence[Reading], folder: str | Path) -> None:
    """A file for each hour in which readings are delivered."""
    for number in range(HOURS + 1):
        begin, end = BEGIN + number * HOUR, BEGIN + (number + 1) * HOUR
        rows = [_row(each) for each in readings if begin <= each.at + each.behind < end]
        path = Path(folder) / f"{number:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
        # Spark reads files in the order of their times, which it knows to the millisecond.
        seconds = BEGIN.timestamp() + number
        os.utime(path, (seconds, seconds))


def _row(reading: Reading) -> dict[str, Any]:
    return {"machine": reading.machine, "watts": reading.watts, "at": reading.at}


if __name__ == "__main__":
    write(make_readings(), sys.argv[1])
