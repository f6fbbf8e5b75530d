"""The four predefined sets of options, with Flink's names and numbers (``PredefinedOptions``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sparkstate import errors
from sparkstate.backends.rocksdb.options import BlockBasedTableConfig, ColumnFamilyOptions, DBOptions

_KIB = 1024
_MIB = 1024 * _KIB

SETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "DEFAULT": {},
        "SPINNING_DISK_OPTIMIZED": {
            "db": {"max_background_jobs": 4, "max_open_files": -1},
            "column": {"compaction_style": "LEVEL", "level_compaction_dynamic_level_bytes": True},
        },
        # The block cache and write buffers of this one are large: in a small container the remedy for being
        # killed is SPINNING_DISK_OPTIMIZED. Under managed memory they do not count at all.
        "SPINNING_DISK_OPTIMIZED_HIGH_MEM": {
            "db": {"max_background_jobs": 4, "max_open_files": -1},
            "column": {
                "compaction_style": "LEVEL",
                "level_compaction_dynamic_level_bytes": True,
                "target_file_size_base": 256 * _MIB,
                "max_bytes_for_level_base": 1024 * _MIB,
                "write_buffer_size": 64 * _MIB,
                "max_write_buffer_number": 4,
                "min_write_buffer_number_to_merge": 3,
            },
            "table": {"block_cache_size": 256 * _MIB, "block_size": 128 * _KIB, "bloom": True},
        },
        "FLASH_SSD_OPTIMIZED": {"db": {"max_background_jobs": 4, "max_open_files": -1}},
    }
)


def apply(
    name: str,
    db: DBOptions,
    column: ColumnFamilyOptions,
    bloom_bits_per_key: float = 10.0,
    bloom_block_based: bool = False,
) -> None:
    """Record the options of the set ``name``. The Bloom filter of HIGH_MEM takes bits and mode from the keys.

    Raises :class:`errors.SpecInvalid` for any name but the four.
    """
    chosen = SETS.get(name.upper())
    if chosen is None:
        raise errors.SpecInvalid(f"predefinedOptions is {name!r}; it must be one of {', '.join(SETS)}")
    for option, value in chosen.get("db", {}).items():
        db.set(option, value)
    for option, value in chosen.get("column", {}).items():
        column.set(option, value)
    table: BlockBasedTableConfig = column.table
    for option, value in chosen.get("table", {}).items():
        if option == "bloom":
            table.set("bloom_bits_per_key", bloom_bits_per_key).set("bloom_block_based", bloom_block_based)
        else:
            table.set(option, value)
