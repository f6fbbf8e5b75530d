"""Does a series grow? Slopes by Theil and Sen, whose median of pairwise slopes ignores outliers, and a verdict each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WARM_UP = 0.1
"""This part of the run is left out: caches fill, and the JVM's heap finds its size."""
MAX_POINTS = 600
"""More points are thinned out evenly: the number of pairs grows with its square."""


@dataclass(frozen=True)
class Quantity:
    """One column of the samples."""

    name: str
    title: str
    unit: str
    scale: float
    """The number by which a sample is divided for the table."""
    floor: float
    """Growth below this, in the sample's own unit, is noise whatever its relation to the median."""
    tolerance: float = 0.1
    """Growth over the whole run, as a part of the median, that still counts as flat."""
    life: str | None = None
    """The column that tells processes apart, for what begins anew with each process; None: of the lineage."""


@dataclass(frozen=True)
class Point:
    """One sample of one quantity."""

    epoch: int
    value: float
    life: object = None


@dataclass(frozen=True)
class Trend:
    """The course of a quantity over the run."""

    quantity: Quantity
    points: int
    median: float
    per_thousand: float
    """Growth in a thousand epochs."""
    growth: float
    """Growth over all epochs that were looked at."""

    @property
    def flat(self) -> bool:
        """Whether it counts as not growing."""
        allowed = max(self.quantity.tolerance * abs(self.median), self.quantity.floor)
        return self.growth <= allowed


def trend(quantity: Quantity, points: Sequence[Point]) -> Trend | None:
    """None where there are too few points to say anything."""
    first, last = (points[0].epoch, points[-1].epoch) if points else (0, 0)
    begin = first + WARM_UP * (last - first)
    late = _thin([point for point in points if point.epoch >= begin])
    if quantity.life is not None:
        late = _grown_up(late)
    slopes = _pairwise(late, within_lives=quantity.life is not None)
    if len(late) < 5 or not len(slopes):
        return None
    slope = float(np.median(slopes))
    spread = late[-1].epoch - late[0].epoch
    values = [point.value for point in late]
    return Trend(quantity, len(late), float(np.median(values)), slope * 1000, slope * spread)


def _thin(points: Sequence[Point]) -> list[Point]:
    step = max(1, -(-len(points) // MAX_POINTS))
    return list(points[::step])


def _grown_up(points: Iterable[Point]) -> list[Point]:
    """Without the first half of each life, in which a process fills its caches and pools."""
    lives: dict[object, list[Point]] = {}
    for point in points:
        lives.setdefault(point.life, []).append(point)
    return [point for life in lives.values() for point in life[len(life) // 2 :]]


def _pairwise(points: Sequence[Point], *, within_lives: bool) -> npt.NDArray[np.float64]:
    epochs = np.array([point.epoch for point in points], dtype=float)
    values = np.array([point.value for point in points], dtype=float)
    numbers = {life: number for number, life in enumerate(dict.fromkeys(point.life for point in points))}
    lives = np.array([numbers[point.life] for point in points])
    one, other = np.triu_indices(len(points), k=1)
    chosen = epochs[other] > epochs[one]
    if within_lives:
        chosen &= lives[one] == lives[other]
    one, other = one[chosen], other[chosen]
    slopes: npt.NDArray[np.float64] = (values[other] - values[one]) / (epochs[other] - epochs[one])
    return slopes
