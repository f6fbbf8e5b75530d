"""Makes the RocksDB stores of one slot and owns what they share."""

from __future__ import annotations

import contextlib
import functools
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkstate import disposal, errors, local_disk
from sparkstate.backends.rocksdb import effective, folders, keys, large_blocks, memory, metrics, native
from sparkstate.backends.rocksdb.buffering import BufferMemory
from sparkstate.backends.rocksdb.database import Database
from sparkstate.backends.rocksdb.family import Family
from sparkstate.backends.rocksdb.index_parts import IndexParts
from sparkstate.backends.rocksdb.large_blocks import LargeBlocks
from sparkstate.backends.rocksdb.reading import Reads
from sparkstate.backends.rocksdb.spill import RocksSpill
from sparkstate.backends.rocksdb.store import RocksDBShardStore, StoreOptions
from sparkstate.clock import Clock
from sparkstate.keygroups import KeyGroupRange
from sparkstate.settings import StateBackendSettings

_log = logging.getLogger("sparkstate.backends.rocksdb")


def _random_id() -> str:
    return secrets.token_hex(8)


def _compacts(column: Mapping[str, Any]) -> bool:
    """Whether the job left merging to RocksDB. A merge under FIFO would drop rows."""
    merges = str(column.get("compaction_style", "LEVEL")).upper() in ("LEVEL", "UNIVERSAL")
    return merges and not column.get("disable_auto_compactions")


@contextlib.contextmanager
def _closed_meanwhile(database: Database) -> Iterator[None]:
    """A database that another thread, or the garbage collector, closes at this moment has nothing left to flush."""
    try:
        yield
    except errors.SparkstateError:
        if not database.is_closed:
            raise


def _absolute_paths(given: Sequence[str]) -> list[Path]:
    paths = [Path(path) for path in given]
    for path in paths:
        if not path.is_absolute():
            raise errors.SpecInvalid(
                f"storagePaths names {str(path)!r}, which is relative; give absolute paths"
            )
    return paths


