"""Timers in memory: one set per timestamp, and a heap of the timestamps.

Used by the hash map backend, and by the RocksDB backend when its timer service is ``heap``.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkstate.backends import canonical, timer_columns, value_columns
from sparkstate.backends.base import CanonicalRow, TableSpec, Timer
from sparkstate.backends.layered_dict import ABSENT, LayeredDict, View
from sparkstate.backends.timer_columns import TimerColumns

_FEW = 1000
"""So many times without timers are not worth a look through the heap."""


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
        self._times = 0
        """How many timestamps have timers."""

    def __len__(self) -> int:
        return self._count

    def add(self, timer: Timer) -> None:
        """Register; nothing happens if it is there."""
        bucket = self._bucket_for(timer.timestamp)
        if (timer.key, timer.namespace) not in bucket:
            bucket[timer.key, timer.namespace] = timer.key_group
            self._count += 1

    def apply_columns(self, columns: TimerColumns) -> None:
        """Register and delete many."""
        for registered in (False, True):
            change = self._add_all if registered else self._remove_all
            chosen = columns.select(np.flatnonzero(columns.registered == registered))
            stamps = chosen.timestamps
            if len(stamps) and (stamps != stamps[0]).any():
                chosen = chosen.select(np.argsort(stamps, kind="stable"))
                stamps = chosen.timestamps
            keys, groups = chosen.keys.tolist(), chosen.key_groups.tolist()
            ends = (np.flatnonzero(np.diff(stamps)) + 1).tolist()
            for start, end in itertools.pairwise([0, *ends, len(keys)] if keys else []):
                change(int(stamps[start]), keys[start:end], groups[start:end])

    def _add_all(self, timestamp: int, keys: Sequence[Any], groups: Sequence[int]) -> None:
        bucket = self._bucket_for(timestamp)
        before = len(bucket)
        bucket.update(zip(zip(keys, itertools.repeat(None)), groups, strict=True))
        self._count += len(bucket) - before

    def _remove_all(self, timestamp: int, keys: Sequence[Any], groups: Sequence[int]) -> None:
        bucket = self._own_bucket(timestamp)
        if bucket is None:
            return
        before, remove = len(bucket), bucket.pop
        for key in keys:
            remove((key, None), None)
        self._count -= before - len(bucket)
        if not bucket:
            self._forget(timestamp)

    def _forget(self, timestamp: int) -> None:
        self._buckets.delete(timestamp)
        self._times -= 1

    def _bucket_for(self, timestamp: int) -> dict[tuple[Any, Any], int]:
        bucket = self._own_bucket(timestamp)
        if bucket is None:
            bucket = {}
            self._buckets.set(timestamp, bucket)
            self._times += 1
            heapq.heappush(self._heap, timestamp)
            if len(self._heap) > 2 * self._times + _FEW:
                self._drop_empty_times()
        return bucket

    def _drop_empty_times(self) -> None:
        """A time without timers goes by itself once it is the least. Behind a timer that stays, the times of those that
        are registered anew again and again (an idle time-out) would pile up."""
        self._heap = sorted({stamp for stamp in self._heap if self._buckets.get(stamp) is not ABSENT})

    def remove(self, timer: Timer) -> None:
        """Delete; nothing happens if it is not there."""
        bucket = self._own_bucket(timer.timestamp)
        if bucket is not None and bucket.pop((timer.key, timer.namespace), None) is not None:
            self._count -= 1
            if not bucket:
                self._forget(timer.timestamp)

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
        for timestamp in self._due_times(until):
            for (key, namespace), key_group in self._buckets.get(timestamp).items():
                yield Timer(timestamp, key, key_group, namespace)

    def due_columns(self, until: int, at_once: int) -> Iterator[TimerColumns | None]:
        """The same as columns (``base.ColumnarTimerTable``); those of one time are in one part."""
        cells: list[tuple[Any, Any]] = []
        groups: list[int] = []
        times: list[int] = []
        for timestamp in self._due_times(until):
            bucket = self._buckets.get(timestamp)
            cells += bucket
            groups += bucket.values()
            times += itertools.repeat(timestamp, len(bucket))
            if len(cells) >= at_once:
                yield _columns(times, cells, groups)
                cells, groups, times = [], [], []
        if cells:
            yield _columns(times, cells, groups)

    def _due_times(self, until: int) -> Iterator[int]:
        while self._heap and self._heap[0] <= until:
            self._ready.append(heapq.heappop(self._heap))
        # A timestamp stays in `ready` until its bucket is empty, and is there twice if it was emptied and
        # filled again.
        self._ready = sorted({stamp for stamp in self._ready if self._buckets.get(stamp) is not ABSENT})
        for timestamp in self._ready:
            if timestamp > until:
                return
            yield timestamp

    def next_timestamp(self) -> int | None:
        """The least timestamp, or None."""
        while self._heap and self._buckets.get(self._heap[0]) is ABSENT:
            heapq.heappop(self._heap)
        ready = [stamp for stamp in self._ready if self._buckets.get(stamp) is not ABSENT]
        return min(ready + self._heap[:1], default=None)

    def freeze(self) -> View:
        """A view for a snapshot in another thread; pass it to :func:`rows`, and release it."""
        return self._buckets.freeze()


def _columns(
    times: Sequence[int], cells: Sequence[tuple[Any, Any]], groups: Sequence[int]
) -> TimerColumns | None:
    if any(namespace is not None for _, namespace in cells):
        return None
    longs = value_columns.long_keys([key for key, _ in cells])
    if longs is None:
        return None
    return timer_columns.registered(np.array(times, np.int64), longs, np.array(groups, np.int32))


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
