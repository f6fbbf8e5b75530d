"""Lengths of time as a job's code gives them: PyFlink's ``Time``, text, ``timedelta``, or milliseconds."""

from __future__ import annotations

import datetime
import re
from typing import Final, TypeAlias

from sparkstate import errors

_DURATION = re.compile(
    r"\s*(-?)\s*([0-9]{1,19})\s*(ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)\s*"
)
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MAX_MS: Final = 2**63 - 1
"""The largest number of milliseconds that has a place in state."""


class Time:
    """A length of time, as in PyFlink: ``Time.minutes(5)``."""

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """So many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """So many seconds."""
        return Time(1000 * seconds)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """So many minutes."""
        return Time(60_000 * minutes)

    @staticmethod
    def hours(hours: int) -> Time:
        """So many hours."""
        return Time(3_600_000 * hours)

    @staticmethod
    def days(days: int) -> Time:
        """So many times 24 hours."""
        return Time(86_400_000 * days)

    def to_milliseconds(self) -> int:
        """The length in milliseconds."""
        return self._milliseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        return f"Time({self._milliseconds} ms)"


Duration: TypeAlias = Time | datetime.timedelta | str | int
"""A ``Time``, a ``timedelta``, text such as ``"5 minutes"``, or milliseconds."""


def text(length_ms: int) -> str:
    """A length for people, in the largest unit that it is a whole number of: ``5 min``."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
    for unit, size in units:
        if length_ms and length_ms % size == 0:
            return f"{length_ms // size} {unit}"
    return f"{length_ms} ms"


def _text_ms(text: str, what: str) -> int:
    """``"2 hours"``, ``"-500 ms"``."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise errors.SpecInvalid(
            f"{what} is {text!r}; write a duration such as '2 hours', '30 seconds' or '500 ms'"
        )
    sign, number, unit = match.groups()
    key = "ms" if unit.startswith(("ms", "milli")) else unit[0]
    return int(sign + number) * _UNIT_MS[key]


def milliseconds(length: Duration, what: str, at_most: int = MAX_MS) -> int:
    """A length in whole milliseconds, which may be negative. ``what`` names the argument in an error; ``at_most`` is
    the longest in either direction."""
    found: object = length
    if isinstance(length, Time):
        found = length.to_milliseconds()
    elif isinstance(length, datetime.timedelta):
        found, rest = divmod(length, datetime.timedelta(milliseconds=1))
        if rest:
            raise errors.SpecInvalid(f"{what} is {length!r}; give whole milliseconds")
    elif isinstance(length, str):
        found = _text_ms(length, what)
    if not isinstance(found, int) or isinstance(found, bool):
        raise errors.SpecInvalid(
            f"{what} is {length!r}; give Time.minutes(5), '5 minutes', a timedelta, or whole milliseconds"
        )
    if not -at_most <= found <= at_most:
        raise errors.SpecInvalid(f"{what} is {length!r}, which is more than {at_most} ms; give less")
    return found


def positive_ms(length: Duration, what: str) -> int:
    """A length of at least one millisecond."""
    found = milliseconds(length, what)
    if found <= 0:
        raise errors.SpecInvalid(f"{what} is {length!r}; it must be longer than 0 ms")
    return found


def not_negative_ms(length: Duration, what: str) -> int:
    """A length of 0 milliseconds or more."""
    found = milliseconds(length, what)
    if found < 0:
        raise errors.SpecInvalid(f"{what} is {length!r}; it must be 0 ms or more")
    return found
