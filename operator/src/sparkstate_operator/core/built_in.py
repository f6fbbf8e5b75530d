"""What a field is where neither job nor chart says anything: the engine's own values, written down, so that a
revision shows them and a later version's other ones do not change a job that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_operator.core.layers import EXCLUSIVE, ONLY_ROCKSDB, Given

Leaves = Mapping[str, Given]


def _has(given: Leaves, *paths: str) -> bool:
    return any(name == path or name.startswith((f"{path}.", f"{path}[")) for path in paths for name in given)


def _is(path: str, value: Any) -> Callable[[Leaves], bool]:
    return lambda given: path in given and given[path].value == value


def always(_given: Leaves) -> bool:
    """The built-in value counts in every job."""
    return True


def no_rocksdb_settings(given: Leaves) -> bool:
    """A type that is written down would contradict settings that only the other type has."""
    return not _has(given, *ONLY_ROCKSDB)


def no_memory(given: Leaves) -> bool:
    """Nobody has said how a slot's memory is bounded."""
    return not _has(given, *EXCLUSIVE[0])


def no_trigger(given: Leaves) -> bool:
    """Nobody has said when epochs start."""
    return not _has(given, "trigger.processingTime", "trigger.availableNow")


@dataclass(frozen=True)
class BuiltIn:
    """``value`` of the field at ``path``, for jobs of which ``applies`` is true."""

    path: str
    value: Any
    applies: Callable[[Leaves], bool] = always


CLUSTER = _is("deployment", "cluster")
ROCKSDB = _is("stateBackend.type", "rocksdb")


def on_heap(given: Leaves) -> bool:
    """State backend hashmap, chosen or by default."""
    return not ROCKSDB(given)


TABLE = (
    BuiltIn("function", "job"),
    BuiltIn("configMapRef.key", "job.py", lambda given: _has(given, "configMapRef")),
    BuiltIn("deployment", "local"),
    BuiltIn("state", "running"),
    BuiltIn("upgradeMode", "last-state"),
    BuiltIn("slots", 2),
    BuiltIn("slotsPerExecutor", 2, CLUSTER),
    BuiltIn("driver.cores", 2),
    BuiltIn("driver.memory", "1Gi"),
    BuiltIn("executor.cores", 2, CLUSTER),
    BuiltIn("executor.memory", "1Gi", CLUSTER),
    BuiltIn("managedMemoryPerSlot", "256Mi", no_memory),
    BuiltIn("stateBackend.type", "hashmap", no_rocksdb_settings),
    BuiltIn("stateMemoryPerSlot", "256Mi", on_heap),
    BuiltIn("stateBackend.incremental", True, ROCKSDB),
    BuiltIn("stateBackend.localRecovery", True, ROCKSDB),
    BuiltIn("stateBackend.predefinedOptions", "DEFAULT", ROCKSDB),
    BuiltIn("stateBackend.timerService", "rocksdb", ROCKSDB),
    BuiltIn("stateBackend.transferThreads", 4, ROCKSDB),
    BuiltIn("stateBackend.writeBufferRatio", 0.5, ROCKSDB),
    BuiltIn("stateBackend.highPrioPoolRatio", 0.1, ROCKSDB),
    BuiltIn("checkpointing.interval", "1m"),
    BuiltIn("checkpointing.mode", "interval"),
    BuiltIn("checkpointing.timeout", "10m"),
    BuiltIn("checkpointing.minPause", "0s"),
    BuiltIn("checkpointing.tolerableFailures", 0),
    BuiltIn("checkpointing.retained", 1),
    BuiltIn("checkpointing.inlineThreshold", "20Ki"),
    BuiltIn("checkpointing.writeBufferSize", "4Ki"),
    BuiltIn("checkpointing.maxHeldOutput", "1Gi"),
    BuiltIn("checkpointing.maxTimeWithoutCheckpoint", "10m"),
    BuiltIn("savepoints.onStop", False),
    BuiltIn("trigger.processingTime", "0s", no_trigger),
    BuiltIn("restart.strategy", "exponential-delay"),
    BuiltIn("restart.fixedDelay.attempts", 3, _is("restart.strategy", "fixed-delay")),
    BuiltIn("restart.fixedDelay.delay", "1s", _is("restart.strategy", "fixed-delay")),
    BuiltIn("restart.exponentialDelay.initialBackoff", "1s", _is("restart.strategy", "exponential-delay")),
    BuiltIn("restart.exponentialDelay.maxBackoff", "1m", _is("restart.strategy", "exponential-delay")),
    BuiltIn("restart.exponentialDelay.backoffMultiplier", 1.5, _is("restart.strategy", "exponential-delay")),
    BuiltIn(
        "restart.exponentialDelay.resetBackoffThreshold", "1h", _is("restart.strategy", "exponential-delay")
    ),
    BuiltIn("restart.exponentialDelay.jitterFactor", 0.1, _is("restart.strategy", "exponential-delay")),
    BuiltIn("restart.failureRate.maxFailuresPerInterval", 1, _is("restart.strategy", "failure-rate")),
    BuiltIn("restart.failureRate.failureRateInterval", "1m", _is("restart.strategy", "failure-rate")),
    BuiltIn("restart.failureRate.delay", "1s", _is("restart.strategy", "failure-rate")),
    BuiltIn("fenceTimeout", "30s"),
    BuiltIn("sinkTimeout", "1m"),
    BuiltIn("allowNonRestoredState", False),
    BuiltIn("deletion.policy", "retain"),
    BuiltIn("deletion.deadline", "5m"),
    BuiltIn("s3.pathStyle", False, lambda given: _has(given, "s3")),
    BuiltIn("ui", False),
)
"""In the order of the decisions: a later line may look at what an earlier one has filled in."""


def fill(given: Leaves) -> dict[str, Given]:
    """``given`` with the built-in values of everything that nobody gave."""
    filled = dict(given)
    for line in TABLE:
        if line.path not in filled and line.applies(filled):
            filled[line.path] = Given(line.value, "built-in")
    return filled
