"""Due timers as columns, in order of time for each key alone: sets are larger where keys have several due timers.

Theory. A set has the first timer of each key in a stretch of all timers, and those that it leaves out come with the
next sets (RFC 0063). The longer the stretch, the more keys it may have, and the more timers are sorted for each set. So
now and then the longest one is looked at, which tells how many keys each beginning of it has. Where all keys have
timers at the same times, sets in order of time are as large, and nothing is sorted for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.operators.batches.due_columns import FEWEST, DueColumns
from sparkstate.operators.batches.timer_sets import CHUNK_TIMERS
from sparkstate.operators.state.column_timers import ColumnTimers, Places

_STRETCH: Final = 8
"""So many times the largest set is the longest stretch."""
_CALL: Final = 50_000
"""A call of a function costs about as much as sorting so many timers by key: some 5 ms for windows of ``.agg``."""
_SETS: Final = 16
"""After so many sets, the length of the stretch is chosen anew."""


class DueByKey(DueColumns):
    """One pass over them."""

    def __init__(
        self, timers: ColumnTimers, streams: Sequence[Iterator[TimerColumns | None]], until: int
    ) -> None:
        super().__init__(timers, streams, until)
        self._left_out: Places = np.zeros(0, np.int32)
        """Those that wait for another timer of their key, in order of time; none in ``_next`` is earlier."""
        self._length = 0
        """Of a stretch; 0: sets are in order of time."""
        self._sets = self._pool = 0
        """Since the length was chosen: how many sets there were; and how many timers could fire then."""

    def next_set(self) -> Places:
        while True:
            self._join()
            if not (self._left_out.size or self._next.size or self._read_on()):
                return self._next
            pool = len(self._left_out) + len(self._next)
            is_choosing = self._sets % _SETS == 0 or pool > 2 * self._pool
            if is_choosing:
                self._sets, self._pool = 0, pool
            self._sets += 1
            if not (is_choosing or self._length):
                return super().next_set()
            found = self._chosen_set() if is_choosing else self._cut(self._stretch(self._length))
            if len(found):
                self._timers.fire(found)
                return found

    def _chosen_set(self) -> Places:
        """A set, and the length of the stretch for those that follow."""
        stretch = self._stretch(_STRETCH * CHUNK_TIMERS)
        standing, first = self._first_of_keys(stretch)
        self._length = _best_length(first, len(stretch))
        in_order = min(int(np.count_nonzero(first == standing[: len(first)])), CHUNK_TIMERS)
        found = self._cut(stretch[: max(self._length, len(self._left_out))])
        if 2 * len(found) < 3 * in_order:
            self._put_back()
            self._length = 0
        return found

    def _stretch(self, length: int) -> Places:
        """The timers that come first, so many or those that were left out."""
        return np.concatenate([self._left_out, self._next[: max(0, length - len(self._left_out))]])

    def _first_of_keys(self, stretch: Places) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Where those that stand are, and of these the first of each key."""
        standing = np.flatnonzero(self._timers.standing(stretch))
        keys = self._timers.keys(stretch[standing])
        return standing, standing[np.sort(np.unique(keys, return_index=True)[1])]

    def _cut(self, stretch: Places) -> Places:
        standing, first = self._first_of_keys(stretch)
        chosen = first[:CHUNK_TIMERS]
        self._next = self._next[len(stretch) - len(self._left_out) :]
        self._left_out = stretch[np.setdiff1d(standing, chosen, assume_unique=True)]
        return stretch[chosen]

    def _put_back(self) -> None:
        if len(self._left_out):
            self._next = np.concatenate([self._left_out, self._next])
            self._left_out = self._left_out[:0]


def _best_length(first: npt.NDArray[np.intp], longest: int) -> int:
    """The length of a stretch with the least cost of a timer, if the keys come at these places for the first time."""
    lengths = [longest]
    while lengths[-1] > FEWEST:
        lengths.append(lengths[-1] // 2)
    in_sets = [min(int(np.searchsorted(first, length)), CHUNK_TIMERS) for length in lengths]
    costs = [(_CALL + length) / max(1, count) for length, count in zip(lengths, in_sets, strict=True)]
    return max(1, lengths[costs.index(min(costs))])
