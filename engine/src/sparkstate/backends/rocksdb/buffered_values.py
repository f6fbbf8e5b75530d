"""The table of a columnar state, whose latest commits wait in column buffers (``buffering``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkstate.backends import column_cells, value_columns
from sparkstate.backends.base import Cell, TableChanges, TableSpec
from sparkstate.backends.keyed_table import KeyParts
from sparkstate.backends.long_index import LongIndex, PairIndex
from sparkstate.backends.rocksdb.buffering import BufferedTable
from sparkstate.backends.rocksdb.column_buffer import ColumnBuffer
from sparkstate.backends.rocksdb.family import Family
from sparkstate.backends.rocksdb.schemas import SchemaCodec
from sparkstate.backends.rocksdb.tables import RocksValueTable
from sparkstate.backends.value_columns import Flags, KeyGroups, Values


class BufferedValueTable(RocksValueTable, BufferedTable):
    """``write_out`` brings what its buffers have to RocksDB."""

    def __init__(
        self,
        spec: TableSpec,
        family: Family,
        row_limit: int,
        schemas: SchemaCodec | None,
        write_out: Callable[[BufferedValueTable], None],
    ) -> None:
        super().__init__(spec, family, row_limit, schemas)
        self.buffers = {
            "columns": ColumnBuffer(self._dtype, LongIndex),
            "pairs": ColumnBuffer(self._dtype, PairIndex),
        }
        self._write_out = write_out

    # --- reads

    def get(self, kg: int, cell: Cell) -> Any:
        # Functions called per record read namespaces one by one, and buffers that could have them are mostly empty.
        buffer = self.buffers["columns" if type(cell) is int else "pairs"]
        return self.get_many([kg], [cell])[0] if buffer.count else super().get(kg, cell)

    def get_many(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        if not self.has_buffered:
            return super().get_many(kgs, cells)
        values, known = self._buffered(cells)
        if not known.any():
            return super().get_many(kgs, cells)
        rest = np.flatnonzero(~known).tolist()
        if rest:
            found = super().get_many([kgs[place] for place in rest], [cells[place] for place in rest])
            for place, value in zip(rest, found, strict=True):
                values[place] = value
        return values

    def _buffered(self, cells: Sequence[Cell]) -> tuple[list[Any], Flags]:
        """Stored values of cells, and which of them the buffers know."""
        # Mostly all are keys in the default namespace. A loop over them costs half of what RocksDB takes to find them.
        keys = value_columns.long_keys(cells)
        if keys is not None:
            found, present, known = self.buffers["columns"].read(keys)
            return value_columns.to_objects(found, present) if known.any() else [], known
        values: list[Any] = [None] * len(cells)
        known = np.zeros(len(cells), np.bool_)
        if self.buffers["columns"].count:
            places = [place for place, cell in enumerate(cells) if type(cell) is int]
            keys = np.array([cells[place] for place in places], np.int64)
            self._put(values, known, places, self.buffers["columns"].read(keys))
        if self.buffers["pairs"].count:
            places = [place for place, cell in enumerate(cells) if column_cells.is_pair(cell)]
            keys = column_cells.pairs_of([cells[place] for place in places])
            self._put(values, known, places, self.buffers["pairs"].read(keys))
        return values, known

    @staticmethod
    def _put(values: list[Any], known: Flags, places: list[int], read: tuple[Values, Flags, Flags]) -> None:
        """Take over the values that a buffer has of the cells at these places."""
        found, present, known[places] = read
        for place, value in zip(places, value_columns.to_objects(found, present), strict=True):
            values[place] = value

    def get_columns(self, key_groups: KeyGroups, keys: Any) -> tuple[Values, Flags]:
        """As the contract says."""
        buffer = self.buffers["columns" if keys.dtype.names is None else "pairs"]
        if not buffer.count:
            return super().get_columns(key_groups, keys)
        values, present, known = buffer.read(keys)
        rest = np.flatnonzero(~known)
        if len(rest):
            values[rest], present[rest] = super().get_columns(key_groups[rest], keys[rest])
        return values, present

    def keys(self, at_once: int) -> KeyParts:
        """As the contract says. RocksDB has all of them first, so that they come in one order."""
        self._write_out(self)
        yield from super().keys(at_once)

    # --- what RocksDB does not have yet

    def collides(self, change: TableChanges) -> bool:
        """Whether single entries of the change may be in the buffers. Null keys and namespaces of text never are."""
        longs, pairs = self.buffers["columns"].count, self.buffers["pairs"].count
        return bool(
            (longs and any(type(cell) is int for cell in change.values))
            or (pairs and any(map(column_cells.is_pair, change.values)))
        )

    def absorb(self, change: TableChanges) -> None:
        """Take its columns into the buffers."""
        if change.columns is not None:
            self.buffers["columns"].write(change.columns)
        if change.pairs is not None:
            self.buffers["pairs"].write(change.pairs)

    def unwritten(self) -> TableChanges:
        """The entries that RocksDB lacks, as columns."""
        found = {name: buffer.unwritten() for name, buffer in self.buffers.items() if buffer.count}
        return TableChanges(self.spec, columns=found.get("columns"), pairs=found.get("pairs"))

    def forget(self) -> None:
        """Empty the buffers; all of it is written."""
        for buffer in self.buffers.values():
            buffer.clear()
