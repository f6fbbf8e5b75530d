"""Which RocksDB options hold: Flink's defaults < predefined < configurable keys < options factory < managed memory."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass
from typing import Any

from sparkstate import errors
from sparkstate.backends.rocksdb import keys, large_blocks, memory, predefined
from sparkstate.backends.rocksdb.options import (
    ColumnFamilyOptions,
    ConfigurableRocksDBOptionsFactory,
    DBOptions,
    RocksDBOptionsFactory,
)
from sparkstate.settings import StateBackendSettings

_KIB = 1024
_MIB = 1024 * _KIB

# Ours, below everything else. A checkpoint copies the manifest, so it must not grow with the age of the
# store; stores are written by one thread only; nothing on the local disk is ever recovered, so nothing is
# synced.
_BASE: Mapping[str, Any] = {
    "use_fsync": False,
    "stats_dump_period_sec": 0,
    "stats_persist_period_sec": 0,
    "max_manifest_file_size": 256 * _KIB,
    "manifest_preallocation_size": 64 * _KIB,
    "allow_concurrent_memtable_write": False,
    "skip_stats_update_on_db_open": True,
    "is_fd_close_on_exec": True,
}

# Every checkpoint flushes every store, so files of level 0 are many and small. RocksDB's own 4 would have them merged,
# and uploaded again, twice as often; a read looks into up to 4 more files.
_BASE_COLUMN: Mapping[str, Any] = {
    "level_zero_file_num_compaction_trigger": 8,
    "level_zero_slowdown_writes_trigger": 24,
    "level_zero_stop_writes_trigger": 40,
}

MANAGED = frozenset(
    {"write_buffer_size", "max_write_buffer_number", "min_write_buffer_number_to_merge", "block_cache_size"}
)
"""Options of Flink's keys that managed or fixed memory decides, whatever else was said."""

# An overlay on disk lives until the end of its epoch, and is read through once. Its files are not worth compressing
# or merging; merges of many keep their number in bounds.
_SPILL_COLUMN: Mapping[str, Any] = {
    "compression_per_level": ("NO",),
    "level_zero_file_num_compaction_trigger": 32,
    "level_zero_slowdown_writes_trigger": 64,
    "level_zero_stop_writes_trigger": 96,
}

_PARTS: Mapping[str, Any] = {
    "two_level_index": True,
    "partition_filters": True,
    "pin_top_level_index_and_filter": True,
}

# A lookup of a key that is not there searched each memtable: 40 % of a slot's processor time where no key comes twice.
# A filter of this part of a memtable, some 20 bits for a short row, spares nearly all of these searches.
_FILTER_SHARE = 1 / 32


@dataclass(frozen=True)
class EffectiveOptions:
    """The options with which every store of a slot is opened."""

    db: Mapping[str, Any]
    column: Mapping[str, Any]
    table: Mapping[str, Any]
    write_batch_bytes: int
    timer_cache_size: int
    notices: tuple[str, ...]
    is_bounded: bool = False
    """Whether the slot's stores share their write buffers."""
    chosen: frozenset[str] = frozenset()
    """Those of ``column`` that the job decided, by a predefined set, a key or its factory."""
    in_parts: bool | None = False
    """Whether indexes and filters are written in parts; None: that depends on the state (``index_parts``)."""

    own_blocks: bool = False
    """Whether the job decided the size of blocks; if not, that may grow (``large_blocks``). A factory that sets the
    default is not told apart from one that sets nothing."""

    def with_blocks(self, size: int) -> EffectiveOptions:
        """The options of files with blocks of so many bytes."""
        return dataclasses.replace(self, table={**self.table, "block_size": size})

    def with_parts(self, wanted: bool) -> EffectiveOptions:
        """The options of files whose indexes and filters are whole or, if ``wanted``, in parts."""
        return dataclasses.replace(self, table={**self.table, **_PARTS}) if wanted else self

    def of_spills(self) -> EffectiveOptions:
        """The options of overlays on disk, whose files are short-lived. The job's own choices hold for them too."""
        ours = {name: value for name, value in _SPILL_COLUMN.items() if name not in self.chosen}
        return dataclasses.replace(self, column={**self.column, **ours})

    def with_memtable_filters(self, memtables: int) -> EffectiveOptions:
        """The options with a Bloom filter in each of so many memtables that share the slot's write buffers; 0: none.

        Under a budget, ``write_buffer_size`` is that of all memtables together, and RocksDB reckons a filter's size
        from it. A job that sets one of the two options gets what it sets.
        """
        if not memtables:
            return self
        ours = {
            "memtable_prefix_bloom_ratio": _FILTER_SHARE / (memtables if self.is_bounded else 1),
            "memtable_whole_key_filtering": True,
        }
        if not self.column.keys().isdisjoint(ours):
            return self
        return dataclasses.replace(self, column={**self.column, **ours})


