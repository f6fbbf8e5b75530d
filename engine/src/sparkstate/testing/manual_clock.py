"""A clock that stands still until it is told."""

from __future__ import annotations


class ManualClock:
    """A ``sparkstate.clock.Clock`` for tests: ``sleep`` moves it on at once."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.advance(round(seconds * 1000))

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.set(self._now_ms + milliseconds)

    def set(self, now_ms: int) -> None:
        """Go to a time, which must not lie behind."""
        if now_ms < self._now_ms:
            raise ValueError(f"time cannot go back from {self._now_ms} to {now_ms} ms")
        self._now_ms = now_ms
