"""Committed entries of one table that RocksDB does not have yet, as columns.

Theory. Nothing of a database survives its process but snapshots (RFC 0012), so a committed entry need not be in
RocksDB before the next one. Until then many entries are written again, or removed: a total that each epoch adds to, a
window that ends, its timer. The last version alone is written, and of an entry that RocksDB never had, and that is
gone, nothing. Reads look here first.

Entries that were written stay as a copy of RocksDB's, until their table's buffers are emptied.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkstate.backends import value_columns
from sparkstate.backends.long_index import LongIndex
from sparkstate.backends.value_columns import Flags, ValueColumns, Values

_WORTHWHILE: Final = 0.25
"""Of its entries, so many are written again before a buffer is emptied, or it does not pay."""
_SHORTEST_PAUSE: Final = 16
"""So many commits after a buffer did not pay, it is tried again; twice as many after each further time."""
_LONGEST_PAUSE: Final = 1024
_INDEX_BYTES: Final = 12
"""Of an entry, in the cells of the index."""
_CONTENTS: Final = ("_index", "_groups", "_values", "_present", "_may_be_stored", "_dirty")


class ColumnBuffer:
    """Entries by key. Changed by commits alone; :meth:`read` may run beside :meth:`unwritten` and :meth:`written`."""

    __slots__ = (
        "_dirty",
        "_dtype",
        "_groups",
        "_index",
        "_index_type",
        "_may_be_stored",
        "_pause",
        "_present",
        "_values",
        "again",
        "waits",
        "weighed",
    )

    def __init__(self, dtype: Any, index_type: type[LongIndex]) -> None:
        """``index_type`` says what keys are: whole numbers, or those with a namespace."""
        self._dtype = dtype
        self._index_type = index_type
        self._pause = _SHORTEST_PAUSE
        self.waits = 0
        """For how many commits it takes nothing."""
        self.weighed = 0
        """Bytes that its owner has counted."""
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._index = self._index_type()
        self._groups: npt.NDArray[np.int16] = np.empty(0, np.int16)
        self._values: Values = np.empty(0, self._dtype)
        self._present: Flags = np.empty(0, np.bool_)
        """False: the entry is deleted."""
        self._may_be_stored: Flags = np.empty(0, np.bool_)
        """False: RocksDB has no entry of this key."""
        self._dirty: Flags = np.empty(0, np.bool_)
        """False: RocksDB has the same."""
        self.again = 0
        """How often an entry was written that was there already."""

    @property
    def count(self) -> int:
        """Entries, the deleted ones included."""
        return self._index.count

    @property
    def entry_bytes(self) -> int:
        """About the memory of one entry."""
        key, value = np.dtype(self._index.dtype).itemsize, np.dtype(self._dtype).itemsize
        return int(key + value + self._groups.itemsize + 3 + _INDEX_BYTES)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        columns = (self._groups, self._values, self._present, self._may_be_stored, self._dirty)
        return self._index.nbytes + sum(each.nbytes for each in columns) if self.count else 0

    def read(self, keys: Any) -> tuple[Values, Flags, Flags]:
        """For each key its value, whether there is one, and whether the buffer knows."""
        places = self._index.find(keys)
        known: Flags = places >= 0
        if not self.count:
            return np.zeros(len(keys), self._dtype), known, known
        return self._values[places], self._present[places] & known, known

    def write(self, change: ValueColumns) -> None:
        """Set and delete these entries."""
        places = self._index.find(change.keys)
        is_new = places < 0
        before, added = self.count, int(np.count_nonzero(is_new))
        if added:
            self._index.add(change.keys[is_new])
            self._grow(before)
            places[is_new] = np.arange(before, before + added)
            known = change.may_be_stored
            self._may_be_stored[before : before + added] = True if known is None else known[is_new]
        self.again += len(places) - added
        self._groups[places] = change.key_groups
        self._values[places] = change.values
        self._present[places] = change.present
        self._dirty[places] = True

    def _grow(self, used: int) -> None:
        count = self.count
        if count > len(self._values):
            room = max(count, used + used // 2)
            self._groups, self._values, self._present, self._may_be_stored, self._dirty = (
                value_columns.with_room(each, used, room)
                for each in (self._groups, self._values, self._present, self._may_be_stored, self._dirty)
            )

    def _entries(self, flags: Flags) -> ValueColumns:
        places = np.flatnonzero(flags)
        return ValueColumns(
            self._index.keys[places],
            self._groups[places].astype(np.int32),
            self._values[places],
            self._present[places],
            self._may_be_stored[places],
        )

    def _matters(self) -> Flags:
        """Which entries RocksDB has in another form, or not at all."""
        count = self.count
        found: Flags = self._dirty[:count] & (self._present[:count] | self._may_be_stored[:count])
        return found

    def rests(self) -> bool:
        """Asked before it is emptied. Take nothing for a while if few entries came a second time: each commit would go
        through the buffer in vain."""
        if self.again >= self.count * _WORTHWHILE:
            self._pause = _SHORTEST_PAUSE if self.count else self._pause
            return False
        self.waits, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return True

    def unwritten(self) -> ValueColumns:
        """The changes that RocksDB lacks."""
        return self._entries(self._matters())

    def unwritten_rows(self) -> int:
        """How many entries are there that RocksDB lacks, about."""
        count = self.count
        return int(
            np.count_nonzero(self._dirty[:count] & self._present[:count] & ~self._may_be_stored[:count])
        )

    def written(self) -> None:
        """RocksDB has all of it."""
        count = self.count
        self._may_be_stored[:count] = self._present[:count]
        self._dirty[:count] = False

    def compact(self) -> None:
        """Drop what nobody needs: deleted entries that RocksDB does not have either. Where memory is too short for
        that, all of it stays: a commit of another table may have asked for it, and would lose these entries."""
        is_kept = self._present[: self.count] | self._matters()
        kept, dirty = self._entries(is_kept), self._dirty[: self.count][is_kept]
        made = ColumnBuffer(self._dtype, self._index_type)
        if len(kept):
            made.write(kept)
            made._dirty[: made.count] = dirty
        for name in _CONTENTS:
            setattr(self, name, getattr(made, name))

    def all(self) -> ValueColumns:
        """All entries, the deleted ones included."""
        return self._entries(np.ones(self.count, np.bool_))

    def present(self, chosen: Flags) -> ValueColumns:
        """Those of the chosen entries that are there; a flag for each of ``keys``."""
        return self._entries(self._present[: self.count] & chosen)

    @property
    def keys(self) -> Any:
        """The keys of all entries, the deleted ones included. A view: do not change it."""
        return self._index.keys

    def present_keys(self) -> Any:
        """The keys of all entries that are there."""
        return self._index.keys[self._present[: self.count]]
