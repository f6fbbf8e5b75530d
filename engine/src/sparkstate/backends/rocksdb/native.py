"""Hands collected options to rocksdict. The only place that knows rocksdict's names of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import rocksdict

from sparkstate.backends import allocation
from sparkstate.backends.rocksdb.effective import EffectiveOptions
from sparkstate.backends.rocksdb.memory import MemoryPlan

_COMPRESSION: Mapping[str, Callable[[], Any]] = {
    "NO": rocksdict.DBCompressionType.none,
    "SNAPPY": rocksdict.DBCompressionType.snappy,
    "ZLIB": rocksdict.DBCompressionType.zlib,
    "BZLIB2": rocksdict.DBCompressionType.bz2,
    "LZ4": rocksdict.DBCompressionType.lz4,
    "LZ4HC": rocksdict.DBCompressionType.lz4hc,
    "ZSTD": rocksdict.DBCompressionType.zstd,
}
# Options that rocksdict's setter does not call by the name with set_ before it.
_OWN_SETTERS = {"increase_parallelism": "increase_parallelism"}
_LEVELS = 7
_FLUSH_THREADS = 4


class SlotMemory:
    """The cache and the write buffer manager that all stores of a slot share; neither exists when unmanaged.

    Write buffers are charged to the cache, so that the cache's usage is the whole. The manager never stalls
    writers: a stalled write would hold the interpreter lock, and with it heartbeats and uploads.
    """

    def __init__(self, plan: MemoryPlan) -> None:
        self.plan = plan
        self.cache: Any = None
        self.write_buffers: Any = None
        if plan.bounded:
            allocation.limit_arenas(plan.budget)
            # For a checkpoint all stores of the slot flush at once; by default one thread would flush them in turn.
            rocksdict.Env().set_high_priority_background_threads(_FLUSH_THREADS)
            self.cache = rocksdict.Cache(plan.cache)
            self.write_buffers = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
                plan.write_buffers, False, self.cache
            )

    def pressing(self) -> bool:
        """Whether memtables take more than a quarter above their limit: RocksDB's own flushes come too late.

        That happens because nothing stalls, flushes start one store at a time, and a busy machine runs them late.
        """
        if self.write_buffers is None:
            return False
        return bool(self.write_buffers.get_usage() > self.plan.write_buffers * 5 // 4)

    def close(self) -> None:
        """Let go of both; the memory is free once the last store is closed."""
        self.cache = None
        self.write_buffers = None


def build_options(effective: EffectiveOptions, memory: SlotMemory, statistics: bool) -> tuple[Any, list[Any]]:
    """One rocksdict ``Options`` for a store or a column family of it, and the private caches it uses.

    rocksdict has one class for both kinds. A column family's object needs its own: caches apart, all are equal.
    """
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    for name, value in effective.db.items():
        getattr(options, _OWN_SETTERS.get(name, f"set_{name}"))(value)
    _set_column_options(options, effective.column)
    caches = _set_table_options(options, effective.table, memory)
    if memory.write_buffers is not None:
        options.set_write_buffer_manager(memory.write_buffers)
    if statistics:
        options.enable_statistics()
    return options, caches


def _set_column_options(options: Any, column: Mapping[str, Any]) -> None:
    for name, value in column.items():
        if name == "compaction_style":
            if value == "NONE":
                options.set_disable_auto_compactions(True)
            else:
                options.set_compaction_style(getattr(rocksdict.DBCompactionStyle, value.lower())())
        elif name == "compression_per_level":
            _set_compression(options, value)
        else:
            getattr(options, f"set_{name}")(value)


def _set_compression(options: Any, names: tuple[str, ...]) -> None:
    if len(names) == 1:
        options.set_compression_type(_COMPRESSION[names[0]]())
        return
    # The last one named holds for the levels below it.
    padded = [*names, *([names[-1]] * (_LEVELS - len(names)))]
    options.set_compression_per_level([_COMPRESSION[name]() for name in padded])


def _set_table_options(options: Any, table: Mapping[str, Any], memory: SlotMemory) -> list[Any]:
    block_based = rocksdict.BlockBasedOptions()
    caches: list[Any] = []
    if memory.cache is not None:
        block_based.set_block_cache(memory.cache)
    elif table.get("no_block_cache"):
        block_based.disable_cache()
    elif "block_cache_size" in table:
        caches.append(rocksdict.Cache(table["block_cache_size"]))
        block_based.set_block_cache(caches[0])
    if table.get("bloom_bits_per_key"):
        block_based.set_bloom_filter(table["bloom_bits_per_key"], table.get("bloom_block_based", False))
    if table.get("two_level_index"):
        block_based.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
    if table.get("data_block_hash_ratio") and "data_block_index_type" not in table:
        # The ratio is that of the hash index, which RocksDB does not build unless it is asked to.
        block_based.set_data_block_index_type(rocksdict.DataBlockIndexType.binary_and_hash())
    handled = {
        "block_cache_size",
        "no_block_cache",
        "bloom_bits_per_key",
        "bloom_block_based",
        "two_level_index",
    }
    for name, value in table.items():
        if name not in handled:
            getattr(block_based, f"set_{name}")(value)
    options.set_block_based_table_factory(block_based)
    return caches
