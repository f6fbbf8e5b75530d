"""Windows from the accumulators of their slices.

Theory. A window of n slices that starts m slices after the one before shares n - m slices with it. To merge all n for
each window costs n reads. So where windows overlap much, a window is merged from two parts. A *tail* is the merge of
all slices from a window's start up to a *turn*, the end of an earlier window; the *front* is the merge of all slices
since that turn. The next window then reads its own tail, the front, and m slices. When no tail is left, the window's
end is the next turn: its slices are read, and merged backwards, which gives the tails of all windows that start within
it. So n slices are read once in n / m windows (Tangwongsan, Hirzel and Schneider describe this as two stacks).

Tails lie in state, in the namespace of the slice at which they begin; the front and the turn in a namespace of their
own. All windows of a key end one after another as long as it has slices, so tail and front belong to the next window.
A late row changes slices that were merged already: then they are dropped, and the next window is a turn.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.aggregates import accumulators
from sparkstate.aggregates.accumulators import Entries, Output, StoredAccumulators
from sparkstate.aggregates.aggregate import numbers
from sparkstate.aggregates.slices import FARTHEST_TIME, Flags, Slices, Times
from sparkstate.aggregates.window_blocks import WindowBlock
from sparkstate.batches.functions import BatchRuntimeContext
from sparkstate.batches.keys import BatchKeys
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor

TURN: Final = "turn"
_FRONT: Final = -(2**62)
"""No slice begins there."""
_WORTH_IT: Final = 4
"""With fewer windows over each slice, tails cost more than they save."""


class WindowResults:
    """The windows of one operator in one slot."""

    def __init__(self, ctx: BatchRuntimeContext, slices: Slices, outputs: tuple[Output, ...]) -> None:
        self.slices = slices
        self.stored = StoredAccumulators(ctx, outputs)
        """By key and slice."""
        self._steps = -(-slices.per_window // slices.per_slide)
        """How many windows begin within a window, itself included."""
        self.has_tails = self._steps >= _WORTH_IT
        if self.has_tails:
            self._tails = StoredAccumulators(ctx, outputs, ".tail")
            self._turns = ctx.get_state(ValueStateDescriptor(TURN, Types.LONG()), in_namespaces=True)

    def whole(self, keys: BatchKeys, ends: Times) -> tuple[Entries, Flags]:
        """Windows from all of their slices; and whether the window after each one has slices of it."""
        spaces = self.slices.of_windows(ends)
        found, present = self._read(keys, spaces)
        codes = np.repeat(np.arange(len(ends)), spaces.shape[1])[present.reshape(-1)]
        has_more = np.asarray(present[:, self.slices.per_slide :].any(axis=1))
        return self.stored.merge(found, codes, len(ends)), has_more

    def ending(self, keys: BatchKeys, ends: Times) -> tuple[Entries, Flags]:
        """The same for windows that end now, each the next one of its key."""
        if not self.has_tails:
            return self.whole(keys, ends)
        starts = ends - self.slices.size
        tails = self._tails.read(keys, starts)
        goes_on = accumulators.has_rows(tails).copy()
        # A tail lies before the turn. Without one the window may begin at the turn, or have no rows before it.
        if len(rest := np.flatnonzero(~goes_on)):
            some = keys.select(rest)
            turns, has_turn = numbers(self._turns.get(some, namespaces=_front(some)), np.int64)
            goes_on[rest] = has_turn & (starts[rest] <= turns)
        stepping, turning = np.flatnonzero(goes_on), np.flatnonzero(~goes_on)
        if not len(turning):
            return self._step(keys, ends, tails)
        if not len(stepping):
            return self._turn(keys, ends)
        own_tails = accumulators.taken(tails, stepping)
        first, first_more = self._step(keys.select(stepping), ends[stepping], own_tails)
        second, second_more = self._turn(keys.select(turning), ends[turning])
        back = np.argsort(np.concatenate([stepping, turning]))
        merged = accumulators.taken(accumulators.joined(first, second), back)
        return merged, np.concatenate([first_more, second_more])[back]

    def due(self, ends: Times, watermark: int) -> Times:
        """Of windows that end now: how many windows of the key end together, this one included; at most as many as
        begin within a window. 1 where one after another costs less, and where slices have timers for the end of their
        lateness: such a timer may be that of a window as well."""
        if not self.has_tails or self.slices.lateness:
            return np.ones(len(ends), np.int64)
        last = min(watermark, 2 * FARTHEST_TIME) + 1
        counts = np.minimum((last - ends) // self.slices.slide + 1, self._steps)
        return np.where(counts * 2 >= self._steps, counts, 1)

    def ending_together(self, keys: BatchKeys, ends: Times, counts: Times) -> WindowBlock:
        """The windows that end now, and those after them up to ``counts`` of each key."""
        width = self.slices.per_window + (int(counts.max()) - 1) * self.slices.per_slide
        spaces = ends[:, None] - self.slices.size + np.arange(width, dtype=np.int64) * self.slices.width
        found, present = self._read(keys, spaces)
        self._forget_tails(keys, ends)
        return WindowBlock(self.stored, self.slices, counts, spaces, found, present)

    def forget_tails(self, keys: BatchKeys, following: int) -> None:
        """Slices of these keys changed that may have been merged; ``following`` is the end of the next window."""
        if self.has_tails:
            self._forget_tails(keys, np.full(len(keys), following))

    def _forget_tails(self, keys: BatchKeys, following: Times) -> None:
        has_turn = self._turns.get(keys, namespaces=_front(keys)).is_valid().to_numpy(zero_copy_only=False)
        if not has_turn.any():
            return
        chosen = np.flatnonzero(has_turn)
        keys, steps = keys.select(chosen), np.arange(self._steps, dtype=np.int64) * self.slices.slide
        starts = following[chosen, None] - self.slices.size + steps
        self._tails.clear(keys.select(np.repeat(np.arange(len(keys)), len(steps))), starts.reshape(-1))
        self._end_merging(keys)

    # ---

    def _read(self, keys: BatchKeys, spaces: npt.NDArray[np.int64]) -> tuple[Entries, Flags]:
        """The entries of slices that are there, by row and then by slice; and which are."""
        flat = spaces.reshape(-1)
        pairs = keys.select(np.repeat(np.arange(len(keys)), spaces.shape[1]))
        found, present = self.stored.read_present(pairs, flat)
        return found, present.reshape(spaces.shape)

    def _step(self, keys: BatchKeys, ends: Times, tails: Entries) -> tuple[Entries, Flags]:
        """Windows from tail, front, and the slices that the windows before did not have."""
        count, places = len(ends), np.arange(len(ends))
        spaces = self.slices.of_windows(ends)[:, -self.slices.per_slide :]
        new, present = self._read(keys, spaces)
        new_codes = np.repeat(places, spaces.shape[1])[present.reshape(-1)]
        front = self._tails.read(keys, _front(keys))
        front = self.stored.merge(accumulators.joined(front, new), np.concatenate([places, new_codes]), count)
        starts = ends - self.slices.size
        merged = self.stored.merge(accumulators.joined(tails, front), np.tile(places, 2), count)
        used = np.flatnonzero(accumulators.has_rows(tails))
        if len(used):
            self._tails.remove(keys.select(used), starts[used])
        has_more = accumulators.has_rows(front)
        if len(rest := np.flatnonzero(~has_more)):
            has_more[rest] = self._tails.present(keys.select(rest), starts[rest] + self.slices.slide)
        if has_more.all():
            self._tails.write(keys, _front(keys), front)
        else:
            going, gone = np.flatnonzero(has_more), np.flatnonzero(~has_more)
            some = keys.select(going)
            self._tails.write(some, _front(some), accumulators.taken(front, going))
            self._end_merging(keys.select(gone))
        return merged, has_more

    def _turn(self, keys: BatchKeys, ends: Times) -> tuple[Entries, Flags]:
        """Windows from all of their slices, which gives the tails of those after them."""
        count, places = len(ends), np.arange(len(ends))
        spaces = self.slices.of_windows(ends)
        found, present = self._read(keys, spaces)
        self._end_merging(keys)
        where = np.full(spaces.shape, -1)
        where[present] = np.arange(np.count_nonzero(present))
        merged, has_more = None, np.zeros(count, np.bool_)
        for step in range(self._steps - 1, -1, -1):
            columns = where[:, step * self.slices.per_slide : (step + 1) * self.slices.per_slide]
            chosen = np.flatnonzero(columns.reshape(-1) >= 0)
            own = accumulators.taken(found, columns.reshape(-1)[chosen])
            codes = np.repeat(places, columns.shape[1])[chosen]
            if merged is not None:
                own, codes = accumulators.joined(own, merged), np.concatenate([codes, places])
            merged = self.stored.merge(own, codes, count)
            if step:
                has_more = accumulators.has_rows(merged)
                kept = np.flatnonzero(has_more)
                starts = ends[kept] - self.slices.size + step * self.slices.slide
                self._tails.write(keys.select(kept), starts, accumulators.taken(merged, kept))
        assert merged is not None
        going = np.flatnonzero(has_more)
        some = keys.select(going)
        self._turns.update(some, pa.array(ends[going]), namespaces=_front(some))
        return merged, has_more

    def _end_merging(self, keys: BatchKeys) -> None:
        """Forget front and turn."""
        self._tails.clear(keys, _front(keys))
        has_turn = self._turns.get(keys, namespaces=_front(keys)).is_valid()
        some = keys.select(np.flatnonzero(has_turn.to_numpy(zero_copy_only=False)))
        self._turns.clear(some, namespaces=_front(some))


def _front(keys: BatchKeys) -> Times:
    return np.full(len(keys), _FRONT, np.int64)
