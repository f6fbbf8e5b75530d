"""The metrics that a function makes for itself: objects that it counts with, and their readings.

Counting costs the caller's own addition and nothing else: no lock, no clock. Reading happens in other threads while
the function runs, and sees each number as of some moment. Gauges call the user's code, so they are read where nothing
else of it runs, at the end of an epoch.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from sparkstate import errors, functions

MOST_SHOWN = 100
"""Metrics of one operator that are shown. Names made of data (a metric per key) would grow without end."""
_LONGEST_NAME = 200
_POINTS = 100
"""Looks that a meter remembers of its time span. More would improve its rate by one in a hundred at most, and a meter
that kept every look grew with the number of those who look."""
_log = logging.getLogger("sparkstate.operators")

Kind = Literal["counter", "gauge", "meter", "distribution"]


@dataclass(frozen=True)
class Reading:
    """The reading of one metric. Counter: ``count``. Gauge: ``least`` and ``largest``, both its value. Meter: ``count``
    and ``rate`` (events per second). Distribution: ``count``, and of the finite values ``sum``, ``least``, ``largest``.
    None: not of this kind, nothing yet, or not a finite number."""

    name: str
    kind: Kind
    count: float | None = None
    rate: float | None = None
    sum: float | None = None
    least: float | None = None
    largest: float | None = None


class _Counter(functions.Counter):
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count

    def read(self, name: str, now_s: float) -> Reading:
        return Reading(name, "counter", count=_finite(self._count))


class _Meter(functions.Meter):
    __slots__ = ("_count", "_seen", "_span_s")

    def __init__(self, span_s: float) -> None:
        self._count = 0
        self._span_s = span_s
        self._seen: deque[tuple[float, int]] = deque([(float("-inf"), 0)])
        """When it was read, and what it had counted: the oldest entry is the last one before the span."""

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count

    def read(self, name: str, now_s: float) -> Reading:
        seen, count = self._seen, self._count
        if len(seen) > 1 and seen[-1][0] - seen[-2][0] < self._span_s / _POINTS:
            seen[-1] = (now_s, count)
        else:
            seen.append((now_s, count))
        while len(seen) > 2 and seen[1][0] <= now_s - self._span_s:
            seen.popleft()
        began_s = max(seen[0][0], now_s - self._span_s)
        rate = (count - seen[0][1]) / max(now_s - began_s, 1.0)
        return Reading(name, "meter", count=_finite(count), rate=_finite(rate))


class _Distribution(functions.Distribution):
    __slots__ = ("_count", "_largest", "_least", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._sum: float = 0
        self._least: float | None = None
        self._largest: float | None = None

    def update(self, value: float) -> None:
        finite = -math.inf < value < math.inf
        self._count += 1
        if not finite:
            return  # nothing is below or above NaN, and no sum with it is a number
        self._sum += value
        if self._least is None or value < self._least:
            self._least = value
        if self._largest is None or value > self._largest:
            self._largest = value

    def read(self, name: str, now_s: float) -> Reading:
        return Reading(
            name,
            "distribution",
            count=_finite(self._count),
            sum=_finite(self._sum),
            least=_finite(self._least),
            largest=_finite(self._largest),
        )


class _Gauge:
    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._value: float | None = None
        self._complained = False

    def refresh(self, name: str) -> None:
        try:
            self._value = float(self._ask())
        except (Exception, SystemExit) as error:  # the user's function
            self._value = None
            if not self._complained:
                self._complained = True
                _log.warning("gauge %r shows nothing: %s: %s", name, type(error).__qualname__, error)

    def read(self, name: str, now_s: float) -> Reading:
        value = _finite(self._value)
        return Reading(name, "gauge", least=value, largest=value)


def _finite(value: Any) -> float | None:
    """A number that a report can carry: one beyond a double's range, or NaN, would cost the whole report."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


_KINDS: dict[type[Any], Kind] = {
    _Counter: "counter",
    _Gauge: "gauge",
    _Meter: "meter",
    _Distribution: "distribution",
}
M = TypeVar("M", _Counter, _Gauge, _Meter, _Distribution)


class UserMetrics:
    """All metrics of one operator in one slot. ``read`` may be called from any thread."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._metrics: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.not_shown = 0
        """How many names came after the first ``MOST_SHOWN``."""

    def group(self) -> functions.MetricGroup:
        """The operator's group."""
        return _Group(self, ())

    def named(self, path: tuple[str, ...], made: M) -> M:
        """The metric of that name: the one that is there already, or ``made``."""
        name = ".".join(path)
        if len(name) > _LONGEST_NAME:
            raise errors.StateError(
                f"operator {self._uid!r}: a metric's name with its groups is longer than {_LONGEST_NAME} characters: "
                f"{name[:_LONGEST_NAME]}…"
            )
        with self._lock:
            found = self._metrics.get(name)
            if found is None:
                return self._add(name, made)
        if type(found) is not type(made):
            raise errors.StateError(
                f"operator {self._uid!r}: metric {name!r} is a {_KINDS[type(found)]} and cannot be a "
                f"{_KINDS[type(made)]} too; give each metric a name of its own"
            )
        return found

    def _add(self, name: str, made: M) -> M:
        if len(self._metrics) < MOST_SHOWN:
            self._metrics[name] = made
            return made
        self.not_shown += 1
        if self.not_shown == 1:
            _log.warning(
                "operator %r has more than %d metrics; %r and further ones are not shown: do not make names of data",
                self._uid,
                MOST_SHOWN,
                name,
            )
        return made

    def refresh_gauges(self) -> None:
        """Ask the gauges, in the thread in which the user's code runs."""
        for name, metric in self._items():
            if type(metric) is _Gauge:
                metric.refresh(name)

    def read(self, now_s: float) -> list[Reading]:
        """All of them, in the order in which they were made. ``now_s``: a clock that only goes forward."""
        return [metric.read(name, now_s) for name, metric in self._items()]

    def _items(self) -> list[tuple[str, Any]]:
        with self._lock:
            return list(self._metrics.items())


class _Group(functions.MetricGroup):
    def __init__(self, metrics: UserMetrics, path: tuple[str, ...]) -> None:
        self._metrics = metrics
        self._path = path

    def add_group(self, name: str, extra: str | None = None) -> functions.MetricGroup:
        more = (name,) if extra is None else (name, extra)
        return _Group(self._metrics, (*self._path, *map(_checked, more)))

    def counter(self, name: str) -> functions.Counter:
        return self._metrics.named((*self._path, _checked(name)), _Counter())

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        if not callable(obj):
            raise errors.StateError(f"gauge {name!r} needs a function without arguments, not {obj!r}")
        self._metrics.named((*self._path, _checked(name)), _Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> functions.Meter:
        if not time_span_in_seconds > 0:
            raise errors.StateError(
                f"meter {name!r} has time_span_in_seconds={time_span_in_seconds!r}; it must be above 0"
            )
        return self._metrics.named((*self._path, _checked(name)), _Meter(time_span_in_seconds))

    def distribution(self, name: str) -> functions.Distribution:
        return self._metrics.named((*self._path, _checked(name)), _Distribution())


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise errors.StateError(
            f"the name of a metric or of its group is {name!r}; it must be a string of printable characters"
        )
    return name
