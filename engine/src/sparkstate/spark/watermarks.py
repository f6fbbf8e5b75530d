"""The watermark of an epoch: pure, so that a replay with the same acknowledgements sees the same.

One value per epoch: the least over the sources of (largest event time − allowed delay); a source that brought no row
for its idle timeout is left out. It never goes back. Sources without event time have no watermark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from sparkstate.spark.graph import Source


@dataclass(frozen=True)
class SourceTime:
    """What is known of one source: ``largest`` is None until its first row, ``active_ms`` wall time of its last row."""

    delay_ms: int
    idle_timeout_ms: int | None
    active_ms: int
    largest: int | None = None


@dataclass(frozen=True)
class Watermarks:
    """State of the watermark between epochs."""

    sources: tuple[SourceTime, ...]
    current: int = MIN_WATERMARK
    before_end: int | None = None
    """Where the watermark was when the bounded input ended; None as long as it has not ended."""

    def advance(self, largest: Mapping[int, int], now_ms: int) -> Watermarks:
        """After an epoch in which source ``i`` showed ``largest[i]``."""
        sources = tuple(
            replace(source, largest=max(largest[i], source.largest or largest[i]), active_ms=now_ms)
            if i in largest
            else source
            for i, source in enumerate(self.sources)
        )
        return Watermarks(sources, max(self.current, _least(sources, now_ms, self.current)))

    def ended(self) -> Watermarks:
        """Bounded input: everything has been seen."""
        before = self.current if self.before_end is None else self.before_end
        return replace(self, current=MAX_WATERMARK, before_end=before)

    def restored(
        self, current: int, largest: Sequence[int | None], before_end: int | None = None
    ) -> Watermarks:
        """As stored in a checkpoint; a source that the stored job did not have starts without a row.

        What a run stored at the end of its input goes on where it was before that end: +∞ was true of the rows that
        this run had, and every row of the next one would be late. ``before_end`` is None where an older version
        stored it; the largest event times then say where it was.
        """
        known = [*largest, *([None] * len(self.sources))]
        sources = tuple(replace(source, largest=known[i]) for i, source in enumerate(self.sources))
        if current != MAX_WATERMARK:
            return Watermarks(sources, current)
        if before_end is None:
            before_end = _least(sources, max((s.active_ms for s in sources), default=0), MIN_WATERMARK)
        return Watermarks(sources, before_end)


def fresh(sources: Sequence[Source], now_ms: int) -> Watermarks:
    """Before the first row."""
    timed = any(source.event_time for source in sources)
    times = [SourceTime(source.delay_ms, source.idle_timeout_ms, now_ms) for source in sources]
    return Watermarks(tuple(times) if timed else ())


def _least(sources: Sequence[SourceTime], now_ms: int, current: int) -> int:
    candidates = []
    for source in sources:
        idle = source.idle_timeout_ms is not None and now_ms - source.active_ms >= source.idle_timeout_ms
        if idle:
            continue
        if source.largest is None:
            return current
        candidates.append(source.largest - source.delay_ms)
    return min(candidates, default=current)
