"""Flink's configuration keys, both spellings, and the field that each means. ``spec.configuration`` is
folded by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkstate.manifest import units

ROCKSDB = "state.backend.rocksdb"
METRICS_PREFIX = f"{ROCKSDB}.metrics."

BACKENDS = {
    "hashmap": "hashmap",
    "jobmanager": "hashmap",
    "filesystem": "hashmap",
    "rocksdb": "rocksdb",
    "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory": "hashmap",
    "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory": "rocksdb",
    "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory": "rocksdb",
}
"""Old and new names of the backends; ``jobmanager`` and ``filesystem`` are those before Flink 1.13."""
STRATEGIES = {
    "none": "none", "off": "none", "disable": "none",
    "fixed-delay": "fixed-delay", "fixeddelay": "fixed-delay",
    "exponential-delay": "exponential-delay", "exponentialdelay": "exponential-delay",
    "failure-rate": "failure-rate", "failurerate": "failure-rate",
}  # fmt: skip


def _duration(text: str) -> str:
    return units.format_duration(units.parse_flink_duration_ms(text))


def _memory(text: str) -> str:
    return units.format_quantity(units.parse_flink_memory(text))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"is {text!r}; it must be true or false")
    return text.lower() == "true"


def _integer(text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdecimal():
        raise ValueError(f"is {text!r}; it must be a whole number")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"is {text!r}; it must be a number") from None


def _paths(text: str) -> list[str]:
    return [item.strip() for item in text.replace(":", ",").replace(";", ",").split(",") if item.strip()]


def _one_of(names: dict[str, str]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in names:
            raise ValueError(f"is {text!r}; it must be {' or '.join(dict.fromkeys(names.values()))}")
        return names[text]

    return convert


def _lower(text: str) -> str:
    return text.lower()


def _upper(text: str) -> str:
    return text.upper().replace("-", "_")


@dataclass(frozen=True)
class FlinkKey:
    """``path`` below ``spec`` that ``spellings`` (newest first) mean; ``convert`` reads Flink's value for
    it."""

    path: str
    spellings: tuple[str, ...]
    convert: Callable[[str], Any] = str


_EXPONENTIAL = "restart-strategy.exponential-delay"
_RATE = "restart-strategy.failure-rate"
_C = "execution.checkpointing"

KEYS = (
    FlinkKey("slots", ("parallelism.default",), _integer),
    FlinkKey("slotsPerExecutor", ("taskmanager.numberOfTaskSlots",), _integer),
    FlinkKey("maxParallelism", ("pipeline.max-parallelism",), _integer),
    FlinkKey("fixedMemoryPerSlot", (f"{ROCKSDB}.memory.fixed-per-slot",), _memory),
    FlinkKey("managedMemory", (f"{ROCKSDB}.memory.managed",), _boolean),
    FlinkKey("stateBackend.type", ("state.backend.type", "state.backend"), _one_of(BACKENDS)),
    FlinkKey("stateBackend.incremental", (f"{_C}.incremental", "state.backend.incremental"), _boolean),
    FlinkKey("stateBackend.predefinedOptions", (f"{ROCKSDB}.predefined-options",), _upper),
    FlinkKey("stateBackend.optionsFactory", (f"{ROCKSDB}.options-factory",)),
    FlinkKey("stateBackend.timerService", (f"{ROCKSDB}.timer-service.factory",), _lower),
    FlinkKey("stateBackend.storagePaths", (f"{ROCKSDB}.localdir",), _paths),
    FlinkKey("stateBackend.transferThreads", (f"{ROCKSDB}.checkpoint.transfer.thread.num",), _integer),
    FlinkKey("stateBackend.writeBufferRatio", (f"{ROCKSDB}.memory.write-buffer-ratio",), _number),
    FlinkKey("stateBackend.highPrioPoolRatio", (f"{ROCKSDB}.memory.high-prio-pool-ratio",), _number),
    FlinkKey("checkpointing.interval", (f"{_C}.interval",), _duration),
    FlinkKey("checkpointing.timeout", (f"{_C}.timeout",), _duration),
    FlinkKey("checkpointing.minPause", (f"{_C}.min-pause",), _duration),
    FlinkKey("checkpointing.tolerableFailures", (f"{_C}.tolerable-failed-checkpoints",), _integer),
    FlinkKey("checkpointing.storage", (f"{_C}.dir", "state.checkpoints.dir")),
    FlinkKey("checkpointing.retained", (f"{_C}.num-retained", "state.checkpoints.num-retained"), _integer),
    FlinkKey(
        "checkpointing.inlineThreshold",
        (f"{_C}.data-inline-threshold", "state.storage.fs.memory-threshold"),
        _memory,
    ),
    FlinkKey(
        "checkpointing.writeBufferSize",
        (f"{_C}.write-buffer-size", "state.storage.fs.write-buffer-size"),
        _memory,
    ),
    FlinkKey("savepoints.storage", (f"{_C}.savepoint-dir", "state.savepoints.dir")),
    FlinkKey("savepoints.interval", ("kubernetes.operator.periodic.savepoint.interval",), _duration),
    FlinkKey("savepoints.maxAge", ("kubernetes.operator.savepoint.history.max.age",), _duration),
    FlinkKey("savepoints.maxCount", ("kubernetes.operator.savepoint.history.max.count",), _integer),
    FlinkKey("restart.strategy", ("restart-strategy.type", "restart-strategy"), _one_of(STRATEGIES)),
    FlinkKey("restart.fixedDelay.attempts", ("restart-strategy.fixed-delay.attempts",), _integer),
    FlinkKey("restart.fixedDelay.delay", ("restart-strategy.fixed-delay.delay",), _duration),
    FlinkKey("restart.exponentialDelay.initialBackoff", (f"{_EXPONENTIAL}.initial-backoff",), _duration),
    FlinkKey("restart.exponentialDelay.maxBackoff", (f"{_EXPONENTIAL}.max-backoff",), _duration),
    FlinkKey("restart.exponentialDelay.backoffMultiplier", (f"{_EXPONENTIAL}.backoff-multiplier",), _number),
    FlinkKey(
        "restart.exponentialDelay.resetBackoffThreshold",
        (f"{_EXPONENTIAL}.reset-backoff-threshold",),
        _duration,
    ),
    FlinkKey("restart.exponentialDelay.jitterFactor", (f"{_EXPONENTIAL}.jitter-factor",), _number),
    FlinkKey(
        "restart.exponentialDelay.attemptsBeforeResetBackoff",
        (f"{_EXPONENTIAL}.attempts-before-reset-backoff",),
        _integer,
    ),
    FlinkKey("restart.failureRate.maxFailuresPerInterval", (f"{_RATE}.max-failures-per-interval",), _integer),
    FlinkKey("restart.failureRate.failureRateInterval", (f"{_RATE}.failure-rate-interval",), _duration),
    FlinkKey("restart.failureRate.delay", (f"{_RATE}.delay",), _duration),
    FlinkKey("restoreFrom.uri", ("execution.state-recovery.path", "execution.savepoint.path")),
    FlinkKey(
        "allowNonRestoredState",
        ("execution.state-recovery.ignore-unclaimed-state", "execution.savepoint.ignore-unclaimed-state"),
        _boolean,
    ),
    FlinkKey("s3.endpoint", ("s3.endpoint",)),
    FlinkKey("s3.pathStyle", ("s3.path.style.access", "s3.path-style-access"), _boolean),
)

BY_SPELLING = {spelling: key for key in KEYS for spelling in key.spellings}
