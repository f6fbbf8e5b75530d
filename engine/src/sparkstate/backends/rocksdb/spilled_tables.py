"""The tables of a spill (``spill``): what an overlay has on disk, above the committed tables of the shard stores."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sparkstate.backends import base, value_columns
from sparkstate.backends.base import (
    DELETED,
    Cell,
    NamespacedCell,
    StateKind,
    TableChanges,
    TableSpec,
    Timer,
)
from sparkstate.backends.keyed_table import KeyParts
from sparkstate.backends.ordered_spill import LongValues
from sparkstate.backends.rocksdb import layout, tables
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.ordered_rows import OrderedRows
from sparkstate.backends.rocksdb.spill_commit import GONE, REPLACED, STANDS
from sparkstate.backends.value_columns import Flags, KeyGroups, Values
from sparkstate.serde import composite

_ABOVE_POSITIONS: Final = b"\xff\xff"
_CELLS_AT_ONCE: Final = 1000


class SpilledTable:
    """A table of any kind but timers: what was spilled of it, above the shard stores' own tables."""

    def __init__(
        self,
        spec: TableSpec,
        open_family: Callable[[], Family],
        row_limit: int,
        positions: tables.PositionCounter,
        committed: Callable[[int], Any],
    ) -> None:
        self.spec = spec
        self.codec = layout.RowCodec(spec)
        self._open_family = open_family
        self._committed = committed
        self._positions = positions
        self._row = self.codec.row
        assert spec.value_type is not None
        self._decode = spec.value_type.decode
        self._encode_all = spec.value_type.encode_all
        self._row_limit = row_limit

    @functools.cached_property
    def family(self) -> Family:
        """Opened when it is first asked for: 40 ms on a busy machine, and rows in order mostly need none."""
        return self._open_family()

    @property
    def opened(self) -> Family | None:
        """The family; None: nobody has asked for it, and it has no rows."""
        return self.__dict__.get("family")

    @functools.cached_property
    def _encoder(self) -> tables.RocksTable:
        """Encodes rows as the shard stores do: their own class, on this database's column family."""
        return tables.make_table(self.spec, self.family, self._row_limit, self._positions)

    def writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        """The changes as rows that fold into those already here."""
        writes = self._encoder.writes(changes, kgs)
        keys = [*writes.keys]
        values = [STANDS + value for value in writes.values]
        if self.spec.kind in (StateKind.LIST, StateKind.MAP):
            # The encoder's deletions: spilled rows of replaced cells (they may go: the mark hides the store's),
            # and removed map entries (these must hide the store's entry).
            keys += self._replaced(changes, kgs)
            values += [REPLACED] * (len(keys) - len(values))
        gone = self._removed(changes, kgs, writes)
        keys += gone
        values += [GONE] * len(gone)
        hidden = set(gone)
        return FamilyWrites(self.family, [row for row in writes.deletes if row not in hidden], keys, values)

    def keys(self, at_once: int) -> KeyParts:
        """See ``SpilledKeys``."""
        return self._encoder.keys(at_once)

    def mentions(self, kgs: Sequence[int], keys: Sequence[Any]) -> list[bool]:
        """See ``SpilledKeys``."""
        rows = self.codec.rows(kgs, keys)
        if self.spec.kind not in (StateKind.LIST, StateKind.MAP):
            return [data is not None for data in self.family.get_many(rows)]
        first = [self.family.leap(row, self.codec.behind_key, 1) for row in rows]
        return [bool(each) and each[0].startswith(row) for row, each in zip(rows, first, strict=True)]

    def _replaced(self, changes: TableChanges, kgs: Mapping[Any, int]) -> list[bytes]:
        row = self._row
        cells = [cell for cell, listed in changes.lists.items() if listed.replaced]
        cells += [cell for cell, mapped in changes.maps.items() if mapped.cleared]
        return [row(kgs[base.key_of(cell)], cell) for cell in cells]

    def _removed(self, changes: TableChanges, kgs: Mapping[Any, int], writes: FamilyWrites) -> list[bytes]:
        if self.spec.kind is StateKind.LIST:
            return []
        if self.spec.kind is not StateKind.MAP:
            return writes.deletes
        assert self.spec.user_key_type is not None
        encode = composite.key_codec(self.spec.user_key_type).encode
        return [
            self._row(kgs[base.key_of(cell)], cell) + encode(user_key)
            for cell, change in changes.maps.items()
            for user_key, value in change.entries.items()
            if value is DELETED
        ]


