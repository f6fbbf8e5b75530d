"""Sessions as runs of neighbouring slices, where several slices of one session are in state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from sparkstate.aggregates import accumulators, span
from sparkstate.aggregates.accumulators import Entries, StoredAccumulators
from sparkstate.aggregates.kept_merges import Places
from sparkstate.aggregates.slices import Flags, Times
from sparkstate.batches.keys import BatchKeys

_AT_ONCE: Final = 1 << 20
"""So many slices are read together."""


class Step(NamedTuple):
    """Sessions so far, and the slices that follow them."""

    goes_on: Flags
    """Whether the next slice is there and belongs to the session."""
    places: Places
    """The sessions whose next slices are there."""
    following: Entries
    """Those slices, with the sessions that go on in them."""


class SessionRuns:
    """The sessions of one operator in one slot."""

    def __init__(self, stored: StoredAccumulators, gap: int) -> None:
        self._stored = stored
        self._gap = gap

    def tails(self, keys: BatchKeys, slices: Times) -> tuple[Times, Times]:
        """The last slice of the session of each of these slices, which are there, and its last time."""
        tails, lasts = slices.copy(), np.full(len(slices), span.LEAST)
        for places, spaces, found in self._walk(keys, slices, self._gap):
            np.maximum.at(tails, places, spaces)
            np.maximum.at(lasts, places, span.of_entries(found)[1])
        return tails, lasts

    def whole(self, keys: BatchKeys, tails: Times) -> Entries:
        """The sessions with these last slices."""
        parts = list(self._walk(keys, tails, -self._gap))
        places = np.concatenate([places for places, _, _ in parts])
        # Those of a session in order of time.
        order = np.lexsort((np.concatenate([spaces for _, spaces, _ in parts]), places))
        entries = accumulators.joined(*(found for _, _, found in parts))
        return self._stored.merge(accumulators.taken(entries, order), places[order], len(tails))

    def lasts(self, keys: BatchKeys, slices: Times) -> Times:
        """The last time of each slice; before all times where it is not there."""
        return span.of_places(*self._stored.read_packed(keys, slices))[1]

    def step(self, keys: BatchKeys, slices: Times, own: Entries) -> Step:
        """From sessions so far to these next slices."""
        found, present = self._stored.read_present(keys, slices)
        goes_on = span.of_places(found, present)[0] - self._gap <= span.of_entries(own)[1]
        places, joined = np.flatnonzero(present), np.flatnonzero(goes_on)
        if len(joined):
            both = accumulators.joined(accumulators.taken(own, joined), found)
            codes = np.concatenate([np.searchsorted(places, joined), np.arange(len(places))])
            found = self._stored.merge(both, codes, len(places))
        return Step(goes_on, places, found)

    def leave(self, keys: BatchKeys, slices: Times, step: Step, stays: Places) -> None:
        """Write the slices that sessions went on into, of those at the places ``stays`` of a step."""
        chosen = stays[step.goes_on[step.places[stays]]]
        if len(chosen):
            at = step.places[chosen]
            self._stored.write(keys.select(at), slices[at], accumulators.taken(step.following, chosen))

    def _walk(self, keys: BatchKeys, slices: Times, step: int) -> Iterator[tuple[Places, Times, Entries]]:
        """The slices of the sessions of these slices, from each of them on in steps: the number of the session that
        each belongs to, its start, and its accumulators. Twice as many are read each time, so that a session of n
        slices takes log n reads."""
        going, at, width, is_begin = np.arange(len(slices)), slices, 2, True
        while len(going):
            spaces = at[:, None] + np.arange(width, dtype=np.int64) * step
            found, present = self._stored.read_table(keys.select(going), spaces)
            in_run = self._in_run(found, present, step)
            chosen = in_run.copy()
            chosen[:, 0] &= is_begin  # otherwise the read before had it
            lines, columns = np.nonzero(chosen)
            where = np.cumsum(present.reshape(-1)) - 1
            entries = accumulators.taken(found, where.reshape(present.shape)[lines, columns])
            yield going[lines], spaces[lines, columns], entries
            on = np.flatnonzero(in_run[:, -1])
            going, at, is_begin = going[on], spaces[on, -1], False
            width = max(2, min(2 * width, _AT_ONCE // max(1, len(going))))

    def _in_run(self, found: Entries, present: Flags, step: int) -> Flags:
        """Whether the slices in each line belong to the session of the first one, and all between them do."""
        firsts, lasts = span.of_places(found, present)
        before, after = (lasts[:, :-1], firsts[:, 1:]) if step > 0 else (lasts[:, 1:], firsts[:, :-1])
        linked = present.copy()
        linked[:, 1:] &= present[:, :-1] & (after - self._gap <= before)
        return np.logical_and.accumulate(linked, axis=1)
