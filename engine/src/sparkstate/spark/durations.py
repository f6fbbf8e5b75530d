"""Durations as a job's code gives them."""

from __future__ import annotations

import re

from sparkstate import errors

_DELAY = re.compile(r"\s*(\d+)\s*(ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)\s*")
_UNIT_MS = {"ms": 1, "mi": 60_000, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str | int, what: str) -> int:
    """``"2 hours"``, ``"500 ms"`` or a number of milliseconds."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _DELAY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise errors.SpecInvalid(
            f"{what} is {text!r}; write a duration such as '2 hours', '30 seconds' or '500 ms'"
        )
    unit = match[2]
    key = "ms" if unit.startswith(("ms", "milli")) else unit[0]
    return int(match[1]) * _UNIT_MS[key]


def signed_ms(text: str | int, what: str) -> int:
    """The same, where a duration may be negative: ``"-5 minutes"``."""
    if isinstance(text, str) and text.lstrip().startswith("-"):
        return -duration_ms(text.lstrip()[1:], what)
    return duration_ms(text, what)
