"""RocksDB options factories that tests name by their class."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableSequence
from typing import Any

from sparkstate.backends.rocksdb.options import (
    BlockBasedTableConfig,
    ColumnFamilyOptions,
    ConfigurableRocksDBOptionsFactory,
    DBOptions,
    RocksDBOptionsFactory,
)


class Closeable:
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        type(self).closed += 1


class ExampleFactory(RocksDBOptionsFactory):
    """Changes one option of each kind, and registers a handle."""

    def create_db_options(
        self, current_options: DBOptions, handles_to_close: MutableSequence[Any]
    ) -> DBOptions:
        handles_to_close.append(Closeable())
        return current_options.set_max_background_jobs(3)

    def create_column_options(
        self, current_options: ColumnFamilyOptions, handles_to_close: MutableSequence[Any]
    ) -> ColumnFamilyOptions:
        return current_options.set_write_buffer_size(5 << 20).set_table_format_config(
            BlockBasedTableConfig().set_block_cache_size(7 << 20)
        )


class HashIndexFactory(ExampleFactory):
    """Asks for the hash index of blocks by its ratio."""

    def create_column_options(
        self, current_options: ColumnFamilyOptions, handles_to_close: MutableSequence[Any]
    ) -> ColumnFamilyOptions:
        return current_options.set_table_format_config(BlockBasedTableConfig().set_data_block_hash_ratio(0.5))


class UncloseableFactory(ExampleFactory):
    """Registers a handle that has no ``close``, before the right one."""

    def create_db_options(
        self, current_options: DBOptions, handles_to_close: MutableSequence[Any]
    ) -> DBOptions:
        handles_to_close.append(object())
        return super().create_db_options(current_options, handles_to_close)


class MyOptionsFactory(ConfigurableRocksDBOptionsFactory):
    """The options factory of Flink's "State Backends" page."""

    RESTART_INTERVAL = "my.custom.rocksdb.block.restart-interval"

    def __init__(self) -> None:
        self._restart_interval = 16

    def create_db_options(
        self, current_options: DBOptions, handles_to_close: MutableSequence[Any]
    ) -> DBOptions:
        return current_options.set_increase_parallelism(4).set_use_fsync(False)

    def create_column_options(
        self, current_options: ColumnFamilyOptions, handles_to_close: MutableSequence[Any]
    ) -> ColumnFamilyOptions:
        table = BlockBasedTableConfig().set_block_restart_interval(self._restart_interval)
        return current_options.set_table_format_config(table)

    def configure(self, configuration: Mapping[str, str]) -> RocksDBOptionsFactory:
        self._restart_interval = int(configuration.get(self.RESTART_INTERVAL, "16"))
        return self


class ForgetfulFactory(ExampleFactory):
    """Returns nothing, by mistake."""

    def create_db_options(
        self, current_options: DBOptions, handles_to_close: MutableSequence[Any]
    ) -> DBOptions:
        return None  # type: ignore[return-value]


class NoFactory:
    """No options factory at all."""


class OfColumns:
    """The half of a factory that sets options of column families alone."""

    def create_db_options(
        self, current_options: DBOptions, handles_to_close: MutableSequence[Any]
    ) -> DBOptions:
        return current_options


class NeverDone(OfColumns, RocksDBOptionsFactory):
    """Of a compaction that takes longer than a life nothing is left: as if it had never begun."""

    def create_column_options(
        self, current_options: ColumnFamilyOptions, handles_to_close: MutableSequence[Any]
    ) -> ColumnFamilyOptions:
        for option in ("file_num_compaction", "slowdown_writes", "stop_writes"):
            current_options.set(f"level_zero_{option}_trigger", 10_000)
        return current_options


class WithoutFilter(OfColumns, RocksDBOptionsFactory):
    """Files without a Bloom filter."""

    def create_column_options(
        self, current_options: ColumnFamilyOptions, handles_to_close: MutableSequence[Any]
    ) -> ColumnFamilyOptions:
        return current_options.set_table_format_config(BlockBasedTableConfig().set_bloom_bits_per_key(0.0))


class WholeFilters(WithoutFilter):
    """Filters that are never in parts."""

    def create_column_options(
        self, current_options: ColumnFamilyOptions, handles_to_close: MutableSequence[Any]
    ) -> ColumnFamilyOptions:
        return current_options.set_table_format_config(BlockBasedTableConfig().set_partition_filters(False))


class AsTold(OfColumns, ConfigurableRocksDBOptionsFactory):
    """Sets the options of column families that ``KEY`` names, as JSON."""

    KEY = "my.custom.rocksdb.column-options"

    def configure(self, configuration: Mapping[str, str]) -> RocksDBOptionsFactory:
        self._told: dict[str, Any] = json.loads(configuration[self.KEY])
        return self

    def create_column_options(
        self, current_options: ColumnFamilyOptions, handles_to_close: MutableSequence[Any]
    ) -> ColumnFamilyOptions:
        for name, value in self._told.items():
            current_options.set(name, tuple(value) if isinstance(value, list) else value)
        return current_options
