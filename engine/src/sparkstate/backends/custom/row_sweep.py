"""Values that expire, in the rows of an ``OrderedRows``: their removal a part at a time."""

from __future__ import annotations

from typing import Final

from sparkstate.backends.custom.ordered_rows import OrderedRows
from sparkstate.backends.custom.row_tables import RowTable, Written
from sparkstate.backends.expiring import SweepPace
from sparkstate.serde import expiring
from sparkstate.settings import MIB

_MOST_BYTES: Final = 64 * MIB
"""No more values are read in a sweep, however few they are: an epoch waits for it."""


class RowSweep:
    """How far the sweep of one table has come."""

    def __init__(self) -> None:
        self.cutoff = expiring.NO_STAMP
        """Values with this stamp or an older one have expired."""
        self._start = b""
        """Where the pass goes on; empty: at the beginning of the table."""
        self._looked = 0
        """Rows that this pass has seen."""
        self._rows = 0
        """At most so many rows were there when it began."""

    def look(self, table: RowTable, rows: OrderedRows, pace: SweepPace) -> Written:
        """Look at some rows; the deletions of those that have expired."""
        count = pace.entries(max(self._rows + table.written, self._looked))
        deletions: Written = {}
        if not count:
            return deletions
        has_expired = expiring.expired_bytes(self.cutoff)
        size = 0
        for number, (key, value) in enumerate(
            rows.scan(self._start or table.row_keys.first, table.row_keys.end), 1
        ):
            self._looked += 1
            size += len(value)
            if has_expired(value):
                deletions[key] = None
            if number == count or size >= _MOST_BYTES:
                self._start = key + b"\0"
                return deletions
        # Nobody counts the rows of a table, and each write adds one at most.
        self._rows, table.written = self._looked + table.written, 0
        self._start, self._looked = b"", 0
        return deletions
