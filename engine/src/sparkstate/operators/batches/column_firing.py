"""The due timers of event time as columns, in the sets that ``firing`` describes.

Theory. The committed timers of each shard come in parts, in order of time. Those that were read may fire up to the
earliest of the times at which the shards' parts end; this epoch's own timers join by their times, those of that time
itself with the next parts. Of these the longest beginning without a repeated key is a set. Timers that are registered
meanwhile, and are due, are sorted in before the next set is cut.

A function that needs no order across keys gets the first timer of each key of a longer stretch instead, and the timers
that it left out with the next sets. Where each key has several due timers, sets are far larger (RFC 0063).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import numpy as np

from sparkstate.backends.long_index import Longs
from sparkstate.backends.timer_columns import ColumnarTimerTable, TimerColumns
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.batches.calls import BatchCalls
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.state.column_timers import ColumnTimers, Places
from sparkstate.operators.state.overlay import Overlay

CHUNK_TIMERS: Final = 8192
"""The most in a set: a function does much once per call."""
_FEWEST: Final = 64
"""Timers among which a set is looked for, where one key has many."""
_STRETCH: Final = 8
"""So many times the largest set, at most, is the stretch in which first timers of keys are looked for."""
_GROWS, _SHRINKS = 4, 16
"""The stretch grows while a set has this part of it, and is given up below that one: each set sorts all of it."""


class _NotInColumns(Exception):
    """A committed timer has a null key or a namespace."""


def fire(
    calls: BatchCalls,
    budget: EpochBudget | None,
    overlay: Overlay,
    timers: ColumnTimers,
    tables: Sequence[ColumnarTimerTable],
    until: int,
) -> bool:
    """Fire what is due. False: some are left that have no place in columns, or entries went to disk."""
    streams = [table.due_columns(until, CHUNK_TIMERS) for table in tables]
    kind = _DueColumns if calls.spec.function.is_ordered_across_keys else _DueByKey
    due = kind(timers, streams, until)
    fired = 0
    calls.outputs.start_piece(overlay)
    try:
        while len(places := due.next_set()):
            calls.fire_columns(overlay, timers.timestamps(places), timers.keys(places), timers.groups(places))
            fired += len(places)
            if fired >= CHUNK_TIMERS:  # sets may be small: one key may have all the timers
                fired = 0
                calls.outputs.end_piece(overlay)
                if budget is not None and budget.make_room(calls.tables, overlay):
                    return False
                calls.outputs.start_piece(overlay)
    except _NotInColumns:
        calls.outputs.end_piece(overlay)
        return False
    finally:
        timers.stop_pass()
    calls.outputs.end_piece(overlay)
    return True


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
                raise _NotInColumns
            self.waiting = timers.claim(part)
            self.read_to = int(part.timestamps[-1])


class _DueColumns:
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
            self._window = max(_FEWEST, 2 * length) if is_cut else min(CHUNK_TIMERS, 2 * self._window)
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


class _DueByKey(_DueColumns):
    """In order of time for each key."""

    def __init__(
        self, timers: ColumnTimers, streams: Sequence[Iterator[TimerColumns | None]], until: int
    ) -> None:
        super().__init__(timers, streams, until)
        self._left_out: Places = np.zeros(0, np.int32)
        """Those that wait for another timer of their key, in order of time; none in ``_next`` is earlier."""

    def next_set(self) -> Places:
        while True:
            self._join()
            fresh = self._next[: max(0, self._window - len(self._left_out))]
            stretch = np.concatenate([self._left_out, fresh])
            if not len(stretch):
                if not self._read_on():
                    return stretch
                continue
            self._next = self._next[len(fresh) :]
            stretch = stretch[self._timers.standing(stretch)]
            first = np.sort(np.unique(self._timers.keys(stretch), return_index=True)[1])[:CHUNK_TIMERS]
            found, self._left_out = stretch[first], np.delete(stretch, first)
            self._adapt(len(found), len(stretch))
            if len(found):
                self._timers.fire(found)
                return found

    def _adapt(self, found: int, looked_at: int) -> None:
        if found * _GROWS >= looked_at:
            self._window = min(_STRETCH * CHUNK_TIMERS, 2 * self._window)
        elif found * _SHRINKS < looked_at:
            self._put_back()
            self._window = max(_FEWEST, _GROWS * found)

    def _put_back(self) -> None:
        if len(self._left_out):
            self._next = np.concatenate([self._left_out, self._next])
            self._left_out = self._left_out[:0]


def _without_repeats(keys: Longs, timestamps: Longs) -> int:
    """How many timers there are before the first key that comes a second time."""
    if not len(keys) or timestamps[0] == timestamps[-1]:
        return len(keys)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeats = order[1:][ordered[1:] == ordered[:-1]]
    return int(repeats.min()) if len(repeats) else len(keys)
