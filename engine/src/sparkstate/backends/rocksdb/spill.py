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
no RocksDB is opened. Values that come in the order of their keys are files of the shard stores (``ordered_rows``).
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkstate import errors
from sparkstate.backends.base import TIMER_KINDS, TableChanges, TableSpec, Timer
from sparkstate.backends.ordered_spill import LongValues
from sparkstate.backends.rocksdb import failures, layout, spill_commit, spilled_tables, tables
from sparkstate.backends.rocksdb.database import Database, NewOptions
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.ordered_rows import OrderedRows
from sparkstate.backends.rocksdb.reading import Reads
from sparkstate.backends.rocksdb.spilled_columns import SpilledColumns
from sparkstate.backends.rocksdb.spilled_tables import SpilledTable, SpilledTimers, SpilledValues
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.clock import Clock
from sparkstate.serde import composite, scalars


class RocksSpill:
    """A ``Spill`` in a ``directory`` of its own. ``has_room``: whether it may take so many more bytes of memory.
    ``new_file_options`` makes the options of files for these families of shard stores. ``expects_order``: its additions
    come in the order of their keys (``OrderedSpillingFactory``)."""

    def __init__(
        self,
        stores: Mapping[int, RocksDBShardStore],
        shard_of: Sequence[int],
        directory: Path,
        *,
        new_options: NewOptions,
        new_file_options: Callable[[Sequence[Family]], Any],
        expects_order: bool,
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
        self._new_file_options = new_file_options
        self._expects_order = expects_order
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
        table = spilled_tables.TABLES[spec.kind](
            spec,
            functools.partial(self._family, spec),
            self._row_limit,
            self._positions,
            lambda kg: committed[shard_of[kg]],
        )
        if isinstance(table, SpilledValues) and self._is_ordered(spec, committed):
            directory = self._directory / f"ordered-{len(self._tables)}"
            new_options = functools.partial(
                self._new_file_options, [each.family for each in committed.values()]
            )
            ordered = OrderedRows(layout.RowCodec(spec), directory, shard_of, new_options)
            table.expect_order(ordered, functools.partial(self._read_back, table, ordered))
        return table

    def _is_ordered(self, spec: TableSpec, committed: Mapping[int, Any]) -> bool:
        # Rows of several types differ between shards, and the copy at the commit finds the form of each.
        return (
            self._expects_order
            and not spec.is_columnar
            and all(table.schemas is None for table in committed.values())
        )

    def _read_back(self, table: SpilledValues, ordered: OrderedRows) -> Family:
        """The rows that came in order, as they have to be read."""
        self._write(table.seal(ordered))
        database = self._open()
        family = database.family(f"{layout.family_name(table.spec)}/ordered")
        # The commit gives the same files to the shard stores. RocksDB notes their place among the rows elsewhere.
        database.take_files(family, [path for paths in ordered.files.values() for path in paths], keep=True)
        return family

    def _family(self, spec: TableSpec) -> Family:
        return self._open().family(layout.family_name(spec))

    def add(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        self._check()
        for change in changes:
            table = self.table(change.spec)
            rows = self._take_columns(table, change, kgs) if isinstance(table, SpilledColumns) else change
            for writes in spilled_tables.writes(table, rows, kgs):
                self._write([writes])

    def takes_longs(self, spec: TableSpec) -> bool:
        """As the contract says."""
        if (
            not self._expects_order
            or spec.kind in TIMER_KINDS
            or not isinstance(spec.key_type, scalars.IntegerType)
        ):
            return False
        table = self.table(spec)
        return isinstance(table, SpilledValues) and table.ordered is not None

    def add_longs(self, changes: LongValues) -> None:
        """As the contract says."""
        table = self.table(changes.spec)
        for writes in table.long_writes(table.ordered, changes):
            self._write([writes])

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
            if isinstance(table, SpilledValues) and (ordered := table.ordered) is not None:
                if gone := table.seal(ordered):
                    self._write(gone)
                spill_commit.give_files(table.spec, ordered.files, self._stores)
            if table.opened is not None:
                spill_commit.copy_rows(table.spec, table.opened, self._stores, self._shard_of, bases)
                if not self._expects_order and table.spec.kind not in TIMER_KINDS:
                    for store in self._stores.values():
                        store.came_in_any_order(table.spec)
            if isinstance(table, SpilledColumns):
                table.copy_runs(self._stores)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        for table in self._tables.values():
            if isinstance(table, SpilledColumns):
                table.close()
            elif isinstance(table, SpilledValues) and table.ordered is not None:
                table.ordered.close()
        self._tables.clear()
        database, self._db = self._db, None
        if database is not None:
            database.close()
        shutil.rmtree(self._directory, ignore_errors=True)
