"""Work under way that may take long, in bytes, and the time that is left of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, TypeAlias

from sparkstate.clock import Clock
from sparkstate.control.documents import LongWorkKind, Progress

_KNOWN_S: Final = 1.0
"""The pace of less than that says nothing."""
_LONGEST_MS: Final = 1000 * 24 * 3600 * 1000
"""Nor does one by which more is left, as after a few bytes of a restore whose storage went away. The operator refuses a
report with a time that no calendar has."""
Rescale: TypeAlias = tuple[int, int]
"""The numbers of slots before and after."""


@dataclass(frozen=True)
class _Work:
    since_ms: int
    began: float
    done_bytes: int
    total_bytes: int
    rescale: Rescale | None


class LongWork:
    """Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._works: dict[tuple[LongWorkKind, str], _Work] = {}

    def note(
        self,
        kind: LongWorkKind,
        done_bytes: int,
        total_bytes: int,
        name: str = "",
        rescale: Rescale | None = None,
    ) -> None:
        """So much is done of so much. The first note begins the work. A total that proves too small grows.

        ``rescale``: of a restore into another number of slots; it holds for the later notes too.
        """
        now_ms, now = self._clock.now_ms(), self._clock.monotonic()
        with self._lock:
            before = self._works.get((kind, name), _Work(now_ms, now, 0, 0, rescale))
            done = max(done_bytes, before.done_bytes)
            total = max(total_bytes, done)
            self._works[kind, name] = _Work(before.since_ms, before.began, done, total, before.rescale)

    def end(self, kind: LongWorkKind, name: str = "") -> None:
        """It is over, in whatever way. Ending twice is allowed."""
        with self._lock:
            self._works.pop((kind, name), None)

    def documents(self) -> tuple[Progress, ...]:
        """All that is under way, the oldest first."""
        now = self._clock.monotonic()
        with self._lock:
            works = list(self._works.items())
        return tuple(
            Progress(
                kind=kind,
                name=name,
                since_ms=work.since_ms,
                done_bytes=work.done_bytes,
                total_bytes=work.total_bytes,
                left_ms=left_ms(work.done_bytes, work.total_bytes, now - work.began),
                slots_before=work.rescale[0] if work.rescale else None,
                slots_after=work.rescale[1] if work.rescale else None,
            )
            for (kind, name), work in works
        )


def left_ms(done_bytes: int, total_bytes: int, elapsed_s: float) -> int | None:
    """The time left at the pace so far. None while nothing is done, while the pace is that of a moment or nearly none,
    and once nothing seems left, because the total was an estimate."""
    if not 0 < done_bytes < total_bytes or elapsed_s < _KNOWN_S:
        return None
    left = round((total_bytes - done_bytes) * elapsed_s / done_bytes * 1000)
    return left if left <= _LONGEST_MS else None
