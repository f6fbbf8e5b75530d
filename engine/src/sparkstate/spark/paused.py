"""The time in which a job takes nothing in: it says nothing about whether its sources are idle."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from sparkstate import clock


class PausedTime:
    """What pauses took, of every thread that waits. Two threads that wait at once count twice, which
    ``Watermarks.paused`` bears."""

    def __init__(self, clock_: clock.Clock) -> None:
        self._clock = clock_
        self._lock = threading.Lock()
        self._ms = 0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Meanwhile nothing is taken in."""
        began_ms = self._clock.now_ms()
        try:
            yield
        finally:
            with self._lock:
                self._ms += max(self._clock.now_ms() - began_ms, 0)

    def take(self) -> int:
        """The time in ms since this was asked last."""
        with self._lock:
            taken, self._ms = self._ms, 0
        return taken