class SpilledValues(SpilledTable):
    """VALUE, REDUCING, AGGREGATING."""

    ordered: OrderedRows | None = None
    """Rows that came in the order of their keys; those that came later are in the family, and hide these."""
    _read_back: Callable[[], Family]
    _files: Family | None = None
    """The rows of ``ordered`` once they have to be read; None: no row was looked for."""

    def expect_order(self, ordered: OrderedRows, read_back: Callable[[], Family]) -> None:
        """Rows will come in the order of their keys. ``read_back`` makes a family of the files of ``ordered``."""
        self.ordered, self._read_back = ordered, read_back

    def get(self, kg: int, cell: Cell) -> Any:
        data = self._spilled([self._row(kg, cell)]).get(0)
        if data is None:
            return self._committed(kg).get(kg, cell)
        return None if data[:1] == GONE else self._decode(data[1:])

    def get_columns(self, key_groups: KeyGroups, keys: Any) -> tuple[Values, Flags]:
        """As of a shard store's table."""
        cells = keys.tolist()
        if keys.dtype.names is not None:
            cells = [NamespacedCell(*pair) for pair in cells]
        values = self.get_many(key_groups.tolist(), cells)
        return value_columns.to_columns(values, value_columns.dtype_of(self.spec.value_type))

    def get_many(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        rows = self.codec.rows(kgs, cells)
        order = layout.row_order(rows)
        if order is None:
            return self._get_ordered(rows, kgs, cells)
        found = self._get_ordered(*(layout.picked(each, order) for each in (rows, kgs, cells)))
        return layout.placed(found, order, len(rows))

    def _get_ordered(self, rows: list[bytes], kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        """The values of rows in order, with the key group and the cell of each."""
        spilled = self._spilled(rows)
        if not spilled:
            return self._get_committed(rows, kgs, cells)
        rest = [place for place in range(len(rows)) if place not in spilled]
        found = self._get_committed(*(layout.picked(each, rest) for each in (rows, kgs, cells)))
        values = layout.placed(found, rest, len(rows))
        for place, data in spilled.items():
            values[place] = None if data[:1] == GONE else self._decode(data[1:])
        return values

    def _get_committed(self, rows: list[bytes], kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        """The same from the shard stores, which encode cells as this table does."""
        values: list[Any] = []
        for table, part in self._by_table(kgs):
            if self.spec.is_columnar:  # column buffers know cells and no rows
                values += table.get_many(kgs[part], cells[part])
            else:
                values += table.get_rows(rows[part])
        return values

    def _by_table(self, kgs: Sequence[int]) -> Iterator[tuple[Any, slice]]:
        """The committed tables of key groups, which are in order, and the part of them that each has."""
        start = 0
        while start < len(kgs):
            table, end = self._committed(kgs[start]), start
            while end < len(kgs) and self._committed(kgs[end]) is table:
                end = bisect.bisect_right(kgs, kgs[end], end)
            yield table, slice(start, end)
            start = end

    def keys(self, at_once: int) -> KeyParts:
        self._require_no_order()
        return super().keys(at_once)

    def mentions(self, kgs: Sequence[int], keys: Sequence[Any]) -> list[bool]:
        self._require_no_order()
        return super().mentions(kgs, keys)

    def _require_no_order(self) -> None:
        """Operators that list the keys of a state do not process rows in the order of their keys."""
        if self.ordered is not None:
            raise AssertionError(
                f"the spilled keys of {self.spec.uid}/{self.spec.name} are in files that nobody lists. This is a bug, "
                "please report"
            )

    def _spilled(self, rows: list[bytes]) -> dict[int, bytes]:
        """The spilled values of these rows, which are in order, by their places. Others were not spilled."""
        ordered = self.ordered
        if ordered is None:
            return _present(self.family, rows)
        if rows and ordered.takes(rows[0]):
            return ordered.waiting(rows)
        if self._files is None:
            self._files = self._read_back()
        found = _present(self.family, rows)
        missing = [place for place in range(len(rows)) if place not in found]
        for number, data in _present(self._files, layout.picked(rows, missing)).items():
            found[missing[number]] = STANDS + data
        return found

    def ordered_writes(
        self, ordered: OrderedRows, changes: TableChanges, kgs: Mapping[Any, int]
    ) -> Iterator[FamilyWrites]:
        """The same as ``writes`` for all changes, which are put in order."""
        cells, values = list(changes.values), list(changes.values.values())
        rows = self.codec.rows([kgs[base.key_of(cell)] for cell in cells], cells)
        if (order := layout.row_order(rows)) is not None:
            rows, cells, values = (layout.picked(each, order) for each in (rows, cells, values))
        for start in range(0, len(rows), _CELLS_AT_ONCE):
            part = slice(start, start + _CELLS_AT_ONCE)
            stored = [None if value is DELETED else value for value in values[part]]
            yield from self._put_in_order(ordered, cells[part], rows[part], stored)

    def long_writes(self, ordered: OrderedRows, changes: LongValues) -> Iterator[FamilyWrites]:
        """The same for changes by whole-number keys."""
        order, values = changes.row_order(), changes.values
        for start in range(0, len(values), _CELLS_AT_ONCE):
            places: Any = slice(start, start + _CELLS_AT_ONCE)
            if order is not None:
                places = order[places]
            keys = changes.keys[places]
            rows = layout.long_rows(changes.key_groups[places], keys)
            stored = values[places] if order is None else layout.picked(values, places.tolist())
            yield from self._put_in_order(ordered, map(int, keys), rows, stored)

    def _put_in_order(
        self, ordered: OrderedRows, cells: Iterable[Cell], rows: list[bytes], stored: Sequence[Any]
    ) -> Iterator[FamilyWrites]:
        """Rows in their order with their stored values; None: deleted."""
        values = self._encode_all(stored)
        layout.check_lengths(self.spec, cells, rows, values, self._row_limit)
        if ordered.takes(rows[0]):
            yield from self._deletions(ordered.add(rows, values))
            return
        if not ordered.is_sealed:
            yield from self.seal(ordered)
        marked = [GONE if value is None else STANDS + value for value in values]
        yield FamilyWrites(self.family, [], rows, marked)

    def seal(self, ordered: OrderedRows) -> list[FamilyWrites]:
        """Rows do not come in order any more. The rows that did need these deletions."""
        return self._deletions(ordered.seal())

    def _deletions(self, rows: list[bytes]) -> list[FamilyWrites]:
        return [FamilyWrites(self.family, [], rows, [GONE] * len(rows))] if rows else []


class SpilledLists(SpilledTable):
    """LIST."""

    def get(self, kg: int, cell: Cell) -> list[Any]:
        rows = self.family.scan(self._row(kg, cell))
        replaced = bool(rows) and rows[0][1] == REPLACED
        own = [self._decode(data[1:]) for _, data in rows[replaced:]]
        return own if replaced else self._committed(kg).get(kg, cell) + own


class SpilledMaps(SpilledTable):
    """MAP."""

    def get(self, kg: int, cell: Cell, user_key: Any) -> Any:
        assert self.spec.user_key_type is not None
        prefix = self._row(kg, cell)
        data = self.family.get(prefix + composite.key_codec(self.spec.user_key_type).encode(user_key))
        if data is not None:
            return DELETED if data[:1] == GONE else self._decode(data[1:])
        if self.family.get(prefix) is not None:
            return DELETED
        return self._committed(kg).get(kg, cell, user_key)

    def items(self, kg: int, cell: Cell) -> dict[Any, Any]:
        assert self.spec.user_key_type is not None
        decode_key = composite.key_codec(self.spec.user_key_type).decode
        prefix = self._row(kg, cell)
        rows = self.family.scan(prefix)
        replaced = bool(rows) and rows[0][1] == REPLACED
        entries = {} if replaced else self._committed(kg).items(kg, cell)
        for key, data in rows[replaced:]:
            user_key = decode_key(key, len(prefix))[0]
            if data[:1] == GONE:
                entries.pop(user_key, None)
            else:
                entries[user_key] = self._decode(data[1:])
        return entries


class SpilledTimers:
    """Timers of one domain. Only registrations and deletions of the overlay; committed ones are not read."""

    def __init__(self, spec: TableSpec, family: Family, row_limit: int) -> None:
        self.spec = spec
        self.family = self.opened = family
        self._limit = row_limit
        self.codec = layout.RowCodec(spec)

    def writes(self, changes: TableChanges, _kgs: Mapping[Any, int]) -> FamilyWrites:
        """Registered and deleted ones as rows."""
        keys = [self.codec.timer_row(timer) for timer in changes.timers]
        values = [STANDS if registered else GONE for registered in changes.timers.values()]
        layout.check_lengths(self.spec, [timer.key for timer in changes.timers], keys, values, self._limit)
        return FamilyWrites(self.family, [], keys, values)

    def standing(self, timers: Sequence[Timer]) -> list[bool | None]:
        """See ``Spill.standing``."""
        found = self.family.get_many([self.codec.timer_row(timer) for timer in timers])
        return [None if data is None else data == STANDS for data in found]

    def due(self, start: bytes, until: int, limit: int) -> tuple[list[Timer], bytes]:
        """See ``Spill.due``."""
        end = composite.encode_long(until) + _ABOVE_POSITIONS
        timers: list[Timer] = []
        behind = start
        for row, data in self.family.iterate(start):
            if row >= end or len(timers) == limit:
                break
            if data == STANDS:
                timers.append(self.codec.timer(row))
                behind = row + b"\x00"
        return timers, behind


TABLES: Mapping[StateKind, type[SpilledTable]] = {
    StateKind.VALUE: SpilledValues,
    StateKind.REDUCING: SpilledValues,
    StateKind.AGGREGATING: SpilledValues,
    StateKind.LIST: SpilledLists,
    StateKind.MAP: SpilledMaps,
}


def writes(table: Any, changes: TableChanges, kgs: Mapping[Any, int]) -> Iterator[FamilyWrites]:
    """The changes of a table as rows, a few at a time. Each part has to be written before the next is asked for."""
    ordered = table.ordered if isinstance(table, SpilledValues) else None
    if ordered is not None and not ordered.is_sealed:
        yield from table.ordered_writes(ordered, changes, kgs)
    else:
        yield from (table.writes(part, kgs) for part in _parts(changes))


def _present(family: Family, rows: list[bytes]) -> dict[int, bytes]:
    """The values of rows that a family has, by their places."""
    return {place: data for place, data in enumerate(family.get_many(rows)) if data is not None}


def _parts(changes: TableChanges) -> Iterator[TableChanges]:
    """The changes a few cells at a time: their rows would be as large again as they are."""
    for name in ("values", "lists", "maps", "timers"):
        items = iter(getattr(changes, name).items())
        while part := dict(itertools.islice(items, _CELLS_AT_ONCE)):
            piece = TableChanges(changes.spec)
            setattr(piece, name, part)
            yield piece
    yield from changes.column_parts(_CELLS_AT_ONCE)
