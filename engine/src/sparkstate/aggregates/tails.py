"""Windows from merges of their slices, for all aggregates: two stacks.

Theory. A window is merged from two parts. A *tail* is the merge of all slices from a window's start up to a *turn*, the
end of an earlier window; the *front* is the merge of all slices since that turn. The next window then reads its own
tail, the front, and the slices that the one before did not have. When no tail is left, the window's end is the next
turn: its slices are read, and merged backwards, which gives the tails of all windows that start within it. So n slices
are read once in n windows (Tangwongsan, Hirzel and Schneider describe this as two stacks).

Tails lie in state, in the namespace of the slice at which they begin; the front and the turn in a namespace of their
own. All windows of a key end one after another as long as it has slices, so tail and front belong to the next window.
A late row changes slices that were merged already: then they are dropped, and the next window is a turn.

A tail or a front may have a sum that does not fit, although that of each window does. It is not kept then: such a key
has no tails and no front, and each of its windows is a turn until all of them fit again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from sparkstate.aggregates import accumulators
from sparkstate.aggregates.accumulators import Entries, Output, StoredAccumulators
from sparkstate.aggregates.aggregate import numbers
from sparkstate.aggregates.kept_merges import Ended, KeptMerges, SliceChanges, here
from sparkstate.aggregates.slices import Flags, Slices, Times
from sparkstate.aggregates.window_blocks import WindowBlock
from sparkstate.batches.functions import BatchRuntimeContext
from sparkstate.batches.keys import BatchKeys
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor

TURN: Final = "turn"


class Tails(KeptMerges):
    """Tails, front and turn of one operator in one slot."""

    def __init__(
        self,
        ctx: BatchRuntimeContext,
        slices: Slices,
        outputs: tuple[Output, ...],
        stored: StoredAccumulators,
    ) -> None:
        self._slices = slices
        self._stored = stored
        self._tails = StoredAccumulators(ctx, outputs, ".tail")
        self._turns = ctx.get_state(ValueStateDescriptor(TURN, Types.LONG()), in_namespaces=True)

    def ending(self, keys: BatchKeys, ends: Times) -> Ended:
        starts = ends - self._slices.size
        tails = self._tails.read(keys, starts)
        goes_on = accumulators.has_rows(tails).copy()
        # A tail lies before the turn. Without one the window may begin at the turn, or have no rows before it.
        if len(rest := np.flatnonzero(~goes_on)):
            some = keys.select(rest)
            turns, has_turn = numbers(self._turns.get(some, namespaces=here(some)), np.int64)
            goes_on[rest] = has_turn & (starts[rest] <= turns)
        stepping, turning = np.flatnonzero(goes_on), np.flatnonzero(~goes_on)
        if not len(turning):
            return Ended(*self._step(keys, ends, tails), None)
        if not len(stepping):
            return Ended(*self._turn(keys, ends), None)
        own_tails = accumulators.taken(tails, stepping)
        first, first_more = self._step(keys.select(stepping), ends[stepping], own_tails)
        second, second_more = self._turn(keys.select(turning), ends[turning])
        back = np.argsort(np.concatenate([stepping, turning]))
        merged = accumulators.taken(accumulators.joined(first, second), back)
        return Ended(merged, np.concatenate([first_more, second_more])[back], None)

    def end_together(self, keys: BatchKeys, ends: Times, counts: Times, block: WindowBlock) -> None:
        self._forget(keys, ends)

    def late(self, changes: SliceChanges, following: int) -> None:
        some = changes.keys.select(np.unique(changes.places))
        end = int(self._slices.next_ends(np.array([following]))[0])
        self._forget(some, np.full(len(some), end))

    def _forget(self, keys: BatchKeys, following: Times) -> None:
        has_turn = self._turns.get(keys, namespaces=here(keys)).is_valid().to_numpy(zero_copy_only=False)
        if not has_turn.any():
            return
        chosen = np.flatnonzero(has_turn)
        self._drop(keys.select(chosen), following[chosen])

    def _drop(self, keys: BatchKeys, following: Times) -> None:
        """Forget all merges of these keys."""
        steps = np.arange(self._slices.per_size, dtype=np.int64) * self._slices.slide
        starts = following[:, None] - self._slices.size + steps
        self._tails.clear(keys.select(np.repeat(np.arange(len(keys)), len(steps))), starts.reshape(-1))
        self._end_merging(keys)

    def _step(self, keys: BatchKeys, ends: Times, tails: Entries) -> tuple[Entries, Flags]:
        """Windows from tail, front, and the slices that the windows before did not have."""
        count, places = len(ends), np.arange(len(ends))
        spaces = self._slices.of_windows(ends)[:, -self._slices.per_slide :]
        new, present = self._stored.read_table(keys, spaces)
        new_codes = np.repeat(places, spaces.shape[1])[present.reshape(-1)]
        front = self._tails.read(keys, here(keys))
        front, front_too_large = self._stored.merge_what_fits(
            accumulators.joined(front, new), np.concatenate([places, new_codes]), count
        )
        starts = ends - self._slices.size
        merged, too_large = self._stored.merge_what_fits(
            accumulators.joined(tails, front), np.tile(places, 2), count
        )
        if (too_large := too_large | front_too_large).any():
            # Nothing is written yet, and the next time these turn.
            chosen = np.flatnonzero(too_large)
            self._drop(keys.select(chosen), ends[chosen])
            again = self.ending(keys, ends)
            return again.merged, again.has_more
        used = np.flatnonzero(accumulators.has_rows(tails))
        if len(used):
            self._tails.remove(keys.select(used), starts[used])
        has_more = accumulators.has_rows(front)
        if len(rest := np.flatnonzero(~has_more)):
            has_more[rest] = self._tails.present(keys.select(rest), starts[rest] + self._slices.slide)
        if has_more.all():
            self._tails.write(keys, here(keys), front)
        else:
            going, gone = np.flatnonzero(has_more), np.flatnonzero(~has_more)
            some = keys.select(going)
            self._tails.write(some, here(some), accumulators.taken(front, going))
            self._end_merging(keys.select(gone))
        return merged, has_more

    def _turn(self, keys: BatchKeys, ends: Times) -> tuple[Entries, Flags]:
        """Windows from all of their slices, which gives the tails of those after them."""
        count, places = len(ends), np.arange(len(ends))
        spaces = self._slices.of_windows(ends)
        found, present = self._stored.read_table(keys, spaces)
        self._end_merging(keys)
        where = np.full(spaces.shape, -1)
        where[present] = np.arange(np.count_nonzero(present))
        merged, too_large = None, np.zeros(count, np.bool_)
        for step in range(self._slices.per_size - 1, -1, -1):
            columns = where[:, step * self._slices.per_slide : (step + 1) * self._slices.per_slide]
            chosen = np.flatnonzero(columns.reshape(-1) >= 0)
            own = accumulators.taken(found, columns.reshape(-1)[chosen])
            codes = np.repeat(places, columns.shape[1])[chosen]
            if merged is not None:
                own, codes = accumulators.joined(own, merged), np.concatenate([codes, places])
            merged, merged_too_large = self._stored.merge_what_fits(own, codes, count)
            too_large |= merged_too_large
            if step:
                kept = np.flatnonzero(accumulators.has_rows(merged))
                starts = ends[kept] - self._slices.size + step * self._slices.slide
                self._tails.write(keys.select(kept), starts, accumulators.taken(merged, kept))
        assert merged is not None
        has_more = np.asarray(present[:, self._slices.per_slide :].any(axis=1))
        going = np.flatnonzero(has_more & ~too_large)
        some = keys.select(going)
        self._turns.update(some, pa.array(ends[going]), namespaces=here(some))
        if len(wrong := np.flatnonzero(too_large)):
            self._drop(keys.select(wrong), ends[wrong])
            whole = self._stored.merge_lines(found, where[wrong])
            places[wrong] = np.arange(count, count + len(wrong))
            merged = accumulators.taken(accumulators.joined(merged, whole), places)
        return merged, has_more

    def _end_merging(self, keys: BatchKeys) -> None:
        """Forget front and turn."""
        self._tails.clear(keys, here(keys))
        has_turn = self._turns.get(keys, namespaces=here(keys)).is_valid()
        some = keys.select(np.flatnonzero(has_turn.to_numpy(zero_copy_only=False)))
        self._turns.clear(some, namespaces=here(some))
