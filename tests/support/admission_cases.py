"""One row per rule of the CRDs: what the API server accepts with the rule's subject in it, and what it refuses.

A row of a job is ``(field, beginning of the message, accepted spec, refused spec)``; the specs lie over
``{"pythonFile": "job.py"}``. Rules that a change breaks have an old and a new spec each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_operator.model.flink_tables import FlinkKey, flink_keys

Spec = Mapping[str, Any]
LATER = "storage on Google Cloud, Azure or HDFS is"
NO_KEYS = "keys and passwords are never written into a job"
KEY_ID = "a value looks like an access key id"
INLINE = "keys are never written into a job; put them into a Secret"
SECRET_URL = "a URL never holds credentials"
C = "execution.checkpointing"
R = "state.backend.rocksdb"


@dataclass(frozen=True)
class Case:
    """``old`` specs are there for rules about changes: what stands before the accepted or refused one."""

    plural: str
    field: str
    message: str
    accepted: Spec
    refused: Spec
    old: Spec | None = None
    name: str | None = None
    """metadata.name of the refused object, for rules about it."""

    def __str__(self) -> str:
        return f"{self.plural} {self.field or 'metadata.name'}: {self.message[:50]}"


def _conf(accepted: Spec, refused: Spec) -> tuple[Spec, Spec]:
    return {"configuration": accepted}, {"configuration": refused}


def _locations(field: str, inside: str, **beside: Any) -> Iterator[tuple[str, str, Spec, Spec]]:
    """The four rules of a storage URL."""
    good = {inside: {field: "s3://bucket/prefix"}, **beside}
    for message, url in (
        (LATER, "gs://bucket/x"),
        ("the scheme must be s3:// or file://", "s3a://bucket/x"),
        (SECRET_URL, "s3://key:secret@bucket/x"),
        ("write s3://bucket/prefix or file:///path", "s3:///x"),
    ):
        yield f"spec.{inside}.{field}", message, good, {inside: {field: url}, **beside}


def _positive(field: str, inside: str, **beside: Any) -> tuple[str, str, Spec, Spec]:
    *sections, last = inside.split(".")
    good: dict[str, Any] = {last: {**beside, field: "1ms"}}
    bad: dict[str, Any] = {last: {**beside, field: "0s"}}
    for section in reversed(sections):
        good, bad = {section: good}, {section: bad}
    return f"spec.{inside}.{field}", "must be more than 0", good, bad


def _strategy(section: str, name: str) -> tuple[str, str, Spec, Spec]:
    wrong = "none"
    return (
        f"spec.restart.{section}",
        f"needs strategy: {name}",
        {"restart": {"strategy": name, section: {}}},
        {"restart": {"strategy": wrong, section: {}}},
    )


def _only_rocksdb(field: str, value: Any) -> tuple[str, str, Spec, Spec]:
    return (
        f"spec.stateBackend.{field}",
        "applies to type rocksdb only",
        {"stateBackend": {"type": "rocksdb", field: value}},
        {"stateBackend": {"type": "hashmap", field: value}},
    )


def _expo(**values: Any) -> Spec:
    return {"restart": {"strategy": "exponential-delay", "exponentialDelay": values}}


OPTION = {f"{R}.thread.num": "4"}

ROWS: tuple[tuple[str, str, Spec, Spec], ...] = (
    ("spec", "exactly one of pythonFile, module and configMapRef", {}, {"module": "shop.orders"}),
    ("spec.params", NO_KEYS, {"params": {"keyed": "x"}}, {"params": {"secret_key": "x"}}),
    ("spec.params", KEY_ID, {"params": {"a": "AKIA"}}, {"params": {"a": "AKIAABCDEFGHIJKLMNOP"}}),
    (
        "spec.sparkConf",
        NO_KEYS,
        {"sparkConf": {"spark.kubernetes.driver.secretKeyRef.X": "a:b"}},
        {"sparkConf": {"spark.hadoop.fs.s3a.access.key": "x"}},
    ),
    ("spec.sparkConf", KEY_ID, {"sparkConf": {"a": "x"}}, {"sparkConf": {"a": "ASIAABCDEFGHIJKLMNOP"}}),
    (
        "spec.sparkConf",
        "spark.dynamicAllocation.enabled cannot be true",
        {"sparkConf": {"spark.dynamicAllocation.enabled": "false"}},
        {"sparkConf": {"spark.dynamicAllocation.enabled": "True"}},
    ),
    (
        "spec.sparkConf",
        "spark.python.worker.reuse cannot be false",
        {"sparkConf": {"spark.python.worker.reuse": "true"}},
        {"sparkConf": {"spark.python.worker.reuse": "false"}},
    ),
    (
        "spec.sparkConf",
        "Spark Connect cannot be used",
        {"sparkConf": {"spark.api.mode": "classic"}},
        {"sparkConf": {"spark.api.mode": "connect"}},
    ),
    (
        "spec.sparkConf",
        "a setting is said by a field",
        {"sparkConf": {"spark.sql.shuffle.partitions": "4"}},
        {"sparkConf": {"spark.master": "local"}},
    ),
    (
        "spec.slots",
        "there are more slots than shards",
        {"slots": 16, "shards": 16},
        {"slots": 17, "shards": 16},
    ),
    (
        "spec.slots",
        "there are more slots than key groups",
        {"slots": 8, "maxParallelism": 8},
        {"slots": 9, "maxParallelism": 8},
    ),
    (
        "spec.shards",
        "there are more shards than key groups",
        {"shards": 8, "maxParallelism": 8},
        {"shards": 9, "maxParallelism": 8},
    ),
    (
        "spec",
        "managedMemoryPerSlot, fixedMemoryPerSlot and managedMemory: false",
        {"managedMemoryPerSlot": "64Mi", "managedMemory": True},
        {"managedMemoryPerSlot": "64Mi", "managedMemory": False},
    ),
    (
        "spec.managedMemoryPerSlot",
        "must be at least 1Mi",
        {"managedMemoryPerSlot": "1Mi"},
        {"managedMemoryPerSlot": "1023Ki"},
    ),
    (
        "spec.fixedMemoryPerSlot",
        "must be at least 1Mi",
        {"fixedMemoryPerSlot": "1Mi"},
        {"fixedMemoryPerSlot": "1023Ki"},
    ),
    (
        "spec.checkpointing.storage",
        "deployment cluster needs a URL",
        {"deployment": "cluster", "checkpointing": {"storage": "s3://b/x"}},
        {"deployment": "cluster", "checkpointing": {"storage": "/data"}},
    ),
    ("spec.fenceTimeout", "must be at least 3s", {"fenceTimeout": "3s"}, {"fenceTimeout": "2999ms"}),
    ("spec.sinkTimeout", "must be more than 0", {"sinkTimeout": "1ms"}, {"sinkTimeout": "0s"}),
    (
        "spec.startEmpty",
        "startEmpty and restoreFrom exclude",
        {"startEmpty": False, "restoreFrom": {"latest": True}},
        {"startEmpty": True, "restoreFrom": {"latest": True}},
    ),
    *(
        (
            f"spec.{process}.memory",
            "Spark needs at least 512Mi",
            {process: {"memory": "512Mi"}},
            {process: {"memory": "511Mi"}},
        )
        for process in ("driver", "executor")
    ),
    (
        "spec.localStorage",
        "sizeLimit, volumeClaimTemplate and paths",
        {"localStorage": {"sizeLimit": "1Gi"}},
        {"localStorage": {"sizeLimit": "1Gi", "paths": ["/a"]}},
    ),
    (
        "spec.stateBackend.type",
        "custom state backends are",
        {"stateBackend": {"type": "rocksdb"}},
        {"stateBackend": {"type": "custom"}},
    ),
    (
        "spec.stateBackend.type",
        "external state backends are",
        {"stateBackend": {"type": "hashmap"}},
        {"stateBackend": {"type": "external"}},
    ),
    (
        "spec.stateBackend.localRecovery",
        "local recovery is",
        {"stateBackend": {"localRecovery": False}},
        {"stateBackend": {"localRecovery": True}},
    ),
    (
        "spec.stateBackend.changelog.enabled",
        "the changelog state backend is",
        {"stateBackend": {"changelog": {"enabled": False}}},
        {"stateBackend": {"changelog": {"enabled": True}}},
    ),
    _only_rocksdb("predefinedOptions", "DEFAULT"),
    _only_rocksdb("options", OPTION),
    _only_rocksdb("optionsFactory", "shop:Options"),
    _only_rocksdb("storagePaths", ["/a"]),
    _only_rocksdb("nativeMetrics", ["estimate-num-keys"]),
    (
        "spec.stateBackend.timerService",
        "with type hashmap timers live on the heap",
        {"stateBackend": {"type": "hashmap", "timerService": "heap"}},
        {"stateBackend": {"type": "hashmap", "timerService": "rocksdb"}},
    ),
    (
        "spec.stateBackend.options",
        "an option is none of Flink's",
        {"stateBackend": {"type": "rocksdb", "options": {"own": "1"}, "optionsFactory": "shop:Options"}},
        {"stateBackend": {"type": "rocksdb", "options": {"own": "1"}}},
    ),
    (
        "spec.stateBackend.highPrioPoolRatio",
        "writeBufferRatio and highPrioPoolRatio together",
        {"stateBackend": {"writeBufferRatio": 0.5, "highPrioPoolRatio": 0.4}},
        {"stateBackend": {"writeBufferRatio": 0.5, "highPrioPoolRatio": 0.5}},
    ),
    (
        "spec.checkpointing.mode",
        "checkpointing mode changelog is",
        {"checkpointing": {"mode": "interval"}},
        {"checkpointing": {"mode": "changelog"}},
    ),
    _positive("interval", "checkpointing"),
    _positive("timeout", "checkpointing"),
    *_locations("storage", "checkpointing"),
    (
        "spec.checkpointing.inlineThreshold",
        "cannot be larger than 1Mi",
        {"checkpointing": {"inlineThreshold": "1Mi"}},
        {"checkpointing": {"inlineThreshold": "1025Ki"}},
    ),
    (
        "spec.checkpointing.writeBufferSize",
        "must be more than 0",
        {"checkpointing": {"writeBufferSize": "1"}},
        {"checkpointing": {"writeBufferSize": "0"}},
    ),
    *_locations("storage", "savepoints"),
    _positive("interval", "savepoints"),
    _positive("maxAge", "savepoints"),
    (
        "spec.savepoints",
        "interval and schedule exclude",
        {"savepoints": {"schedule": "0 3 * * mon-fri"}},
        {"savepoints": {"schedule": "@daily", "interval": "1h"}},
    ),
    (
        "spec.trigger",
        "processingTime and availableNow exclude",
        {"trigger": {"processingTime": "1s", "availableNow": False}},
        {"trigger": {"processingTime": "1s", "availableNow": True}},
    ),
    _strategy("fixedDelay", "fixed-delay"),
    _strategy("exponentialDelay", "exponential-delay"),
    _strategy("failureRate", "failure-rate"),
    (
        "spec.restart.exponentialDelay.initialBackoff",
        "must be more than 0",
        _expo(initialBackoff="1ms"),
        _expo(initialBackoff="0s"),
    ),
    (
        "spec.restart.exponentialDelay.maxBackoff",
        "must be more than 0",
        _expo(maxBackoff="1ms"),
        _expo(maxBackoff="0s"),
    ),
    (
        "spec.restart.exponentialDelay.initialBackoff",
        "initialBackoff is longer",
        _expo(initialBackoff="1m", maxBackoff="60s"),
        _expo(initialBackoff="61s", maxBackoff="1m"),
    ),
    (
        "spec.restart.failureRate.failureRateInterval",
        "must be more than 0",
        {"restart": {"strategy": "failure-rate", "failureRate": {"failureRateInterval": "1s"}}},
        {"restart": {"strategy": "failure-rate", "failureRate": {"failureRateInterval": "0s"}}},
    ),
    (
        "spec.restoreFrom",
        "exactly one of snapshotRef, latest and uri",
        {"restoreFrom": {"snapshotRef": {"name": "nightly"}}},
        {"restoreFrom": {"latest": True, "uri": "s3://b/x"}},
    ),
    (
        "spec.restoreFrom.beforeTime",
        "restoring the state before a time is not in this version",
        {"restoreFrom": {"latest": True}},
        {"restoreFrom": {"beforeTime": "2026-11-21T03:00:00Z"}},
    ),
    *_locations("uri", "restoreFrom"),
    _positive("deadline", "deletion"),
    *(
        (f"spec.s3.{field}", INLINE, {"s3": {"secretRef": {"name": "keys"}}}, {"s3": {field: "x"}})
        for field in ("accessKey", "secretKey", "sessionToken")
    ),
    (
        "spec.s3.endpoint",
        SECRET_URL,
        {"s3": {"endpoint": "http://minio:9000"}},
        {"s3": {"endpoint": "http://key:secret@minio:9000"}},
    ),
)

CONFIGURATION: tuple[tuple[str, Spec, Spec], ...] = (
    ("unaligned checkpoints", {f"{C}.timeout": "1 min"}, {f"{C}.unaligned.enabled": "true"}),
    ("network buffers", {}, {"taskmanager.network.memory.size": "1"}),
    ("Flink's memory model", {}, {"taskmanager.memory.process.size": "1g"}),
    ("does not apply to epochs", {}, {"execution.buffer-timeout": "1"}),
    ("checkpoints are always retained", {}, {f"{C}.externalized-checkpoint-retention": "x"}),
    ("does not apply: files are deleted", {}, {f"{C}.create-subdir": "true"}),
    (
        "the changelog state backend is not",
        {"state.backend.changelog.enabled": "false"},
        {"state.backend.changelog.enabled": "true"},
    ),
    (
        "file merging by these keys",
        {f"{C}.file-merging.enabled": "false"},
        {f"{C}.file-merging.enabled": "true"},
    ),
    ("disaggregated state backends", {}, {"state.backend.forst.sync": "x"}),
    (
        "local recovery is not",
        {"state.backend.local-recovery": "false"},
        {"state.backend.local-recovery": "true"},
    ),
    (
        "one checkpoint runs at a time",
        {f"{C}.max-concurrent-checkpoints": "1"},
        {f"{C}.max-concurrent-checkpoints": "2"},
    ),
    ("every checkpoint is exactly once", {f"{C}.mode": "EXACTLY_ONCE"}, {f"{C}.mode": "AT_LEAST_ONCE"}),
    ("checkpoints always go to", {f"{C}.storage": "filesystem"}, {f"{C}.storage": "jobmanager"}),
    (
        "claim modes other than",
        {"execution.state-recovery.claim-mode": "NO_CLAIM"},
        {"execution.state-recovery.claim-mode": "CLAIM"},
    ),
    (INLINE, {"s3.endpoint": "http://a"}, {"s3.access-key": "x"}),
    ("a key is none that this version", {"parallelism.default": "2"}, {"parallelism.defualt": "2"}),
    ("a duration is written as", {f"{C}.interval": "10 min"}, {f"{C}.interval": "soon"}),
    (
        "a memory size is written",
        {f"{R}.memory.fixed-per-slot": "64mb"},
        {f"{R}.memory.fixed-per-slot": "64x"},
    ),
    ("a switch is 'true' or", {f"{C}.incremental": "true"}, {f"{C}.incremental": "yes"}),
    ("a count is a whole number", {"parallelism.default": "4"}, {"parallelism.default": "four"}),
    (
        "a ratio or factor is",
        {f"{R}.memory.write-buffer-ratio": "0.5"},
        {f"{R}.memory.write-buffer-ratio": "half"},
    ),
    ("the state backend is hashmap or", {"state.backend": "filesystem"}, {"state.backend": "forst"}),
    (
        "predefined options are",
        {f"{R}.predefined-options": "FLASH_SSD_OPTIMIZED"},
        {f"{R}.predefined-options": "FAST"},
    ),
    (
        "the timer service is HEAP",
        {f"{R}.timer-service.factory": "HEAP"},
        {f"{R}.timer-service.factory": "DISK"},
    ),
    ("the restart strategy is", {"restart-strategy": "off"}, {"restart-strategy": "hope"}),
    ("storage on Google Cloud", {f"{C}.dir": "s3://b/x"}, {f"{C}.dir": "hdfs://b/x"}),
    ("the scheme of a storage URL", {f"{C}.dir": "file:///x"}, {f"{C}.dir": "s3a://b/x"}),
    ("a storage URL never holds", {f"{C}.savepoint-dir": "s3://b/x"}, {f"{C}.savepoint-dir": "s3://k:s@b/x"}),
    (
        "spec.stateBackend.nativeMetrics and",
        {f"{R}.metrics.estimate-num-keys": "true"},
        {f"{R}.metrics.estimate-num-keys": "true"},
    ),
    ("an option stands in stateBackend.options too", OPTION, OPTION),
)
BESIDE: Mapping[str, Spec] = {
    "spec.stateBackend.nativeMetrics and": {
        "stateBackend": {"type": "rocksdb", "nativeMetrics": ["estimate-num-keys"]}
    },
    "an option stands in stateBackend.options too": {"stateBackend": {"type": "rocksdb", "options": OPTION}},
}
"""What stands beside the configuration in the refused spec."""

SAMPLES: Mapping[str, tuple[str, Any]] = {
    "duration": ("10 s", "10s"), "memory": ("64mb", "64Mi"), "boolean": ("true", True), "integer": ("4", 4),
    "number": ("0.5", 0.5), "location": ("s3://b/x", "s3://b/x"), "text": ("m:C", "m:C"),
}  # fmt: skip
OWN_SAMPLES: Mapping[str, tuple[str, Any]] = {
    "stateBackend.type": ("rocksdb", "rocksdb"),
    "stateBackend.predefinedOptions": ("DEFAULT", "DEFAULT"),
    "stateBackend.timerService": ("heap", "heap"),
    "stateBackend.storagePaths": ("/a", ["/a"]),
    "restart.strategy": ("none", "none"),
    "restart.exponentialDelay.backoffMultiplier": ("2", 2.0),
    "s3.endpoint": ("http://minio", "http://minio"),
}
STRATEGIES = {
    "fixedDelay": "fixed-delay", "exponentialDelay": "exponential-delay", "failureRate": "failure-rate",
}  # fmt: skip


def _twice() -> Iterator[Case]:
    """Each field that one of Flink's keys means: the key alone, and the key beside the field."""
    by_path: dict[str, list[FlinkKey]] = {}
    for each in flink_keys():
        by_path.setdefault(each.path, []).append(each)
    for path, (key, *others) in by_path.items():
        text, value = OWN_SAMPLES.get(path) or SAMPLES[key.kind]
        field: dict[str, Any] = {}
        node = field
        *sections, last = path.split(".")
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
        if path.startswith("restart.") and len(sections) == 2:
            field["restart"]["strategy"] = STRATEGIES[sections[1]]
        alone = {"configuration": {key.name: text}}
        said = f"spec.{path}, " if others else f"spec.{path} and "
        yield Case("statefulsparkjobs", "spec.configuration", said, alone, {**alone, **field})


