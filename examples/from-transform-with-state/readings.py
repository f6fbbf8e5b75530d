"""Makes the readings of some devices, which work for a while and then fall silent: ``python readings.py FOLDER``."""

import datetime
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Reading = tuple[str, str, int, datetime.datetime]
"""Device, kind, value and time."""
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOURS_PER_FILE = 4
FILES = 6
KINDS = ("temperature", "pressure", "voltage")
END = BEGIN + datetime.timedelta(hours=FILES * HOURS_PER_FILE + 24)
CLOCK = "clock"
"""A device that reports a day after all others: it moves event time on, so that their alarms come."""


def make(devices: int = 20, seed: int = 1) -> list[Reading]:
    """All readings, in order of time. Between two times of work of a device lie
    fourteen hours or more."""
    chance = random.Random(seed)
    found = []
    for number in range(devices):
        minute = chance.randrange(0, 600)
        while minute < FILES * HOURS_PER_FILE * 60:
            for _ in range(chance.randrange(1, 12)):
                at = BEGIN + datetime.timedelta(minutes=minute)
                found.append((f"device-{number}", chance.choice(KINDS), chance.randrange(100), at))
                minute += chance.randrange(1, 30)
            minute += chance.randrange(14 * 60, 20 * 60)
    return sorted(found, key=lambda reading: reading[3])


def expected(readings: Sequence[Reading]) -> list[tuple[str, int, str]]:
    """The alerts, calculated by hand: device, total, and the number of readings of each kind."""
    works: dict[str, list[list[tuple[str, int, datetime.datetime]]]] = {}
    for device, kind, value, at in readings:
        mine = works.setdefault(device, [])
        if not mine or at - mine[-1][-1][2] > datetime.timedelta(hours=1):
            mine.append([])
        mine[-1].append((kind, value, at))
    alerts = []
    for device, mine in works.items():
        for work in mine:
            kinds = sorted({kind for kind, _, _ in work})
            shown = ",".join(f"{kind}:{sum(one[0] == kind for one in work)}" for kind in kinds)
            alerts.append((device, sum(value for _, value, _ in work), shown))
    return sorted(alerts)


def clock() -> list[Reading]:
    """The two readings of the clock."""
    return [(CLOCK, "time", 0, END + datetime.timedelta(minutes=minute)) for minute in (0, 1)]


def write(readings: Sequence[Reading], folder: str | Path) -> None:
    """One file for each four hours, and two for the clock: Spark sees the time of a file with the next one."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[list[Reading]] = [[] for _ in range(FILES + 1)]
    for reading in readings:
        hours = (reading[3] - BEGIN) // datetime.timedelta(hours=1)
        parts[hours // HOURS_PER_FILE].append(reading)
    parts += [[reading] for reading in clock()]
    schema = pa.schema(
        [
            ("device", pa.string()),
            ("kind", pa.string()),
            ("value", pa.int64()),
            ("at", pa.timestamp("us", tz="UTC")),
        ]
    )
    for number, part in enumerate(part for part in parts if part):
        rows = [dict(zip(schema.names, reading, strict=True)) for reading in part]
        path = folder / f"{number:03d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        # Spark reads files in the order of their times, which it knows to the millisecond: files that were written
        # within one came in any order, and rows of the later hours made those of the earlier ones late.
        os.utime(path, (END.timestamp() + number, END.timestamp() + number))


if __name__ == "__main__":
    write(make(), sys.argv[1])
