"""Changes of an overlay beyond memory, in a RocksDB of their own under the slot's one cache and write buffers.

Rows have the same keys as in the shard stores (``layout``), so that the commit copies them without decoding; a
byte before the value says what a row means:

====  ==========================================================================================
1     the value, list element, map entry or timer stands
0     it is deleted, whatever the shard store says
2     at a list's or map's bare prefix: what the shard store has of it does not count
====  ==========================================================================================

Positions of list elements start at 0 here and are moved behind the store's own at the commit.

Numbers by whole-number keys are not rows but sorted runs of arrays (``spilled_columns``). Where there is nothing else,
no RocksDB is opened.
"""

from __future__ import annotations

import functools
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sparkstate import errors
from sparkstate.backends import base, value_columns
from sparkstate.backends.base import (
    DELETED,
    TIMER_KINDS,
    Cell,
    NamespacedCell,
    StateKind,
    TableChanges,
    TableSpec,
    Timer,
)
from sparkstate.backends.keyed_table import KeyParts
from sparkstate.backends.rocksdb import failures, layout, tables
from sparkstate.backends.rocksdb.database import Database, NewOptions
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.reading import Reads
from sparkstate.backends.rocksdb.spill_commit import GONE, REPLACED, STANDS, copy_rows
from sparkstate.backends.rocksdb.spilled_columns import SpilledColumns
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.backends.value_columns import Flags, KeyGroups, Values
from sparkstate.clock import Clock
from sparkstate.serde import composite

_ABOVE_POSITIONS: Final = b"\xff\xff"
_CELLS_AT_ONCE: Final = 1000


class SpilledTable:
    """A table of any kind but timers: what was spilled of it, above the shard stores' own tables."""

    def __init__(
        self,
        spec: TableSpec,
        family: Family,
        row_limit: int,
        positions: tables.PositionCounter,
        committed: Callable[[int], Any],
    ) -> None:
        self.spec = spec
        self.family = family
        self._committed = committed
        # Encodes rows as the shard stores do: their own class, on this database's column family.
        self._encoder = tables.make_table(spec, family, row_limit, positions)
        self._row = self._encoder.codec.row
        assert spec.value_type is not None
        self._decode = spec.value_type.decode

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
        rows = self._encoder.codec.rows(kgs, keys)
        if self.spec.kind not in (StateKind.LIST, StateKind.MAP):
            return [data is not None for data in self.family.get_many(rows)]
        first = [self.family.leap(row, self._encoder.codec.behind_key, 1) for row in rows]
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

    def get(self, kg: int, cell: Cell) -> Any:
        data = self.family.get(self._row(kg, cell))
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
        rows = self._encoder.codec.rows(kgs, cells)
        order = sorted(range(len(rows)), key=rows.__getitem__)
        found = self.family.get_many([rows[index] for index in order])
        decode = self._decode
        values: list[Any] = [None] * len(rows)
        missing: dict[int, tuple[Any, list[int]]] = {}
        for index, data in zip(order, found, strict=True):
            if data is None:
                table = self._committed(kgs[index])
                missing.setdefault(id(table), (table, []))[1].append(index)
            elif data[:1] != GONE:
                values[index] = decode(data[1:])
        for table, numbers in missing.values():
            stored = table.get_many([kgs[n] for n in numbers], [cells[n] for n in numbers])
            for number, value in zip(numbers, stored, strict=True):
                values[number] = value
        return values


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
        self.family = family
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


_TABLES: Mapping[StateKind, type[SpilledTable]] = {
    StateKind.VALUE: SpilledValues,
    StateKind.REDUCING: SpilledValues,
    StateKind.AGGREGATING: SpilledValues,
    StateKind.LIST: SpilledLists,
    StateKind.MAP: SpilledMaps,
}


