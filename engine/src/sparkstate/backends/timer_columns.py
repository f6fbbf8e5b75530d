"""Timers of many keys as columns: how they travel between overlays and stores.

Timers of the default namespace whose keys are whole numbers fit in NumPy arrays, as values do (``value_columns``). All
others, those of null keys included, travel one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sparkstate.backends import value_columns
from sparkstate.backends.long_index import Longs
from sparkstate.backends.value_columns import Flags, KeyGroups


@dataclass(frozen=True)
class TimerColumns:
    """Timers, or changes of them; none of them twice."""

    timestamps: Longs
    """In ms."""
    keys: Longs
    key_groups: KeyGroups
    registered: Flags
    """False: the timer is deleted."""

    def __len__(self) -> int:
        return len(self.keys)

    def select(self, places: Any) -> TimerColumns:
        """Those at these places."""
        return TimerColumns(
            self.timestamps[places], self.keys[places], self.key_groups[places], self.registered[places]
        )

    def row_order(self) -> npt.NDArray[np.int64]:
        """The places of the timers in the order of their stored rows: by time, key group and key."""
        order = value_columns.row_order(self.keys, self.key_groups)
        stamps = self.timestamps[order]
        if len(stamps) and (stamps != stamps[0]).any():
            order = order[np.argsort(stamps, kind="stable")]
        return order


def registered(timestamps: Longs, keys: Longs, key_groups: KeyGroups) -> TimerColumns:
    """Timers that stand."""
    return TimerColumns(timestamps, keys, key_groups, np.ones(len(keys), np.bool_))


def joined(*parts: TimerColumns) -> TimerColumns:
    """The timers of all parts, one behind the other."""
    return TimerColumns(
        np.concatenate([part.timestamps for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.key_groups for part in parts]),
        np.concatenate([part.registered for part in parts]),
    )


class ColumnarTimerTable(Protocol):
    """A ``TimerTable`` of a ``TimerColumnsStore`` whose keys are whole numbers."""

    def due_columns(self, until: int, at_once: int) -> Iterator[TimerColumns | None]:
        """The same timers as of ``due`` and in the same order, about ``at_once`` of them in each part. None in place of
        a part that has timers of null keys or of namespaces: then the caller asks ``due`` for all of them."""


@runtime_checkable
class TimerColumnsStore(Protocol):
    """A store whose timer tables are ``ColumnarTimerTable``s and take changes as columns (``timer_columns``)."""

    takes_timer_columns: bool
