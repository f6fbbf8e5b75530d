"""Rates by the difference of two lengths, so that neither the start nor the end of a run counts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """One run to its end: rows, seconds, and processor seconds of all its processes."""

    rows: int
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Rate:
    """Of one round: rows per second, and processor time per row in microseconds."""

    rows_per_s: float
    cpu_us: float


def rate(short: Run, long: Run) -> Rate | None:
    """What the rows that only the longer run has cost; None if the longer run took no longer, which is noise."""
    rows, wall_s, cpu_s = long.rows - short.rows, long.wall_s - short.wall_s, long.cpu_s - short.cpu_s
    if rows <= 0:
        raise ValueError(
            f"the longer run has {long.rows} rows; it needs more than the {short.rows} of the shorter"
        )
    if wall_s <= 0 or cpu_s <= 0:
        return None
    return Rate(rows / wall_s, cpu_s / rows * 1e6)


def median(rates: Sequence[Rate | None]) -> Rate | None:
    """The median of the rounds that gave a rate, of each figure for itself."""
    given = [one for one in rates if one is not None]
    if not given:
        return None
    return Rate(
        statistics.median(one.rows_per_s for one in given), statistics.median(one.cpu_us for one in given)
    )
