"""The time in which a job takes nothing in: it says nothing about whether its sources are idle.

All times are the monotonic clock's, in ms: somebody may set the wall clock, and it runs on while the machine sleeps.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from sparkstate import clock


class PausedTime:
    """The length of all pauses, of every thread that waits. Two threads that wait at once count twice;
    ``Watermarks.paused`` never moves a time beyond now."""

    def __init__(self, clock_: clock.Clock) -> None:
        self._clock = clock_
        self._lock = threading.Lock()
        self._ms = 0
        self._taken_ms = 0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Meanwhile nothing is taken in."""
        began_ms = clock.monotonic_ms(self._clock)
        try:
            yield
        finally:
            with self._lock:
                self._ms += clock.monotonic_ms(self._clock) - began_ms

    def take(self) -> int:
        """The time in ms since this was asked last."""
        with self._lock:
            taken, self._taken_ms = self._ms - self._taken_ms, self._ms
        return taken

    @property
    def total_ms(self) -> int:
        """All of it, of pauses that have ended."""
        with self._lock:
            return self._ms


class WorkTime:
    """How long epochs are worked on, without their pauses, which ``paused`` counts: what was taken off as pause and as
    work held the watermark longer than the idle timeout."""

    def __init__(self, paused: PausedTime) -> None:
        self._paused = paused
        self._lock = threading.Lock()
        """The next epoch may begin while the end of the one before is noted."""
        self._begun_ms: int | None = None
        self._begun_paused_ms = 0
        self._ms: int | None = None
        """Of the newest epoch; None while it is worked on."""

    def begin(self, now_ms: int) -> int:
        """An epoch begins. Returns the ms for which the one before was worked on until now."""
        with self._lock:
            worked_ms = self._since_begin_ms(now_ms) if self._ms is None else self._ms
            self._begun_ms, self._begun_paused_ms, self._ms = now_ms, self._paused.total_ms, None
            return worked_ms

    def end(self, begun_ms: int, now_ms: int) -> None:
        """The epoch that began then is complete. Without effect if the next one has begun."""
        with self._lock:
            if begun_ms == self._begun_ms:
                self._ms = self._since_begin_ms(now_ms)

    def _since_begin_ms(self, now_ms: int) -> int:
        if self._begun_ms is None:
            return 0
        paused_ms = self._paused.total_ms - self._begun_paused_ms
        return max(now_ms - self._begun_ms - paused_ms, 0)  # two threads may have waited at once
