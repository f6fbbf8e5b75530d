"""CEL rules: everything about a spec that can be judged without a cluster and that types cannot say.

Rules on ``spec.configuration`` (Flink's keys) are made in ``flink_rules``. The engine repeats each rule in
Python with the same words; ``tests/contract`` holds both against the same manifests.

Messages do not name the field: the API server and the engine put its path before them.
"""

from __future__ import annotations

from sparkstate_operator.model import flink_rules
from sparkstate_operator.model.rule import (
    Rule,
    count,
    given,
    location,
    no_secrets,
    not_in_this_version,
    positive,
    s3_rules,
)
from sparkstate_spec.flink_tables import OPTION_KEYS

NAME_LIMIT = 40
"""Spark adds up to 17 characters to an executor's name, the operator an attempt's number: 63 in all."""

SET_BY_FIELDS = (
    "spark.master", "spark.submit.deployMode", "spark.driver.memory", "spark.driver.cores",
    "spark.executor.memory", "spark.executor.cores", "spark.executor.instances", "spark.ui.enabled",
)  # fmt: skip


def spark_setting(name: str, refused: str, message: str) -> Rule:
    """A setting of Spark's that may not have a value that matches ``refused``."""
    value = f"self.sparkConf['{name}']"
    return Rule(
        "spec",
        f"!has(self.sparkConf) || !('{name}' in self.sparkConf) || !{value}.matches('{refused}')",
        message,
        ".sparkConf",
    )


NAME = Rule(
    "",
    f"self.metadata.name.matches('^[a-z]([-a-z0-9]{{0,{NAME_LIMIT - 2}}}[a-z0-9])?$')",
    f"metadata.name must have at most {NAME_LIMIT} characters of a-z, 0-9 and '-', begin with a "
    "letter and not end with '-', so that the name of every child fits 63 characters",
)

ENTRY = (
    Rule(
        "spec",
        f"{given('pythonFile', 'module', 'configMapRef')} == 1",
        "exactly one of pythonFile, module and configMapRef says where the job's code is",
    ),
    *no_secrets("params"),
    *no_secrets("sparkConf"),
    spark_setting(
        "spark.dynamicAllocation.enabled",
        "(?i)^true$",
        "spark.dynamicAllocation.enabled cannot be true: slots hold state on their executors, so "
        "executors must not "
        "come and go; scale by spec.slots",
    ),
    spark_setting(
        "spark.python.worker.reuse",
        "(?i)^false$",
        "spark.python.worker.reuse cannot be false: feeding would start a Python process per task",
    ),
    Rule(
        "spec",
        "!has(self.sparkConf) || !self.sparkConf.exists(name, name == 'spark.remote' || "
        "name.startsWith('spark.connect.') || "
        "(name == 'spark.api.mode' && self.sparkConf[name].matches('(?i)^connect$')))",
        "Spark Connect cannot be used: state lives beside the executors of a classic session",
        ".sparkConf",
    ),
    Rule(
        "spec",
        f"!has(self.sparkConf) || ![{', '.join(repr(name) for name in SET_BY_FIELDS)}].exists(name, "
        "name in self.sparkConf)",
        "a setting is said by a field: spark.master by deployment, cores and memory by driver and executor, "
        "spark.executor.instances by slots, spark.ui.enabled by ui",
        ".sparkConf",
    ),
)