class RocksSpill:
    """A ``Spill`` in a ``directory`` of its own. ``has_room``: whether it may take so many more bytes of memory."""

    def __init__(
        self,
        stores: Mapping[int, RocksDBShardStore],
        shard_of: Sequence[int],
        directory: Path,
        *,
        new_options: NewOptions,
        write_batch_bytes: int,
        row_limit: int,
        clock: Clock,
        reads: Reads,
        make_room: Callable[[], None],
        has_room: Callable[[int], bool],
    ) -> None:
        self._stores = stores
        self._shard_of = shard_of
        self._directory = directory
        self._write_batch_bytes = write_batch_bytes
        self._row_limit = row_limit
        self._make_room = make_room
        self._has_room = has_room
        self._positions = tables.PositionCounter()
        self._tables: dict[tuple[str, str], Any] = {}
        self._new_database = functools.partial(Database, directory / "db", new_options, (), clock, reads)
        with failures.translated(directory, "creating"):
            directory.mkdir(parents=True, exist_ok=True)
        self._db: Database | None = None
        self.is_closed = False
        """Whether it was given up; it takes no memory then."""

    def database(self) -> Database | None:
        """The open database; None before the first row and after ``close``."""
        return self._db

    @property
    def nbytes(self) -> int:
        """Bytes of memory outside of RocksDB."""
        return sum(table.nbytes for table in list(self._tables.values()) if isinstance(table, SpilledColumns))

    def _check(self) -> None:
        if self.is_closed:
            raise errors.StateError(f"the overlay's files in {self._directory} are gone: it was given up")

    def _open(self) -> Database:
        self._check()
        if self._db is None:
            self._db = self._new_database()
        return self._db

    def table(self, spec: TableSpec) -> Any:
        name = (spec.uid, spec.name)
        found = self._tables.get(name)
        if found is None:
            self._check()
            found = self._tables[name] = self._make_table(spec)
        return found

    def _make_table(self, spec: TableSpec) -> Any:
        if spec.kind in TIMER_KINDS:
            return SpilledTimers(spec, self._family(spec), self._row_limit)
        committed = {shard: store.table(spec) for shard, store in self._stores.items()}
        if spec.is_columnar:
            path = self._directory / f"run-{len(self._tables)}"
            make_rows = functools.partial(self._make_rows, spec, committed)
            return SpilledColumns(spec, path, make_rows, committed, self._shard_of)
        return self._make_rows(spec, committed)

    def _make_rows(self, spec: TableSpec, committed: Mapping[int, Any]) -> SpilledTable:
        shard_of = self._shard_of
        return _TABLES[spec.kind](
            spec, self._family(spec), self._row_limit, self._positions, lambda kg: committed[shard_of[kg]]
        )

    def _family(self, spec: TableSpec) -> Family:
        return self._open().family(layout.family_name(spec))

    def add(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        self._check()
        for change in changes:
            table = self.table(change.spec)
            rows = self._take_columns(table, change, kgs) if isinstance(table, SpilledColumns) else change
            for part in _parts(rows):
                self._write([table.writes(part, kgs)])

    def _take_columns(
        self, table: SpilledColumns, changes: TableChanges, kgs: Mapping[Any, int]
    ) -> TableChanges:
        if (added := table.most_bytes(changes)) and not self._has_room(added):
            self._write(table.leave_runs())
        return table.take_columns(changes, kgs)

    def _write(self, writes: Iterable[FamilyWrites]) -> None:
        self._open().write(writes, self._write_batch_bytes, self._make_room)

    def standing(self, spec: TableSpec, timers: Sequence[Timer]) -> list[bool | None]:
        self._check()
        if (spec.uid, spec.name) not in self._tables:  # no database is opened to find nothing
            return [None] * len(timers)
        standing: list[bool | None] = self.table(spec).standing(timers)
        return standing

    def due(self, spec: TableSpec, start: bytes, until: int, limit: int) -> tuple[list[Timer], bytes]:
        self._check()
        if (spec.uid, spec.name) not in self._tables:
            return [], start
        found: tuple[list[Timer], bytes] = self.table(spec).due(start, until, limit)
        return found

    def position(self, timestamp: int) -> bytes:
        return composite.encode_long(timestamp)

    def commit(self) -> None:
        self._check()
        try:
            self._copy()
        except Exception as error:
            for store in self._stores.values():
                store.give_up(error)
            raise

    def _copy(self) -> None:
        count = self._positions.following
        bases = {shard: store.take_positions(count) for shard, store in self._stores.items()}
        for table in self._tables.values():
            if table.family is not None:
                copy_rows(table.spec, table.family, self._stores, self._shard_of, bases)
            if isinstance(table, SpilledColumns):
                table.copy_runs(self._stores)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        for table in self._tables.values():
            if isinstance(table, SpilledColumns):
                table.close()
        self._tables.clear()
        database, self._db = self._db, None
        if database is not None:
            database.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def _parts(changes: TableChanges) -> Iterator[TableChanges]:
    """The changes a few cells at a time: their rows would be as large again as they are."""
    for name in ("values", "lists", "maps", "timers"):
        items = iter(getattr(changes, name).items())
        while part := dict(itertools.islice(items, _CELLS_AT_ONCE)):
            piece = TableChanges(changes.spec)
            setattr(piece, name, part)
            yield piece
    yield from changes.column_parts(_CELLS_AT_ONCE)
