"""The due timers of event time as columns, in sets of different keys in order of time.

Theory. The committed timers of each shard come in parts, in order of time. Those that were read may fire up to the
earliest of the times at which the shards' parts end; this epoch's own timers join by their times, those of that time
itself with the next parts. Of these the longest beginning without a repeated key is a set. Timers that are registered
meanwhile, and are due, are sorted in before the next set is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import numpy as np

from sparkstate.backends.long_index import Longs
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.batches.timer_sets import CHUNK_TIMERS
from sparkstate.operators.state.column_timers import ColumnTimers, Places

FEWEST: Final = 64
"""Timers among which a set is looked for, where one key has many."""


class NotInColumns(Exception):
    """A committed timer has a null key or a namespace."""


class _Stream:
    """The committed timers of one shard: those that were read and have not fired, and how far they were read."""

    def __init__(self, parts: Iterator[TimerColumns | None]) -> None:
        self._parts = parts
        self.waiting: Places = np.zeros(0, np.int32)
        self.read_to = MIN_WATERMARK
        """The time of the last one that was read."""
        self.has_ended = False

    def read(self, timers: ColumnTimers) -> None:
        """Read on if nothing waits."""
        while not len(self.waiting):
            try:
                part = next(self._parts)
            except StopIteration:
                self.has_ended = True
                return
            if part is None:
                raise NotInColumns
            self.waiting = timers.claim(part)
            self.read_to = int(part.timestamps[-1])


class DueColumns:
    """One pass over them."""

    def __init__(
        self, timers: ColumnTimers, streams: Sequence[Iterator[TimerColumns | None]], until: int
    ) -> None:
        self._timers = timers
        self._streams = [_Stream(parts) for parts in streams]
        self._until = self._horizon = until
        self._own = timers.start_pass(until)
        """This epoch's own that wait for committed ones before them."""
        self._next: Places = np.zeros(0, np.int32)
        """Those that may fire now, in order of time."""
        self._window = CHUNK_TIMERS

    def next_set(self) -> Places:
        """Timers of different keys, marked as fired; empty when none is left."""
        while True:
            self._join()
            window = self._next[: self._window]
            if not len(window):
                if not self._read_on():
                    return window
                continue
            stands = np.flatnonzero(self._timers.standing(window))
            found = window[stands]
            length = _without_repeats(self._timers.keys(found), self._timers.timestamps(found))
            is_cut = length < len(found)
            self._next = self._next[int(stands[length]) if is_cut else len(window) :]
            self._window = max(FEWEST, 2 * length) if is_cut else min(CHUNK_TIMERS, 2 * self._window)
            if length:
                found = found[:length]
                self._timers.fire(found)
                return found

    def _join(self) -> None:
        joined = self._timers.take_joined()
        if len(joined):
            self._put_back()
            self._own = self._merged(self._own, joined)
            self._take_own()

    def _put_back(self) -> None:
        """Everything that may fire now is in ``_next``."""

    def _take_own(self) -> None:
        # A shard's part may end among the timers of one time. One of these that was registered again fires when it was
        # read: until then nobody knows that it is stored, and if the pass ended early, it would fire again.
        side: Literal["left", "right"] = "left" if self._streams else "right"
        count = int(np.searchsorted(self._timers.timestamps(self._own), self._horizon, side=side))
        if count:
            self._next, self._own = self._merged(self._next, self._own[:count]), self._own[count:]

    def _read_on(self) -> bool:
        """More that may fire; False: there is nothing."""
        for stream in self._streams:
            stream.read(self._timers)
        self._streams = [stream for stream in self._streams if not stream.has_ended]
        self._horizon = min((stream.read_to for stream in self._streams), default=self._until)
        parts = []
        for stream in self._streams:
            stamps = self._timers.timestamps(stream.waiting)
            count = int(np.searchsorted(stamps, self._horizon, side="right"))
            parts.append(stream.waiting[:count])
            stream.waiting = stream.waiting[count:]
        self._next = self._merged(*parts)
        self._take_own()
        return len(self._next) > 0 or len(self._streams) > 0

    def _merged(self, *parts: Places) -> Places:
        """The parts, each in order of time, as one."""
        filled = [part for part in parts if len(part)]
        return filled[0] if len(filled) == 1 else self._timers.merged(filled)


def _without_repeats(keys: Longs, timestamps: Longs) -> int:
    """How many timers there are before the first key that comes a second time."""
    if not len(keys) or timestamps[0] == timestamps[-1]:
        return len(keys)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeats = order[1:][ordered[1:] == ordered[:-1]]
    return int(repeats.min()) if len(repeats) else len(keys)
