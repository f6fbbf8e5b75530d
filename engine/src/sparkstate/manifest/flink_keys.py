"""Flink's configuration keys, both spellings, and the field that each means. ``spec.configuration`` is folded
by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkstate.state_backend import normalize_backend_name
from sparkstate_spec import units

ROCKSDB = "state.backend.rocksdb"
METRICS_PREFIX = f"{ROCKSDB}.metrics."

BACKENDS = {
    name: normalize_backend_name(name)
    for name in (
        "hashmap",
        "jobmanager",
        "filesystem",
        "rocksdb",
        "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory",
        "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory",
        "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory",
        "org.apache.flink.runtime.state.memory.MemoryStateBackendFactory",
        "org.apache.flink.runtime.state.filesystem.FsStateBackendFactory",
        "org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory",
    )
}
"""Old and new names of the backends; ``jobmanager``, ``filesystem`` and the last three are those before Flink 1.13."""
STRATEGIES = {
    "none": "none", "off": "none", "disable": "none",
    "fixed-delay": "fixed-delay", "fixeddelay": "fixed-delay",
    "exponential-delay": "exponential-delay", "exponentialdelay": "exponential-delay",
    "failure-rate": "failure-rate", "failurerate": "failure-rate",
}  # fmt: skip


def _duration(text: str) -> str:
    return units.format_duration(units.flink_duration_ms(text))


def _memory(text: str) -> str:
    return units.format_bytes(units.flink_bytes(text))


def _paths(text: str) -> list[str]:
    return [item.strip() for item in re.split("[,:;|]", text) if item.strip()]


@dataclass(frozen=True)
class FlinkKey:
    """``path`` below ``spec`` that ``spellings`` (newest first) mean; ``convert`` reads Flink's value for it."""

    path: str
    spellings: tuple[str, ...]
    kind: str = "text"
    words: Mapping[str, str] = field(default_factory=dict)
    """Flink's words and ours, where they differ."""

    def read(self, text: str) -> Any:
        """Flink's text as the manifest's value. Raises ValueError."""
        return self.words.get(text, READERS[self.kind](text))


READERS: Mapping[str, Callable[[str], Any]] = {
    "duration": _duration,
    "memory": _memory,
    "boolean": lambda text: text == "true",
    "integer": int,
    "number": float,
    "location": str,
    "paths": _paths,
    "text": str,
}
"""How a value of each kind is read; its spelling was judged by ``flink_rules`` before."""

_EXPONENTIAL = "restart-strategy.exponential-delay"
_RATE = "restart-strategy.failure-rate"
_C = "execution.checkpointing"

