"""The function behind ``.window(…).agg(…)`` for windows of a fixed length: an accumulator for each key and slice. They
are merged when a window ends.

A batch's rows are grouped by key and slice once; then each state is read and written once, for all pairs of a key and a
slice together. The namespace of a pair is the start of its slice.

Timers. A key has one timer for the end of its next window. It is registered with the key's first row in a slice, and
when it fires, with the window after it as long as a slice of that window is there. With lateness a slice has another
timer, for the time when its last window is over; without it, that time is the end of the window. So after the last
window nothing is left.

A row of a window that has ended but is not over changes its slice, and the window is put out again, once for each batch
that has such rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate import durations
from sparkstate.aggregates import accumulators, sliced_rows
from sparkstate.aggregates.accumulators import Entries
from sparkstate.aggregates.column_windows import ColumnWindows
from sparkstate.aggregates.kept_merges import SliceChanges
from sparkstate.aggregates.sliced_rows import SlicedRows
from sparkstate.aggregates.slices import Flags, Times
from sparkstate.aggregates.window_results import WindowResults
from sparkstate.batches.functions import (
    BatchContext,
    BatchRuntimeContext,
    BatchTimerService,
    OnTimersContext,
)
from sparkstate.batches.keys import BatchKeys

_AT_ONCE: Final = 1 << 20
"""So many pairs of keys and slices are read together when windows end."""
_IN_A_BLOCK: Final = 1 << 17
"""The same where many windows of each key end: as many merges are there at once."""


class WindowAggregation(ColumnWindows):
    """Tumbling and sliding windows."""

    kind_of_windows = "windows with built-in aggregates"

    @property
    def _windows_title(self) -> str:
        kind = "Tumbling" if self._slices.slide == self._slices.size else "Sliding"
        every = "" if kind == "Tumbling" else f" every {durations.text(self._slices.slide)}"
        return f"{kind}EventTimeWindows of {durations.text(self._slices.size)}{every}"

    @property
    def _lengths(self) -> Mapping[str, int]:
        slices = self._slices
        return {
            "size of windows": slices.size,
            "slide of windows": slices.slide,
            "offset of windows": slices.offset,
        }

    def open(self, ctx: BatchRuntimeContext) -> None:
        self._windows = WindowResults(ctx, self._slices, self._outputs)

    # --- rows

    def process_batch(self, batch: pa.RecordBatch, keys: BatchKeys, ctx: BatchContext) -> Iterator[Any]:
        times = sliced_rows.times_of(ctx.timestamps(), self._slices)
        watermark = ctx.timer_service().current_watermark()
        slices = self._slices.of(times)
        # A combined row has the time of its last row: where that one is late, so are all of them.
        is_late = self._slices.are_late(times, slices, watermark)
        if is_late.any():
            yield from self._late(batch, is_late, ctx)
        kept = self._slices.has_window(slices) & ~is_late
        if kept.any():
            rows = sliced_rows.chosen_rows(batch, keys, times, slices, kept)
            yield from self._take(rows, keys, ctx)

    def _take(self, rows: SlicedRows, keys: BatchKeys, ctx: BatchContext) -> Iterator[pa.RecordBatch]:
        pairs = keys.select(rows.pair_keys)
        before, after = self._fold(self._windows.stored, pairs, rows)
        self._register(pairs, rows.pair_slices, ~accumulators.has_rows(before), ctx)
        following = _following(ctx.timer_service())
        # Also where no window is put out again: what was merged for windows to come has those slices.
        is_late = self._slices.first_ends(rows.pair_slices) < following
        if is_late.any():
            changes = SliceChanges(keys, rows.pair_keys, rows.pair_slices, before, after)
            self._windows.late(changes.select(np.flatnonzero(is_late)), following)
            yield from self._again(rows, keys, following)

    def _register(self, pairs: BatchKeys, slices: Times, is_new: Flags, ctx: BatchContext) -> None:
        """Timers of slices that are new."""
        if not is_new.any():
            return
        chosen = np.flatnonzero(is_new)
        some, slices, service = pairs.select(chosen), slices[chosen], ctx.timer_service()
        last = self._slices.last_ends(slices)
        ends = self._slices.next_ends(np.maximum(slices + self._slices.width, _following(service)))
        service.register_event_time_timers(some, ends - 1, ends <= last)
        if self._slices.lateness:
            service.register_event_time_timers(some, last - 1 + self._slices.lateness)

    def _again(self, rows: SlicedRows, keys: BatchKeys, following: int) -> Iterator[pa.RecordBatch]:
        """Windows that have ended and got rows all the same."""
        least = self._slices.next_ends(
            np.maximum(rows.pair_slices + self._slices.width, following - self._slices.lateness)
        )
        most = np.minimum(self._slices.last_ends(rows.pair_slices), following - 1)
        found = []
        first = int(least.min())
        while len(places := np.flatnonzero(least <= most)):
            # By time, then by key: one number stands for a window of a key.
            found.append((least[places] - first) // self._slices.slide * len(keys) + rows.pair_keys[places])
            least = least + self._slices.slide
        windows = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
        for part in self._parts(len(windows)):
            order, places = np.divmod(windows[part], len(keys))
            again, ends = keys.select(places), first + order * self._slices.slide
            yield self._frame(again, ends, self._windows.whole(again, ends).merged)

    # --- windows

    def on_timers(self, timestamps: pa.Array, keys: BatchKeys, ctx: OnTimersContext) -> Iterator[Any]:
        ends = timestamps.to_numpy() + 1
        counts = self._windows.due(ends, ctx.timer_service().current_watermark())
        counts[~self._slices.are_ends(ends)] = 1
        alone, together = np.flatnonzero(counts == 1), np.flatnonzero(counts > 1)
        for part in self._parts(len(alone)):
            places = alone[part]
            yield from self._end(keys.select(places), ends[places], ctx)
        for part in self._parts(len(together), _IN_A_BLOCK):
            places = together[part]
            yield from self._end_together(keys.select(places), ends[places], counts[places], ctx)

    def _end(self, keys: BatchKeys, ends: Times, ctx: OnTimersContext) -> Iterator[pa.RecordBatch]:
        places = np.flatnonzero(self._slices.are_ends(ends))
        if len(places):
            ending = keys.select(places)
            ended = self._windows.ending(ending, ends[places])
            yield self._frame(ending, ends[places], ended.merged)
            following = ends[places] + (self._slices.slide - 1)
            ctx.timer_service().register_event_time_timers(ending, following, ended.has_more)
            if ended.passed is not None and not self._slices.lateness:
                of_windows, starts = ended.passed
                self._windows.stored.remove(ending.select(of_windows), starts)
                return
        over = ends - self._slices.lateness
        self._forget(keys, over, np.flatnonzero(self._slices.are_ends(over)))

    def _end_together(
        self, keys: BatchKeys, ends: Times, counts: Times, ctx: OnTimersContext
    ) -> Iterator[pa.RecordBatch]:
        """Several windows of each key end, as at the end of a bounded input. The key's slices are read once, and the
        timers of the windows after the first are deleted."""
        slices, service = self._slices, ctx.timer_service()
        block = self._windows.ending_together(keys, ends, counts)
        for step, places, merged in block.windows():
            yield self._frame(keys.select(places), ends[places] + step * slices.slide, merged)
        places, starts = block.slices()
        own_ends = slices.first_ends(starts)
        is_done = (own_ends > ends[places]) & (own_ends < ends[places] + counts[places] * slices.slide)
        if is_done.any():
            service.delete_event_time_timers(keys.select(places[is_done]), own_ends[is_done] - 1)
        places, starts = block.passed()
        if len(places):
            self._windows.stored.remove(keys.select(places), starts)
        service.register_event_time_timers(keys, ends + counts * slices.slide - 1, block.has_more())

    def _frame(self, keys: BatchKeys, ends: Times, merged: Entries) -> pa.RecordBatch:
        """A row for each window that has rows."""
        some = np.flatnonzero(accumulators.has_rows(merged))
        bounds = ends[some] - self._slices.size, ends[some]
        results = self._windows.stored.results(accumulators.taken(merged, some))
        names = [output.name for output in self._outputs]
        return sliced_rows.frame(keys.select(some), self._key_names, bounds, results, names)

    def _forget(self, keys: BatchKeys, ends: Times, places: npt.NDArray[np.int64]) -> None:
        """Clear the slices whose last windows end there."""
        if len(places):
            spaces = self._slices.of_windows(ends[places])[:, : self._slices.per_slide]
            pairs = keys.select(np.repeat(places, spaces.shape[1]))
            self._windows.stored.clear(pairs, spaces.reshape(-1))

    def _parts(self, windows: int, at_once: int = _AT_ONCE) -> Iterator[slice]:
        """So many windows at once that their slices fit in memory."""
        step = max(1, at_once // self._slices.per_window)
        return (slice(start, start + step) for start in range(0, windows, step))


def _following(service: BatchTimerService) -> int:
    """The least end of a window that has not ended."""
    return sliced_rows.bounded(service.current_watermark()) + 2
