"""What every engine is given: rows that are a function of their number, and what has to come out of them.

Row ``i`` has the key ``k`` and the value ``v``; the load ``session`` adds the event time ``ts`` in milliseconds. Every
engine computes them itself, so that no engine waits for a file or a broker. Only Quix Streams has them in a topic of
Kafka, its one source (``topics.py``). The expressions below are written so that Spark and Flink read them alike;
``keys``, ``values`` and ``times`` are the same in NumPy, ``Rows.java`` in Java, and ``programs/on_bytewax.py`` in
Python. The loads ``q…`` have the events of ``nexmark.py`` instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

HASH = "MOD(i * 2654435761, 4294967296)"
"""A multiplicative hash of the row's number below 2³². The product fits into 64 bits up to 3.4 × 10⁹ rows."""
VALUE = "MOD(i, 100) + 1"
"""Never zero, so that the running totals of a key grow and their order can be checked."""
DISORDER = "MOD(i * 7919, 500)"
"""By how many milliseconds a row is behind its place in order."""
GAP_MS, DELAY_MS = 5_000, 1_000
"""What closes a session, and by how much the watermark trails behind the newest row."""
QUERIES = ("q3", "q5", "q7", "q8", "q11", "q12")
"""Those of Nexmark, over the events of ``nexmark.py``."""
NEXMARK_BEGIN_MS = 20_000
"""Spark's first watermark is 1970, and it drops windows that end by then. No window of Nexmark begins before."""
MANAGED_MIB = 256
"""Memory for state of each of the two slots, where an engine has such a setting. sparkstate's built-in value."""


@dataclass(frozen=True)
class Load:
    """``keys`` 0: no key comes twice. ``managed_mib``: memory for state per slot. ``step_ms``: event time from a row to
    the next, which begins at ``begin_ms``."""

    name: str
    keys: int
    managed_mib: int = MANAGED_MIB
    step_ms: int = 1
    begin_ms: int = 0

    @property
    def nexmark(self) -> bool:
        """Whether the rows are Nexmark's events, which have neither ``k`` nor ``v``."""
        return self.name in QUERIES

    @property
    def timed(self) -> bool:
        """Whether the event time of a row matters."""
        return self.name == "session" or (self.nexmark and self.name != "q3")

    @property
    def whole(self) -> bool:
        """Whether a window, or a pair, is answered when it is complete, and not each row."""
        return self.nexmark or self.timed

    @property
    def time(self) -> str:
        """The event time of row ``i`` in milliseconds as SQL."""
        return f"{self.begin_ms} + i * {self.step_ms} - {DISORDER}"

    @property
    def key(self) -> str:
        """The key of row ``i`` as SQL."""
        if self.name == "session":
            return f"MOD(CAST(FLOOR(i / 1000) AS BIGINT) * 37 + MOD({HASH}, 100), {self.keys})"
        if self.name == "large":
            return f"CASE WHEN i < {self.keys} THEN i ELSE MOD({HASH}, {self.keys}) END"
        return f"MOD({HASH}, {self.keys})" if self.keys else "i * 2654435761"


LARGE_MANAGED_MIB, LARGE_STATE_BYTES = 32, 512
LOADS = {
    load.name: load
    for load in (
        Load("sum", 50_000),
        Load("distinct", 0),
        Load("large", 10 * 2 * (LARGE_MANAGED_MIB << 20) // LARGE_STATE_BYTES, LARGE_MANAGED_MIB),
        Load("session", 10_000),
        *(Load(query, 0, begin_ms=NEXMARK_BEGIN_MS) for query in QUERIES),
    )
}


def compared(load: Load, rows: int) -> Load:
    """The load with so few keys that each of them comes several times within ``rows`` rows, and each user has more
    than one session. Otherwise the comparison would never see an engine read the state that it wrote. Nexmark's events
    are further apart, so that there are many windows."""
    if load.nexmark:
        return replace(load, step_ms=10)
    if load.name == "session":
        return replace(load, keys=rows // 50)
    return replace(load, keys=min(load.keys, rows // 10))


def keys(load: Load, rows: int) -> Any:
    """The keys of the first rows."""
    i = np.arange(rows, dtype=np.int64)
    hashed = i * 2654435761 % 4294967296
    if load.name == "session":
        return (i // 1000 * 37 + hashed % 100) % load.keys
    if load.name == "large":
        return np.where(i < load.keys, i, hashed % load.keys)
    return hashed % load.keys if load.keys else i * 2654435761


def values(rows: int) -> Any:
    """The values of the first rows."""
    return np.arange(rows, dtype=np.int64) % 100 + 1


def times(rows: int, step_ms: int = 1, begin_ms: int = 0) -> Any:
    """The event times of the first rows, in milliseconds."""
    i = np.arange(rows, dtype=np.int64)
    return begin_ms + i * step_ms - i * 7919 % 500
