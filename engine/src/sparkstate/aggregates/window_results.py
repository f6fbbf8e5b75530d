"""Windows from the accumulators of their slices.

A window of n slices that starts m slices after the one before shares n - m slices with it. To merge all n for each
window costs n reads. So where windows overlap much, something is kept for the next window: a running total from which
slices are subtracted when they leave, where all aggregates can be subtracted exactly (``running_totals``), and merges
of slices otherwise (``tails``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sparkstate.aggregates.accumulators import Output, StoredAccumulators
from sparkstate.aggregates.kept_merges import Ended, KeptMerges, SliceChanges
from sparkstate.aggregates.running_totals import RunningTotals
from sparkstate.aggregates.slices import FARTHEST_TIME, Slices, Times
from sparkstate.aggregates.tails import Tails
from sparkstate.aggregates.terms import Terms
from sparkstate.aggregates.window_blocks import WindowBlock
from sparkstate.batches.functions import BatchRuntimeContext
from sparkstate.batches.keys import BatchKeys

_WORTH_IT: Final = 4
"""With fewer windows over each slice, what is kept costs more than it saves."""


class WindowResults:
    """The windows of one operator in one slot."""

    def __init__(self, ctx: BatchRuntimeContext, slices: Slices, outputs: tuple[Output, ...]) -> None:
        self.slices = slices
        self.stored = StoredAccumulators(ctx, outputs)
        """By key and slice."""
        self._terms = Terms.of(outputs)
        self._kept = self._kept_merges(ctx, outputs)

    def _kept_merges(self, ctx: BatchRuntimeContext, outputs: tuple[Output, ...]) -> KeptMerges | None:
        """None where windows are always merged from all of their slices."""
        if self.slices.per_size < _WORTH_IT:
            return None
        if self._terms is None:
            return Tails(ctx, self.slices, outputs, self.stored)
        return RunningTotals(ctx, self.slices, self._terms, self.stored)

    def whole(self, keys: BatchKeys, ends: Times) -> Ended:
        """Windows from all of their slices."""
        spaces = self.slices.of_windows(ends)
        found, present = self.stored.read_table(keys, spaces)
        codes = np.repeat(np.arange(len(ends)), spaces.shape[1])[present.reshape(-1)]
        leaving, has_more = (
            present[:, : self.slices.per_slide],
            present[:, self.slices.per_slide :].any(axis=1),
        )
        places, columns = np.nonzero(leaving)
        passed = places, spaces[places, columns]
        return Ended(self.stored.merge(found, codes, len(ends)), np.asarray(has_more), passed)

    def ending(self, keys: BatchKeys, ends: Times) -> Ended:
        """Windows that end now, each the next one of its key."""
        return self.whole(keys, ends) if self._kept is None else self._kept.ending(keys, ends)

    def due(self, ends: Times, watermark: int) -> Times:
        """Of windows that end now: how many windows of the key end together, this one included; at most as many as
        begin within a window. 1 where one after another costs less, and where slices have timers for the end of their
        lateness: such a timer may be that of a window as well."""
        if self._kept is None or self.slices.lateness:
            return np.ones(len(ends), np.int64)
        last, steps = min(watermark, 2 * FARTHEST_TIME) + 1, self.slices.per_size
        counts = np.minimum((last - ends) // self.slices.slide + 1, steps)
        return np.where(counts * 2 >= steps, counts, 1)

    def ending_together(self, keys: BatchKeys, ends: Times, counts: Times) -> WindowBlock:
        """The windows that end now, and those after them up to ``counts`` of each key."""
        assert self._kept is not None
        width = self.slices.per_window + (int(counts.max()) - 1) * self.slices.per_slide
        spaces = ends[:, None] - self.slices.size + np.arange(width, dtype=np.int64) * self.slices.width
        found, present = self.stored.read_table(keys, spaces)
        block = WindowBlock(self.stored, self.slices, counts, spaces, found, present, self._terms)
        self._kept.end_together(keys, ends, counts, block)
        return block

    def late(self, changes: SliceChanges, following: int) -> None:
        """Slices changed that windows have had before; ``following`` is the least end of windows to come."""
        if self._kept is not None:
            self._kept.late(changes, following)
