"""Many windows of each key that end in one epoch: at the end of a bounded input, and where the watermark jumps.

Theory. The end of the first window divides the slices. All that lie before it are merged backwards, which gives the
part of each window before the end; all behind it forwards, which gives the other part. So a window takes three merges,
and each slice is read once. ``tails`` does the same over several epochs, with both parts in state. Where accumulators
can be subtracted exactly, a window is the difference of two sums.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sparkstate.aggregates import accumulators
from sparkstate.aggregates.accumulators import Entries, StoredAccumulators
from sparkstate.aggregates.slices import Flags, Slices, Times
from sparkstate.aggregates.terms import Terms

Places = npt.NDArray[np.int64]
"""Numbers of keys."""


class WindowBlock:
    """The slices of some keys and the windows over them."""

    def __init__(
        self,
        stored: StoredAccumulators,
        slices: Slices,
        counts: Times,
        spaces: npt.NDArray[np.int64],
        found: Entries,
        present: Flags,
        terms: Terms | None = None,
    ) -> None:
        """``spaces`` and ``present`` have a row for each key, from the first slice of its first window on. ``found``
        has the entries that are there, in this order. ``counts``: how many windows of each key end. ``terms``: those of
        the aggregates, if all of them have any."""
        self._stored = stored
        self._per_window, self._per_slide = slices.per_window, slices.per_slide
        self._counts = counts
        self._spaces = spaces
        self._found = found
        self._present = present
        self._terms = terms
        self._too_large = np.zeros(len(spaces), np.bool_)
        """Keys with a merge, of fewer slices than a window has, that does not fit. Their windows may."""
        self._where = np.full(spaces.shape, -1)
        self._where[present] = np.arange(np.count_nonzero(present))

    def windows(self) -> Iterator[tuple[int, Places, Entries]]:
        """The first window of each key, then the second, and so on: its number, the keys that have one, the results."""
        return self._by_merging() if self._terms is None else self._by_subtracting(self._terms)

    def _by_subtracting(self, terms: Terms) -> Iterator[tuple[int, Places, Entries]]:
        """Sums of all slices up to each one, and windows as their differences."""
        found = terms.of_entries(self._found)
        keys, slices = self._present.shape
        sums = np.zeros((len(found), keys, slices + 1), np.int64)
        sums[:, :, 1:][:, self._present] = found
        np.cumsum(sums, axis=2, out=sums)
        for step in range(int(self._counts.max())):
            begin = step * self._per_slide
            whole = sums[:, :, begin + self._per_window] - sums[:, :, begin]
            places = np.flatnonzero((self._counts > step) & (whole[0] > 0))
            if len(places):
                yield step, places, terms.to_entries(whole[:, places])

    def _by_merging(self) -> Iterator[tuple[int, Places, Entries]]:
        before, front = self._tails(), None
        for step in range(int(self._counts.max())):
            merged = before[step]
            if step:
                begin = self._per_window + (step - 1) * self._per_slide
                front = self._merged(front, begin, begin + self._per_slide, is_behind=True)
                merged = self._merge_pair(merged, front)
            is_there = (self._counts > step) & accumulators.has_rows(merged) & ~self._too_large
            if len(places := np.flatnonzero(is_there)):
                yield step, places, accumulators.taken(merged, places)
            if self._too_large.any():
                yield from self._of_slices(step, np.flatnonzero(self._too_large & (self._counts > step)))

    def _of_slices(self, step: int, places: Places) -> Iterator[tuple[int, Places, Entries]]:
        """The windows of these keys, each from all of its slices."""
        begin = step * self._per_slide
        merged = self._stored.merge_lines(self._found, self._where[places, begin : begin + self._per_window])
        some = np.flatnonzero(accumulators.has_rows(merged))
        if len(some):
            yield step, places[some], accumulators.taken(merged, some)

    def _tails(self) -> list[Entries]:
        """Of each window the part before the end of the first one."""
        last = int(self._counts.max()) - 1
        tails = [self._merged(None, last * self._per_slide, self._per_window, is_behind=False)]
        for step in range(last - 1, -1, -1):
            begin = step * self._per_slide
            tails.append(self._merged(tails[-1], begin, begin + self._per_slide, is_behind=False))
        return tails[::-1]

    def _merged(self, other: Entries | None, begin: int, end: int, *, is_behind: bool) -> Entries:
        """Slices from ``begin`` to ``end``, merged; they come behind ``other``, or before it."""
        columns = self._where[:, begin:end]
        chosen = np.flatnonzero(columns.reshape(-1) >= 0)
        own = accumulators.taken(self._found, columns.reshape(-1)[chosen])
        codes, count = np.repeat(np.arange(len(columns)), end - begin)[chosen], len(columns)
        if other is None:
            return self._merge(own, codes, count)
        if not len(chosen):
            return other
        sets, numbers = (own, other), (codes, np.arange(count))
        if is_behind:
            sets, numbers = sets[::-1], numbers[::-1]
        return self._merge(accumulators.joined(*sets), np.concatenate(numbers), count)

    def _merge_pair(self, first: Entries, second: Entries) -> Entries:
        places = np.arange(len(self._counts))
        return self._merge(accumulators.joined(first, second), np.concatenate([places, places]), len(places))

    def _merge(self, entries: Entries, codes: npt.NDArray[np.int64], count: int) -> Entries:
        """One entry for each key; what it is does not matter for keys that are too large."""
        merged, too_large = self._stored.merge_what_fits(entries, codes, count)
        self._too_large |= too_large
        return merged

    def slices(self) -> tuple[Places, Times]:
        """Keys and slices that are there."""
        places, columns = np.nonzero(self._present)
        return places, self._spaces[places, columns]

    def passed(self) -> tuple[Places, Times]:
        """Those that no window after these has."""
        places, columns = np.nonzero(self._present)
        gone = columns < self._counts[places] * self._per_slide
        return places[gone], self._spaces[places[gone], columns[gone]]

    def left(self) -> tuple[Places, Entries]:
        """The slices of the last window of each key that the window after it has too: keys and accumulators."""
        first = (self._counts * self._per_slide)[:, None]
        columns = np.arange(self._present.shape[1])
        rest = self._present & (columns >= first) & (columns < first + self._per_window - self._per_slide)
        return np.nonzero(rest)[0], accumulators.taken(self._found, self._where[rest])

    def has_more(self) -> Flags:
        """Whether the window after the last of each key has slices that were read."""
        columns = np.arange(self._present.shape[1])
        rest = self._present & (columns >= (self._counts * self._per_slide)[:, None])
        return np.asarray(rest.any(axis=1))
