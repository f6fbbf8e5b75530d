"""The rules of ``sparkstate_spec.rules`` in CEL, by which the API server judges a job, and the rules about changes.

``flink_rules`` makes the rules on ``spec.configuration`` (Flink's keys). ``sparkstate_spec.rules`` has a rule's name
and its words to the user; ``tests/contract`` tries both forms on the same specs.
"""

from __future__ import annotations

from sparkstate_operator.model import flink_rules
from sparkstate_operator.model.rule import (
    Rule,
    count,
    given,
    location,
    named,
    no_secrets,
    not_in_this_version,
    positive,
    s3_rules,
)
from sparkstate_spec.fields import REFUSED_ON_HEAP, STRATEGY_SECTIONS
from sparkstate_spec.flink_tables import OPTION_KEYS
from sparkstate_spec.rules import job, state


def spark_setting(name: str, refused: str) -> Rule:
    """A setting of Spark's that may not have the value ``refused``, in any case."""
    value = f"self.sparkConf['{name}']"
    return named(
        f"{name} is not {refused}",
        "spec",
        f"!has(self.sparkConf) || !('{name}' in self.sparkConf) || !{value}.matches('(?i)^{refused}$')",
    )


def at_most(name: str, less: str, more: str) -> Rule:
    """One number of the spec that may not be larger than another."""
    return named(name, "spec", f"!has(self.{less}) || !has(self.{more}) || self.{less} <= self.{more}")


def size(name: str, at: str, field: str, bound: str) -> Rule:
    """A size that has a bound, such as ``>= 1Mi``."""
    compared, _, value = bound.partition(" ")
    return named(
        name, at, f"!has(self.{field}) || quantity(self.{field}).compareTo(quantity('{value}')) {compared} 0"
    )


NAME = named(
    "name fits", "", f"self.metadata.name.matches('^[a-z]([-a-z0-9]{{0,{job.NAME_LIMIT - 2}}}[a-z0-9])?$')"
)

ENTRY = (
    named("one entry point", "spec", f"{given('pythonFile', 'module', 'configMapRef')} == 1"),
    *no_secrets("params"),
    *no_secrets("sparkConf"),
    spark_setting("spark.dynamicAllocation.enabled", "true"),
    spark_setting("spark.python.worker.reuse", "false"),
    named(
        "no Spark Connect",
        "spec",
        "!has(self.sparkConf) || !self.sparkConf.exists(name, name == 'spark.remote' || "
        "name.startsWith('spark.connect.') || "
        "(name == 'spark.api.mode' && self.sparkConf[name].matches('(?i)^connect$')))",
    ),
    named(
        "settings by fields",
        "spec",
        f"!has(self.sparkConf) || ![{', '.join(repr(name) for name in job.SET_BY_FIELDS)}].exists(name, "
        "name in self.sparkConf)",
    ),
)

SIZE = (
    at_most("slots fit shards", "slots", "shards"),
    at_most("slots fit key groups", "slots", "maxParallelism"),
    at_most("shards fit key groups", "shards", "maxParallelism"),
    *(
        size(f"{process}.memory is large enough", f"spec.{process}", "memory", f">= {job.SPARKS_LEAST}")
        for process in ("driver", "executor")
    ),
    named(
        "one way of memory",
        "spec",
        count(
            "has(self.managedMemoryPerSlot)",
            "has(self.fixedMemoryPerSlot)",
            "has(self.managedMemory) && !self.managedMemory",
        )
        + " <= 1",
    ),
    *(
        size(f"{field} is large enough", "spec", field, f">= {job.LEAST_MEMORY[field]}")
        for field in ("managedMemoryPerSlot", "fixedMemoryPerSlot", "operatorStateMemoryPerSlot")
    ),
    named(
        "one kind of local storage",
        "spec.localStorage",
        f"{given('sizeLimit', 'volumeClaimTemplate', 'paths')} <= 1",
    ),
)

NOT_ON_HEAP = "(!has(self.type) || self.type != 'hashmap')"
NOT_CUSTOM = "(has(self.type) ? self.type != 'custom' : !has(self.class))"
OPTION_NAMES = ", ".join(f"'{key}'" for key in OPTION_KEYS)
BACKEND = (
    named(
        "custom with a class",
        "spec.stateBackend",
        "!has(self.type) || self.type != 'custom' || has(self.class)",
    ),
    named(
        "class for custom",
        "spec.stateBackend",
        "!has(self.class) || !has(self.type) || self.type == 'custom'",
    ),
    not_in_this_version("spec.stateBackend", "type", "external", "self.type == 'external'"),
    named(
        "spec.stateBackend.changelog.enabled True is for later",
        "spec.stateBackend",
        "!has(self.changelog) || !has(self.changelog.enabled) || !self.changelog.enabled",
    ),
    *(
        named(
            f"{field} for rocksdb",
            "spec.stateBackend",
            f"!has(self.{field}) || ({NOT_ON_HEAP if field == 'options' else f'{NOT_ON_HEAP} && {NOT_CUSTOM}'})",
        )
        for field in REFUSED_ON_HEAP
    ),
    named(
        "heap timers on the heap",
        "spec.stateBackend",
        "!has(self.timerService) || self.timerService != 'rocksdb' || "
        "!has(self.type) || self.type != 'hashmap'",
    ),
    named("timers of a class", "spec.stateBackend", f"!has(self.timerService) || {NOT_CUSTOM}"),
    named(
        "known options",
        "spec.stateBackend",
        f"!has(self.options) || has(self.optionsFactory) || !{NOT_CUSTOM} || "
        f"self.options.all(name, name in [{OPTION_NAMES}])",
    ),
    named(
        "ratios fit",
        "spec.stateBackend",
        "!has(self.writeBufferRatio) || !has(self.highPrioPoolRatio) || "
        "self.writeBufferRatio + self.highPrioPoolRatio < 1.0",
    ),
)

