"""Series of the last hour: what the driver measures, in points of a fixed width and a ring of a fixed size.

A point sums up what was noted in its time: of durations and lag the largest, of sizes the last, of rows and bytes the
sum. A point in which nothing was noted has gaps, so a recovery shows as one. The ring is one array of doubles for each
series, made whole at the start: :data:`SIZE_BYTES` in all, however long the job runs.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from sparkstate.clock import Clock
from sparkstate.control import picture

PERIOD_S: Final = 5
POINTS: Final = 720
_Fold: TypeAlias = Callable[[float, float], float]


def _sum(before: float, now: float) -> float:
    return now if math.isnan(before) else before + now


def _largest(before: float, now: float) -> float:
    return now if math.isnan(before) else max(before, now)


def _last(_before: float, now: float) -> float:
    return now


FOLDS: Final[Mapping[str, _Fold]] = {
    "rows_per_s": _sum,
    "epoch_ms": _largest,
    "lag_ms": _largest,
    "state_bytes": _last,
    "memory_bytes": _last,
    "budget_bytes": _last,
    "checkpoint_ms": _largest,
    "checkpoint_bytes": _sum,
}
"""How the values of one point become one, by series."""
SIZE_BYTES: Final = len(FOLDS) * POINTS * 8
"""46,080."""


class SeriesRing:
    """Thread-safe. Time is the clock's monotonic one; wall time is looked at when the series are read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._started_ms = clock.now_ms()
        self._began = clock.monotonic()
        self._ring = {name: array("d", [math.nan]) * POINTS for name in FOLDS}
        self._open: dict[str, float] = dict.fromkeys(FOLDS, math.nan)
        self._number = 1
        """Of the point that is being filled."""

    def note(self, **values: float | None) -> None:
        """Add values to the point of this moment; None says nothing."""
        with self._lock:
            self._advance()
            for name, value in values.items():
                if value is not None and math.isfinite(value):
                    self._open[name] = FOLDS[name](self._open[name], value)

    def document(self, after: int = 0) -> picture.Series:
        """The points with numbers above ``after``, as far as they are kept; the one being filled is not among them."""
        with self._lock:
            self._advance()
            last = self._number - 1
            first = max(after + 1, last - POINTS + 1, 1)
            elapsed_s = self._clock.monotonic() - self._began - last * PERIOD_S
            return picture.Series(
                started_ms=self._started_ms,
                period_ms=PERIOD_S * 1000,
                capacity=POINTS,
                last=last,
                until_ms=self._clock.now_ms() - round(elapsed_s * 1000),
                **{name: self._points(name, first, last) for name in FOLDS},
            )

    def _points(self, name: str, first: int, last: int) -> tuple[float | None, ...]:
        ring = self._ring[name]
        found = (ring[number % POINTS] for number in range(first, last + 1))
        return tuple(None if math.isnan(value) else value for value in found)

    def _advance(self) -> None:
        """Close the points whose time is over. After a long silence no more are written than the ring holds."""
        now = int((self._clock.monotonic() - self._began) // PERIOD_S) + 1
        if now <= self._number:
            return
        self._close(self._number)
        self._open = dict.fromkeys(FOLDS, math.nan)
        for number in range(max(self._number + 1, now - POINTS), now):
            self._close(number)
        self._number = now

    def _close(self, number: int) -> None:
        for name, value in self._open.items():
            self._ring[name][number % POINTS] = value / PERIOD_S if name == "rows_per_s" else value
