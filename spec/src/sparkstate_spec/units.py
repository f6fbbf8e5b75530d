"""Durations and sizes: Go's and Kubernetes' spelling (fields of the spec), and Flink's (``spec.configuration``). Pure
functions; each raises ValueError for a text that it does not read."""

from __future__ import annotations

import re

MIB = 1024 * 1024

DURATION = re.compile(r"([0-9]+(ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_MILLIS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
QUANTITY = re.compile(r"(0|([1-9][0-9]*|[0-9]+\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?)")
LONGEST = "876000h"
"""A hundred years: no duration of a spec is longer. Dates and the timeouts of threads end at 292 years or later."""
DURATION_HINT = "must be a duration such as 500ms, 30s, 5m or 1h30m"
QUANTITY_HINT = "must be a quantity such as 512Mi or 1Gi"

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_BYTES: dict[str, int] = {"": 1, **{name: 1000**power for power, name in enumerate("kMGTP", 1)}, **_BINARY}

_FLINK = re.compile(r"([0-9]+)\s*([a-zµ]*)")
_FLINK_TIMES = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_FLINK_SIZES = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 2**10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 2**20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 2**30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 2**40),
}


def duration_ms(text: str) -> int:
    """Milliseconds of Go's spelling (``1h30m``, ``500ms``); whole numbers only."""
    if not DURATION.fullmatch(text):
        raise ValueError(f"is {text!r}; it {DURATION_HINT}")
    return sum(int(number) * _MILLIS[unit] for number, unit in _DURATION_PART.findall(text))


def duration_s(text: str) -> float:
    """Seconds of Go's spelling."""
    return duration_ms(text) / 1000


def format_duration(millis: int) -> str:
    """Go's spelling, shortest form: ``90000`` → ``1m30s``; ``0`` → ``0s``."""
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        number, millis = divmod(millis, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def quantity_bytes(text: str) -> int:
    """Bytes of a field of the spec (``256Mi``, ``1.5Gi``, ``1G``), rounded up as Kubernetes does."""
    match = QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"is {text!r}; it {QUANTITY_HINT}")
    unit = match[3] or ""
    whole, _, tenths = text.removesuffix(unit).partition(".")
    # Whole numbers alone: a float would round, and Fraction takes a slot milliseconds to import.
    parts: int = 10 ** len(tenths)
    return -(-int(whole + tenths) * _BYTES[unit] // parts)


def format_bytes(size: int) -> str:
    """The shortest exact binary spelling: ``268435456`` → ``256Mi``; ``1000`` → ``1000``."""
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        if size and size % _BINARY[unit] == 0:
            return f"{size // _BINARY[unit]}{unit}"
    return str(size)


def flink_duration_ms(text: str) -> int:
    """Milliseconds of Flink's spelling: ``10 min``, ``500ms``, ``1 d``, ``3000`` (ms)."""
    return _flink(text, _FLINK_TIMES, "Flink duration such as 10 min, 30 s or 500 ms")


def flink_bytes(text: str) -> int:
    """Bytes of Flink's spelling, whose units are powers of 1024: ``64mb``, ``20kb``, ``1 gb``. Spark's sizes with a
    unit read the same."""
    return _flink(text, _FLINK_SIZES, "Flink memory size such as 64mb or 20kb")


def _flink(text: str, units: dict[str, int], wanted: str) -> int:
    match = _FLINK.fullmatch(text.strip().lower())
    if not match or match[2] not in units:
        raise ValueError(f"is {text!r}; it must be a {wanted}")
    return int(match[1]) * units[match[2]]
