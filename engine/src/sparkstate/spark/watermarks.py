"""The watermark of an epoch: pure, so that a replay with the same acknowledgements sees the same.

The definition is Flink's. A source's watermark is (largest event time − allowed delay − 1): no row at that time or
before it is expected any more. A row at the watermark is late, a timer at the watermark is due. The watermark of the
job is the least over its sources, and it never goes back. Sources without event time have no watermark.

Where a job names the columns that tell the parts of a source (the partitions of a Kafka topic), each part has a
largest event time of its own, and the least of them counts: a part that is read behind the others holds the watermark
until it has caught up. A source or part that brought no row for its idle timeout is left out. Parts are known by their
rows: one that never had a row holds nothing.

Idleness is time in which a part had nothing to read. While an epoch is worked on, its rows may be there and wait for
the next one; while sources are never at rest, that is all the time there is. So an epoch counts for half of the idle
timeout at most: a slow one makes nothing idle, and several in a row in which a part brought nothing do.

``now_ms`` and the times of activity are the monotonic clock's, in ms: a wall clock that jumps makes nothing idle. No
checkpoint stores them, and a restored job waits for each part afresh.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sparkstate import errors
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from sparkstate.checkpoint.metadata import CheckpointMetadata
    from sparkstate.spark.graph import Source

WHOLE: Final = ""
"""The part of a source whose parts are not told apart."""
MOST_PARTS: Final = 10_000
"""Of one source. A Kafka cluster has fewer partitions; a column of users' ids has more values."""

Largest = Mapping[tuple[int, str], int]
"""Largest event time by source and part."""


def part_label(columns: Sequence[str], values: Sequence[object]) -> str:
    """The name of a part, as checkpoints store it: what its columns say."""
    return json.dumps(dict(zip(columns, values, strict=True)), separators=(",", ":"))


@dataclass(frozen=True)
class PartTime:
    """One part as it is known: its largest event time, and the time of its last row (or restore)."""

    largest: int
    active_ms: int


@dataclass(frozen=True)
class SourceTime:
    """One source as it is known. ``active_ms`` is the time since which the job waits for it."""

    delay_ms: int
    idle_timeout_ms: int | None
    active_ms: int
    columns: tuple[str, ...] = ()
    """The columns that tell its parts; empty: it has one part, ``WHOLE``."""
    parts: Mapping[str, PartTime] = field(default_factory=dict)
    is_timed: bool = True
    """Whether its input has event time; one without holds nothing back."""

    @property
    def largest(self) -> int | None:
        """Largest event time of all parts; None until the first row."""
        return max((part.largest for part in self.parts.values()), default=None)

    def seen(self, largest: Mapping[str, int], now_ms: int) -> SourceTime:
        """After rows of some parts."""
        if not largest:
            return self
        parts = dict(self.parts)
        for label, time in largest.items():
            before = parts.get(label)
            parts[label] = PartTime(time if before is None else max(time, before.largest), now_ms)
        if (
            len(parts) > MOST_PARTS
        ):  # parts that are idle hold nothing: they are forgotten before anything fails
            parts = {k: part for k, part in parts.items() if not self._is_idle(part.active_ms, now_ms)}
        if len(parts) > MOST_PARTS:
            raise errors.SpecInvalid(
                f"the columns {list(self.columns)} of keyed(watermark_partition=…) tell more than {MOST_PARTS} parts "
                "apart; name the columns of the source's partitions, such as topic and partition, or give "
                "keyed(idle_timeout=…), after which parts without rows are forgotten"
            )
        return replace(self, parts=parts, active_ms=now_ms)

    def watermark(self, now_ms: int, current: int) -> int | None:
        """Its watermark; ``current`` before its first row; None while it is idle, and without event time."""
        if not self.is_timed:
            return None
        if not self.parts:
            return None if self._is_idle(self.active_ms, now_ms) else current
        active = [p.largest for p in self.parts.values() if not self._is_idle(p.active_ms, now_ms)]
        return max(min(active) - self.delay_ms - 1, MIN_WATERMARK) if active else None

    def paused(self, ms: int, now_ms: int) -> SourceTime:
        """After a pause of the job that took ``ms``: none of it counts as idleness."""
        parts = {k: replace(p, active_ms=min(p.active_ms + ms, now_ms)) for k, p in self.parts.items()}
        return replace(self, active_ms=min(self.active_ms + ms, now_ms), parts=parts)

    def worked(self, ms: int, now_ms: int) -> SourceTime:
        """After an epoch that took ``ms``."""
        timeout_ms = self.idle_timeout_ms
        over_ms = 0 if timeout_ms is None else ms - (timeout_ms + 1) // 2  # two of them are all of it
        return self.paused(over_ms, now_ms) if over_ms > 0 else self

    def _is_idle(self, active_ms: int, now_ms: int) -> bool:
        return self.idle_timeout_ms is not None and now_ms - active_ms >= self.idle_timeout_ms

    def restored(self, largest: int | None, parts: Mapping[str, int]) -> SourceTime:
        """With the times in a checkpoint. Parts that other columns told apart are no longer parts."""
        if self.columns:
            known = {k: v for k, v in parts.items() if tuple(json.loads(k)) == self.columns}
        else:
            known = {} if largest is None else {WHOLE: largest}
        return replace(self, parts={k: PartTime(v, self.active_ms) for k, v in known.items()})


