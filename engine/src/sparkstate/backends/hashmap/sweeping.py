"""The removal of expired values from a table of cells, a part at a time."""

from __future__ import annotations

from typing import Any

from sparkstate.backends.base import Cell
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

    def run(self, table: HashMapCells, entries: int) -> tuple[int, int]:
        """Look at so many entries; how many were removed, and how many cells with them."""
        cells = table.cells
        cells.fold()
        if not self._waiting and entries:
            self._waiting = cells.all_keys()
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
        return removed, gone
