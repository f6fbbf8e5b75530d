"""The state backend's part of the spec."""

from __future__ import annotations

from typing import Literal

from sparkstate_operator.model.base import ChangeKind, Model, spec_field
from sparkstate_operator.model.values import Duration, Text
from sparkstate_spec import values
from sparkstate_spec.flink_tables import NATIVE_METRICS

UPGRADE = ChangeKind.UPGRADE


class Changelog(Model):
    """Continuous upload of state changes. Not in this version."""

    enabled: bool | None = spec_field("Not in this version.", UPGRADE)
    storage: Text | None = spec_field("Not in this version.", UPGRADE)
    materialize_interval: Duration | None = spec_field("Not in this version.", UPGRADE)


class StateBackend(Model):
    """Where working state lives."""

    type: Literal["hashmap", "rocksdb", "custom", "external"] | None = spec_field(
        "hashmap keeps Python objects in the slots' memory: it is fast, and memory bounds the state. rocksdb keeps "
        "bytes on local disk with a bounded cache: state may be much larger than memory. custom is the backend of your "
        "own that class names. external is not in this version. Built-in: {built_in}.",
        UPGRADE,
        path="stateBackend.type",
    )
    class_: str | None = spec_field(
        "module:Class (or module.Class) of a state backend of your own, in the job's image or beside its pythonFile; "
        "type custom may then be left out. A job starts only if the class passes the conformance kit "
        "(docs/custom-backends.md).",
        UPGRADE,
        path="stateBackend.class",
        alias="class",
        pattern=values.BACKEND_CLASS,
        max_length=256,
    )
    incremental: bool | None = spec_field(
        "Upload only the files that are new since the last completed checkpoint (rocksdb). Built-in: {built_in}.",
        UPGRADE,
        path="stateBackend.incremental",
    )
    predefined_options: (
        Literal[
            "DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"
        ]
        | None
    ) = spec_field(
        "A set of RocksDB options. It applies first, then options, then optionsFactory; managed memory wins over all. "
        "Built-in: {built_in}.",
        UPGRADE,
        path="stateBackend.predefinedOptions",
    )
    options: dict[str, Text] | None = spec_field(
        "RocksDB options by Flink's keys (state.backend.rocksdb.…); keys of your own need an optionsFactory. For "
        "experts: where memory is not managed, the options apply as written. With type custom: the options that your "
        "class is given, under names of your own; never put a secret there.",
        UPGRADE,
        max_length=100,
    )
    options_factory: str | None = spec_field(
        "module:Class of a RocksDBOptionsFactory in the job's code. For experts.",
        UPGRADE,
        path="stateBackend.optionsFactory",
        pattern=values.CLASS,
        max_length=256,
    )
    changelog: Changelog | None = spec_field("Not in this version.", UPGRADE)
    timer_service: Literal["heap", "rocksdb"] | None = spec_field(
        "Where timers are kept: heap is faster for few timers. Built-in: {built_in} (always heap with type hashmap; "
        "with type custom, your class decides).",
        UPGRADE,
        path="stateBackend.timerService",
    )
    storage_paths: tuple[Text, ...] | None = spec_field(
        "Directories for RocksDB's files; each shard's store lies in one of them. Built-in: the working "
        "directory.",
        UPGRADE,
        path="stateBackend.storagePaths",
        strict=False,
        min_length=1,
        max_length=16,
    )
    transfer_threads: int | None = spec_field(
        "Threads per slot for uploads and downloads of state. Built-in: {built_in}.",
        UPGRADE,
        path="stateBackend.transferThreads",
        ge=1,
        le=128,
    )
    native_metrics: tuple[Literal[NATIVE_METRICS], ...] | None = spec_field(  # type: ignore[valid-type]
        "RocksDB's own metrics to publish, by Flink's names (state.backend.rocksdb.metrics.…); they may cost speed. "
        "Built-in: none.",
        UPGRADE,
        strict=False,
        max_length=64,
    )
    write_buffer_ratio: float | None = spec_field(
        "Share of a slot's managed memory for write buffers. Built-in: {built_in}.",
        UPGRADE,
        path="stateBackend.writeBufferRatio",
        ge=0.01,
        le=0.99,
    )
    high_prio_pool_ratio: float | None = spec_field(
        "Share of a slot's cache for index and filter blocks; 0 is strongly advised against. Built-in: {built_in}.",
        UPGRADE,
        path="stateBackend.highPrioPoolRatio",
        ge=0.0,
        le=0.99,
    )
    local_recovery: bool | None = spec_field(
        "Restore from files that an earlier slot left on the same disk (rocksdb), if their checksums are those of the "
        "checkpoint; the others are downloaded. No second copy is kept for this. Built-in: {built_in}.",
        UPGRADE,
        path="stateBackend.localRecovery",
    )
