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
        return replace(self, current=MAX_WATERMARK)

    def restored(self, current: int, largest: Sequence[int | None]) -> Watermarks:
        """As stored in a checkpoint; a source that the stored job did not have starts without a row."""
        known = [*largest, *([None] * len(self.sources))]
        return Watermarks(
            tuple(replace(source, largest=known[i]) for i, source in enumerate(self.sources)),
            current,
        )


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
