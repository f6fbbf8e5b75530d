"""Flink's configurable keys of RocksDB: what each one sets, its default, and what it answers where it cannot apply.

Both spellings are accepted: in full (``state.backend.rocksdb.writebuffer.size``) and short
(``writebuffer.size``). Keys that are not RocksDB's are left for a ``ConfigurableRocksDBOptionsFactory`` to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sparkstate import errors
from sparkstate_spec import units

PREFIX = "state.backend.rocksdb."
AUTO = "auto"
"""The engine decides, as the state grows."""


def parse_bytes(key: str, text: str) -> int:
    """Flink's memory sizes: ``64mb``, ``4 kb``, ``1g``, or a plain number of bytes (powers of 1024)."""
    try:
        return units.flink_bytes(text)
    except ValueError:
        raise errors.SpecInvalid(
            f"{key} is {text!r}; it must be a size such as 64mb, 4kb or 1048576"
        ) from None


def parse_bool(key: str, text: str) -> bool:
    """``true`` or ``false``, in any case."""
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be true or false")
    return lowered == "true"


def _parts(key: str, text: str) -> bool | str:
    """``true``, ``false`` or ``auto``, in any case."""
    lowered = text.strip().lower()
    if lowered not in {"true", "false", AUTO}:
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be true, false or {AUTO}")
    return lowered if lowered == AUTO else lowered == "true"


