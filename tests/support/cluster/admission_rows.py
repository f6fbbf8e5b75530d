"""The rows of ``admission_cases`` about a job's own fields: ``(field, beginning of the message, accepted spec, refused
spec)``; the specs lie over ``{"pythonFile": "job.py"}``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Spec = Mapping[str, Any]
LATER = "storage on Google Cloud, Azure or HDFS is"
NO_KEYS = "keys and passwords are never written into a job"
KEY_ID = "a value looks like an access key id"
INLINE = "keys are never written into a job; put them into a Secret"
SECRET_URL = "a URL never holds credentials"
C = "execution.checkpointing"
R = "state.backend.rocksdb"


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
        "applies only to type rocksdb",
        {"stateBackend": {"type": "rocksdb", field: value}},
        {"stateBackend": {"type": "hashmap", field: value}},
    )


def _expo(**values: Any) -> Spec:
    return {"restart": {"strategy": "exponential-delay", "exponentialDelay": values}}


OPTION = {f"{R}.thread.num": "4"}

ROWS: tuple[tuple[str, str, Spec, Spec], ...] = (
    ("spec", "give exactly one of pythonFile, module and configMapRef", {}, {"module": "shop.orders"}),
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
        "use the field for this setting",
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
        "spec.operatorStateMemoryPerSlot",
        "must be at least 1Mi",
        {"operatorStateMemoryPerSlot": "1Mi"},
        {"operatorStateMemoryPerSlot": "0"},
    ),
    (
        "spec.checkpointing.storage",
        "with deployment cluster, write a URL",
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
        "spec.stateBackend.class",
        "type custom needs the class",
        {"stateBackend": {"type": "custom", "class": "shop:Backend"}},
        {"stateBackend": {"type": "custom"}},
    ),
    (
        "spec.stateBackend.class",
        "applies only to type custom",
        {"stateBackend": {"class": "shop.backends.Backend"}},
        {"stateBackend": {"type": "rocksdb", "class": "shop.backends.Backend"}},
    ),
    (
        "spec.stateBackend.timerService",
        "with type custom, timers are where your backend keeps them",
        {"stateBackend": {"class": "shop:Backend"}},
        {"stateBackend": {"class": "shop:Backend", "timerService": "heap"}},
    ),
    (
        "spec.stateBackend.storagePaths",
        "applies only to type rocksdb",
        {"stateBackend": {"class": "shop:Backend", "options": {"own": "1"}}},
        {"stateBackend": {"class": "shop:Backend", "storagePaths": ["/a"]}},
    ),
    (
        "spec.configuration",
        "spec.stateBackend.class and Flink's key",
        {"stateBackend": {"class": "shop:Backend"}},
        {"stateBackend": {"class": "shop:Backend"}, "configuration": {"state.backend.type": "rocksdb"}},
    ),
    (
        "spec.stateBackend.type",
        "external state backends are",
        {"stateBackend": {"type": "hashmap"}},
        {"stateBackend": {"type": "external"}},
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
        "with type hashmap, timers are always on the heap",
        {"stateBackend": {"type": "hashmap", "timerService": "heap"}},
        {"stateBackend": {"type": "hashmap", "timerService": "rocksdb"}},
    ),
    (
        "spec.stateBackend.options",
        "an option is not one of Flink's",
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
        "must be at most 1Mi",
        {"checkpointing": {"inlineThreshold": "1Mi"}},
        {"checkpointing": {"inlineThreshold": "1025Ki"}},
    ),
    (
        "spec.checkpointing.storageType",
        "with jobmanager, checkpoints lie in",
        {"checkpointing": {"storageType": "filesystem", "storage": "s3://b/x"}},
        {"checkpointing": {"storageType": "jobmanager", "storage": "s3://b/x"}},
    ),
    (
        "spec.checkpointing.maxStateSize",
        "must be more than 0 and at most 64Mi",
        {"checkpointing": {"maxStateSize": "5Mi"}},
        {"checkpointing": {"maxStateSize": "65Mi"}},
    ),
    (
        "spec.checkpointing.writeBufferSize",
        "must be more than 0",
        {"checkpointing": {"writeBufferSize": "1"}},
        {"checkpointing": {"writeBufferSize": "0"}},
    ),
    (
        "spec.checkpointing.maxHeldOutput",
        "must be more than 0",
        {"checkpointing": {"maxHeldOutput": "1Mi"}},
        {"checkpointing": {"maxHeldOutput": "0"}},
    ),
    _positive("maxTimeWithoutCheckpoint", "checkpointing"),
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
    (
        "spec.trigger",
        "schedule is for jobs that end by themselves",
        {"trigger": {"availableNow": True, "schedule": "@daily"}},
        {"trigger": {"processingTime": "1s", "schedule": "@daily"}},
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
        "give exactly one of snapshotRef, latest and uri",
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
