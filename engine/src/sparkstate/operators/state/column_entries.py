"""Entries of a value state as columns, by the overlay's numbers of their keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparkstate.backends import long_index
from sparkstate.backends.long_index import Longs, PairIndex
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

    def set(self, numbers: Numbers, values: Values, present: Flags) -> None:
        """Write the values of these keys, or delete them."""
        self._values[numbers] = values
        self._present[numbers] = present
        self._changed[numbers] = True

    def clear(self, numbers: Numbers) -> None:
        """Delete the values of these keys."""
        self._present[numbers] = False
        self._changed[numbers] = True

    def changed(self) -> Numbers:
        """The numbers of the keys whose value was written or deleted."""
        return np.flatnonzero(self._changed[: self.count])


class PairEntries:
    """Values written in namespaces that are whole numbers, by the numbers of their keys. Values that were only read are
    not kept: a window has many slices, each read once when it ends."""

    __slots__ = ("_index", "_may_be_stored", "_present", "_values")

    def __init__(self, dtype: Any) -> None:
        self._index = PairIndex()
        self._values: Values = np.zeros(0, dtype)
        self._present: Flags = np.zeros(0, np.bool_)
        self._may_be_stored: Flags = np.zeros(0, np.bool_)
        """False: the committed tables have none of it. So if it is deleted, nothing needs to be written."""

    @property
    def count(self) -> int:
        """How many entries were written."""
        return self._index.count

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        columns = (self._values, self._present, self._may_be_stored)
        return self._index.nbytes + sum(each.nbytes for each in columns)

    @property
    def dtype(self) -> Any:
        """NumPy's type of the values."""
        return self._values.dtype

    def newest_space(self) -> int:
        """The greatest namespace that was written. There is one."""
        return int(self._index.keys["space"].max())

    def get(self, numbers: Numbers, spaces: Longs) -> tuple[Values, Flags, Flags]:
        """The value of each key in its namespace, whether there is one, and whether it was written at all."""
        if not self.count:
            none = np.zeros(len(numbers), np.bool_)
            return np.zeros(len(numbers), self.dtype), none, none
        places = self._index.find(long_index.pairs(numbers, spaces))
        known: Flags = places >= 0
        values, present = self._values[places], self._present[places] & known
        return values, present, known

    def set(
        self,
        numbers: Numbers,
        spaces: Longs,
        values: Values | int,
        present: Flags | bool,
        is_new: Flags | None = None,
    ) -> None:
        """Write these values, or delete them. ``is_new``: which of them have no value so far, where that is known."""
        before = self.count
        places = self._index.places(long_index.pairs(numbers, spaces))
        if self.count > len(self._values):
            room = max(self.count, 2 * len(self._values)) - len(self._values)
            self._values = np.concatenate([self._values, np.zeros(room, self.dtype)])
            self._present, self._may_be_stored = (
                np.concatenate([each, np.zeros(room, np.bool_)])
                for each in (self._present, self._may_be_stored)
            )
        if self.count > before:
            if is_new is None:
                self._may_be_stored[before : self.count] = True
            else:
                # Of entries that were written before, nothing new is known.
                self._may_be_stored[places] |= ~is_new & (places >= before)
        self._values[places] = values
        self._present[places] = present

    def changed(self) -> tuple[npt.NDArray[Any], Values, Flags, Flags]:
        """The entries that the commit has to write: numbers with namespaces, values, whether there is one, and whether
        the committed tables may have one."""
        keys, count = self._index.keys, self.count
        values, present, may_be = self._values[:count], self._present[:count], self._may_be_stored[:count]
        matters = present | may_be
        if matters.all():
            return keys, values, present, may_be
        return keys[matters], values[matters], present[matters], may_be[matters]
