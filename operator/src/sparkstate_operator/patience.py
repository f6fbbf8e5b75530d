"""Room for the *patient* keys of the queue (thousands of polls).

Few of them are under way at once, and few are taken in a second, so that no event waits behind all of them when polls
take longer than they should.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
PATIENT = 32
"""Patient keys under way at once, not counting slow ones. Enough for 100 polls a second that take 0.3 s each. When the
event loop is overloaded, everything else that awaits something waits for one step of each of them. With 448 at once, a
savepoint did so some sixty times on its way to the driver (RFC 0024)."""
BURST = 16
"""Patient keys taken in a row, however many a second there may be."""
SLOW_S = 1.0
"""A patient key that takes longer waits for a slow driver, and gives its place to another one."""
SLOW = 160
"""Slow patient keys under way at once."""
HELD_S = 0.5
"""While patient keys are held, the queue asks this often whether they still are."""


class Patience(Generic[Key]):
    """See the module. ``held``: whether patient keys have to wait now.
    ``per_s``: how many of them are taken a second at most."""

    def __init__(self, monotonic: Callable[[], float], held: Callable[[], bool], per_s: float) -> None:
        self._monotonic = monotonic
        self._held = held
        self._every_s = 1.0 / per_s
        self._next_at_s = -math.inf
        """When the next key may be taken, apart from the burst."""
        self._running: dict[Key, float] = {}
        """Those that run, and since when; the oldest first."""
        self._slow: set[Key] = set()

    def begin(self, key: Key) -> None:
        """The key is taken."""
        now_s = self._monotonic()
        self._running[key] = now_s
        self._next_at_s = max(self._next_at_s, now_s - BURST * self._every_s) + self._every_s

    def end(self, key: Key) -> None:
        """Its reconcile has ended. Any other key may end here too."""
        self._running.pop(key, None)
        self._slow.discard(key)

    def free_s(self) -> float | None:
        """Seconds until one more patient key may be taken; None: not before another one has ended."""
        if self._held():
            return HELD_S
        paced_s = max(0.0, self._next_at_s - self._monotonic())
        while self._running:
            key, since_s = next(iter(self._running.items()))
            slow_in_s = since_s + SLOW_S - self._monotonic()
            if slow_in_s > 0.0 or len(self._slow) >= SLOW:
                break
            del self._running[key]
            self._slow.add(key)
        if len(self._running) < PATIENT:
            return paced_s
        return None if len(self._slow) >= SLOW else max(paced_s, slow_in_s)
