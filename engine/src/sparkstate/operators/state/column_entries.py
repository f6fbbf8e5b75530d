"""Entries of a value state as columns, by the overlay's numbers of their keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkstate.backends.value_columns import Flags, Values
from sparkstate.operators.state.known_keys import Numbers


class ColumnEntries:
    """Values read of the committed tables, and values written since."""

    __slots__ = ("_changed", "_present", "_values", "count")

    def __init__(self, dtype: Any) -> None:
        self.count = 0
        """How many keys have an entry: those with the numbers below."""
        self._values: Values = np.zeros(0, dtype)
        self._present: Flags = np.zeros(0, np.bool_)
        self._changed: Flags = np.zeros(0, np.bool_)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._values.nbytes + self._present.nbytes + self._changed.nbytes

    @property
    def dtype(self) -> Any:
        """NumPy's type of the values."""
        return self._values.dtype

    def grow(self, count: int) -> None:
        """There are so many keys now; the new ones have no value until it is ``put``."""
        if count > len(self._values):
            room = max(count, 2 * len(self._values)) - self.count
            self._values, self._present, self._changed = (
                np.concatenate([each[: self.count], np.zeros(room, each.dtype)])
                for each in (self._values, self._present, self._changed)
            )
        self.count = count

    def put(self, numbers: Numbers, values: Values, present: Flags) -> None:
        """Note the values that the committed tables have of these keys."""
        self._values[numbers] = values
        self._present[numbers] = present

    def get(self, numbers: Numbers) -> tuple[Values, Flags]:
        """The value of each of these keys, and whether there is one."""
        return self._values[numbers], self._present[numbers]

    def set(self, numbers: Numbers, values: Values | int, present: Flags | bool) -> None:
        """Write the values of these keys, or delete them."""
        self._values[numbers] = values
        self._present[numbers] = present
        self._changed[numbers] = True

    def changed(self) -> Numbers:
        """The numbers of the keys whose value was written or deleted."""
        return np.flatnonzero(self._changed[: self.count])