@dataclass(frozen=True, kw_only=True)
class StoredWatermarks:
    """The watermarks in a checkpoint."""

    current: int
    largest: Mapping[int, int]
    """By source."""
    parts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """By source and part, of sources whose parts are told apart."""
    before_end: int | None = None
    """Of a drained job: the watermark before the end of the input. None where an older version stored it."""
    late_at_watermark: bool = True
    """False in checkpoints from before Flink's definition: (largest − delay), and a row at it is on time."""


def stored_in(metadata: CheckpointMetadata) -> StoredWatermarks:
    """The watermarks of a checkpoint or savepoint of this or an older version."""
    return StoredWatermarks(
        current=metadata.watermark,
        largest={int(i): time for i, time in metadata.source_watermarks.items()},
        parts={int(i): parts for i, parts in metadata.source_parts.items()},
        before_end=metadata.watermark_before_end,
        late_at_watermark=metadata.late_at_watermark,
    )


def with_one_watermark(metadata: CheckpointMetadata) -> frozenset[int]:
    """The sources of which rows were seen and no parts were told apart: by choice, because they have none, or by a
    version that did not know them."""
    return frozenset(int(i) for i in metadata.source_watermarks if i not in metadata.source_parts)


@dataclass(frozen=True)
class Watermarks:
    """State of the watermark between epochs."""

    sources: tuple[SourceTime, ...]
    current: int = MIN_WATERMARK
    before_end: int | None = None
    """Where the watermark was when the bounded input ended; None as long as it has not ended."""

    def advance(self, largest: Largest, now_ms: int) -> Watermarks:
        """After an epoch that showed these event times. Raises ``SpecInvalid`` when there are too many parts."""
        by_source: list[dict[str, int]] = [{} for _ in self.sources]
        if self.sources:
            for (source, part), time in largest.items():
                by_source[source][part] = time
        sources = tuple(
            source.seen(seen, now_ms) for source, seen in zip(self.sources, by_source, strict=True)
        )
        return Watermarks(sources, max(self.current, _least(sources, now_ms, self.current)))

    def paused(self, ms: int, now_ms: int) -> Watermarks:
        """After a pause of the job, in which no source could bring a row."""
        if ms <= 0:
            return self
        return replace(self, sources=tuple(source.paused(ms, now_ms) for source in self.sources))

    def worked(self, ms: int, now_ms: int) -> Watermarks:
        """After an epoch that took ``ms``, in which rows may have waited to be read."""
        sources = tuple(source.worked(ms, now_ms) for source in self.sources)
        return self if sources == self.sources else replace(self, sources=sources)

    def ended(self) -> Watermarks:
        """Bounded input: everything has been seen."""
        before = self.current if self.before_end is None else self.before_end
        return replace(self, current=MAX_WATERMARK, before_end=before)

    def restored(self, stored: StoredWatermarks) -> Watermarks:
        """As stored in a checkpoint; a source that the stored job did not have starts without a row.

        A job that was stored at the end of its input goes on where the watermark was before that end: +∞ was true of
        the rows that this run had, and with it every row of the next one was late. Where an older version did not store
        that, the largest event times say where it was.
        """
        sources = tuple(
            source.restored(stored.largest.get(i), stored.parts.get(i, {}))
            for i, source in enumerate(self.sources)
        )
        if stored.current != MAX_WATERMARK:
            return Watermarks(sources, _as_flinks(stored.current, stored))
        if stored.before_end is not None:
            return Watermarks(sources, _as_flinks(stored.before_end, stored))
        whole = [replace(s, columns=()).restored(stored.largest.get(i), {}) for i, s in enumerate(sources)]
        now_ms = max((source.active_ms for source in sources), default=0)
        return Watermarks(sources, _least(whole, now_ms, MIN_WATERMARK))

    def stored_largest(self) -> dict[int, int]:
        """By source, for a checkpoint."""
        return {i: s.largest for i, s in enumerate(self.sources) if s.largest is not None}

    def stored_parts(self) -> dict[int, dict[str, int]]:
        """By source and part, for a checkpoint."""
        return {
            i: {label: part.largest for label, part in source.parts.items()}
            for i, source in enumerate(self.sources)
            if source.columns and source.parts
        }


def fresh(sources: Sequence[Source], now_ms: int) -> Watermarks:
    """Before the first row."""
    timed = {source.of_input for source in sources if source.event_time}
    times = [
        SourceTime(s.delay_ms, s.idle_timeout_ms, now_ms, s.parts, is_timed=s.of_input in timed)
        for s in sources
    ]
    return Watermarks(tuple(times) if timed else ())


def _least(sources: Sequence[SourceTime], now_ms: int, current: int) -> int:
    return min(_known(sources, now_ms, current), default=current)


def _known(sources: Sequence[SourceTime], now_ms: int, current: int) -> Iterator[int]:
    for source in sources:
        watermark = source.watermark(now_ms, current)
        if watermark is not None:
            yield watermark


def _as_flinks(watermark: int, stored: StoredWatermarks) -> int:
    """The watermark for which the same rows are late as for the stored one."""
    moves = not stored.late_at_watermark and watermark != MIN_WATERMARK
    return watermark - 1 if moves else watermark
