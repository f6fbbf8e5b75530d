"""RocksDB's options as plain data, and the interface by which a user's code may change them.

rocksdict's own option objects can be written but not read, compared or pickled, so options are collected here
by name and handed to rocksdict at the end (``native.py``). Setting options by code is for experts: a
wrong value can cost memory that nobody counts, or speed. Prefer ``PredefinedOptions``, then the configurable keys.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, MutableSequence
from typing import Any, ClassVar, Self

from sparkstate import errors

_INT = int
_BOOL = bool


class OptionSet:
    """Options by name. ``set_<name>(value)`` records one and returns the set, so that calls can be chained.

    Only names in ``known`` are accepted; the value must have the type given there.
    Raises :class:`errors.SpecInvalid` for an unknown name or a value of another type.
    """

    title: ClassVar[str] = "options"
    known: ClassVar[Mapping[str, type]] = {}

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(values or {})

    def set(self, name: str, value: Any) -> Self:
        """Record ``value`` for the option ``name``."""
        expected = self.known.get(name)
        if expected is None:
            known = ", ".join(sorted(self.known))
            raise errors.SpecInvalid(
                f"{self.title} has no option {name!r}; those that can be set are {known}"
            )
        # bool is an int in Python, but True is no size.
        if type(value) is not expected:
            raise errors.SpecInvalid(
                f"{self.title}.{name} is {value!r}; it must be of type {expected.__name__}"
            )
        self._values[name] = value
        return self

    def get(self, name: str) -> Any:
        """The recorded value, or None."""
        return self._values.get(name)

    def values(self) -> dict[str, Any]:
        """A copy of all recorded options."""
        return dict(self._values)

    def copy(self) -> Self:
        """Another set with the same values."""
        return type(self)(self._values)

    def __getattr__(self, attribute: str) -> Callable[[Any], Self]:
        if not attribute.startswith("set_"):
            raise AttributeError(f"{self.title} has no attribute {attribute!r}")
        return lambda value: self.set(attribute.removeprefix("set_"), value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values})"


class DBOptions(OptionSet):
    """Options of a whole store."""

    title = "DBOptions"
    known: ClassVar[Mapping[str, type]] = {
        "increase_parallelism": _INT,
        "max_background_jobs": _INT,
        "max_subcompactions": _INT,
        "max_open_files": _INT,
        "max_file_opening_threads": _INT,
        "use_fsync": _BOOL,
        "max_log_file_size": _INT,
        "keep_log_file_num": _INT,
        "log_file_time_to_roll": _INT,
        "recycle_log_file_num": _INT,
        "db_log_dir": str,
        "stats_dump_period_sec": _INT,
        "stats_persist_period_sec": _INT,
        "max_manifest_file_size": _INT,
        "manifest_preallocation_size": _INT,
        "bytes_per_sync": _INT,
        "compaction_readahead_size": _INT,
        "delete_obsolete_files_period_micros": _INT,
        "skip_stats_update_on_db_open": _BOOL,
        "allow_concurrent_memtable_write": _BOOL,
        "enable_write_thread_adaptive_yield": _BOOL,
        "use_direct_reads": _BOOL,
        "use_direct_io_for_flush_and_compaction": _BOOL,
        "allow_mmap_reads": _BOOL,
        "advise_random_on_open": _BOOL,
        "avoid_unnecessary_blocking_io": _BOOL,
        "is_fd_close_on_exec": _BOOL,
        "paranoid_checks": _BOOL,
        "table_cache_num_shard_bits": _INT,
        "writable_file_max_buffer_size": _INT,
    }


class BlockBasedTableConfig(OptionSet):
    """Options of the files' format and of the block cache."""

    title = "BlockBasedTableConfig"
    known: ClassVar[Mapping[str, type]] = {
        "block_size": _INT,
        "metadata_block_size": _INT,
        "block_cache_size": _INT,
        "no_block_cache": _BOOL,
        "block_restart_interval": _INT,
        "index_block_restart_interval": _INT,
        "bloom_bits_per_key": float,
        "bloom_block_based": _BOOL,
        "cache_index_and_filter_blocks": _BOOL,
        "pin_l0_filter_and_index_blocks_in_cache": _BOOL,
        "pin_top_level_index_and_filter": _BOOL,
        "partition_filters": _BOOL,
        "two_level_index": _BOOL,
        "format_version": _INT,
        "data_block_hash_ratio": float,
    }


class ColumnFamilyOptions(OptionSet):
    """Options of one column family; ``set_table_format_config`` merges a :class:`BlockBasedTableConfig`
    into its own.
    """

    title = "ColumnFamilyOptions"
    known: ClassVar[Mapping[str, type]] = {
        "compaction_style": str,
        "disable_auto_compactions": _BOOL,
        "level_compaction_dynamic_level_bytes": _BOOL,
        "compression_per_level": tuple,
        "target_file_size_base": _INT,
        "target_file_size_multiplier": _INT,
        "max_bytes_for_level_base": _INT,
        "max_bytes_for_level_multiplier": float,
        "write_buffer_size": _INT,
        "max_write_buffer_number": _INT,
        "min_write_buffer_number_to_merge": _INT,
        "arena_block_size": _INT,
        "memtable_prefix_bloom_ratio": float,
        "memtable_whole_key_filtering": _BOOL,
        "level_zero_file_num_compaction_trigger": _INT,
        "level_zero_slowdown_writes_trigger": _INT,
        "level_zero_stop_writes_trigger": _INT,
        "num_levels": _INT,
        "optimize_filters_for_hits": _BOOL,
        "soft_pending_compaction_bytes_limit": _INT,
        "hard_pending_compaction_bytes_limit": _INT,
        "max_compaction_bytes": _INT,
        "report_bg_io_stats": _BOOL,
    }

    def __init__(
        self, values: Mapping[str, Any] | None = None, table: BlockBasedTableConfig | None = None
    ) -> None:
        super().__init__(values)
        self.table = table if table is not None else BlockBasedTableConfig()

    def set_table_format_config(self, config: BlockBasedTableConfig) -> Self:
        """Take over every value that ``config`` has recorded; what it leaves out stays as it was."""
        for name, value in config.values().items():
            self.table.set(name, value)
        return self

    def copy(self) -> Self:
        return type(self)(self._values, self.table.copy())


class RocksDBOptionsFactory(abc.ABC):
    """A user's own way to set options, named by its class in ``stateBackend.optionsFactory`` or ``set_options``.

    Needs a constructor without arguments: only the name travels to the slots. Its word counts more than
    predefined options and configurable keys; under managed or fixed memory, block cache and write buffers are
    set by neither.
    """

    @abc.abstractmethod
    def create_db_options(
        self, current_options: DBOptions, handles_to_close: MutableSequence[Any]
    ) -> DBOptions:
        """The options of a store, made from ``current_options``.
        Objects put in ``handles_to_close`` are closed last.
        """

    @abc.abstractmethod
    def create_column_options(
        self, current_options: ColumnFamilyOptions, handles_to_close: MutableSequence[Any]
    ) -> ColumnFamilyOptions:
        """The options of every column family, made from ``current_options``."""


class ConfigurableRocksDBOptionsFactory(RocksDBOptionsFactory):
    """An options factory that reads keys of its own from ``stateBackend.options``."""

    @abc.abstractmethod
    def configure(self, configuration: Mapping[str, str]) -> RocksDBOptionsFactory:
        """Take what is needed from ``configuration`` (all keys as the job gave them) and return the factory to use."""