SIZE = (
    Rule(
        "spec",
        "!has(self.slots) || !has(self.shards) || self.slots <= self.shards",
        "there are more slots than shards; a slot holds at least one shard",
        ".slots",
    ),
    Rule(
        "spec",
        "!has(self.slots) || !has(self.maxParallelism) || self.slots <= self.maxParallelism",
        "there are more slots than key groups (maxParallelism)",
        ".slots",
    ),
    Rule(
        "spec",
        "!has(self.shards) || !has(self.maxParallelism) || self.shards <= self.maxParallelism",
        "there are more shards than key groups (maxParallelism)",
        ".shards",
    ),
    *(
        Rule(
            f"spec.{process}",
            "!has(self.memory) || quantity(self.memory).compareTo(quantity('512Mi')) >= 0",
            "Spark needs at least 512Mi",
            ".memory",
        )
        for process in ("driver", "executor")
    ),
    Rule(
        "spec",
        count(
            "has(self.managedMemoryPerSlot)",
            "has(self.fixedMemoryPerSlot)",
            "has(self.managedMemory) && !self.managedMemory",
        )
        + " <= 1",
        "managedMemoryPerSlot, fixedMemoryPerSlot and managedMemory: false exclude one another",
    ),
    *(
        Rule(
            "spec",
            f"!has(self.{field}) || quantity(self.{field}).compareTo(quantity('1Mi')) >= 0",
            "must be at least 1Mi",
            f".{field}",
        )
        for field in ("managedMemoryPerSlot", "fixedMemoryPerSlot")
    ),
    Rule(
        "spec.localStorage",
        f"{given('sizeLimit', 'volumeClaimTemplate', 'paths')} <= 1",
        "sizeLimit, volumeClaimTemplate and paths exclude one another",
    ),
)

OPTION_NAMES = ", ".join(f"'{key}'" for key in OPTION_KEYS)
ONLY_ROCKSDB = ("predefinedOptions", "options", "optionsFactory", "storagePaths", "nativeMetrics")

BACKEND = (
    not_in_this_version("spec.stateBackend", "type", "self.type == 'custom'", "custom state backends are"),
    not_in_this_version(
        "spec.stateBackend", "type", "self.type == 'external'", "external state backends are"
    ),
    Rule(
        "spec.stateBackend",
        "!has(self.changelog) || !has(self.changelog.enabled) || !self.changelog.enabled",
        "the changelog state backend is not in this version",
        ".changelog.enabled",
    ),
    *(
        Rule(
            "spec.stateBackend",
            f"!has(self.{field}) || !has(self.type) || self.type != 'hashmap'",
            "applies to type rocksdb only",
            f".{field}",
        )
        for field in ONLY_ROCKSDB
    ),
    Rule(
        "spec.stateBackend",
        "!has(self.timerService) || self.timerService != 'rocksdb' || "
        "!has(self.type) || self.type != 'hashmap'",
        "with type hashmap timers live on the heap",
        ".timerService",
    ),
    Rule(
        "spec.stateBackend",
        f"!has(self.options) || has(self.optionsFactory) || self.options.all(name, name in [{OPTION_NAMES}])",
        "an option is none of Flink's configurable RocksDB keys (state.backend.rocksdb.…); own keys "
        "need an optionsFactory",
        ".options",
    ),
    Rule(
        "spec.stateBackend",
        "!has(self.writeBufferRatio) || !has(self.highPrioPoolRatio) || "
        "self.writeBufferRatio + self.highPrioPoolRatio < 1.0",
        "writeBufferRatio and highPrioPoolRatio together must be less than 1",
        ".highPrioPoolRatio",
    ),
)

