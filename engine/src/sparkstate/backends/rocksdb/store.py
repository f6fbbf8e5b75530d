"""The committed state of one shard in a RocksDB of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sparkstate import errors
from sparkstate.backends import canonical
from sparkstate.backends.base import TIMER_KINDS, ShardSnapshot, ShardStats, TableChanges, TableSpec
from sparkstate.backends.expiring import SweepPace, ttl_change
from sparkstate.backends.heap_timers import HeapTimerTable
from sparkstate.backends.layered_dict import View
from sparkstate.backends.rocksdb import (
    failures,
    heap,
    layout,
    restoring,
    schemas,
    sizes,
    snapshots,
    sweeping,
    tables,
)
from sparkstate.backends.rocksdb.buffered_values import BufferedValueTable
from sparkstate.backends.rocksdb.buffering import BufferMemory, Buffers, row_parts
from sparkstate.backends.rocksdb.database import Database, NewOptions
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.large_blocks import LargeBlocks
from sparkstate.backends.rocksdb.reading import Reads
from sparkstate.backends.rocksdb.schemas import SchemaCodec, Schemas
from sparkstate.backends.rocksdb.sweeping import RowSweep
from sparkstate.backends.rocksdb.timers import RocksTimerTable
from sparkstate.clock import Clock
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde import expiring


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A factory's own options for its stores, beside RocksDB's."""

    write_batch_bytes: int
    timer_cache_size: int
    heap_timers: bool
    incremental: bool
    row_limit: int = layout.ROW_LIMIT
    compacts: bool = True
    """Whether RocksDB merges files by itself."""


