"""The settings that the manifest's fields become, as one table. ``sparkstate_spec.fields`` says how a field's
value is spelled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_spec import fields, units


@dataclass(frozen=True)
class Kind:
    """How a value of the manifest becomes a setting (``read``) and a setting is shown (``show``)."""

    read: Callable[[Any], Any]
    show: Callable[[Any], str]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        return json.dumps(value)
    return "" if value is None else str(value)


def _optional(show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "none" if value is None else show(value)


PLAIN = Kind(lambda value: value, _optional(_plain))
TUPLE = Kind(tuple, lambda value: ", ".join(value) if value else "none")
NUMBER = Kind(float, _plain)
SECONDS = Kind(units.duration_s, _optional(lambda value: units.format_duration(round(value * 1000))))
MILLIS = Kind(units.duration_ms, _optional(units.format_duration))
BYTES = Kind(units.quantity_bytes, _optional(units.format_bytes))
KINDS: Mapping[fields.Kind, Kind] = {"duration": SECONDS, "memory": BYTES, "number": NUMBER, "paths": TUPLE}


@dataclass(frozen=True)
class Field:
    """``path`` below ``spec`` and the attribute of ``JobSettings`` (dotted) that it sets."""

    path: str
    setting: str

    @property
    def kind(self) -> Kind:
        """By what the field's value is, and for durations by the setting's unit."""
        line = fields.BY_PATH.get(self.path)
        if line is None:
            return PLAIN
        return MILLIS if self.setting.endswith("_ms") else KINDS.get(line.kind, PLAIN)


FIELDS = (
    Field("function", "entry.function"),
    Field("deployment", "deployment"),
    Field("slots", "slots"),
    Field("slotsPerExecutor", "slots_per_executor"),
    Field("maxParallelism", "max_parallelism"),
    Field("shards", "shards"),
    Field("driver.cores", "cores"),
    Field("driver.memory", "jvm_memory_bytes"),
    Field("stateMemoryPerSlot", "backend.heap_state_bytes"),
    Field("operatorStateMemoryPerSlot", "backend.operator_state_bytes"),
    Field("stateBackend.type", "backend.type"),
    Field("stateBackend.class", "backend.class_name"),
    Field("stateBackend.incremental", "backend.incremental"),
    Field("stateBackend.localRecovery", "backend.local_recovery"),
    Field("stateBackend.predefinedOptions", "backend.predefined_options"),
    Field("stateBackend.optionsFactory", "backend.options_factory"),
    Field("stateBackend.timerService", "backend.timer_service"),
    Field("stateBackend.storagePaths", "backend.storage_paths"),
    Field("stateBackend.transferThreads", "backend.transfer_threads"),
    Field("stateBackend.nativeMetrics", "backend.native_metrics"),
    Field("stateBackend.writeBufferRatio", "backend.write_buffer_ratio"),
    Field("stateBackend.highPrioPoolRatio", "backend.high_prio_pool_ratio"),
    Field("checkpointing.interval", "checkpoint.interval_s"),
    Field("checkpointing.timeout", "checkpoint.timeout_s"),
    Field("checkpointing.minPause", "checkpoint.min_pause_s"),
    Field("checkpointing.tolerableFailures", "checkpoint.tolerable_failures"),
    Field("checkpointing.storage", "checkpoint.storage"),
    Field("checkpointing.maxStateSize", "checkpoint.max_state_bytes"),
    Field("checkpointing.retained", "checkpoint.retained"),
    Field("checkpointing.inlineThreshold", "checkpoint.inline_threshold_bytes"),
    Field("checkpointing.writeBufferSize", "checkpoint.write_buffer_bytes"),
    Field("checkpointing.maxHeldOutput", "checkpoint.max_held_bytes"),
    Field("checkpointing.maxTimeWithoutCheckpoint", "checkpoint.max_time_without_s"),
    Field("savepoints.storage", "savepoint.storage"),
    Field("savepoints.interval", "savepoint.interval_s"),
    Field("savepoints.schedule", "savepoint.schedule"),
    Field("savepoints.maxAge", "savepoint.max_age_s"),
    Field("savepoints.maxCount", "savepoint.max_count"),
    Field("savepoints.formatType", "savepoint.format_type"),
    Field("savepoints.onStop", "savepoint.on_stop"),
    Field("trigger.processingTime", "trigger.processing_time_ms"),
    Field("trigger.availableNow", "trigger.available_now"),
    Field("restart.strategy", "restart.strategy"),
    Field("fenceTimeout", "fence_timeout_s"),
    Field("sinkTimeout", "sink_timeout_s"),
    Field("startEmpty", "start_empty"),
    Field("allowNonRestoredState", "allow_non_restored_state"),
    Field("s3.endpoint", "s3.endpoint"),
    Field("s3.region", "s3.region"),
    Field("s3.pathStyle", "s3.path_style"),
    Field("ui", "ui"),
    Field("metricsPort", "metrics_port"),
)

STRATEGY_FIELDS = {
    "none": (),
    "fixed-delay": (
        Field("restart.fixedDelay.attempts", "restart.attempts"),
        Field("restart.fixedDelay.delay", "restart.delay_s"),
    ),
    "exponential-delay": (
        Field("restart.exponentialDelay.initialBackoff", "restart.initial_backoff_s"),
        Field("restart.exponentialDelay.maxBackoff", "restart.max_backoff_s"),
        Field("restart.exponentialDelay.backoffMultiplier", "restart.backoff_multiplier"),
        Field("restart.exponentialDelay.resetBackoffThreshold", "restart.reset_after_s"),
        Field("restart.exponentialDelay.jitterFactor", "restart.jitter"),
        Field("restart.exponentialDelay.attemptsBeforeResetBackoff", "restart.max_attempts"),
    ),
    "failure-rate": (
        Field("restart.failureRate.maxFailuresPerInterval", "restart.max_failures_per_interval"),
        Field("restart.failureRate.failureRateInterval", "restart.failure_rate_interval_s"),
        Field("restart.failureRate.delay", "restart.delay_s"),
    ),
}
"""The parameters of a restart strategy; only those of the chosen one are settings."""
