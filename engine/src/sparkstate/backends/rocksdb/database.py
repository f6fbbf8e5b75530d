"""The one owner of an open RocksDB: everything that would keep it open is held, and let go, here.

rocksdict does not close a database while a column family, iterator or snapshot of it lives, and an open one
does not survive a fork. Reads, writes and flushes go through this class; the rest of the package never sees rocksdict.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import rocksdict

from sparkstate import errors, local_disk
from sparkstate.backends.rocksdb import failures
from sparkstate.backends.rocksdb.family import Family, FamilyWrites, batches, close_quietly
from sparkstate.backends.rocksdb.reading import Reads
from sparkstate.clock import Clock

_STALL_FIRST_S = 0.001
_STALL_LONGEST_S = 0.5
_STALL_TIMEOUT_S = 300.0
"""For so long a refused write is tried again while neither flush nor compaction runs;
the write waits for a running one."""

NewOptions = Callable[[int], tuple[Any, list[Any]]]
"""Makes a rocksdict ``Options`` for a database or a column family, and the private caches that it uses. The number is
that of the database's column families, as far as it is known; 0 for the default one, which is unused."""


class Database:
    """An open RocksDB in ``path``. ``new_options`` makes a rocksdict ``Options`` for it or a column family."""

    def __init__(
        self, path: Path, new_options: NewOptions, families: Iterable[str], clock: Clock, reads: Reads
    ) -> None:
        self.path = path
        self._clock = clock
        self._reads = reads
        self._new_options = new_options
        self._pid = os.getpid()
        self._failed: Exception | None = None
        self.caches: list[Any] = []
        """Caches of this database alone (unmanaged memory)."""
        self._options = self._make_options(0)
        self._families: dict[str, Family] = {}
        self._views: list[Iterator[tuple[bytes, bytes]]] = []
        self._write_options = rocksdict.WriteOptions()
        # After a crash the state is restored from a checkpoint, so there is nothing to log. A write that has to wait is
        # refused: RocksDB would wait with the interpreter lock held.
        self._write_options.disable_wal = True
        self._write_options.no_slowdown = True
        names = [name for name in families if name != "default"]
        with failures.translated(path, "opening"):
            self._db: Any = rocksdict.Rdict(
                str(path),
                self._options,
                column_families={name: self._make_options(len(names)) for name in names},
            )
        for name in names:
            self._families[name] = self._open_family(name)

    @staticmethod
    def family_names(path: Path) -> list[str]:
        """The column families of a database that is not open."""
        with failures.translated(path, "opening"):
            return list(rocksdict.Rdict.list_cf(str(path), rocksdict.Options(raw_mode=True)))

    def _make_options(self, families: int) -> Any:
        options, caches = self._new_options(families)
        self.caches += caches
        return options

    def _open_family(self, name: str) -> Family:
        handle = self._db.get_column_family_handle(name)
        return Family(self._db.get_column_family(name), handle, self._reads, self.path)

    @property
    def is_closed(self) -> bool:
        """Whether nothing of it is open any more."""
        return self._db is None

    def family(self, name: str) -> Family:
        """The column family of that name, created if new."""
        found = self._families.get(name)
        if found is None:
            self.check()
            with failures.translated(self.path, "extending"):
                self._db.create_column_family(name, self._make_options(len(self._families) + 1))
                found = self._families[name] = self._open_family(name)
        return found

    def drop(self, name: str) -> None:
        """Remove a column family with all of its rows, if there is one of that name."""
        self.check()
        family = self._families.pop(name, None)
        if family is not None:
            family.close()  # RocksDB keeps the files of a dropped one for whoever still holds it
            with failures.translated(self.path, "dropping"):
                self._db.drop_column_family(name)

    def families(self) -> dict[str, Family]:
        """All column families by name, except the unused default one."""
        return dict(self._families)

    def check(self) -> None:
        """Raise if this object cannot be used: in another process, after ``close``, or after a failed write."""
        if os.getpid() != self._pid:
            raise errors.StateError(
                f"the state in {self.path} was opened by process {self._pid} and is used by its fork "
                f"{os.getpid()}; an open RocksDB does not survive a fork, open it in the new process"
            )
        if self._db is None:
            raise errors.StateError(f"the state in {self.path} is closed")
        if self._failed is not None:
            raise errors.StorageError(
                f"the state in {self.path} is not used any more since a write of it failed half-way "
                f"({self._failed}); restore from the last checkpoint"
            )

    def write(
        self, writes: Iterable[FamilyWrites], batch_bytes: int, before_batch: Callable[[], None]
    ) -> None:
        """Apply all writes in batches of at most ``batch_bytes`` (0 = by number of rows only), each after a
        call of ``before_batch``, which may make room.

        Small batches keep the interpreter lock free for other threads. They are not one unit for RocksDB, and
        need not be: nothing of this database survives but snapshots, and those are taken between commits
        only. If a batch fails, the database refuses everything from then on.
        """
        self.check()
        for family in self._families.values():
            family.forget_iterator()
        try:
            for write in writes:
                for deletes, keys, values in batches(write, batch_bytes):
                    before_batch()
                    self._write_batch(write.family.handle, deletes, keys, values)
        except Exception as error:
            self.fail(error)
            raise

    def take_files(self, family: Family, paths: Sequence[Path], *, keep: bool = False) -> int:
        """Make the rows of these files, which do not overlap, the newest of a column family; the bytes of the files.
        They become the database's and are gone from their place; with ``keep`` they stay there too, and nobody writes
        into them. If it fails, the database refuses everything from then on."""
        self.check()
        if not paths:
            return 0
        options = rocksdict.IngestExternalFileOptions()
        options.set_move_files(True)
        try:
            with failures.translated(self.path, "writing"):
                family.forget_iterator()
                family.flush()  # RocksDB would flush older rows itself, with the interpreter lock held
                near = [self._brought(path, keep) for path in paths]
                size = sum(path.stat().st_size for path in near)
                family.rdict.ingest_external_file([str(path) for path in near], options)
        except Exception as error:
            self.fail(error)
            raise
        return size

    def _brought(self, path: Path, keep: bool) -> Path:
        """The file within the database's folder, where RocksDB links it. It would copy a file of another device with
        the interpreter lock held, and a slot that gives no sign of life for long counts as lost."""
        near = self.path / f"{path.parent.name}-{path.name}"
        near.unlink(missing_ok=True)  # a name that RocksDB could not remove may be that of a file in use
        if not local_disk.link_or_copy(path, near):
            with near.open("rb") as copied:
                os.fsync(copied.fileno())
        if not keep:
            path.unlink()
        return near

    def fail(self, error: Exception) -> None:
        """Refuse everything from now on: a commit ended half-way."""
        self._failed = error

    def _write_batch(self, handle: Any, deletes: list[bytes], keys: list[bytes], values: list[bytes]) -> None:
        pause = _STALL_FIRST_S
        deadline: float | None = None
        while True:
            # Built again for each try: a batch that was refused is used up all the same.
            batch = rocksdict.WriteBatch(raw_mode=True)
            batch.set_default_column_family(handle)
            for key in deletes:
                del batch[key]
            for key, value in zip(keys, values, strict=True):
                batch[key] = value
            try:
                self._db.write(batch, self._write_options)
            except Exception as error:
                if not failures.is_stall(error):
                    raise failures.translate(error, self.path, "writing") from error
                now = self._clock.monotonic()
                if deadline is None or self._makes_room():
                    deadline = now + _STALL_TIMEOUT_S
                if now > deadline:
                    raise failures.translate(error, self.path, "writing") from error
                # RocksDB waits for a flush or compaction. Waiting here, not in it, keeps the interpreter
                # free; the doubling lets its rate limiter gather enough credit for the whole batch.
                self._clock.sleep(pause)
                pause = min(pause * 2, _STALL_LONGEST_S)
            else:
                return

    def _makes_room(self) -> bool:
        """Whether a flush or compaction runs, which a refused write waits for."""
        running = ("rocksdb.num-running-flushes", "rocksdb.num-running-compactions")
        return any(self._db.property_int_value(name) for name in running)

    def flush(self) -> None:
        """Write every memtable out."""
        self.check()
        with failures.translated(self.path, "flushing"):
            for family in self.families().values():
                family.forget_iterator()
                family.flush()

    def finish_overdue(self, live_share: float, spare_bytes: int) -> None:
        """Merge the files of each column family that has more than ``spare_bytes`` of old rows and a smaller share of
        live ones. Takes as long as reading and writing them."""
        self.check()
        with failures.translated(self.path, "compacting"):
            for family in self.families().values():
                stored = family.integer("rocksdb.live-sst-files-size")
                live = family.integer("rocksdb.estimate-live-data-size")
                if live < stored * live_share and stored - live > spare_bytes:
                    family.compact()

    def stop_compacting(self) -> None:
        """Begin no compaction any more; those that run go on."""
        self.check()
        for family in self.families().values():
            family.stop_compacting()

    def write_in_parts(self, wanted: bool) -> None:
        """Whether files from now on have their index and filter in parts."""
        self.check()
        with failures.translated(self.path, "setting the options of"):
            for family in self.families().values():
                family.write_in_parts(wanted)

    def write_in_blocks(self, family: Family, size: int) -> None:
        """How many bytes the blocks of a column family's files have from now on."""
        self.check()
        with failures.translated(self.path, "setting the options of"):
            family.write_in_blocks(size)

    def memtable_bytes(self) -> int:
        """Memory of all memtables that are not flushed yet."""
        return sum(family.integer("rocksdb.cur-size-all-mem-tables") for family in self.families().values())

    def checkpoint(self, target: Path) -> None:
        """Hard-link all files into ``target``, which must not exist. Flush first: what is left is flushed
        here, with the interpreter lock held."""
        self.check()
        with failures.translated(self.path, "snapshotting"):
            rocksdict.Checkpoint(self._db).create_checkpoint(str(target))

    def view(self, family: Family) -> Iterator[tuple[bytes, bytes]]:
        """All rows of one column family as they are now, to be read once, in any thread, beside later commits.

        It is an iterator of the family, because one of a rocksdict snapshot shows later writes (rocksdict 0.3.29). It
        keeps memtables in memory, so flush first. Give it back to :meth:`release`.
        """
        self.check()
        view = family.iterate()
        self._views.append(view)
        return view

    def release(self, view: Iterator[tuple[bytes, bytes]]) -> None:
        """Let go of a view (the caller must let go too)."""
        self._views = [held for held in self._views if held is not view]

    def statistics(self) -> str:
        """RocksDB's statistics as text; empty unless they are switched on."""
        return self._options.get_statistics() or ""

    def close(self) -> None:
        """Let go of every handle; the files are then free for another owner. Closing twice is allowed."""
        if self._db is None or os.getpid() != self._pid:
            return
        for family in self._families.values():
            family.close()
        self._families.clear()
        self._views.clear()
        self.caches.clear()
        database, self._db = self._db, None
        close_quietly(database)
