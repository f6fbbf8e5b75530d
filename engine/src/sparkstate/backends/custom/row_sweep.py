"""Values that expire, in the rows of an ``OrderedRows``: their removal a part at a time."""

from __future__ import annotations

from sparkstate.backends.custom.ordered_rows import OrderedRows, left_early
from sparkstate.backends.custom.row_tables import RowTable, Written
from sparkstate.backends.expiring import SweepPace, look
from sparkstate.serde import expiring


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
        if not count:
            return {}
        with left_early(rows.scan(self._start or table.row_keys.first, table.row_keys.end)) as scan:
            found = look(scan, self.cutoff, count)
        self._looked += found.looked
        if found.rest is not None:
            self._start = found.rest
        else:
            # Nobody counts the rows of a table, and each write adds one at most.
            self._rows, table.written = self._looked + table.written, 0
            self._start, self._looked = b"", 0
        return dict.fromkeys(found.expired)
