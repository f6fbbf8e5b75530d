"""The one place that reads time, so that everything else can be driven by hand in a test."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in milliseconds since the Unix epoch, monotonic time in seconds, and sleeping."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""


def monotonic_ms(clock: Clock) -> int:
    """``clock.monotonic()`` in whole milliseconds."""
    return round(clock.monotonic() * 1000)


class SystemClock:
    """The machine's own clocks. ``monotonic`` stands still while the machine sleeps."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class WakefulClock(SystemClock):
    """A system clock whose ``monotonic`` counts the time that the machine was suspended, where the kernel knows it
    (Linux's CLOCK_BOOTTIME; elsewhere it is the system clock's).

    For times that others measure by their own clocks: a virtual machine that was paused for an hour has been silent for
    an hour, however little of it CLOCK_MONOTONIC has seen.
    """

    def monotonic(self) -> float:
        return (
            time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
        )