class RocksDBShardStore:
    """A ``ShardStore``. The database is opened at the first use, so that a restore finds the directory empty.

    ``path`` is the database's own directory; what an earlier process left there is deleted. Not thread-safe, except
    that reads and a snapshot's ``files`` may run beside each other.
    """

    takes_columns = True
    takes_timer_columns = True

    def __init__(
        self,
        shard: int,
        key_groups: KeyGroupRange,
        path: Path,
        *,
        options: StoreOptions,
        new_options: NewOptions,
        clock: Clock,
        reads: Reads,
        buffer_memory: BufferMemory,
        blocks: LargeBlocks,
        new_id: Callable[[], str],
        make_room: Callable[[], None],
        on_close: Callable[[RocksDBShardStore], None],
    ) -> None:
        self.shard = shard
        self.key_groups = key_groups
        self._path = path
        self._options = options
        self._new_options = new_options
        self._clock = clock
        self._reads = reads
        self._blocks = blocks
        self._make_room = make_room
        self._on_close = on_close
        self._db: Database | None = None
        self._given_up: Exception | None = None
        self._closed = False
        self._new_id = new_id
        self._identities = [snapshots.Identity(0, new_id())]
        self._positions = tables.PositionCounter()
        self._specs: dict[tuple[str, str], TableSpec] = {}
        self._tables: dict[tuple[str, str], Any] = {}
        self._buffers = Buffers(buffer_memory, self._write)
        self._schemas: dict[tuple[str, str], Schemas] = {}
        """Of tables that have rows of several types."""
        self._sweeps: dict[tuple[str, str], RowSweep] = {}

    # ---- tables

    def table(self, spec: TableSpec) -> Any:
        name = (spec.uid, spec.name)
        stored = self._specs.get(name)
        found = self._tables.get(name)
        if found is not None and stored is spec:
            return found
        if stored is not None:
            verdict = canonical.check_same_table(stored, spec)
            if verdict.plan is not None:
                self._schemas[name] = schemas.taken_up(self._schemas.get(name), stored, verdict.plan)
            if verdict.before != verdict.now:
                self._buffers.settle(found)
                found = None  # it reads and writes another type
        self._specs[name] = spec
        if found is None:
            found = self._tables[name] = self._make_table(spec)
        return found

    def _make_table(self, spec: TableSpec) -> Any:
        if spec.kind in TIMER_KINDS:
            if self._options.heap_timers:
                return HeapTimerTable()
            return RocksTimerTable(
                spec, self._family(spec), self._options.row_limit, self._options.timer_cache_size
            )
        family, codec = self._family(spec), self._schema_codec(spec)
        if spec.is_columnar:
            return BufferedValueTable(spec, family, self._options.row_limit, codec, self._buffers.write)
        return tables.make_table(spec, family, self._options.row_limit, self._positions, codec)

    def _schema_codec(self, spec: TableSpec) -> SchemaCodec | None:
        found = self._schemas.get((spec.uid, spec.name))
        return None if found is None else SchemaCodec(found)

    def tables(self) -> Sequence[TableSpec]:
        return tuple(self._specs.values())

    def _family(self, spec: TableSpec) -> Family:
        return self._database().family(layout.family_name(spec))

    def _database(self) -> Database:
        if self._db is None:
            if self._closed:
                raise errors.StateError(f"the store of shard {self.shard} in {self._path} is closed")
            # State of an earlier process is no state of this one: it comes from a snapshot only.
            self._clear()
            self._db = Database(self._path, self._new_options, (), self._clock, self._reads)
            if self._given_up is not None:  # all tables were on the heap until now
                self._db.fail(self._given_up)
        return self._db

    def _clear(self) -> None:
        with failures.translated(self._path, "creating"):
            shutil.rmtree(self._path, ignore_errors=True)
            self._path.mkdir(parents=True)

    # ---- commit

    def commit(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        database = self._database()
        database.check()
        # Everything is encoded and checked before anything is written: a value that does not fit leaves all
        # as it was.
        position = self._positions.following
        try:
            pairs, waiting = self._buffers.divided([(self.table(change.spec), change) for change in changes])
            writes = [(table, heap.single_writes(table, change, kgs), change) for table, change in pairs]
        except BaseException:
            self._positions.following = position
            raise
        self._write(
            part
            for table, write, change in writes
            if write is not None
            for part in row_parts(table, change, write)
        )
        try:
            for table, write, change in writes:
                if write is None:
                    heap.apply(table, change)
                elif isinstance(table, RocksTimerTable):
                    table.applied(write)
                    if change.timer_columns is not None:
                        table.applied_columns(change.timer_columns)
            for table, change in waiting:
                self._buffers.absorb(table, change)
            self._blocks.committed(
                database, [table.family for table, write, _ in writes if write is not None]
            )
        except Exception as error:  # out of memory
            database.fail(error)
            raise

    def write_rows(self, spec: TableSpec, writes: FamilyWrites) -> None:
        """A part of a commit that does not fit in memory: rows that are encoded and checked already."""
        table = self.table(spec)
        self._buffers.settle(table)
        self._write([writes])
        if isinstance(table, RocksTimerTable):
            table.applied(writes)

    def take_files(self, spec: TableSpec, paths: Sequence[Path]) -> None:
        """The same as files of rows (``ordered_rows``), which are taken away."""
        database = self._database()
        self._make_room()  # a commit may have nothing but files, and their form has to follow the state as well
        self._blocks.take_files(database, self.table(spec).family, paths)

    def came_in_any_order(self, spec: TableSpec) -> None:
        """A commit of ``write_rows`` is complete whose keys had no order."""
        self._blocks.committed(self._database(), [self.table(spec).family])

    def give_up(self, error: Exception) -> None:
        """Such a commit ended half-way: no further one and no snapshot is taken."""
        self._given_up = error
        if self._db is not None:
            self._db.fail(error)

    def take_positions(self, count: int) -> int:
        """Reserve positions for ``count`` list elements; the first of them."""
        return self._positions.take(count).start

    # ---- values that expire

    def adopt(self, spec: TableSpec, times: expiring.Times) -> None:
        name = (spec.uid, spec.name)
        stored = self._specs.get(name)
        wanted = ttl_change(stored, spec, times)
        if stored is None or wanted is None:
            return
        self._buffers.settle(self._tables.get(name))
        if wanted.convert is not None:
            with failures.translated(self._path, "converting"):
                self._write(sweeping.converted(self._family(stored), wanted.convert))
        self._specs[name] = wanted.spec
        self._tables.pop(name, None)  # it encodes and decodes by the type before
        self._sweeps.pop(name, None)

    def expire(self, spec: TableSpec, cutoff: int, pace: SweepPace) -> int:
        sweep = self._sweeps.setdefault((spec.uid, spec.name), RowSweep())
        sweep.cutoff = cutoff  # it may go back, when a clock that was ahead is set
        table = self.table(spec)
        self._buffers.settle(table)
        family: Family = table.family
        with failures.translated(self._path, "sweeping"):
            sweep.ask_for_merge(family, self._clock.monotonic())
            deletes = sweep.look(family, pace)
        if deletes.deletes:
            self._write([deletes])
        return len(deletes.deletes)

    # ---- snapshot

    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> ShardSnapshot:
        database = self._database()
        for table in tuple(self._tables.values()):
            self._buffers.write(table)
        if canonical:
            return self._canonical_snapshot(database, directory)
        database.flush()
        with failures.translated(self._path, "snapshotting"):
            target = snapshots.linked_directory(self._path, directory, checkpoint_id)
        database.checkpoint(target)
        for sweep in self._sweeps.values():
            sweep.flushed(self._clock.monotonic())
        with failures.translated(target, "snapshotting"):
            (target / snapshots.META).write_bytes(msgspec.json.encode(self._meta()))
            heaps = sizes.heap_tables(self._specs, self._tables)
            if heaps:
                heap.write(target / heap.FILE, heaps)
        return snapshots.NativeSnapshot(target, self._identities, self._options.incremental, ())

    def _meta(self) -> snapshots.StoreMeta:
        return snapshots.StoreMeta(
            version=snapshots.VERSION if self._schemas else 1,
            tables=[canonical.describe_table(spec) for spec in self._specs.values()],
            next_position=self._positions.following,
            identities=list(self._identities),
            schemas=list(self._schemas.values()),
        )

    def _canonical_snapshot(self, database: Database, directory: Path) -> ShardSnapshot:
        sources: list[snapshots.TableSource] = []
        database.flush()  # the views would keep memtables in memory, beyond the budget
        for spec in list(self._specs.values()):
            table = self._tables.get((spec.uid, spec.name))
            view = table.freeze() if isinstance(table, HeapTimerTable) else database.view(self._family(spec))
            sweep = self._sweeps.get((spec.uid, spec.name), RowSweep())
            sources.append(snapshots.TableSource(spec, view, self._schema_codec(spec), sweep.cutoff))

        def release() -> None:
            while sources:
                view = sources.pop().view
                if isinstance(view, View):
                    view.release()
                else:
                    database.release(view)

        return snapshots.CanonicalSnapshot(directory, sources, release)

    # ---- restore

    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        if fmt == snapshots.NATIVE:
            self._restore_native(files)
        elif fmt == canonical.FORMAT:
            for path in files.values():
                self._restore_rows(path)
        else:
            raise errors.CorruptData(
                f"a snapshot of shard {self.shard} has the format {fmt!r}; the RocksDB backend restores "
                f"{snapshots.NATIVE!r} and {canonical.FORMAT!r}"
            )

    def _restore_native(self, files: Mapping[str, Path]) -> None:
        if self._db is not None:
            raise errors.StateError(
                f"the store of shard {self.shard} is in use; a snapshot restores an empty one"
            )
        if snapshots.META not in files:
            raise errors.CorruptData(f"a RocksDB snapshot of shard {self.shard} has no file {snapshots.META}")
        meta = snapshots.read_meta(files[snapshots.META])
        self._clear()
        with failures.translated(self._path, "restoring"):
            for name, source in files.items():
                if name not in (snapshots.META, heap.FILE):
                    restoring.place(source, self._path / name)
        names = Database.family_names(self._path)
        self._db = Database(self._path, self._new_options, names, self._clock, self._reads)
        self._identities = [
            *meta.identities,
            snapshots.Identity(snapshots.greatest_number(files) + 1, self._new_id()),
        ]
        if self._options.compacts:
            self._db.finish_overdue(restoring.LIVE_SHARE, restoring.SPARE_BYTES)
        self._positions.following = meta.next_position
        for header in meta.tables:
            spec = canonical.parse_table(header)
            self._specs[spec.uid, spec.name] = spec
        for each in meta.schemas:
            SchemaCodec(each)  # a plan that cannot be read is told now, not by the first value that needs it
            self._schemas[each.uid, each.name] = each
        if heap.FILE in files:
            self._restore_rows(files[heap.FILE])
        if self._options.heap_timers:
            self._timers_to_heap()

    def _timers_to_heap(self) -> None:
        """The snapshot kept its timers in RocksDB, the job now wants them on the heap."""
        for spec in self._specs.values():
            family = self._database().families().get(layout.family_name(spec))
            if spec.kind in TIMER_KINDS and family is not None:
                self._write([restoring.move_timers(spec, family, self.table(spec))])

    def _restore_rows(self, path: Path) -> None:
        file = canonical.CanonicalFile(path)
        opened = [self.table(spec) for spec in file.tables]
        limit = self._options.row_limit
        restoring.load_rows(file, self.key_groups, opened, self._positions, self._write, limit)

    def drop(self, uids: Collection[str]) -> None:
        for name in [name for name in self._specs if name[0] in uids]:
            self._database().drop(layout.family_name(self._specs.pop(name)))
            self._buffers.drop(self._tables.pop(name, None))
            self._schemas.pop(name, None)
            self._sweeps.pop(name, None)

    def _write(self, writes: Iterable[FamilyWrites]) -> None:
        self._database().write(writes, self._options.write_batch_bytes, self._make_room)

    # ---- the rest

    def quiesce(self) -> None:
        """No compaction from here on: the last snapshot would have to upload the files that it writes (RFC 0012)."""
        if self._db is not None:
            self._db.stop_compacting()

    def stats(self) -> ShardStats:
        return sizes.of_store(self._specs, self._tables, self._database().families())

    def database(self) -> Database | None:
        """The open database, for the factory's metrics; None before the first use and after ``close``."""
        return self._db

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._db is not None:
            self._db.close()
            self._db = None
        # Not before: whoever still reads would find in RocksDB what a buffer has in a later form.
        for table in self._tables.values():
            self._buffers.drop(table)
        self._tables.clear()
        self._on_close(self)
