"""Reading many keys at once: side by side where reads wait for the disk.

State that is larger than memory is read from the disk, key by key within one call, and a disk answers many reads at
once almost as fast as one. RocksDB can do so itself (``async_io``), but not as rocksdict builds it. Where the keys are
in memory one call after another is fastest, so how long the first keys take decides each time. On a busy machine a read
from memory takes as long as one from the disk now and then, because another thread had the processor or the interpreter
lock. So a disk is slow when it was so twice in a row.
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
        self._was_slow = False
        """Whether the last call found the disk slow, in whatever thread."""
        self._pool = concurrent.futures.ThreadPoolExecutor(at_once, thread_name_prefix="reads")

    def get_many(self, get: GetMany, keys: list[bytes]) -> list[bytes | None]:
        """Values in the order of the keys. ``get`` releases the interpreter lock while it reads."""
        if len(keys) <= 2 * _PROBE:
            return get(keys) if keys else []
        found, is_slow = self._timed(get, keys[:_PROBE])
        if is_slow and not self._was_slow:
            more, is_slow = self._timed(get, keys[_PROBE : 2 * _PROBE])
            found += more
        self._was_slow = is_slow
        rest = keys[len(found) :]
        if is_slow:
            return found + self._side_by_side(get, rest)
        for start in range(0, len(rest), _MOST):
            found += get(rest[start : start + _MOST])
        return found

    def _timed(self, get: GetMany, keys: list[bytes]) -> tuple[list[bytes | None], bool]:
        """Values, and whether they took as long as from a disk."""
        started = self._clock.monotonic()
        found = get(keys)
        return found, self._clock.monotonic() - started >= len(keys) * self._slow_s

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
