"""A table of numbers by whole-number keys, as columns: an entry takes 44 bytes, where Python objects in dicts take 178.

The record path and functions on batches use the same table. A null key and the cells of namespaces have no place in a
column; they lie in a table of cells beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sparkstate.backends import column_codec, value_columns
from sparkstate.backends.base import DELETED, Cell, TableChanges, TableSpec
from sparkstate.backends.canonical import RowBlock, TableCodec
from sparkstate.backends.hashmap.key_groups import KeyGroupsOfKeys
from sparkstate.backends.hashmap.layered_columns import ColumnView, LayeredColumns
from sparkstate.backends.hashmap.tables import HashMapValueTable
from sparkstate.backends.layered_dict import View
from sparkstate.backends.long_index import Longs
from sparkstate.backends.value_columns import Flags, KeyGroups, ValueColumns, Values
from sparkstate.serde import composite

_KEY_BYTES: Final = 9
"""Of a key that is not null: one byte that says so, and 64 bits (``serde.composite``)."""
_ROWS_OF_BLOCK: Final = 2048
"""About as many bytes as ``canonical.BLOCK_BYTES``."""


class ColumnTableView:
    """The table as it was when it was frozen. Read from any thread until released."""

    def __init__(self, columns: ColumnView, others: View) -> None:
        self.columns = columns
        self.others = others

    def release(self) -> None:
        """Let the table fold its layers."""
        self.columns.release()
        self.others.release()


class HashMapColumnTable:
    """Table of a VALUE, REDUCING or AGGREGATING state that is columnar (``TableSpec.is_columnar``)."""

    def __init__(self, spec: TableSpec, key_groups: KeyGroupsOfKeys) -> None:
        self.spec = spec
        self._dtype = value_columns.dtype_of(spec.value_type)
        self._columns = LayeredColumns(self._dtype)
        self._others = HashMapValueTable(spec, key_groups)

    def get(self, kg: int, cell: Cell) -> Any:
        # A state in a namespace is read cell by cell: searching the columns first would cost ten times the look-up.
        return self.get_many([kg], [cell])[0] if type(cell) is int else self._others.get(kg, cell)

    def get_many(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        keys = value_columns.long_keys(cells)
        if keys is not None:
            return value_columns.to_objects(*self._columns.read(keys))
        found = self._others.get_many(kgs, cells)
        plain = [place for place, cell in enumerate(cells) if type(cell) is int]
        if plain:
            read = self.get_many([kgs[place] for place in plain], [cells[place] for place in plain])
            for place, value in zip(plain, read, strict=True):
                found[place] = value
        return found

    def get_columns(self, key_groups: KeyGroups, keys: Longs) -> tuple[Values, Flags]:
        return self._columns.read(keys)

    def note_groups(self, changes: TableChanges, kgs: Mapping[Any, int]) -> None:
        """Remember the key groups of keys that have none in the columns."""
        self._others.note_groups(_others(changes), kgs)

    def apply(self, changes: TableChanges, kgs: Mapping[Any, int]) -> int:
        """Apply one epoch's changes; the number of deletions beside the columns."""
        if changes.columns is not None:
            self._columns.write(changes.columns)
        plain = {cell: value for cell, value in changes.values.items() if type(cell) is int}
        if plain:
            groups = np.fromiter(map(kgs.__getitem__, plain), np.int32, len(plain))
            keys = np.fromiter(plain, np.int64, len(plain))
            values = [None if value is DELETED else value for value in plain.values()]
            self._columns.write(ValueColumns(keys, groups, *value_columns.to_columns(values, self._dtype)))
        if len(plain) == len(changes.values):
            return 0
        return self._others.apply(_others(changes), kgs)

    def live_keys(self) -> Iterator[Any]:
        """The keys whose key groups are not in the columns."""
        return self._others.live_keys()

    def rows(self) -> int:
        return self._columns.estimated_len() + self._others.rows()

    @property
    def row_bytes(self) -> int:
        """About the encoded size of a row."""
        return 9 + 1 + 8 + int(np.dtype(self._dtype).itemsize)

    def freeze(self) -> ColumnTableView:
        return ColumnTableView(self._columns.freeze(), self._others.freeze())

    def load(self, codec: TableCodec, block: RowBlock) -> None:
        """Take in rows of a snapshot."""
        assert codec.value_type is not None
        plain = [
            row for row in block.rows if row[2] == composite.DEFAULT_NAMESPACE and len(row[1]) == _KEY_BYTES
        ]
        if len(plain) < len(block.rows):
            taken = set(plain)
            self._others.load(codec, RowBlock(block.table, [row for row in block.rows if row not in taken]))
        if not plain:
            return
        groups, keys, _, _, stored = zip(*plain, strict=True)
        data = np.frombuffer(b"".join(keys), np.uint8).reshape(-1, _KEY_BYTES)
        longs = value_columns.of_ordered(np.ascontiguousarray(data[:, 1:]).view(">u8").reshape(-1))
        values = column_codec.decode_all(stored, codec.value_type, self._dtype)
        present = np.ones(len(plain), np.bool_)
        self._columns.write(ValueColumns(longs, np.array(groups, np.int32), values, present))


def _others(changes: TableChanges) -> TableChanges:
    """The part that has no place in columns."""
    values = {cell: value for cell, value in changes.values.items() if type(cell) is not int}
    return TableChanges(changes.spec, values)


def blocks_of(table: int, columns: ValueColumns) -> Iterator[RowBlock]:
    """The canonical rows of live entries, which are in order."""
    for start in range(0, len(columns), _ROWS_OF_BLOCK):
        part = columns.select(slice(start, start + _ROWS_OF_BLOCK))
        data = np.ones((len(part), _KEY_BYTES), np.uint8)  # the first byte: the key is not null
        data[:, 1:] = value_columns.to_ordered(part.keys).astype(">u8").view(np.uint8).reshape(-1, 8)
        joined = data.tobytes()
        keys = [joined[at : at + _KEY_BYTES] for at in range(0, len(joined), _KEY_BYTES)]
        fixed = itertools.repeat(composite.DEFAULT_NAMESPACE), itertools.repeat(b"")
        values = column_codec.encode(part.values)
        yield RowBlock(table, list(zip(part.key_groups.tolist(), keys, *fixed, values, strict=False)))
