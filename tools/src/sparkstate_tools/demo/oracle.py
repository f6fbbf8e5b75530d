"""The output that the flight job must have written, calculated another way. Imports nothing of sparkstate.

A plain batch calculation: all rows of an aircraft are sorted and walked once; no state, no timers, no epochs.
The comparison counts records: one that is missing, one too many, or one that is there twice is a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Record = tuple[Any, ...]
DEPARTURE_COLUMNS = (
    "tailnum", "scheduled", "carrier", "flight", "origin", "dest", "position", "delay", "total_delay"
)  # fmt: skip
GROUNDED_COLUMNS = ("tailnum", "since", "noticed", "departures", "total_delay")
SKIPPED_COLUMNS = ("reason", "scheduled", "carrier", "flight", "origin", "dest")
COLUMNS = {"departures": DEPARTURE_COLUMNS, "grounded": GROUNDED_COLUMNS, "skipped": SKIPPED_COLUMNS}


@dataclass(frozen=True)
class Difference:
    """How one output differs from the expected one;

    nothing in both counters means: equal record for record.
    """

    expected: int
    found: int
    missing: Counter[Record] = field(default_factory=Counter)
    unexpected: Counter[Record] = field(default_factory=Counter)

    @property
    def equal(self) -> bool:
        return not self.missing and not self.unexpected

    def describe(self, examples: int = 3) -> str:
        """One line, with a few of the differing records."""
        if self.equal:
            return f"{self.found:,} records, equal record for record"
        parts = [f"{self.found:,} records, {self.expected:,} expected"]
        for name, records in (("missing", self.missing), ("too many", self.unexpected)):
            if records:
                shown = "; ".join(str(record) for record in sorted(records, key=str)[:examples])
                parts.append(f"{records.total():,} {name}, such as {shown}")
        return " — ".join(parts)


def expected(prepared: Sequence[Path], hours: int) -> dict[str, Counter[Record]]:
    """The records of the three outputs for the prepared input files, in any order."""
    rows = [row for path in prepared for row in pq.read_table(path).to_pylist()]
    for row in rows:
        row["scheduled"] = row["time_hour"] + timedelta(minutes=row["minute"])
    skipped = Counter(
        (reason, row["scheduled"], row["carrier"], row["flight"], row["origin"], row["dest"])
        for row in rows
        if (reason := _why_skipped(row)) is not None
    )
    flown = sorted(
        (row["tailnum"], row["scheduled"], row["carrier"], row["flight"], row["origin"], row["dest"],
         row["arr_delay"] or 0)
        for row in rows
        if _why_skipped(row) is None
    )  # fmt: skip
    departures: Counter[Record] = Counter()
    grounded: Counter[Record] = Counter()
    for tailnum, flights in groupby(flown, key=itemgetter(0)):
        rotation = list(flights)
        departures.update(_in_sequence(rotation))
        grounded.update(_grounded(tailnum, rotation, timedelta(hours=hours)))
    return {"departures": departures, "grounded": grounded, "skipped": skipped}


def _why_skipped(row: dict[str, Any]) -> str | None:
    if row["tailnum"] is None:
        return "no tail number"
    return "cancelled" if row["dep_time"] is None else None


def _in_sequence(rotation: list[Record]) -> Iterable[Record]:
    total = 0
    for position, flight in enumerate(rotation, start=1):
        total += flight[-1]
        yield (*flight[:-1], position, flight[-1], total)


def _grounded(tailnum: str, rotation: list[Record], horizon: timedelta) -> Iterable[Record]:
    total = 0
    following: list[datetime | None] = [flight[1] for flight in rotation[1:]]
    for position, (flight, then) in enumerate(zip(rotation, [*following, None], strict=True), start=1):
        total += flight[-1]
        since = flight[1]
        if then is None or then > since + horizon:
            yield tailnum, since, since + horizon, position, total


def written(files: Iterable[Path], columns: Sequence[str]) -> Counter[Record]:
    """All records of committed sink files, each as often as it stands there."""
    records: Counter[Record] = Counter()
    for path in files:
        table = pq.read_table(path, columns=list(columns))
        records.update(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
    return records


def compare(wanted: Counter[Record], found: Counter[Record]) -> Difference:
    """Exact as multisets."""
    return Difference(wanted.total(), found.total(), wanted - found, found - wanted)


def committed_files(folder: Path, last_epoch: int | None = None) -> list[Path]:
    """The published files of one sink; ``last_epoch`` leaves out those that hold rows of later epochs.

    Their names say it: ``part-<incarnation>-<last epoch>-<slot>-….parquet``.
    """
    files = sorted(folder.glob("part-*.parquet"))
    return [path for path in files if last_epoch is None or int(path.name.split("-")[2]) <= last_epoch]