KEYS = (
    FlinkKey("slots", ("parallelism.default",), "integer"),
    FlinkKey("slotsPerExecutor", ("taskmanager.numberOfTaskSlots",), "integer"),
    FlinkKey("maxParallelism", ("pipeline.max-parallelism",), "integer"),
    FlinkKey("fixedMemoryPerSlot", (f"{ROCKSDB}.memory.fixed-per-slot",), "memory"),
    FlinkKey("managedMemory", (f"{ROCKSDB}.memory.managed",), "boolean"),
    FlinkKey("stateBackend.type", ("state.backend.type", "state.backend"), words=BACKENDS),
    FlinkKey("stateBackend.incremental", (f"{_C}.incremental", "state.backend.incremental"), "boolean"),
    FlinkKey(
        "stateBackend.localRecovery",
        ("execution.state-recovery.from-local", "state.backend.local-recovery"),
        "boolean",
    ),
    FlinkKey("stateBackend.predefinedOptions", (f"{ROCKSDB}.predefined-options",)),
    FlinkKey("stateBackend.optionsFactory", (f"{ROCKSDB}.options-factory",)),
    FlinkKey(
        "stateBackend.timerService",
        (f"{ROCKSDB}.timer-service.factory",),
        words={"HEAP": "heap", "ROCKSDB": "rocksdb"},
    ),
    FlinkKey("stateBackend.storagePaths", (f"{ROCKSDB}.localdir",), "paths"),
    FlinkKey("stateBackend.transferThreads", (f"{ROCKSDB}.checkpoint.transfer.thread.num",), "integer"),
    FlinkKey("stateBackend.writeBufferRatio", (f"{ROCKSDB}.memory.write-buffer-ratio",), "number"),
    FlinkKey("stateBackend.highPrioPoolRatio", (f"{ROCKSDB}.memory.high-prio-pool-ratio",), "number"),
    FlinkKey("checkpointing.interval", (f"{_C}.interval",), "duration"),
    FlinkKey("checkpointing.timeout", (f"{_C}.timeout",), "duration"),
    FlinkKey("checkpointing.minPause", (f"{_C}.min-pause",), "duration"),
    FlinkKey("checkpointing.tolerableFailures", (f"{_C}.tolerable-failed-checkpoints",), "integer"),
    FlinkKey("checkpointing.storage", (f"{_C}.dir", "state.checkpoints.dir"), "location"),
    FlinkKey("checkpointing.retained", (f"{_C}.num-retained", "state.checkpoints.num-retained"), "integer"),
    FlinkKey(
        "checkpointing.inlineThreshold",
        (f"{_C}.data-inline-threshold", "state.storage.fs.memory-threshold"),
        "memory",
    ),
    FlinkKey(
        "checkpointing.writeBufferSize",
        (f"{_C}.write-buffer-size", "state.storage.fs.write-buffer-size"),
        "memory",
    ),
    FlinkKey("savepoints.storage", (f"{_C}.savepoint-dir", "state.savepoints.dir"), "location"),
    FlinkKey("savepoints.interval", ("kubernetes.operator.periodic.savepoint.interval",), "duration"),
    FlinkKey("savepoints.maxAge", ("kubernetes.operator.savepoint.history.max.age",), "duration"),
    FlinkKey("savepoints.maxCount", ("kubernetes.operator.savepoint.history.max.count",), "integer"),
    FlinkKey("restart.strategy", ("restart-strategy.type", "restart-strategy"), words=STRATEGIES),
    FlinkKey("restart.fixedDelay.attempts", ("restart-strategy.fixed-delay.attempts",), "integer"),
    FlinkKey("restart.fixedDelay.delay", ("restart-strategy.fixed-delay.delay",), "duration"),
    FlinkKey("restart.exponentialDelay.initialBackoff", (f"{_EXPONENTIAL}.initial-backoff",), "duration"),
    FlinkKey("restart.exponentialDelay.maxBackoff", (f"{_EXPONENTIAL}.max-backoff",), "duration"),
    FlinkKey("restart.exponentialDelay.backoffMultiplier", (f"{_EXPONENTIAL}.backoff-multiplier",), "number"),
    FlinkKey(
        "restart.exponentialDelay.resetBackoffThreshold",
        (f"{_EXPONENTIAL}.reset-backoff-threshold",),
        "duration",
    ),
    FlinkKey("restart.exponentialDelay.jitterFactor", (f"{_EXPONENTIAL}.jitter-factor",), "number"),
    FlinkKey(
        "restart.exponentialDelay.attemptsBeforeResetBackoff",
        (f"{_EXPONENTIAL}.attempts-before-reset-backoff",),
        "integer",
    ),
    FlinkKey(
        "restart.failureRate.maxFailuresPerInterval", (f"{_RATE}.max-failures-per-interval",), "integer"
    ),
    FlinkKey("restart.failureRate.failureRateInterval", (f"{_RATE}.failure-rate-interval",), "duration"),
    FlinkKey("restart.failureRate.delay", (f"{_RATE}.delay",), "duration"),
    FlinkKey("restoreFrom.uri", ("execution.state-recovery.path", "execution.savepoint.path"), "location"),
    FlinkKey(
        "allowNonRestoredState",
        ("execution.state-recovery.ignore-unclaimed-state", "execution.savepoint.ignore-unclaimed-state"),
        "boolean",
    ),
    FlinkKey("s3.endpoint", ("s3.endpoint",)),
    FlinkKey("s3.pathStyle", ("s3.path.style.access", "s3.path-style-access"), "boolean"),
    FlinkKey("metricsPort", ("metrics.reporter.prom.port",), "integer"),
)

BY_SPELLING = {spelling: key for key in KEYS for spelling in key.spellings}
