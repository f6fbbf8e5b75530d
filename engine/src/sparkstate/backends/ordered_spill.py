"""The part of the contract of spills (``backends.base.Spill``) for changes that come in the order of their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from sparkstate.backends.base import ShardStore, Spill


@runtime_checkable
class OrderedSpillingFactory(Protocol):
    """A ``SpillingFactory`` whose spills take less time where the keys of each addition lie behind those before."""

    def create_ordered_spill(
        self, stores: Mapping[int, ShardStore], shard_of: Sequence[int], directory: Path
    ) -> Spill:
        """As ``create_spill``. Nearly all additions will come in the order of key groups and keys. One out of order is
        taken as well, and costs more from then on."""