PROGRESS = (
    not_in_this_version(
        "spec.checkpointing", "mode", "self.mode == 'changelog'", "checkpointing mode changelog is"
    ),
    *positive("spec.checkpointing", "interval", "timeout", "maxTimeWithoutCheckpoint"),
    *location("spec.checkpointing", "storage"),
    Rule(
        "spec.checkpointing",
        "!has(self.inlineThreshold) || quantity(self.inlineThreshold).compareTo(quantity('1Mi')) <= 0",
        "cannot be larger than 1Mi",
        ".inlineThreshold",
    ),
    Rule(
        "spec.checkpointing",
        "!has(self.writeBufferSize) || quantity(self.writeBufferSize).compareTo(quantity('1')) >= 0",
        "must be more than 0",
        ".writeBufferSize",
    ),
    Rule(
        "spec.checkpointing",
        "!has(self.maxHeldOutput) || quantity(self.maxHeldOutput).compareTo(quantity('1')) >= 0",
        "must be more than 0",
        ".maxHeldOutput",
    ),
    Rule(
        "spec",
        "self.deployment != 'cluster' || !has(self.checkpointing) || !has(self.checkpointing.storage) || "
        "self.checkpointing.storage.contains('://')",
        "deployment cluster needs a URL that every pod reaches, not a plain path",
        ".checkpointing.storage",
    ),
    *location("spec.savepoints", "storage"),
    *positive("spec.savepoints", "interval", "maxAge"),
    Rule(
        "spec.savepoints",
        f"{given('interval', 'schedule')} <= 1",
        "interval and schedule exclude one another",
    ),
    Rule(
        "spec.trigger",
        "!has(self.processingTime) || !has(self.availableNow) || !self.availableNow",
        "processingTime and availableNow exclude one another",
    ),
    *(
        Rule(
            "spec.restart",
            f"!has(self.{section}) || (has(self.strategy) && self.strategy == '{strategy}')",
            f"needs strategy: {strategy}",
            f".{section}",
        )
        for section, strategy in (
            ("fixedDelay", "fixed-delay"),
            ("exponentialDelay", "exponential-delay"),
            ("failureRate", "failure-rate"),
        )
    ),
    *positive("spec.restart.exponentialDelay", "initialBackoff", "maxBackoff"),
    Rule(
        "spec.restart.exponentialDelay",
        "!has(self.initialBackoff) || !has(self.maxBackoff) || "
        "duration(self.initialBackoff) <= duration(self.maxBackoff)",
        "initialBackoff is longer than maxBackoff",
        ".initialBackoff",
    ),
    *positive("spec.restart.failureRate", "failureRateInterval"),
    Rule(
        "spec",
        "!has(self.fenceTimeout) || duration(self.fenceTimeout) >= duration('3s')",
        "must be at least 3s: the log is read again every third of it",
        ".fenceTimeout",
    ),
    *positive("spec", "sinkTimeout"),
    *positive("spec.deletion", "deadline"),
)

RESTORE = (
    Rule(
        "spec.restoreFrom",
        f"{given('snapshotRef', 'latest', 'uri', 'beforeTime')} == 1",
        "exactly one of snapshotRef, latest and uri says what to restore",
    ),
    not_in_this_version("spec.restoreFrom", "beforeTime", "true", "restoring the state before a time is"),
    *location("spec.restoreFrom", "uri"),
    Rule(
        "spec",
        "!has(self.startEmpty) || !self.startEmpty || !has(self.restoreFrom)",
        "startEmpty and restoreFrom exclude one another",
        ".startEmpty",
    ),
)

IS_FIXED = "is fixed when the job is created; give a new job another name"
KEY_GROUPS = "'pipeline.max-parallelism'"

FIXED = (
    *(
        Rule(
            "spec",
            f"!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})",
            IS_FIXED,
            f".{field}",
        )
        for field in ("maxParallelism", "shards")
    ),
    Rule(
        "spec",
        f"!has(oldSelf.configuration) || !({KEY_GROUPS} in oldSelf.configuration) || "
        f"(has(self.configuration) && {KEY_GROUPS} in self.configuration && "
        f"self.configuration[{KEY_GROUPS}] == oldSelf.configuration[{KEY_GROUPS}])",
        f"pipeline.max-parallelism {IS_FIXED}",
        ".configuration",
    ),
)
"""Adding one of them later is judged by the operator, which knows what was fixed."""

ALL: tuple[Rule, ...] = (
    NAME, *ENTRY, *SIZE, *BACKEND, *PROGRESS, *RESTORE, *s3_rules("spec.s3"), *FIXED, *flink_rules.ALL
)  # fmt: skip
