"""The removal of expired values from a table of cells, a part at a time."""

from __future__ import annotations

import math
from typing import Any

from sparkstate.backends.base import Cell
from sparkstate.backends.expiring import SweepPace
from sparkstate.backends.hashmap.tables import HashMapCells
from sparkstate.backends.layered_dict import ABSENT
from sparkstate.serde import expiring
from sparkstate.serde.expiring import NO_STAMP


class CellSweep:
    """How far the sweep of one table has come."""

    def __init__(self) -> None:
        self.cutoff = NO_STAMP
        """Values with this stamp or an older one have expired."""
        self._waiting: list[Cell] = []
        """The cells that this pass has still to look at."""
        self._cells = 0
        """The cells that there were when it began: fewer are left of those with every removal."""
        self._seen: tuple[int, int] = (0, 0)
        """Cells that this pass has looked at, and entries in them."""
        self._before = 1.0
        """Entries in a cell, in the last pass."""

    def run(self, table: HashMapCells, pace: SweepPace) -> tuple[int, int]:
        """Look at some entries; how many were removed, and how many cells with them."""
        cells = table.cells
        cells.fold()
        entries = pace.entries(math.ceil(max(table.rows(), self._cells) * self._entries_of_a_cell()))
        if not self._waiting and entries:
            cells_seen, entries_seen = self._seen
            self._before = entries_seen / cells_seen if cells_seen else self._before
            self._seen = (0, 0)
            self._waiting = cells.all_keys()
            self._cells = len(self._waiting)
        waiting = len(self._waiting)
        looked = removed = gone = 0
        while self._waiting and looked < entries:
            cell = self._waiting.pop()
            stored = cells.get(cell)
            size = len(stored) if isinstance(stored, (list, dict)) else 1
            looked += size
            live: Any = stored if stored is ABSENT else expiring.live_part(stored, self.cutoff)
            if live is stored:
                continue
            if live:
                cells.set(cell, live)
                removed += size - len(live)
            else:
                cells.delete(cell)
                removed, gone = removed + size, gone + 1
        self._seen = (self._seen[0] + waiting - len(self._waiting), self._seen[1] + looked)
        return removed, gone

    def _entries_of_a_cell(self) -> float:
        """As far as it is known: a pass has to come to the end of all entries in its time, and not of all cells."""
        cells, entries = self._seen
        return max(self._before, entries / cells) if cells else self._before
