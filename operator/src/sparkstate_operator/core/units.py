"""Durations and sizes: Go's and Kubernetes' spelling, and Flink's (``spec.configuration``). The engine reads the
same texts by functions of its own; ``tests/contract`` compares the two."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_DURATION = re.compile(r"([0-9]+(ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_MILLIS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E|m)?")
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_SIZES: dict[str, Fraction | int] = {
    "": 1, "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    **_BINARY,
}  # fmt: skip
_FLINK = re.compile(r"([0-9]+)\s*([a-z]*)")
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
    """Milliseconds of ``1h30m``, ``500ms``. Raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is no duration; write it as 500ms, 30s, 5m or 1h30m")
    return sum(int(number) * _MILLIS[unit] for number, unit in _DURATION_PART.findall(text))


def duration_s(text: str) -> float:
    """Seconds of ``1h30m``. Raises ValueError."""
    return duration_ms(text) / 1000


def format_duration(millis: int) -> str:
    """Shortest spelling: ``90000`` → ``1m30s``; ``0`` → ``0s``."""
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        number, millis = divmod(millis, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def size_bytes(text: str) -> int:
    """Bytes of ``256Mi``, ``1.5Gi``, ``1G``, rounded up as Kubernetes does. Raises ValueError."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is no quantity; write it as 512Mi or 1Gi")
    return math.ceil(Fraction(match[1]) * _SIZES[match[2] or ""])


def format_size(size: int) -> str:
    """Shortest exact binary spelling: ``268435456`` → ``256Mi``; ``1000`` → ``1000``."""
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        if size and size % _BINARY[unit] == 0:
            return f"{size // _BINARY[unit]}{unit}"
    return str(size)


def flink_duration_ms(text: str) -> int:
    """Milliseconds of Flink's ``10 min``, ``500ms``, ``3000``. Raises ValueError."""
    return _flink(text, _FLINK_TIMES, "duration such as 10 min")


def flink_size_bytes(text: str) -> int:
    """Bytes of Flink's ``64mb`` (units are powers of 1024; Spark's sizes read the same). Raises ValueError."""
    return _flink(text, _FLINK_SIZES, "size such as 64mb")


def _flink(text: str, units: dict[str, int], hint: str) -> int:
    match = _FLINK.fullmatch(text.strip().lower())
    if not match or match[2] not in units:
        raise ValueError(f"{text!r} is no {hint}")
    return int(match[1]) * units[match[2]]
