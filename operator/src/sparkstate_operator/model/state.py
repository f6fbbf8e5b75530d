"""The state backend's part of the spec."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from sparkstate_operator.model.base import ChangeKind, Model, spec_field
from sparkstate_operator.model.values import CLASS_PATTERN, Duration, Text

UPGRADE = ChangeKind.UPGRADE
ROCKSDB = "state.backend.rocksdb"

NATIVE_METRICS = (
    "num-immutable-mem-table", "mem-table-flush-pending", "compaction-pending", "background-errors",
    "cur-size-active-mem-table", "cur-size-all-mem-tables", "size-all-mem-tables",
    "num-entries-active-mem-table", "num-entries-imm-mem-tables", "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables", "estimate-num-keys", "estimate-table-readers-mem", "num-snapshots",
    "num-live-versions", "estimate-live-data-size", "min-log-number-to-keep",
    "total-sst-files-size", "live-sst-files-size",
    "estimate-pending-compaction-bytes", "num-running-compactions", "num-running-flushes",
    "actual-delayed-write-rate", "is-write-stopped", "block-cache-capacity", "block-cache-usage",
    "block-cache-pinned-usage", "num-files-at-level", "block-cache-hit", "block-cache-miss",
    "bloom-filter-useful", "bloom-filter-full-positive", "bloom-filter-full-true-positive",
    "bytes-read", "bytes-written", "iter-bytes-read", "compaction-read-bytes",
    "compaction-write-bytes", "stall-micros",
)  # fmt: skip
"""Flink's names: 27 properties, the files per level, 11 tickers."""

ROCKSDB_OPTIONS = (
    "thread.num", "files.open", "log.level", "log.max-file-size", "log.file-num", "log.dir",
    "compaction.style", "compaction.level.use-dynamic-size", "compaction.level.target-file-size-base",
    "compaction.level.max-size-level-base", "compression.per.level", "writebuffer.size",
    "writebuffer.count", "writebuffer.number-to-merge", "block.blocksize", "block.metadata-blocksize",
    "block.cache-size", "write-batch-size", "use-bloom-filter", "bloom-filter.bits-per-key",
    "bloom-filter.block-based-mode", "timer-service.cache-size", "memory.partitioned-index-filters",
    "compaction.filter.query-time-after-num-entries", "compaction.filter.periodic-compaction-time",
    "restore-overlap-fraction-threshold", "use-ingest-db-restore-mode",
    "incremental-restore-async-compact-after-rescale", "rescaling.use-delete-files-in-range",
    "metrics.column-family-as-variable",
)  # fmt: skip
"""Flink's configurable RocksDB keys, without their common prefix."""

BACKEND_TYPES = ("hashmap", "rocksdb", "custom", "external")


class Changelog(Model):
    """State changes uploaded continuously. Not in this version."""

    enabled: bool | None = spec_field("Not in this version.", UPGRADE)
    storage: Text | None = spec_field("Not in this version.", UPGRADE)
    materialize_interval: Duration | None = spec_field("Not in this version.", UPGRADE)


class StateBackend(Model):
    """Where working state lives."""

    model_config = ConfigDict(title="StateBackend")

    type: Literal["hashmap", "rocksdb", "custom", "external"] | None = spec_field(
        "hashmap keeps Python objects in the slots' memory: fast, bounded by memory. rocksdb keeps bytes "
        "on local disk "
        "with a bounded cache: state may be much larger than memory. custom and external are not in this "
        "version. "
        "Built-in: hashmap.",
        UPGRADE,
        flink=("state.backend.type", "state.backend"),
    )
    incremental: bool | None = spec_field(
        "Upload only what changed since the last completed checkpoint (rocksdb). Built-in: true.",
        UPGRADE,
        flink=("execution.checkpointing.incremental", "state.backend.incremental"),
    )
    predefined_options: (
        Literal[
            "DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"
        ]
        | None
    ) = spec_field(
        "A set of RocksDB options. Applied first, then options, then optionsFactory; managed memory wins "
        "over all. "
        "Built-in: DEFAULT.",
        UPGRADE,
        flink=(f"{ROCKSDB}.predefined-options",),
    )
    options: dict[str, Text] | None = spec_field(
        "RocksDB options by Flink's keys (state.backend.rocksdb.…); own keys only together with "
        "optionsFactory. For "
        "experts: they are used as written where memory is not managed.",
        UPGRADE,
        max_length=100,
    )
    options_factory: str | None = spec_field(
        "module:Class of a RocksDBOptionsFactory in the job's code. For experts.",
        UPGRADE,
        flink=(f"{ROCKSDB}.options-factory",),
        pattern=CLASS_PATTERN,
        max_length=256,
    )
    changelog: Changelog | None = spec_field("Not in this version.", UPGRADE)
    timer_service: Literal["heap", "rocksdb"] | None = spec_field(
        "Where timers live: heap is faster for few timers. Built-in: rocksdb (with type hashmap always "
        "heap).",
        UPGRADE,
        flink=(f"{ROCKSDB}.timer-service.factory",),
    )
    storage_paths: tuple[Text, ...] | None = spec_field(
        "Directories for RocksDB's files; each shard's store lies in one of them. Built-in: the working "
        "directory.",
        UPGRADE,
        flink=(f"{ROCKSDB}.localdir",),
        strict=False,
        min_length=1,
        max_length=16,
    )
    transfer_threads: int | None = spec_field(
        "Threads per slot for uploads and downloads of state. Built-in: 4.",
        UPGRADE,
        flink=(f"{ROCKSDB}.checkpoint.transfer.thread.num",),
        ge=1,
        le=128,
    )
    native_metrics: tuple[Literal[NATIVE_METRICS], ...] | None = spec_field(  # type: ignore[valid-type]
        "RocksDB's own metrics to publish, by Flink's names (state.backend.rocksdb.metrics.…); they may "
        "cost. "
        "Built-in: none.",
        UPGRADE,
        strict=False,
        max_length=64,
    )
    write_buffer_ratio: float | None = spec_field(
        "Share of a slot's managed memory for write buffers. Built-in: 0.5.",
        UPGRADE,
        flink=(f"{ROCKSDB}.memory.write-buffer-ratio",),
        ge=0.01,
        le=0.99,
    )
    high_prio_pool_ratio: float | None = spec_field(
        "Share of a slot's cache for index and filter blocks; 0 is strongly advised against. Built-in: 0.1.",
        UPGRADE,
        flink=(f"{ROCKSDB}.memory.high-prio-pool-ratio",),
        ge=0.0,
        le=0.99,
    )
    local_recovery: bool | None = spec_field(
        "Restore from the files that an earlier slot left on the same disk (rocksdb), where their checksums are "
        "those of the checkpoint; the others are downloaded. There is no second copy. Built-in: true.",
        UPGRADE,
        flink=("execution.state-recovery.from-local", "state.backend.local-recovery"),
    )