def _int(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be a whole number") from None


def _positive_int(key: str, text: str) -> int:
    number = _int(key, text)
    if number <= 0:
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be larger than 0")
    return number


MOST_THREADS = 1024
"""RocksDB makes all of them with its first flush. If the system refuses one, RocksDB ends the whole process."""


def _threads(key: str, text: str) -> int:
    number = _positive_int(key, text)
    if number > MOST_THREADS:
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be at most {MOST_THREADS}")
    return number


def _positive_bytes(key: str, text: str) -> int:
    size = parse_bytes(key, text)
    if size == 0:
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be larger than 0")
    return size


def _float(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be a number") from None


def _absolute(key: str, text: str) -> str:
    if not Path(text).is_absolute():
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be an absolute path")
    return text


def _compaction_style(key: str, text: str) -> str:
    style = text.strip().upper()
    if style == "FIFO":
        raise errors.SpecInvalid(
            f"{key} is {text!r}: FIFO deletes the oldest state; use LEVEL, UNIVERSAL or NONE"
        )
    if style not in {"LEVEL", "UNIVERSAL", "NONE"}:
        raise errors.SpecInvalid(f"{key} is {text!r}; it must be LEVEL, UNIVERSAL or NONE")
    return style


_COMPRESSIONS = ("NO", "SNAPPY", "ZLIB", "BZLIB2", "LZ4", "LZ4HC", "ZSTD")


def _compressions(key: str, text: str) -> tuple[str, ...]:
    names = tuple(
        part.strip().upper().removesuffix("_COMPRESSION") for part in re.split("[;,]", text) if part.strip()
    )
    unknown = [name for name in names if name not in _COMPRESSIONS]
    if unknown or not names:
        known = ", ".join(f"{name}_COMPRESSION" for name in _COMPRESSIONS)
        raise errors.SpecInvalid(
            f"{key} is {text!r}; each of the levels, separated by ';', must be one of {known}"
        )
    return names


@dataclass(frozen=True)
class ConfigurableKey:
    """One key: how its text is read, the option that it sets (``part`` is db, column or table) and Flink's default."""

    part: str
    option: str
    parse: Callable[[str, str], Any]
    default: str


KEYS: Mapping[str, ConfigurableKey] = MappingProxyType(
    {
        "thread.num": ConfigurableKey("db", "max_background_jobs", _threads, "2"),
        "files.open": ConfigurableKey("db", "max_open_files", _int, "-1"),
        # Flink's are 25mb and 4, for the one database of an operator. Here each shard is a database, and each of its
        # flushes is told in some 8 KiB: in a soak of 1,900 epochs the logs of two slots grew to 270 MiB, beside a
        # state of 3 MiB.
        "log.max-file-size": ConfigurableKey("db", "max_log_file_size", parse_bytes, "128kb"),
        "log.file-num": ConfigurableKey("db", "keep_log_file_num", _positive_int, "2"),
        "log.dir": ConfigurableKey("db", "db_log_dir", _absolute, ""),
        # Flink's is LEVEL, which rewrites a store whenever level 0 is full: with 1 % of the keys changed between two
        # checkpoints a slot of 8 stores then uploads 13 % of its state in the median one, UNIVERSAL 2 %.
        "compaction.style": ConfigurableKey("column", "compaction_style", _compaction_style, "UNIVERSAL"),
        "compaction.level.use-dynamic-size": ConfigurableKey(
            "column", "level_compaction_dynamic_level_bytes", parse_bool, "false"
        ),
        "compression.per.level": ConfigurableKey(
            "column", "compression_per_level", _compressions, "SNAPPY_COMPRESSION"
        ),
        "compaction.level.target-file-size-base": ConfigurableKey(
            "column", "target_file_size_base", _positive_bytes, "64mb"
        ),
        "compaction.level.max-size-level-base": ConfigurableKey(
            "column", "max_bytes_for_level_base", _positive_bytes, "256mb"
        ),
        "writebuffer.size": ConfigurableKey("column", "write_buffer_size", _positive_bytes, "64mb"),
        "writebuffer.count": ConfigurableKey("column", "max_write_buffer_number", _positive_int, "2"),
        "writebuffer.number-to-merge": ConfigurableKey(
            "column", "min_write_buffer_number_to_merge", _positive_int, "1"
        ),
        "block.blocksize": ConfigurableKey("table", "block_size", _positive_bytes, "4kb"),
        "block.metadata-blocksize": ConfigurableKey("table", "metadata_block_size", _positive_bytes, "4kb"),
        "block.cache-size": ConfigurableKey("table", "block_cache_size", _positive_bytes, "8mb"),
    }
)

# Read by the store itself, not options of RocksDB.
OWN_KEYS: Mapping[str, tuple[Callable[[str, str], Any], str]] = MappingProxyType(
    {
        "write-batch-size": (parse_bytes, "2mb"),
        # Flink's is false. Most files that a read looks into do not have its key (RFC 0040).
        "use-bloom-filter": (parse_bool, "true"),
        "bloom-filter.bits-per-key": (_float, "10.0"),
        "bloom-filter.block-based-mode": (parse_bool, "false"),
        "timer-service.cache-size": (_positive_int, "128"),
        # Flink's is false. Where not all indexes and filters fit in the cache, a read would bring in those of whole
        # files; where they do, parts cost time (RFC 0064).
        "memory.partitioned-index-filters": (_parts, AUTO),
        "metrics.column-family-as-variable": (parse_bool, "false"),
    }
)

WITHOUT_EFFECT: Mapping[str, str] = MappingProxyType(
    {
        "log.level": "rocksdict cannot set the level of RocksDB's own log, which stays at INFO",
        "restore-overlap-fraction-threshold": "shards move whole, so no store is built from parts of others",
        "use-ingest-db-restore-mode": "shards move whole, so no store is built from parts of others",
        "incremental-restore-async-compact-after-rescale": "shards move whole, nothing is left to compact",
        "rescaling.use-delete-files-in-range": "shards move whole, so nothing is left to delete",
        "compaction.filter.query-time-after-num-entries": "there is no compaction filter in this version",
        "compaction.filter.periodic-compaction-time": "there is no compaction filter in this version",
    }
)

OF_LEVEL_STYLE = ("compaction.level.use-dynamic-size", "compaction.level.max-size-level-base")
"""Keys of column families that mean nothing in another style of compaction than LEVEL."""


@dataclass(frozen=True)
class ParsedKeys:
    """``given`` by part and option, the store's ``own`` values with defaults filled in, and sentences for the log."""

    given: Mapping[str, Mapping[str, Any]]
    own: Mapping[str, Any]
    notices: tuple[str, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)
    """Keys that RocksDB does not know, for a configurable options factory."""


def short(key: str) -> str:
    """The key without Flink's prefix."""
    return key.removeprefix(PREFIX)


def parse(options: Mapping[str, str]) -> ParsedKeys:
    """Read every key of ``options``; raises :class:`errors.SpecInvalid` naming the key, its value and the remedy."""
    given: dict[str, dict[str, Any]] = {"db": {}, "column": {}, "table": {}}
    own = {name: read(name, default) for name, (read, default) in OWN_KEYS.items()}
    notices: list[str] = []
    foreign: dict[str, str] = {}
    seen: dict[str, str] = {}
    for key, text in options.items():
        name = short(key)
        if name in seen:
            raise errors.SpecInvalid(f"{key} and {seen[name]} are the same key; leave one of them out")
        seen[name] = key
        if name in KEYS:
            entry = KEYS[name]
            given[entry.part][entry.option] = entry.parse(key, str(text))
        elif name in OWN_KEYS:
            own[name] = OWN_KEYS[name][0](key, str(text))
        elif name in WITHOUT_EFFECT:
            notices.append(f"{key} has no effect: {WITHOUT_EFFECT[name]}")
        elif key.startswith(PREFIX):
            known = ", ".join(sorted({*KEYS, *OWN_KEYS, *WITHOUT_EFFECT}))
            raise errors.SpecInvalid(
                f"{key} is not a configurable key of RocksDB; the keys are (after {PREFIX}) {known}"
            )
        else:
            foreign[key] = str(text)
    return ParsedKeys(given, own, tuple(notices), foreign)


def defaults() -> dict[str, dict[str, Any]]:
    """Flink's defaults of all configurable keys, by part and option."""
    result: dict[str, dict[str, Any]] = {"db": {}, "column": {}, "table": {}}
    for name, entry in KEYS.items():
        if entry.default:
            result[entry.part][entry.option] = entry.parse(name, entry.default)
    return result
