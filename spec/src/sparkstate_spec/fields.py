"""The fields of a job's spec, one line each: how the value is spelled, Flink's keys for it, and its built-in value.

A field without a line here is a section, is free text, or is Kubernetes' own; its type and description are in the
operator's models. The lines are in the order of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sparkstate_spec.given import Leaves, below

Kind = Literal["duration", "memory", "boolean", "integer", "number", "location", "paths", "text"]
"""How a value is spelled, in the field and by Flink's keys. ``memory`` is a size in bytes, ``paths`` a list."""

C = "execution.checkpointing"
ROCKSDB = "state.backend.rocksdb"
_RESTART = "restart-strategy"
_GROWING = f"{_RESTART}.exponential-delay"
_RATE = f"{_RESTART}.failure-rate"

EXCLUSIVE: tuple[tuple[str, ...], ...] = (
    ("pythonFile", "module", "configMapRef"),
    ("managedMemoryPerSlot", "fixedMemoryPerSlot", "managedMemory"),
    ("savepoints.interval", "savepoints.schedule"),
    ("trigger.processingTime", "trigger.availableNow"),
    ("localStorage.sizeLimit", "localStorage.volumeClaimTemplate", "localStorage.paths"),
    ("restoreFrom.snapshotRef", "restoreFrom.latest", "restoreFrom.uri", "startEmpty"),
)
"""Fields that replace one another: where the job gives one, defaults for the others do not count."""
SLOT_MEMORY = EXCLUSIVE[1]
EPOCH_STARTS = EXCLUSIVE[3]

STRATEGY_SECTIONS = {
    "fixed-delay": "fixedDelay", "exponential-delay": "exponentialDelay", "failure-rate": "failureRate",
}  # fmt: skip
REFUSED_ON_HEAP = ("predefinedOptions", "options", "optionsFactory", "storagePaths", "nativeMetrics")
"""Fields of ``stateBackend`` that are refused beside the type hashmap, whatever their value."""
ONLY_ROCKSDB = tuple(
    f"stateBackend.{name}"
    for name in (*REFUSED_ON_HEAP, "timerService", "writeBufferRatio", "highPrioPoolRatio")
)
BACKEND_TYPE, BACKEND_CLASS, BACKEND_OPTIONS = (
    f"stateBackend.{name}" for name in ("type", "class", "options")
)


def always(_given: Leaves) -> bool:
    """The built-in value counts in every job."""
    return True


def unwritten(_given: Leaves) -> bool:
    """The built-in value is not written down. It says that nothing was chosen, and beside a choice it would be a
    second one; or the field came when jobs ran already, whose revisions lack it and whose images may refuse it."""
    return False


def _has(*paths: str) -> Callable[[Leaves], bool]:
    return lambda given: any(below(path, *paths) for path in given)


def _none_of(*paths: str) -> Callable[[Leaves], bool]:
    return lambda given: not chosen(given, paths)


def chosen(given: Leaves, paths: tuple[str, ...]) -> bool:
    """Whether ``given`` chooses one of the fields. A value that says that nothing was chosen (``managedMemory: true``)
    is not a choice, and leaves the others their room."""
    return any(below(path, *paths) and _chooses(path, leaf.value) for path, leaf in given.items())


def _chooses(path: str, value: Any) -> bool:
    line = BY_PATH.get(path)
    return line is None or line.applies is not unwritten or value != line.built_in


def _is(path: str, value: Any) -> Callable[[Leaves], bool]:
    return lambda given: path in given and given[path].value == value


_CLUSTER = _is("deployment", "cluster")
_OF_ROCKSDB = _is("stateBackend.type", "rocksdb")
_FIXED, _BACKOFF, _FAILURES = (_is("restart.strategy", name) for name in STRATEGY_SECTIONS)


def _on_heap(given: Leaves) -> bool:
    # Chosen, or because nothing was chosen.
    return not _OF_ROCKSDB(given)


