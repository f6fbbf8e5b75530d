"""Values that expire, in RocksDB: their removal a part at a time, and the change from one time-to-live to another.

rocksdict has no compaction filter, so rows are read and deleted. The deletions leave the disk with the next compaction
of their files.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkstate.backends.expiring import SweepPace
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.serde import expiring

_ROWS_AT_ONCE = 20_000


class RowSweep:
    """How far the sweep of one column family has come."""

    def __init__(self) -> None:
        self.cutoff = expiring.NO_STAMP
        """Values with this stamp or an older one have expired."""
        self._start = b""
        self._looked = 0
        """Rows that this pass has seen."""
        self._rows = 0
        """Rows that the last pass has seen. RocksDB's own number is a guess, and may be far too low."""

    def look(self, family: Family, pace: SweepPace) -> FamilyWrites:
        """Look at some rows; the deletions of those that have expired."""
        count = pace.entries(max(self._rows, self._looked, family.integer("rocksdb.estimate-num-keys")))
        if not count:
            return FamilyWrites(family)
        found = family.look_through(self._start, count)
        self._looked += len(found)
        if len(found) < count:  # the last row was among them
            self._start, self._rows, self._looked = b"", self._looked, 0
        else:
            self._start = found[-1][0] + b"\x00"
        has_expired = expiring.expired_bytes(self.cutoff)
        return FamilyWrites(family, [key for key, value in found if has_expired(value)])


def converted(family: Family, convert: expiring.Convert) -> Iterator[FamilyWrites]:
    """The writes that give all values of a family another time-to-live."""
    start = b""
    while found := family.look_through(start, _ROWS_AT_ONCE):
        start = found[-1][0] + b"\x00"
        writes = FamilyWrites(family)
        for key, before in found:
            value = convert(before)
            if value is None:
                writes.deletes.append(key)
            elif value != before:
                writes.keys.append(key)
                writes.values.append(value)
        yield writes
