"""Durations and sizes: Go's and Kubernetes' spelling (manifest) and Flink's (``spec.configuration``). Pure
functions."""

from __future__ import annotations

import re
from decimal import Decimal

DURATION = re.compile(r"([0-9]+(ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_MILLIS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
QUANTITY = re.compile(r"(0|([1-9][0-9]*|[0-9]+\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?)")
_QUANTITY_PARTS = re.compile(r"([0-9.]+)([A-Za-z]*)")
_BYTES = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip
_FLINK_DURATION = re.compile(r"([0-9]+)\s*([a-zµ]*)")
_FLINK_TIME_UNITS = {
    "": 1, "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
_FLINK_MEMORY = re.compile(r"([0-9]+)\s*([a-z]*)")
_FLINK_MEMORY_UNITS = {
    "": 1, "b": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "kibibytes": 2**10, "m": 2**20, "mb": 2**20,
    "mebibytes": 2**20, "g": 2**30, "gb": 2**30, "gibibytes": 2**30,
    "t": 2**40, "tb": 2**40, "tebibytes": 2**40,
}  # fmt: skip

DURATION_HINT = "must be a duration such as 500ms, 30s, 5m or 1h30m"
QUANTITY_HINT = "must be a quantity such as 512Mi or 1Gi"


def parse_duration_ms(text: str) -> int:
    """Milliseconds of Go's spelling (``1h30m``, ``500ms``); whole numbers only. Raises ValueError."""
    if not DURATION.fullmatch(text):
        raise ValueError(f"is {text!r}; it {DURATION_HINT}")
    return sum(int(number) * _MILLIS[unit] for number, unit in _DURATION_PART.findall(text))


def parse_duration_s(text: str) -> float:
    """Seconds of Go's spelling."""
    return parse_duration_ms(text) / 1000


def format_duration(millis: int) -> str:
    """Go's spelling, shortest form: ``90000`` → ``1m30s``; ``0`` → ``0s``."""
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        number, millis = divmod(millis, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def parse_quantity(text: str) -> int:
    """Bytes of Kubernetes' spelling (``256Mi``, ``1.5Gi``, ``1G``); rounded up as Kubernetes does. Raises
    ValueError."""
    if not QUANTITY.fullmatch(text):
        raise ValueError(f"is {text!r}; it {QUANTITY_HINT}")
    match = _QUANTITY_PARTS.fullmatch(text)
    assert match is not None
    exact = Decimal(match[1]) * _BYTES[match[2]]
    return int(exact.to_integral_value(rounding="ROUND_CEILING"))


def format_quantity(size: int) -> str:
    """The shortest exact binary spelling: ``268435456`` → ``256Mi``; ``1000`` → ``1000``."""
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return str(size)


def parse_flink_duration_ms(text: str) -> int:
    """Milliseconds of Flink's spelling: ``10 min``, ``500ms``, ``1 d``, ``3000`` (ms). Raises ValueError."""
    match = _FLINK_DURATION.fullmatch(text.strip().lower())
    if not match or match[2] not in _FLINK_TIME_UNITS:
        raise ValueError(f"is {text!r}; it must be a Flink duration such as 10 min, 30 s or 500 ms")
    return int(match[1]) * _FLINK_TIME_UNITS[match[2]]


def parse_flink_memory(text: str) -> int:
    """Bytes of Flink's spelling, whose units are powers of 1024: ``64mb``, ``20kb``, ``1 gb``. Raises
    ValueError."""
    match = _FLINK_MEMORY.fullmatch(text.strip().lower())
    if not match or match[2] not in _FLINK_MEMORY_UNITS:
        raise ValueError(f"is {text!r}; it must be a Flink memory size such as 64mb or 20kb")
    return int(match[1]) * _FLINK_MEMORY_UNITS[match[2]]