@dataclass(frozen=True)
class Field:
    """``path`` below ``spec``; ``built_in`` in the field's own spelling, None where there is none."""

    path: str
    kind: Kind = "text"
    built_in: Any = None
    flink: tuple[str, ...] = ()
    """Flink's keys that mean the field, newest first; ``spec.configuration`` and
    ``spec.flinkConfiguration`` may use them."""
    applies: Callable[[Leaves], bool] = always
    """In which jobs the built-in value counts."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Every word that Flink's keys may say, and ours for it; empty where the value is not a word."""


TABLE = (
    Field("configMapRef.key", built_in="job.py", applies=_has("configMapRef")),
    Field("function", built_in="job"),
    Field("deployment", built_in="local"),
    Field("slots", "integer", 2, ("parallelism.default",)),
    Field("slotsPerExecutor", "integer", 2, ("taskmanager.numberOfTaskSlots",), _CLUSTER),
    Field("maxParallelism", "integer", flink=("pipeline.max-parallelism",)),
    Field("shards", "integer"),
    Field("driver.cores", "integer", 2),
    Field("driver.memory", "memory", "1Gi"),
    Field("executor.cores", "integer", 2, applies=_CLUSTER),
    Field("executor.memory", "memory", "1Gi", applies=_CLUSTER),
    Field("managedMemoryPerSlot", "memory", "256Mi", applies=_none_of(*SLOT_MEMORY)),
    Field("fixedMemoryPerSlot", "memory", flink=(f"{ROCKSDB}.memory.fixed-per-slot",)),
    Field("managedMemory", "boolean", True, (f"{ROCKSDB}.memory.managed",), unwritten),
    Field("stateMemoryPerSlot", "memory", "256Mi", applies=_on_heap),
    Field("operatorStateMemoryPerSlot", "memory", "32Mi", applies=unwritten),
    Field("localStorage.sizeLimit", "memory"),
    Field(
        "stateBackend.type",
        built_in="hashmap",
        flink=("state.backend.type", "state.backend"),
        # A type that is written down would contradict settings that only the other type has.
        applies=_none_of(*ONLY_ROCKSDB),
        # jobmanager, filesystem, MemoryStateBackend, FsStateBackend and RocksDBStateBackend are from before Flink 1.13.
        words={
            "hashmap": "hashmap",
            "jobmanager": "hashmap",
            "filesystem": "hashmap",
            "rocksdb": "rocksdb",
            "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory": "hashmap",
            "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory": "rocksdb",
            "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory": "rocksdb",
            "org.apache.flink.runtime.state.memory.MemoryStateBackendFactory": "hashmap",
            "org.apache.flink.runtime.state.filesystem.FsStateBackendFactory": "hashmap",
            "org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory": "rocksdb",
            "org.apache.flink.runtime.state.hashmap.HashMapStateBackend": "hashmap",
            "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackend": "rocksdb",
            "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend": "rocksdb",
            "org.apache.flink.runtime.state.memory.MemoryStateBackend": "hashmap",
            "org.apache.flink.runtime.state.filesystem.FsStateBackend": "hashmap",
            "org.apache.flink.contrib.streaming.state.RocksDBStateBackend": "rocksdb",
            "HashMapStateBackendFactory": "hashmap",
            "EmbeddedRocksDBStateBackendFactory": "rocksdb",
            "MemoryStateBackendFactory": "hashmap",
            "FsStateBackendFactory": "hashmap",
            "RocksDBStateBackendFactory": "rocksdb",
            "HashMapStateBackend": "hashmap",
            "EmbeddedRocksDBStateBackend": "rocksdb",
            "MemoryStateBackend": "hashmap",
            "FsStateBackend": "hashmap",
            "RocksDBStateBackend": "rocksdb",
            # Flink does not look at the case of a short name. An API server does, so that these are listed.
            "HashMap": "hashmap", "HASHMAP": "hashmap",
            "RocksDB": "rocksdb", "RocksDb": "rocksdb", "ROCKSDB": "rocksdb",
            "JobManager": "hashmap", "JOBMANAGER": "hashmap",
            "FileSystem": "hashmap", "FILESYSTEM": "hashmap",
        },
    ),
    Field("stateBackend.class"),
    Field("stateBackend.incremental", "boolean", True, (f"{C}.incremental", "state.backend.incremental"), _OF_ROCKSDB),
    Field(
        "stateBackend.predefinedOptions",
        built_in="DEFAULT",
        flink=(f"{ROCKSDB}.predefined-options",),
        applies=_OF_ROCKSDB,
        words={
            "DEFAULT": "DEFAULT",
            "SPINNING_DISK_OPTIMIZED": "SPINNING_DISK_OPTIMIZED",
            "SPINNING_DISK_OPTIMIZED_HIGH_MEM": "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
            "FLASH_SSD_OPTIMIZED": "FLASH_SSD_OPTIMIZED",
        },
    ),
    Field("stateBackend.optionsFactory", flink=(f"{ROCKSDB}.options-factory",)),
    Field(
        "stateBackend.timerService",
        built_in="rocksdb",
        flink=(f"{ROCKSDB}.timer-service.factory",),
        applies=_OF_ROCKSDB,
        words={"heap": "heap", "rocksdb": "rocksdb", "HEAP": "heap", "ROCKSDB": "rocksdb"},
    ),
    Field("stateBackend.storagePaths", "paths", flink=(f"{ROCKSDB}.localdir",)),
    Field("stateBackend.transferThreads", "integer", 4, (f"{ROCKSDB}.checkpoint.transfer.thread.num",), _OF_ROCKSDB),
    Field("stateBackend.nativeMetrics", "paths"),
    Field("stateBackend.writeBufferRatio", "number", 0.5, (f"{ROCKSDB}.memory.write-buffer-ratio",), _OF_ROCKSDB),
    Field("stateBackend.highPrioPoolRatio", "number", 0.1, (f"{ROCKSDB}.memory.high-prio-pool-ratio",), _OF_ROCKSDB),
    Field(
        "stateBackend.localRecovery",
        "boolean",
        True,
        ("execution.state-recovery.from-local", "state.backend.local-recovery"),
        _OF_ROCKSDB,
    ),
    Field("checkpointing.interval", "duration", "1m", (f"{C}.interval",)),
    Field("checkpointing.mode", built_in="interval"),
    Field("checkpointing.timeout", "duration", "10m", (f"{C}.timeout",)),
    Field("checkpointing.minPause", "duration", "0s", (f"{C}.min-pause",)),
    Field("checkpointing.tolerableFailures", "integer", 0, (f"{C}.tolerable-failed-checkpoints",)),
    Field(
        "checkpointing.storageType",
        built_in="filesystem",
        flink=(f"{C}.storage", "state.checkpoint-storage"),
        applies=unwritten,
        words={
            "filesystem": "filesystem",
            "jobmanager": "jobmanager",
            "org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage": "filesystem",
            "org.apache.flink.runtime.state.storage.JobManagerCheckpointStorage": "jobmanager",
            "FileSystemCheckpointStorage": "filesystem",
            "JobManagerCheckpointStorage": "jobmanager",
            "FileSystem": "filesystem", "FILESYSTEM": "filesystem",
            "JobManager": "jobmanager", "JOBMANAGER": "jobmanager",
        },
    ),
    Field("checkpointing.maxStateSize", "memory", "5Mi", applies=_is("checkpointing.storageType", "jobmanager")),
    Field("checkpointing.storage", "location", flink=(f"{C}.dir", "state.checkpoints.dir")),
    Field("checkpointing.retained", "integer", 1, (f"{C}.num-retained", "state.checkpoints.num-retained")),
    Field(
        "checkpointing.inlineThreshold",
        "memory",
        "20Ki",
        (f"{C}.data-inline-threshold", "state.storage.fs.memory-threshold"),
    ),
    Field(
        "checkpointing.writeBufferSize",
        "memory",
        "4Ki",
        (f"{C}.write-buffer-size", "state.storage.fs.write-buffer-size"),
    ),
    Field("checkpointing.maxHeldOutput", "memory", "1Gi"),
    Field("checkpointing.maxTimeWithoutCheckpoint", "duration", "10m"),
    Field("savepoints.storage", "location", flink=(f"{C}.savepoint-dir", "state.savepoints.dir")),
    Field("savepoints.interval", "duration", flink=("kubernetes.operator.periodic.savepoint.interval",)),
    Field("savepoints.maxAge", "duration", flink=("kubernetes.operator.savepoint.history.max.age",)),
    Field("savepoints.maxCount", "integer", flink=("kubernetes.operator.savepoint.history.max.count",)),
    Field(
        "savepoints.formatType",
        built_in="canonical",
        flink=("kubernetes.operator.savepoint.format.type",),
        applies=unwritten,
        words={
            "CANONICAL": "canonical", "NATIVE": "native", "canonical": "canonical", "native": "native",
        },
    ),
    Field("savepoints.onStop", "boolean", False),
    Field("trigger.processingTime", "duration", "0s", applies=_none_of(*EPOCH_STARTS)),
    Field("trigger.availableNow", "boolean", False, applies=unwritten),
    Field(
        "restart.strategy",
        built_in="exponential-delay",
        flink=(f"{_RESTART}.type", _RESTART),
        words={
            "none": "none", "off": "none", "disable": "none",
            "fixed-delay": "fixed-delay", "fixeddelay": "fixed-delay",
            "exponential-delay": "exponential-delay", "exponentialdelay": "exponential-delay",
            "failure-rate": "failure-rate", "failurerate": "failure-rate",
        },
    ),
    Field("restart.fixedDelay.attempts", "integer", 3, (f"{_RESTART}.fixed-delay.attempts",), _FIXED),
    Field("restart.fixedDelay.delay", "duration", "1s", (f"{_RESTART}.fixed-delay.delay",), _FIXED),
    Field("restart.exponentialDelay.initialBackoff", "duration", "1s", (f"{_GROWING}.initial-backoff",), _BACKOFF),
    Field("restart.exponentialDelay.maxBackoff", "duration", "1m", (f"{_GROWING}.max-backoff",), _BACKOFF),
    Field("restart.exponentialDelay.backoffMultiplier", "number", 1.5, (f"{_GROWING}.backoff-multiplier",), _BACKOFF),
    Field(
        "restart.exponentialDelay.resetBackoffThreshold",
        "duration",
        "1h",
        (f"{_GROWING}.reset-backoff-threshold",),
        _BACKOFF,
    ),
    Field("restart.exponentialDelay.jitterFactor", "number", 0.1, (f"{_GROWING}.jitter-factor",), _BACKOFF),
    Field(
        "restart.exponentialDelay.attemptsBeforeResetBackoff",
        "integer",
        flink=(f"{_GROWING}.attempts-before-reset-backoff",),
    ),
    Field(
        "restart.failureRate.maxFailuresPerInterval",
        "integer",
        1,
        (f"{_RATE}.max-failures-per-interval",),
        _FAILURES,
    ),
    Field("restart.failureRate.failureRateInterval", "duration", "1m", (f"{_RATE}.failure-rate-interval",), _FAILURES),
    Field("restart.failureRate.delay", "duration", "1s", (f"{_RATE}.delay",), _FAILURES),
    Field("fenceTimeout", "duration", "30s"),
    Field("sinkTimeout", "duration", "1m"),
    Field("upgradeMode", built_in="last-state"),
    Field("upgradeCheck", "boolean", True),
    Field("state", built_in="running"),
    Field("restoreFrom.uri", "location", flink=("execution.state-recovery.path", "execution.savepoint.path")),
    Field("startEmpty", "boolean", False, applies=unwritten),
    Field(
        "allowNonRestoredState",
        "boolean",
        False,
        ("execution.state-recovery.ignore-unclaimed-state", "execution.savepoint.ignore-unclaimed-state"),
    ),
    Field("deletion.policy", built_in="retain"),
    Field("deletion.deadline", "duration", "5m"),
    Field("ttlSecondsAfterFinished", "integer"),
    Field("progressDeadlineSeconds", "integer"),
    Field("s3.endpoint", flink=("s3.endpoint",)),
    Field("s3.pathStyle", "boolean", False, ("s3.path.style.access", "s3.path-style-access"), _has("s3")),
    Field("ui", "boolean", False),
    Field("metricsPort", "integer", flink=("metrics.reporter.prom.port",)),
)  # fmt: skip

BY_PATH: Mapping[str, Field] = {one.path: one for one in TABLE}
BY_KEY: Mapping[str, Field] = {key: one for one in TABLE for key in one.flink}
"""By each of Flink's keys."""