class RocksDBStoreFactory:
    """A ``StoreFactory``; several threads may create stores. Make it in the slot's own process, after its ``exec``.

    ``directory`` is the slot's folder; ``storage_paths``, if there are any, take the stores' files instead,
    shard by shard in turn. ``new_id`` gives names that are never used twice.
    """

    def __init__(
        self,
        settings: StateBackendSettings,
        directory: Path,
        clock: Clock,
        new_id: Callable[[], str] = _random_id,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._clock = clock
        self._new_id = new_id
        self._reads = Reads(clock)
        self._lock = threading.Lock()
        self._stores: list[RocksDBShardStore] = []
        self._spills: list[RocksSpill] = []
        """Closed ones stay until the next one is made. The garbage collector closes spills that were forgotten, at any
        place of any thread, so that a spill must not want the lock then."""
        self._private: dict[int, folders.Folder] = {}
        self._paths = _absolute_paths(settings.storage_paths)
        for path in self._paths:
            folders.sweep(path)
        self._handles_to_close: list[Any] = []
        self._states_told = 0
        self._metric_names = metrics.short_names(settings.native_metrics)
        self._by_family = bool(keys.parse(settings.options).own["metrics.column-family-as-variable"])
        self.plan = memory.plan(settings)
        user_factory = (
            effective.load_options_factory(settings.options_factory) if settings.options_factory else None
        )
        self.options = effective.resolve(settings, self.plan, user_factory, self._handles_to_close)
        self._spill_options = self.options.of_spills()
        self.index_parts = IndexParts(self.options.in_parts, self.plan.cache, clock)
        for notice in self.options.notices:
            _log.warning("%s", notice)
        self._memory = native.SlotMemory(self.plan)
        self._buffer_memory = BufferMemory(self.plan.buffers)
        self._blocks = LargeBlocks(may_grow=not self.options.own_blocks)

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> RocksDBShardStore:
        with self._lock:
            private = self._private_folder(shard)
            path = private.path if private is not None else directory
            store = RocksDBShardStore(
                shard,
                key_groups,
                path / "db",
                options=self._store_options(),
                new_options=self._new_options,
                clock=self._clock,
                reads=self._reads,
                buffer_memory=self._buffer_memory,
                blocks=self._blocks,
                new_id=self._new_id,
                make_room=self._before_write,
                on_close=self._closed,
            )
            self._stores.append(store)
            if private is not None:
                self._private[id(store)] = private
            return store

    @property
    def overlay_bytes(self) -> int | None:
        """See ``SpillingFactory``; unmanaged memory has no bound."""
        return self.plan.overlays if self.plan.bounded else None

    def create_spill(self, stores: Mapping[int, Any], shard_of: Sequence[int], directory: Path) -> RocksSpill:
        """See ``SpillingFactory``; ``stores`` are of this factory."""
        return self._make_spill(stores, shard_of, directory, expects_order=False)

    def create_ordered_spill(
        self, stores: Mapping[int, Any], shard_of: Sequence[int], directory: Path
    ) -> RocksSpill:
        """See ``OrderedSpillingFactory``."""
        return self._make_spill(stores, shard_of, directory, expects_order=True)

    def _make_spill(
        self, stores: Mapping[int, Any], shard_of: Sequence[int], directory: Path, *, expects_order: bool
    ) -> RocksSpill:
        options = self._store_options()
        spill = RocksSpill(
            stores,
            shard_of,
            directory,
            new_options=self._new_spill_options,
            new_file_options=self._new_file_options,
            expects_order=expects_order,
            write_batch_bytes=options.write_batch_bytes,
            row_limit=options.row_limit,
            clock=self._clock,
            reads=self._reads,
            make_room=self._make_room,
            has_room=self._has_room,
        )
        with self._lock:
            self._spills = [*(each for each in self._spills if not each.is_closed), spill]
        return spill

    def _has_room(self, added: int) -> bool:
        """Whether the filters of spilled columns may take so many more bytes."""
        return sum(spill.nbytes for spill in self._spills) + added <= self.plan.filters

    def _private_folder(self, shard: int) -> folders.Folder | None:
        if not self._paths:
            return None
        parent = self._paths[shard % len(self._paths)]
        with local_disk.used_for(f"making a folder for shard {shard} in {parent} (storagePaths)"):
            return folders.make(parent, shard, self._new_id)

    def _store_options(self) -> StoreOptions:
        return StoreOptions(
            write_batch_bytes=self.options.write_batch_bytes,
            timer_cache_size=self.options.timer_cache_size,
            heap_timers=self._settings.timer_service == "heap",
            incremental=self._settings.incremental,
            compacts=_compacts(self.options.column),
        )

    def _new_options(self, families: int) -> tuple[Any, list[Any]]:
        self._warn_of_scarcity(families)
        return self._build(self.options, families)

    def _warn_of_scarcity(self, states: int) -> None:
        """Say it with the first state for which memory is scarce, and again when there are twice as many."""
        told = memory.scarcity(self.plan, self._settings.write_buffer_ratio, len(self._stores), states)
        if told and states >= 2 * self._states_told:
            self._states_told = states
            _log.warning("%s", told)

    def _new_spill_options(self, families: int) -> tuple[Any, list[Any]]:
        return self._build(self._spill_options, families)

    def _new_file_options(self, families: Sequence[Family]) -> Any:
        options = self.options
        if any(map(self._blocks.has, families)):
            options = options.with_blocks(large_blocks.LARGE_BYTES)
        return self._build(options, 1)[0]

    def _build(self, options: effective.EffectiveOptions, families: int) -> tuple[Any, list[Any]]:
        # A store is opened at its first use, when the slot has made all of its stores.
        filtered = options.with_memtable_filters(len(self._stores) * families)
        formed = filtered.with_parts(self.index_parts.wanted)
        return native.build_options(formed, self._memory, metrics.needs_statistics(self._metric_names))

    def _before_write(self) -> None:
        """Give new files of all stores the right form, and make room."""
        for database in self.index_parts.look(self._databases):
            with _closed_meanwhile(database):
                database.write_in_parts(self.index_parts.wanted)
        self._make_room()

    def _make_room(self) -> None:
        """Keep memtables within the budget: flush the stores with the largest, before the next batch adds to them.

        The flush waits outside of the interpreter lock.
        """
        if not self._memory.pressing():
            return
        with self._lock:
            spilled = [database for spill in self._spills if (database := spill.database()) is not None]
        databases = [*self._databases(), *spilled]
        for database in sorted(databases, key=lambda each: each.memtable_bytes(), reverse=True):
            with _closed_meanwhile(database):
                database.flush()
            if not self._memory.pressing():
                return

    def _closed(self, store: RocksDBShardStore) -> None:
        with self._lock:
            self._stores = [open_store for open_store in self._stores if open_store is not store]
            private = self._private.pop(id(store), None)
        if private is not None:
            private.remove()

    def memory(self) -> Mapping[str, int]:
        """Bytes. Under a budget RocksDB's write buffers are a part of ``cache``, as they are charged to it;
        ``write_buffers`` has column buffers too, which are not.
        ``used`` is all that counts against the budget. Files held open (``tables``) are outside of it where
        index blocks are cached."""
        databases = self._databases()
        families = [family for database in databases for family in database.families().values()]
        tables = sum(family.integer("rocksdb.estimate-table-readers-mem") for family in families)
        if self._memory.cache is not None:
            cache = self._memory.cache.get_usage()
            write_buffers = self._memory.write_buffers.get_usage()
            used = max(cache, write_buffers) + tables
        else:
            cache = sum(private.get_usage() for database in databases for private in list(database.caches))
            write_buffers = sum(family.integer("rocksdb.size-all-mem-tables") for family in families)
            used = cache + write_buffers + tables
        waiting = self._buffer_memory.used
        return {
            "budget": self.plan.budget,
            "overlays_limit": self.plan.overlays,
            "cache_capacity": self.plan.cache,
            "write_buffers_limit": self.plan.write_buffers + self.plan.buffers,
            "column_buffers_limit": self.plan.buffers,
            "cache": cache,
            "write_buffers": write_buffers + waiting,
            "tables": tables,
            "used": used + waiting,
        }

    def metrics(self) -> Mapping[str, float]:
        if not self._metric_names:
            return {}
        databases = self._databases()
        values = metrics.collect(self._metric_names, databases, self.plan.bounded)
        if self._by_family:
            values.update(metrics.by_family(self._metric_names, databases, self.plan.bounded))
        return values

    def _databases(self) -> list[Any]:
        with self._lock:
            return [database for store in self._stores if (database := store.database()) is not None]

    def close(self) -> None:
        """Close all stores, then what the user's options factory asked to be closed, then the shared memory: each one,
        even if one before it fails. Raises the first error."""
        of_user, self._handles_to_close = self._handles_to_close, []
        held = [*self._spills, *self._stores, self._reads, *of_user, self._memory]
        disposal.close_all([functools.partial(_close, each) for each in held])


def _close(held: Any) -> None:
    held.close()  # looked up only now: what the user handed over may have none