def _configuration() -> Iterator[Case]:
    for message, accepted, refused in CONFIGURATION:
        good, bad = _conf(accepted, refused)
        bad = {**bad, **BESIDE.get(message, {})}
        yield Case("statefulsparkjobs", "spec.configuration", message, good, bad)


MAXIMUM = {"pipeline.max-parallelism": "64"}
FIXED = "is fixed when the job is created"
FROZEN = "is fixed when the snapshot is created"
TAKEN: Spec = {"jobRef": {"name": "flights"}}
REGISTERED: Spec = {"uri": "s3://bucket/savepoint-1"}
SNAPSHOT_ROWS: tuple[tuple[str, str, Spec, Spec], ...] = (
    ("spec", "exactly one of jobRef", TAKEN, {**TAKEN, **REGISTERED}),
    ("spec.storage", "needs jobRef", {**TAKEN, "storage": "s3://b/x"}, {**REGISTERED, "storage": "s3://b/x"}),
    ("spec.triggerId", "needs jobRef", {**TAKEN, "triggerId": "a1"}, {**REGISTERED, "triggerId": "a1"}),
    ("spec.timeout", "needs jobRef", {**TAKEN, "timeout": "1m"}, {**REGISTERED, "timeout": "1m"}),
    *(
        (f"spec.{field}", message, {**beside, field: "s3://bucket/x"}, {**beside, field: url})
        for field, beside in (("uri", {}), ("storage", TAKEN))
        for message, url in (
            (LATER, "gs://bucket/x"),
            ("the scheme must be s3:// or file://", "s3a://bucket/x"),
            (SECRET_URL, "s3://key:secret@bucket/x"),
            ("write s3://bucket/prefix or file:///path", "s3:///x"),
        )
    ),
    ("spec.timeout", "must be more than 0", {**TAKEN, "timeout": "1s"}, {**TAKEN, "timeout": "0s"}),
    ("spec.deadline", "must be more than 0", {**TAKEN, "deadline": "1s"}, {**TAKEN, "deadline": "0s"}),
    *(
        (
            f"spec.s3.{field}",
            INLINE,
            {**TAKEN, "s3": {"secretRef": {"name": "keys"}}},
            {**TAKEN, "s3": {field: "x"}},
        )
        for field in ("accessKey", "secretKey", "sessionToken")
    ),
    (
        "spec.s3.endpoint",
        SECRET_URL,
        {**TAKEN, "s3": {"endpoint": "http://minio:9000"}},
        {**TAKEN, "s3": {"endpoint": "http://key:secret@minio:9000"}},
    ),
)
SNAPSHOT_CHANGES: tuple[tuple[str, Spec, Spec, Spec], ...] = (
    ("jobRef", TAKEN, {**TAKEN, "pinned": True}, {"jobRef": {"name": "others"}}),
    ("uri", REGISTERED, {**REGISTERED, "deletionPolicy": "Delete"}, {"uri": "s3://bucket/savepoint-2"}),
    ("storage", TAKEN, {**TAKEN, "timeout": "1m"}, {**TAKEN, "storage": "s3://b/x"}),
    ("s3", {**TAKEN, "s3": {"region": "eu"}}, {**TAKEN, "s3": {"region": "eu"}, "deadline": "1m"}, TAKEN),
    ("serviceAccountName", TAKEN, TAKEN, {**TAKEN, "serviceAccountName": "other"}),
    (
        "triggerId",
        {**TAKEN, "triggerId": "a"},
        {**TAKEN, "triggerId": "a", "pinned": False},
        {**TAKEN, "triggerId": "b"},
    ),
)


def every() -> list[Case]:
    """The whole table."""
    jobs, snapshots = "statefulsparkjobs", "statesnapshots"
    return [
        Case(jobs, "", "metadata.name must have at most 40", {}, {}, name="a" * 41),
        *(Case(jobs, *row) for row in ROWS),
        *_configuration(),
        *_twice(),
        Case(jobs, "spec.shards", FIXED, {"shards": 16, "slots": 3}, {"shards": 32}, old={"shards": 16}),
        Case(jobs, "spec.maxParallelism", FIXED, {"maxParallelism": 64}, {}, old={"maxParallelism": 64}),
        Case(
            jobs,
            "spec.configuration",
            f"pipeline.max-parallelism {FIXED}",
            {"configuration": {**MAXIMUM, "parallelism.default": "3"}},
            {"maxParallelism": 64},
            old={"configuration": MAXIMUM},
        ),
        Case(snapshots, "", "metadata.name must have at most 63", TAKEN, TAKEN, name="a.b"),
        *(Case(snapshots, *row) for row in SNAPSHOT_ROWS),
        *(
            Case(snapshots, f"spec.{field}", FROZEN, accepted, refused, old=old)
            for field, old, accepted, refused in SNAPSHOT_CHANGES
        ),
    ]
