"""A table of numbers by whole-number keys, as columns: an entry takes 44 bytes, where Python objects in dicts take 178.

The record path and functions on batches use the same table. A null key has no place in a column, nor has the cell of a
namespace of another type than whole numbers; they lie in a table of cells beside it.

Cells of whole-number namespaces are in that table too until a function on batches writes such a state. From then on
they are in columns, by key and namespace. A function called per record reads them one by one, which columns make slow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sparkstate.backends import column_cells, column_codec, value_columns
from sparkstate.backends.base import Cell, NamespacedCell, TableChanges, TableSpec
from sparkstate.backends.canonical import RowBlock, TableCodec
from sparkstate.backends.hashmap.key_groups import KeyGroupsOfKeys
from sparkstate.backends.hashmap.layered_columns import ColumnView, LayeredColumns
from sparkstate.backends.hashmap.tables import HashMapValueTable
from sparkstate.backends.keyed_table import KeyParts
from sparkstate.backends.layered_dict import View
from sparkstate.backends.long_index import Longs, PairIndex
from sparkstate.backends.value_columns import Flags, KeyGroups, ValueColumns, Values
from sparkstate.serde import composite

_KEY_BYTES: Final = 9
"""Of a key that is not null: one byte that says so, and 64 bits (``serde.composite``)."""
_ROWS_OF_BLOCK: Final = 2048
"""About as many bytes as ``canonical.BLOCK_BYTES``."""


class ColumnTableView:
    """The table as it was when it was frozen. Read from any thread until released."""

    def __init__(self, columns: ColumnView, pairs: ColumnView, others: View) -> None:
        self.columns = columns
        self.pairs = pairs
        self.others = others

    def release(self) -> None:
        """Let the table fold its layers."""
        self.columns.release()
        self.pairs.release()
        self.others.release()


class HashMapColumnTable:
    """Table of a VALUE, REDUCING or AGGREGATING state that is columnar (``TableSpec.is_columnar``)."""

    def __init__(self, spec: TableSpec, key_groups: KeyGroupsOfKeys) -> None:
        self.spec = spec
        self._dtype = value_columns.dtype_of(spec.value_type)
        self._columns = LayeredColumns(self._dtype)
        self._pairs = LayeredColumns(self._dtype, PairIndex)
        self._has_pairs = False
        """Whether cells of whole-number namespaces are in columns; then all of them are."""
        self._others = HashMapValueTable(spec, key_groups)

    def get(self, kg: int, cell: Cell) -> Any:
        if type(cell) is int or (self._has_pairs and column_cells.is_pair(cell)):
            return self.get_many([kg], [cell])[0]
        return self._others.get(kg, cell)

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
        spaced = (
            [place for place, cell in enumerate(cells) if column_cells.is_pair(cell)]
            if self._has_pairs
            else []
        )
        if spaced:
            values = value_columns.to_objects(
                *self._pairs.read(column_cells.pairs_of([cells[place] for place in spaced]))
            )
            for place, value in zip(spaced, values, strict=True):
                found[place] = value
        return found

    def get_columns(self, key_groups: KeyGroups, keys: Any) -> tuple[Values, Flags]:
        if keys.dtype.names is None:
            return self._columns.read(keys)
        if self._has_pairs or not self._others.rows():
            return self._pairs.read(keys)
        cells = [NamespacedCell(*pair) for pair in keys.tolist()]
        return value_columns.to_columns(self._others.get_many(key_groups.tolist(), cells), self._dtype)

    def note_groups(self, changes: TableChanges, kgs: Mapping[Any, int]) -> None:
        """Remember the key groups of keys that have none in the columns."""
        self._others.note_groups(self._other_changes(changes), kgs)

    def apply(self, changes: TableChanges, kgs: Mapping[Any, int]) -> int:
        """Apply one epoch's changes; the number of deletions beside the columns."""
        if changes.columns is not None:
            self._columns.write(changes.columns)
        if changes.pairs is not None:
            self._move_pairs()
            self._pairs.write(changes.pairs)
        if self._has_pairs:
            self._write_pairs(
                {cell: v for cell, v in changes.values.items() if column_cells.is_pair(cell)}, kgs
            )
        plain = {cell: value for cell, value in changes.values.items() if type(cell) is int}
        if plain:
            self._columns.write(column_cells.plain_columns(plain, kgs, self._dtype))
        if len(plain) == len(changes.values):
            return 0
        return self._others.apply(self._other_changes(changes), kgs)

    def _move_pairs(self) -> None:
        """The first columns by key and namespace came: cells of whole-number namespaces move there."""
        if self._has_pairs:
            return
        self._has_pairs = True
        found = {cell: value for cell, value in self._others.cells.items() if column_cells.is_pair(cell)}
        if found:
            self._write_pairs(found, self._others.key_groups.by_key)
            self._others.cells.fold()
            for cell in found:
                self._others.cells.delete(cell)

    def _write_pairs(self, cells: Mapping[Any, Any], kgs: Mapping[Any, int]) -> None:
        if cells:
            self._pairs.write(column_cells.pair_columns(cells, kgs, self._dtype))

    def _other_changes(self, changes: TableChanges) -> TableChanges:
        """The part that has no place in columns."""
        has_pairs = self._has_pairs or changes.pairs is not None
        values = {
            cell: value
            for cell, value in changes.values.items()
            if type(cell) is not int and not (has_pairs and column_cells.is_pair(cell))
        }
        return TableChanges(changes.spec, values)

    def live_keys(self) -> Iterator[Any]:
        """The keys whose key groups are not in the columns."""
        return self._others.live_keys()

    def keys(self, at_once: int) -> KeyParts:
        """As the contract says."""
        yield from self._columns.keys(at_once)
        yield from self._others.keys(at_once)

    def rows(self) -> int:
        return self._columns.estimated_len() + self._pairs.estimated_len() + self._others.rows()

    @property
    def row_bytes(self) -> int:
        """About the encoded size of a row."""
        return 9 + 1 + 8 + int(np.dtype(self._dtype).itemsize)

    def freeze(self) -> ColumnTableView:
        return ColumnTableView(self._columns.freeze(), self._pairs.freeze(), self._others.freeze())

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


def blocks_of(table: int, columns: ValueColumns) -> Iterator[RowBlock]:
    """The canonical rows of live entries, which are in order."""
    for start in range(0, len(columns), _ROWS_OF_BLOCK):
        part = columns.select(slice(start, start + _ROWS_OF_BLOCK))
        spaces: Iterable[bytes] = itertools.repeat(composite.DEFAULT_NAMESPACE)
        keys = part.keys
        if keys.dtype.names is not None:
            keys, spaces = keys["key"], _tagged(keys["space"], composite.LONG_NAMESPACE)
        rows = zip(
            part.key_groups.tolist(),
            _tagged(keys, 1),  # the first byte: the key is not null
            spaces,
            itertools.repeat(b""),
            column_codec.encode(part.values),
            strict=False,
        )
        yield RowBlock(table, list(rows))


def _tagged(numbers: Longs, tag: int) -> list[bytes]:
    """Numbers in the order-preserving form of ``serde.composite``, each behind a byte."""
    data = np.full((len(numbers), _KEY_BYTES), tag, np.uint8)
    ordered = value_columns.to_ordered(np.ascontiguousarray(numbers))
    data[:, 1:] = ordered.astype(">u8").view(np.uint8).reshape(-1, 8)
    joined = data.tobytes()
    return [joined[at : at + _KEY_BYTES] for at in range(0, len(joined), _KEY_BYTES)]
