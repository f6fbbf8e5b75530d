"""Values that expire, in RocksDB: their removal a part at a time, and the change from one time-to-live to another.

rocksdict has no compaction filter, so rows are read and deleted. Deleted rows leave the disk when RocksDB merges their
files, which it does when new rows come. Where a pass has removed more rows than it left, the store asks for that merge:
it costs less than the rows that are gone did.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from sparkstate.backends.expiring import SweepPace, look
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.serde import expiring
from sparkstate.settings import MIB

_ROWS_AT_ONCE = 20_000
_BYTES_AT_ONCE = 4 * MIB
_SETTLED_S = 2.0
"""RocksDB knows the age of a file in whole seconds, and merges those that are older than one."""
_FEW_ROWS = 1000
"""So many deleted rows are never worth a merge."""


class Merge(enum.Enum):
    """How far the merge of a family is."""

    NONE = enum.auto()
    OVERDUE = enum.auto()
    FLUSHED = enum.auto()
    ASKED = enum.auto()


class RowSweep:
    """How far the sweep of one column family has come."""

    def __init__(self) -> None:
        self.cutoff = expiring.NO_STAMP
        """Values with this stamp or an older one have expired."""
        self._start = b""
        self._looked = 0
        """Rows that this pass has seen."""
        self._removed = 0
        """Those of them that had expired."""
        self._merge = Merge.NONE
        self._since_s = 0.0
        """When the merge came as far as it is."""
        self._rows = 0
        """Rows that the last pass has seen. RocksDB's own number is a guess, and may be far too low."""

    def look(self, family: Family, pace: SweepPace) -> FamilyWrites:
        """Look at some rows; the deletions of those that have expired."""
        count = pace.entries(max(self._rows, self._looked, family.integer("rocksdb.estimate-num-keys")))
        if not count:
            return FamilyWrites(family)
        found = look(family.iterate(self._start, fill_cache=False), self.cutoff, count)
        self._looked += found.looked
        self._removed += len(found.expired)
        if found.rest is None:
            self._end_pass()
        else:
            self._start = found.rest
        return FamilyWrites(family, found.expired)

    def _end_pass(self) -> None:
        left = self._looked - self._removed
        if self._removed > max(left, _FEW_ROWS) and self._merge is Merge.NONE:
            self._merge = Merge.OVERDUE
        self._start, self._rows, self._looked, self._removed = b"", self._looked, 0, 0

    # --- the merge of a family that consists of deleted rows for the most part

    def flushed(self, now_s: float) -> None:
        """All deletions are in files."""
        if self._merge is Merge.OVERDUE:
            self._merge, self._since_s = Merge.FLUSHED, now_s

    def ask_for_merge(self, family: Family, now_s: float) -> None:
        """Ask for the merge, if one is overdue, or end that."""
        if now_s - self._since_s < _SETTLED_S:
            return
        if self._merge is Merge.FLUSHED:
            family.merge_soon(True)
            self._merge, self._since_s = Merge.ASKED, now_s
        elif self._merge is Merge.ASKED:
            family.merge_soon(False)
            self._merge = Merge.NONE


def converted(family: Family, convert: expiring.Convert) -> Iterator[FamilyWrites]:
    """The writes that give all values of a family another time-to-live, a part at a time."""
    start: bytes | None = b""
    while start is not None:
        writes, start = _next_part(family, convert, start)
        yield writes


def _next_part(family: Family, convert: expiring.Convert, start: bytes) -> tuple[FamilyWrites, bytes | None]:
    """The writes for some rows, and where the rest begins; None: there is no rest."""
    writes, size = FamilyWrites(family), 0
    for number, (key, before) in enumerate(family.iterate(start, fill_cache=False), 1):
        value = convert(before)
        if value is None:
            writes.deletes.append(key)
        elif value != before:
            writes.keys.append(key)
            writes.values.append(value)
        size += len(before)
        if number == _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            return writes, key + b"\x00"
    return writes, None
