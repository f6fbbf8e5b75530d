"""Timers in memory: one set per timestamp, and a heap of the timestamps.

Used by the hash map backend, and by the RocksDB backend when its timer service is ``heap``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from sparkstate.backends import canonical
from sparkstate.backends.base import CanonicalRow, TableSpec, Timer
from sparkstate.backends.layered_dict import ABSENT, LayeredDict, View


class HeapTimerTable:
    """A ``TimerTable``: deduplicated by (timestamp, key, namespace), read in order of time.

    ``due`` consumes nothing: an epoch that is given up leaves its timers armed. They go when a commit removes them.
    """

    def __init__(self) -> None:
        # timestamp → {(key, namespace): key group}; a bucket of a frozen layer is copied before it is changed
        self._buckets = LayeredDict()
        self._heap: list[int] = []
        self._ready: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, timer: Timer) -> None:
        """Register; nothing happens if it is there."""
        timestamp = timer.timestamp
        bucket = self._own_bucket(timestamp)
        if bucket is None:
            bucket = {}
            self._buckets.set(timestamp, bucket)
            heapq.heappush(self._heap, timestamp)
        if (timer.key, timer.namespace) not in bucket:
            bucket[timer.key, timer.namespace] = timer.key_group
            self._count += 1

    def remove(self, timer: Timer) -> None:
        """Delete; nothing happens if it is not there."""
        bucket = self._own_bucket(timer.timestamp)
        if bucket is not None and bucket.pop((timer.key, timer.namespace), None) is not None:
            self._count -= 1
            if not bucket:
                self._buckets.delete(timer.timestamp)

    def _own_bucket(self, timestamp: int) -> dict[tuple[Any, Any], int] | None:
        self._buckets.fold()
        bucket = self._buckets.get_own(timestamp)
        if bucket is ABSENT:
            bucket = self._buckets.get(timestamp)
            if bucket is ABSENT:
                return None
            bucket = dict(bucket)
            self._buckets.set(timestamp, bucket)
        return bucket  # type: ignore[no-any-return]

    def contains(self, timer: Timer) -> bool:
        bucket = self._buckets.get(timer.timestamp)
        return bucket is not ABSENT and (timer.key, timer.namespace) in bucket

    def due(self, until: int) -> Iterator[Timer]:
        """Timers with timestamp ≤ ``until`` in order of time; the table must not change meanwhile."""
        while self._heap and self._heap[0] <= until:
            self._ready.append(heapq.heappop(self._heap))
        # A timestamp stays in `ready` until its bucket is empty, and is there twice if it was emptied and
        # filled again.
        self._ready = sorted({stamp for stamp in self._ready if self._buckets.get(stamp) is not ABSENT})
        for timestamp in self._ready:
            if timestamp > until:
                return
            for (key, namespace), key_group in self._buckets.get(timestamp).items():
                yield Timer(timestamp, key, key_group, namespace)

    def next_timestamp(self) -> int | None:
        """The least timestamp, or None."""
        while self._heap and self._buckets.get(self._heap[0]) is ABSENT:
            heapq.heappop(self._heap)
        ready = [stamp for stamp in self._ready if self._buckets.get(stamp) is not ABSENT]
        return min(ready + self._heap[:1], default=None)

    def freeze(self) -> View:
        """A view for a snapshot in another thread; pass it to :func:`rows`, and release it."""
        return self._buckets.freeze()


def rows(view: View, spec: TableSpec, number: int) -> Iterator[CanonicalRow]:
    """All timers of a view as canonical rows of table ``number``, by time, and in an order of their own at one time, so
    that equal timers give equal rows. One time's timers are in memory a second time."""
    codec = canonical.TableCodec(spec)
    buckets = view.merged()
    for timestamp in sorted(buckets):
        timers = (
            Timer(timestamp, key, key_group, namespace)
            for (key, namespace), key_group in buckets[timestamp].items()
        )
        yield from sorted(codec.timer_row(number, timer) for timer in timers)