def resolve(
    settings: StateBackendSettings,
    plan: memory.MemoryPlan,
    factory: RocksDBOptionsFactory | None,
    handles_to_close: MutableSequence[Any],
) -> EffectiveOptions:
    """Apply all sources in order. ``factory`` is the user's, loaded by :func:`load_options_factory`."""
    parsed = keys.parse(settings.options)
    db, column = DBOptions(_BASE), ColumnFamilyOptions(_BASE_COLUMN)
    _record(db, column, keys.defaults())
    default = column.values()
    column.table.set("bloom_bits_per_key", parsed.own["bloom-filter.bits-per-key"])
    column.table.set("bloom_block_based", parsed.own["bloom-filter.block-based-mode"])
    predefined.apply(
        settings.predefined_options,
        db,
        column,
        parsed.own["bloom-filter.bits-per-key"],
        parsed.own["bloom-filter.block-based-mode"],
    )
    _record(db, column, parsed.given)
    if not parsed.own["use-bloom-filter"]:  # a key counts more than a predefined set
        column.table.set("bloom_bits_per_key", 0.0)
    if factory is not None:
        db, column = _ask(factory, settings, db, column, handles_to_close)
    chosen = {name for name, value in column.values().items() if default.get(name) != value}
    in_parts: bool | None = False
    if plan.bounded:
        _manage(plan, column)
        in_parts = _in_parts(parsed.own["memory.partitioned-index-filters"], column)
    return EffectiveOptions(
        db=db.values(),
        column=column.values(),
        table=column.table.values(),
        write_batch_bytes=parsed.own["write-batch-size"],
        timer_cache_size=parsed.own["timer-service.cache-size"],
        notices=plan.notices
        + parsed.notices
        + _idle_notices(parsed, column.values()["compaction_style"])
        + _foreign_notices(parsed, factory),
        is_bounded=plan.bounded,
        chosen=frozenset(chosen | parsed.given["column"].keys()),
        in_parts=in_parts,
        own_blocks="block_size" in parsed.given["table"]
        or column.table.get("block_size") != large_blocks.SMALL_BYTES,
    )


def _record(db: DBOptions, column: ColumnFamilyOptions, given: Mapping[str, Mapping[str, Any]]) -> None:
    for part, target in (("db", db), ("column", column), ("table", column.table)):
        for option, value in given[part].items():
            target.set(option, value)


def _ask(
    factory: RocksDBOptionsFactory,
    settings: StateBackendSettings,
    db: DBOptions,
    column: ColumnFamilyOptions,
    handles_to_close: MutableSequence[Any],
) -> tuple[DBOptions, ColumnFamilyOptions]:
    if isinstance(factory, ConfigurableRocksDBOptionsFactory):
        factory = factory.configure(dict(settings.options))
    name = type(factory).__qualname__
    new_db = factory.create_db_options(db, handles_to_close)
    new_column = factory.create_column_options(column, handles_to_close)
    if not isinstance(new_db, DBOptions):
        raise errors.SpecInvalid(
            f"{name}.create_db_options returned {new_db!r}; it must return the DBOptions"
        )
    if not isinstance(new_column, ColumnFamilyOptions):
        raise errors.SpecInvalid(
            f"{name}.create_column_options returned {new_column!r}; it must return the ColumnFamilyOptions"
        )
    return new_db, new_column


def _manage(plan: memory.MemoryPlan, column: ColumnFamilyOptions) -> None:
    """Managed memory wins: one shared cache; the shared write buffer manager alone bounds memtables."""
    column.set("write_buffer_size", plan.write_buffers)
    column.set("arena_block_size", plan.arena_block)
    column.set("max_write_buffer_number", 2)
    column.set("min_write_buffer_number_to_merge", 1)
    table = column.table
    table.set("no_block_cache", False)
    table.set("block_cache_size", plan.cache)
    table.set("cache_index_and_filter_blocks", True)
    table.set("pin_l0_filter_and_index_blocks_in_cache", True)


def _in_parts(key: bool | str, column: ColumnFamilyOptions) -> bool | None:
    """Where the job leaves it to the engine, a factory that has chosen a form of the index or filter is left alone."""
    if key != keys.AUTO:
        return bool(key)
    return None if column.table.values().keys().isdisjoint(_PARTS) else False


def _idle_notices(parsed: keys.ParsedKeys, style: str) -> tuple[str, ...]:
    """Of keys that RocksDB takes, and that change nothing of it."""
    notices = []
    if parsed.own["bloom-filter.block-based-mode"]:
        notices.append(
            f"{keys.PREFIX}bloom-filter.block-based-mode has no effect: RocksDB builds one filter for each file"
        )
    given = (name for name in keys.OF_LEVEL_STYLE if keys.KEYS[name].option in parsed.given["column"])
    if style != "LEVEL":
        notices += [
            f"{keys.PREFIX}{name} has no effect with compaction.style {style}; it is for LEVEL"
            for name in given
        ]
    return tuple(notices)


def _foreign_notices(parsed: keys.ParsedKeys, factory: RocksDBOptionsFactory | None) -> tuple[str, ...]:
    if not parsed.foreign or isinstance(factory, ConfigurableRocksDBOptionsFactory):
        return ()
    names = ", ".join(sorted(parsed.foreign))
    return (f"nothing reads {names}: RocksDB has no such keys, and there is no configurable options factory",)


def load_options_factory(class_name: str) -> RocksDBOptionsFactory:
    """The factory of that name (``package.module:Class`` or ``package.module.Class``), made without arguments.

    Raises :class:`errors.SpecInvalid` if it cannot be imported or made, and ``ValueError`` (PyFlink's) if it
    is no ``RocksDBOptionsFactory``.
    """
    separator = ":" if ":" in class_name else "."
    module_name, _, attribute = class_name.rpartition(separator)
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise errors.SpecInvalid(
            f"the options factory {class_name!r} cannot be imported ({error}); "
            "name a class as package.module:Class that is installed in the job's image"
        ) from error
    if not (isinstance(found, type) and issubclass(found, RocksDBOptionsFactory)):
        raise ValueError("The input class does not implement RocksDBOptionsFactory.")
    try:
        return found()
    except TypeError as error:
        raise errors.SpecInvalid(
            f"the options factory {class_name!r} cannot be made without arguments: {error}"
        ) from error