PROGRESS = (
    not_in_this_version("spec.checkpointing", "mode", "changelog", "self.mode == 'changelog'"),
    *positive("spec.checkpointing", "interval", "timeout", "maxTimeWithoutCheckpoint"),
    *location("spec.checkpointing", "storage"),
    named(
        "one place of checkpoints",
        "spec.checkpointing",
        "!has(self.storageType) || self.storageType != 'jobmanager' || !has(self.storage)",
    ),
    named(
        "largest state in memory",
        "spec.checkpointing",
        "!has(self.maxStateSize) || (quantity(self.maxStateSize).compareTo(quantity('0')) > 0 && "
        f"quantity(self.maxStateSize).compareTo(quantity('{state.LARGEST_IN_MEMORY}')) <= 0)",
    ),
    size("inline threshold", "spec.checkpointing", "inlineThreshold", f"<= {state.LARGEST_INLINE}"),
    size("write buffer", "spec.checkpointing", "writeBufferSize", ">= 1"),
    size("held output", "spec.checkpointing", "maxHeldOutput", ">= 1"),
    named(
        "storage for a cluster",
        "spec",
        "self.deployment != 'cluster' || !has(self.checkpointing) || !has(self.checkpointing.storage) || "
        "self.checkpointing.storage.contains('://')",
    ),
    *location("spec.savepoints", "storage"),
    *positive("spec.savepoints", "interval", "maxAge"),
    named("one clock for savepoints", "spec.savepoints", f"{given('interval', 'schedule')} <= 1"),
    named(
        "one trigger",
        "spec.trigger",
        "!has(self.processingTime) || !has(self.availableNow) || !self.availableNow",
    ),
    named(
        "schedule of runs",
        "spec.trigger",
        "!has(self.schedule) || (has(self.availableNow) && self.availableNow)",
    ),
    *(
        named(
            f"{section} with its strategy",
            "spec.restart",
            f"!has(self.{section}) || (has(self.strategy) && self.strategy == '{strategy}')",
        )
        for strategy, section in STRATEGY_SECTIONS.items()
    ),
    *positive("spec.restart.exponentialDelay", "initialBackoff", "maxBackoff"),
    named(
        "backoffs agree",
        "spec.restart.exponentialDelay",
        "!has(self.initialBackoff) || !has(self.maxBackoff) || "
        "duration(self.initialBackoff) <= duration(self.maxBackoff)",
    ),
    *positive("spec.restart.failureRate", "failureRateInterval"),
    named(
        "fence timeout",
        "spec",
        f"!has(self.fenceTimeout) || duration(self.fenceTimeout) >= duration('{state.LEAST_FENCE}')",
    ),
    *positive("spec", "sinkTimeout"),
    *positive("spec.deletion", "deadline"),
)

RESTORE = (
    named(
        "one thing to restore",
        "spec.restoreFrom",
        f"{given('snapshotRef', 'latest', 'uri', 'beforeTime')} == 1",
    ),
    not_in_this_version("spec.restoreFrom", "beforeTime", None, "true"),
    *location("spec.restoreFrom", "uri"),
    named(
        "empty or restored",
        "spec",
        "!has(self.startEmpty) || !self.startEmpty || !has(self.restoreFrom)",
    ),
)

IS_FIXED = "is fixed when the job is created; give a new job another name"
KEY_GROUPS = "'pipeline.max-parallelism'"

FIXED = (
    *(
        Rule(
            "spec",
            f"!has(oldSelf.{field}) || !has(self.{field}) || self.{field} == oldSelf.{field}",
            IS_FIXED,
            f".{field}",
        )
        for field in ("maxParallelism", "shards")
    ),
    Rule(
        "spec",
        f"!has(oldSelf.configuration) || !({KEY_GROUPS} in oldSelf.configuration) || "
        f"!has(self.configuration) || !({KEY_GROUPS} in self.configuration) || "
        f"self.configuration[{KEY_GROUPS}] == oldSelf.configuration[{KEY_GROUPS}]",
        f"pipeline.max-parallelism {IS_FIXED}",
        ".configuration",
    ),
)
"""Leaving one of them out changes nothing: the job's state has its value. It must be allowed, because it is the remedy
for a value that was added later and is not that of the state. Added ``shards`` are judged by the operator, which knows
them from the status, and an added ``maxParallelism`` by the engine's check of the upgrade.

Each spelling has a rule of its own. One rule that compared a field with Flink's key for it broke the API server's cost
budget, and the CRD was refused."""

ALL: tuple[Rule, ...] = (
    NAME, *ENTRY, *SIZE, *BACKEND, *PROGRESS, *RESTORE, *s3_rules("spec.s3"), *FIXED, *flink_rules.ALL
)  # fmt: skip
