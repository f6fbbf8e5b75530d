"""The part of the contract of spills (``backends.base.Spill``) for changes that come in the order of their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sparkstate.backends import value_columns
from sparkstate.backends.base import ShardStore, Spill, TableSpec
from sparkstate.backends.long_index import Longs
from sparkstate.backends.value_columns import KeyGroups


@dataclass(frozen=True)
class LongValues:
    """Changes of a table of values by whole-number keys, in the default namespace; no key twice."""

    spec: TableSpec
    keys: Longs
    key_groups: KeyGroups
    values: Sequence[Any]
    """Stored forms; None: deleted."""

    def row_order(self) -> Any:
        """Places in the order of their stored rows; None: they are in that order."""
        keys, groups = self.keys, self.key_groups
        is_same = groups[1:] == groups[:-1]
        if (np.where(is_same, keys[1:] > keys[:-1], groups[1:] > groups[:-1])).all():
            return None
        return value_columns.row_order(keys, groups)


@runtime_checkable
class OrderedSpill(Spill, Protocol):
    """A spill that takes changes by whole-number keys as arrays, without an object for each."""

    def takes_longs(self, spec: TableSpec) -> bool:
        """Whether :meth:`add_longs` takes changes of this table."""

    def add_longs(self, changes: LongValues) -> None:
        """As ``add``."""


@runtime_checkable
class OrderedSpillingFactory(Protocol):
    """A ``SpillingFactory`` whose spills take less time where the keys of each addition lie behind those before."""

    def create_ordered_spill(
        self, stores: Mapping[int, ShardStore], shard_of: Sequence[int], directory: Path
    ) -> Spill:
        """As ``create_spill``. Nearly all additions will come in the order of key groups and keys. One out of order is
        taken as well, and costs more from then on."""
