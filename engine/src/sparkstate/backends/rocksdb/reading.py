"""Reading many keys at once: side by side where reads wait for the disk.

State that is larger than memory is read from the disk, key by key within one call, and a disk answers many reads at
once almost as fast as one. RocksDB can do so itself (``async_io``), but not as rocksdict builds it. Where the keys are
in memory one call after another is fastest, so how long the first keys take decides each time.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Final

from sparkstate.clock import Clock

GetMany = Callable[[list[bytes]], list[bytes | None]]

_MOST: Final = 1000
"""Keys per call: RocksDB's own batches are small, and longer lists measured slower."""
_PROBE: Final = 16
"""Keys that are read first, and the least that are worth a thread."""
_SLOW_S: Final = 20e-6
"""Seconds per key. From memory it takes 3 to 6 µs, from a fast local disk 80."""


class Reads:
    """Reads for all column families of a slot; callable from several threads. ``at_once``: reads side by side."""

    def __init__(self, clock: Clock, at_once: int = 16, slow_s: float = _SLOW_S) -> None:
        self._clock = clock
        self._at_once = at_once
        self._slow_s = slow_s
        self._pool = concurrent.futures.ThreadPoolExecutor(at_once, thread_name_prefix="reads")

    def get_many(self, get: GetMany, keys: list[bytes]) -> list[bytes | None]:
        """Values in the order of the keys. ``get`` releases the interpreter lock while it reads."""
        if len(keys) <= 2 * _PROBE:
            return get(keys) if keys else []
        started = self._clock.monotonic()
        found = get(keys[:_PROBE])
        if self._clock.monotonic() - started >= _PROBE * self._slow_s:
            return found + self._side_by_side(get, keys[_PROBE:])
        for start in range(_PROBE, len(keys), _MOST):
            found += get(keys[start : start + _MOST])
        return found

    def _side_by_side(self, get: GetMany, keys: list[bytes]) -> list[bytes | None]:
        size = min(_MOST, max(_PROBE, -(-len(keys) // self._at_once)))
        calls = [self._pool.submit(get, keys[start : start + size]) for start in range(0, len(keys), size)]
        # All of them, also if one fails: nobody may read any more when the caller closes the database.
        concurrent.futures.wait(calls)
        found: list[bytes | None] = []
        for call in calls:
            found += call.result()
        return found

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown()
