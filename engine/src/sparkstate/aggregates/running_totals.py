"""Windows from a running total, for aggregates whose accumulators can be subtracted exactly (``terms``).

Theory. When a window ends, the slices that the next one does not have are subtracted from it. The rest is state, one
packed row for each key, and the next window is the sum of that and its new slices. So a window reads and writes one
row, and reads the slices that come and go; no merges of slices are stored.

The total names the end of the window that it is for. Where there is none, or one for another window, the window is
added up from all of its slices: so it is with the first window of a key. A late row changes its slice, and by as much
the total that has this slice.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.aggregates import terms as terms_of
from sparkstate.aggregates.accumulators import StoredAccumulators
from sparkstate.aggregates.kept_merges import Ended, KeptMerges, SliceChanges, here
from sparkstate.aggregates.slices import Flags, Slices, Times
from sparkstate.aggregates.terms import Matrix, Terms, summed
from sparkstate.aggregates.window_blocks import WindowBlock
from sparkstate.batches.functions import BatchRuntimeContext
from sparkstate.batches.keys import BatchKeys
from sparkstate.batches.packed_columns import Packing
from sparkstate.serde.packed import PackedType
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor

TOTAL: Final = "running total"
_END: Final = "end"


class RunningTotals(KeptMerges):
    """The running totals of one operator in one slot."""

    def __init__(
        self, ctx: BatchRuntimeContext, slices: Slices, terms: Terms, stored: StoredAccumulators
    ) -> None:
        self._slices = slices
        self._terms = terms
        self._stored = stored
        names = [_END, *terms.names]
        packed = PackedType(names, [Types.LONG()] * len(names))
        self._packing = Packing(packed)
        self._totals = ctx.get_state(ValueStateDescriptor(TOTAL, packed), in_namespaces=True)

    def ending(self, keys: BatchKeys, ends: Times) -> Ended:
        kept, kept_ends, has_total = self._read(keys)
        is_next = has_total & (kept_ends == ends)
        kept[:, ~is_next] = 0
        places, spaces, leaves = self._slices_of(ends, is_next)
        found, present = self._stored.read_present(keys.select(places), spaces)
        places, spaces, leaves = places[present], spaces[present], leaves[present]
        terms, count = self._terms.of_entries(found), len(ends)
        leaving = summed(terms[:, leaves], places[leaves], count)
        whole = kept + summed(terms[:, ~leaves], places[~leaves], count)
        whole[:, ~is_next] += leaving[:, ~is_next]
        has_more = self._write(keys, ends + self._slices.slide, whole - leaving, has_total)
        return Ended(self._terms.to_entries(whole), has_more, (places[leaves], spaces[leaves]))

    def _slices_of(
        self, ends: Times, is_next: Flags
    ) -> tuple[npt.NDArray[np.int64], Times, npt.NDArray[np.bool_]]:
        """The slices that windows need: their windows, their starts, and whether the window after does not have them.
        Where there is a total these are the slices that come and go, and all slices elsewhere."""
        per_slide, width = self._slices.per_slide, self._slices.width
        adding = np.flatnonzero(~is_next)
        parts = (
            (np.arange(len(ends)), 0, per_slide),
            (np.flatnonzero(is_next), self._slices.per_window - per_slide, self._slices.per_window),
            (adding, per_slide, self._slices.per_window if len(adding) else per_slide),
        )
        places = [np.repeat(some, last - first) for some, first, last in parts]
        starts = [
            ((ends[some] - self._slices.size)[:, None] + np.arange(first, last) * width).reshape(-1)
            for some, first, last in parts
        ]
        return (
            np.concatenate(places),
            np.concatenate(starts),
            np.repeat((True, False), (len(places[0]), len(places[1]) + len(places[2]))),
        )

    def end_together(self, keys: BatchKeys, ends: Times, counts: Times, block: WindowBlock) -> None:
        places, entries = block.left()
        left = summed(self._terms.of_entries(entries), places, len(keys))
        _, _, has_total = self._read(keys)
        self._write(keys, ends + counts * self._slices.slide, left, has_total)

    def late(self, changes: SliceChanges, following: int) -> None:
        distinct, codes = np.unique(changes.places, return_inverse=True)
        some = changes.keys.select(distinct)
        kept, ends, has_total = self._read(some)
        own_ends = ends[codes]
        has_it = has_total[codes] & (self._slices.first_ends(changes.starts) < own_ends)
        has_it &= changes.starts >= own_ends - self._slices.size
        if not has_it.any():
            return
        more = self._terms.of_entries(changes.after) - self._terms.of_entries(changes.before)
        kept += summed(more[:, has_it], codes[has_it], len(distinct))
        touched = np.unique(codes[has_it])
        self._write(some.select(touched), ends[touched], kept[:, touched], has_total[touched])

    def _read(self, keys: BatchKeys) -> tuple[Matrix, Times, Flags]:
        """The totals of keys, the ends of the windows that they are for, and which keys have one."""
        packed = self._totals.get(keys, namespaces=here(keys))
        has_total: Flags = packed.is_valid().to_numpy(zero_copy_only=False)
        columns = terms_of.of_columns(self._packing.unpack(packed))
        return columns[1:], columns[0], has_total

    def _write(self, keys: BatchKeys, ends: Times, left: Matrix, has_total: Flags) -> Flags:
        """Keep these totals for the windows with these ends. Answers which of them have rows so far."""
        has_rows: Flags = left[0] > 0
        if has_rows.all():
            self._set(keys, ends, left)
            return has_rows
        self._set(keys.select(np.flatnonzero(has_rows)), ends[has_rows], left[:, has_rows])
        gone = keys.select(np.flatnonzero(~has_rows & has_total))
        self._totals.clear(gone, namespaces=here(gone))
        return has_rows

    def _set(self, keys: BatchKeys, ends: Times, left: Matrix) -> None:
        packed = self._packing.pack([pa.array(ends), *terms_of.to_columns(left)])
        self._totals.update(keys, packed, namespaces=here(keys))
