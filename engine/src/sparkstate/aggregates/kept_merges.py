"""State that a key's windows leave for the next one, so that it need not be merged from all of its slices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkstate.aggregates import accumulators
from sparkstate.aggregates.accumulators import Entries
from sparkstate.aggregates.slices import Flags, Times
from sparkstate.aggregates.window_blocks import WindowBlock
from sparkstate.batches.keys import BatchKeys

Places: TypeAlias = npt.NDArray[np.int64]

HERE: Final = -(2**62)
"""The namespace of values that a key has once. No slice begins there."""


def here(keys: BatchKeys) -> Times:
    """That namespace for each key."""
    return np.full(len(keys), HERE, np.int64)


class Ended(NamedTuple):
    """Windows that have ended."""

    merged: Entries
    has_more: Flags
    """Whether the window after each one has slices of it."""
    passed: tuple[Places, Times] | None
    """The slices that the window after it does not have: numbers of windows, and starts. None: they were not read."""


@dataclass(frozen=True)
class SliceChanges:
    """Slices that rows were folded into, with their accumulators before and after."""

    keys: BatchKeys
    places: Places
    """For each slice the place of its key."""
    starts: Times
    before: Entries
    after: Entries

    def select(self, places: Places) -> SliceChanges:
        """Those at these places."""
        return SliceChanges(
            self.keys,
            self.places[places],
            self.starts[places],
            accumulators.taken(self.before, places),
            accumulators.taken(self.after, places),
        )


class KeptMerges(ABC):
    """The state of one operator in one slot beside its slices."""

    @abstractmethod
    def ending(self, keys: BatchKeys, ends: Times) -> Ended:
        """Windows that end now, each the next one of its key."""

    @abstractmethod
    def end_together(self, keys: BatchKeys, ends: Times, counts: Times, block: WindowBlock) -> None:
        """``counts`` windows of each key end now, the first of them at ``ends``, and ``block`` has their slices."""

    @abstractmethod
    def late(self, changes: SliceChanges, following: int) -> None:
        """Slices changed of which a window has ended; ``following`` is the least end of windows to come."""
