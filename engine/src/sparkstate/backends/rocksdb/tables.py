"""Tables of values, lists and maps: reads of committed rows, and one epoch's changes as rows to write."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparkstate.backends import base, column_codec, value_columns
from sparkstate.backends.base import DELETED, Cell, StateKind, TableChanges, TableSpec
from sparkstate.backends.keyed_table import KeyParts
from sparkstate.backends.rocksdb import layout
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.schemas import SchemaCodec
from sparkstate.backends.value_columns import Flags, KeyGroups, Values
from sparkstate.serde import composite
from sparkstate.serde.typeinfo import TypeInformation


class PositionCounter:
    """Gives list elements their positions, for all lists of a store. It only grows, and is part of every snapshot."""

    def __init__(self, following: int = 0) -> None:
        self.following = following

    def take(self, count: int) -> range:
        """The next ``count`` positions."""
        start = self.following
        self.following = start + count
        return range(start, self.following)


class RocksTable(abc.ABC):
    """The common half of the three kinds."""

    def __init__(
        self, spec: TableSpec, family: Family, row_limit: int, schemas: SchemaCodec | None = None
    ) -> None:
        if spec.value_type is None:
            raise AssertionError(
                f"the table {spec.uid}/{spec.name} has no value type. This is a bug, please report"
            )
        self.spec = spec
        self.family = family
        self.codec = layout.RowCodec(spec)
        self._row = self.codec.row
        self._limit = row_limit
        self._value_type: TypeInformation = spec.value_type
        self._encode: Callable[[Any], bytes] = spec.value_type.encode
        self._decode: Callable[[bytes], Any] = spec.value_type.decode
        self._decode_all: Callable[[Sequence[bytes | None]], list[Any]] = spec.value_type.decode_all
        self.schemas = schemas
        """None as long as the type of the state has never changed."""
        if schemas is not None:
            self._migrate_with(schemas)

    def _migrate_with(self, schemas: SchemaCodec) -> None:
        encode, decode = self._encode, self._decode
        plain, stamped = schemas.plain, schemas.stamped
        self._encode = lambda stored: stamped(encode(stored))
        self._decode = lambda data: decode(plain(data))
        decode_all = self._decode_all
        self._decode_all = lambda found: decode_all([None if data is None else plain(data) for data in found])

    def keys(self, at_once: int) -> KeyParts:
        """As the contract says, by key group and encoded key. Each part seeks its place anew, so that no iterator is
        held between two parts."""
        start, behind = b"", self.codec.behind_key
        while rows := self.family.leap(start, behind, at_once):
            found = map(self.codec.key_of, rows)
            if part := [(kg, key) for kg, key, has_default in found if has_default]:
                yield part
            start = behind(rows[-1])

    @abc.abstractmethod
    def writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        """The changes as rows, all encoded and checked, nothing written yet."""

    def _check(self, cells: Sequence[Cell], keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        layout.check_lengths(self.spec, cells, keys, values, self._limit)


class RocksValueTable(RocksTable):
    """VALUE, REDUCING and AGGREGATING: one row per cell."""

    def __init__(
        self, spec: TableSpec, family: Family, row_limit: int, schemas: SchemaCodec | None = None
    ) -> None:
        super().__init__(spec, family, row_limit, schemas)
        self._dtype = value_columns.dtype_of(spec.value_type)

    def get(self, kg: int, cell: Cell) -> Any:
        data = self.family.get(self._row(kg, cell))
        return None if data is None else self._decode(data)

    def get_many(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        rows = self.codec.rows(kgs, cells)
        order = layout.row_order(rows)
        if order is None:
            return self.get_rows(rows)
        return layout.placed(self.get_rows(layout.picked(rows, order)), order, len(rows))

    def get_rows(self, rows: list[bytes]) -> list[Any]:
        """The values of rows that are in order, as RocksDB has them."""
        return self._decode_all(self.family.get_many(rows))

    def get_columns(self, key_groups: KeyGroups, keys: Any) -> tuple[Values, Flags]:
        """As the contract says."""
        # In the order of the rows neighbours come from the same block.
        order = value_columns.row_order(keys, key_groups)
        found = self.family.get_many(layout.long_rows(key_groups[order], keys[order]))
        stored = [data for data in found if data is not None]
        if len(stored) in (0, len(found)):  # mostly: keys of a load come again, or do not
            present = np.full(len(found), bool(stored))
        else:
            present = np.array([data is not None for data in found])
        values = np.zeros(len(found), self._dtype)
        if self.schemas is not None:
            stored = [self.schemas.plain(data) for data in stored]
        values[present] = column_codec.decode_all(stored, self._value_type, self._dtype)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return values[back], present[back]

    def writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        writes = self._single_writes(changes, kgs)
        for columns in (changes.columns, changes.pairs):
            if columns is None:
                continue
            gone, kept = columns.select(~columns.present), columns.select(columns.present)
            writes.deletes += layout.long_rows(gone.key_groups, gone.keys)
            writes.keys += layout.long_rows(kept.key_groups, kept.keys)
            # A row of numbers is too short for RocksDB's limit to matter.
            encoded = column_codec.encode(kept.values)
            writes.values += encoded if self.schemas is None else map(self.schemas.stamped, encoded)
        return writes

    def _single_writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        cells = list(changes.values)
        rows = self.codec.rows([kgs[base.key_of(cell)] for cell in cells], cells)
        deletes: list[bytes] = []
        values = list(changes.values.values())
        if DELETED in values:
            deletes = [row for row, value in zip(rows, values, strict=True) if value is DELETED]
            kept = [index for index, value in enumerate(values) if value is not DELETED]
            cells, rows = [cells[index] for index in kept], [rows[index] for index in kept]
            values = [values[index] for index in kept]
        encode = self._encode
        encoded = [encode(value) for value in values]
        self._check(cells, rows, encoded)
        return FamilyWrites(self.family, deletes, rows, encoded)


class RocksListTable(RocksTable):
    """LIST: one row per element, so that appending reads nothing and no row grows with the list."""

    def __init__(
        self,
        spec: TableSpec,
        family: Family,
        row_limit: int,
        positions: PositionCounter,
        schemas: SchemaCodec | None = None,
    ) -> None:
        super().__init__(spec, family, row_limit, schemas)
        self._positions = positions

    def get(self, kg: int, cell: Cell) -> list[Any]:
        decode = self._decode
        return [decode(data) for _, data in self.family.scan(self._row(kg, cell))]

    def writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        result = FamilyWrites(self.family)
        cells: list[Cell] = []
        row, encode, position = self._row, self._encode, composite.encode_long
        for cell, change in changes.lists.items():
            prefix = row(kgs[base.key_of(cell)], cell)
            if change.replaced:
                # Row by row: a range deletion for each replaced list would slow down every later read.
                result.deletes += [key for key, _ in self.family.scan(prefix)]
            result.keys += [prefix + position(number) for number in self._positions.take(len(change.items))]
            result.values += [encode(item) for item in change.items]
            cells += [cell] * len(change.items)
        self._check(cells, result.keys, result.values)
        return result


class RocksMapTable(RocksTable):
    """MAP: one row per entry."""

    def __init__(
        self, spec: TableSpec, family: Family, row_limit: int, schemas: SchemaCodec | None = None
    ) -> None:
        super().__init__(spec, family, row_limit, schemas)
        if spec.user_key_type is None:
            raise AssertionError(
                f"the table {spec.uid}/{spec.name} has no user key type. This is a bug, please report"
            )
        codec = composite.key_codec(spec.user_key_type)
        self._encode_user_key = codec.encode
        self._decode_user_key = codec.decode

    def get(self, kg: int, cell: Cell, user_key: Any) -> Any:
        data = self.family.get(self._row(kg, cell) + self._encode_user_key(user_key))
        return DELETED if data is None else self._decode(data)

    def items(self, kg: int, cell: Cell) -> dict[Any, Any]:
        prefix = self._row(kg, cell)
        at, decode, decode_user_key = len(prefix), self._decode, self._decode_user_key
        return {decode_user_key(key, at)[0]: decode(data) for key, data in self.family.scan(prefix)}

    def writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        result = FamilyWrites(self.family)
        cells: list[Cell] = []
        row, encode, encode_user_key = self._row, self._encode, self._encode_user_key
        for cell, change in changes.maps.items():
            prefix = row(kgs[base.key_of(cell)], cell)
            if change.cleared:
                result.deletes += [key for key, _ in self.family.scan(prefix)]
            for user_key, value in change.entries.items():
                key = prefix + encode_user_key(user_key)
                if value is DELETED:
                    result.deletes.append(key)
                else:
                    result.keys.append(key)
                    result.values.append(encode(value))
                    cells.append(cell)
        self._check(cells, result.keys, result.values)
        return result


def make_table(
    spec: TableSpec,
    family: Family,
    row_limit: int,
    positions: PositionCounter,
    schemas: SchemaCodec | None = None,
) -> RocksTable:
    """The table of a spec, except for timers."""
    if spec.kind is StateKind.LIST:
        return RocksListTable(spec, family, row_limit, positions, schemas)
    if spec.kind is StateKind.MAP:
        return RocksMapTable(spec, family, row_limit, schemas)
    return RocksValueTable(spec, family, row_limit, schemas)
