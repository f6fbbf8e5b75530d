"""One row per rule of the CRDs: what the API server accepts with the rule's subject in it, and what it refuses.

Rules that a change breaks have an old and a new spec each. The rows about a job's fields are in ``admission_rows``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from support.cluster.admission_rows import INLINE, LATER, ROWS, SECRET_URL, C, R, Spec

from sparkstate_spec import fields


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


CONFIGURATION: tuple[tuple[str, Spec, Spec], ...] = (
    (
        "the changelog state backend is not",
        {"state.backend.changelog.enabled": "false"},
        {"state.backend.changelog.enabled": "true"},
    ),
    (
        "control of file merging by these keys",
        {f"{C}.file-merging.enabled": "false"},
        {f"{C}.file-merging.enabled": "true"},
    ),
    ("the checkpoint storage must be", {f"{C}.storage": "jobmanager"}, {f"{C}.storage": "elsewhere"}),
    (
        "claim modes other than",
        {"execution.state-recovery.claim-mode": "NO_CLAIM"},
        {"execution.state-recovery.claim-mode": "CLAIM"},
    ),
    (INLINE, {"s3.endpoint": "http://a"}, {"s3.access-key": "x"}),
    (
        "a value looks like an access key id",
        {"taskmanager.memory.process.size": "1g"},
        {"env.java.opts": "AKIAIOSFODNN7EXAMPLE"},
    ),
    ("this version does not know a key", {"parallelism.default": "2"}, {"parallelism.defualt": "2"}),
    ("a duration must be written as", {f"{C}.interval": "10 min"}, {f"{C}.interval": "soon"}),
    (
        "a memory size must be written",
        {f"{R}.memory.fixed-per-slot": "64mb"},
        {f"{R}.memory.fixed-per-slot": "64x"},
    ),
    ("a switch must be 'true' or", {f"{C}.incremental": "true"}, {f"{C}.incremental": "yes"}),
    ("a count must be a whole number", {"parallelism.default": "4"}, {"parallelism.default": "four"}),
    (
        "a ratio or factor must be",
        {f"{R}.memory.write-buffer-ratio": "0.5"},
        {f"{R}.memory.write-buffer-ratio": "half"},
    ),
    ("the state backend must be hashmap or", {"state.backend": "filesystem"}, {"state.backend": "forst"}),
    (
        "predefined options must be",
        {f"{R}.predefined-options": "FLASH_SSD_OPTIMIZED"},
        {f"{R}.predefined-options": "FAST"},
    ),
    (
        "the timer service must be HEAP",
        {f"{R}.timer-service.factory": "HEAP"},
        {f"{R}.timer-service.factory": "DISK"},
    ),
    (
        "the format of savepoints must be CANONICAL",
        {"kubernetes.operator.savepoint.format.type": "NATIVE"},
        {"kubernetes.operator.savepoint.format.type": "AVRO"},
    ),
    ("the restart strategy must be", {"restart-strategy": "off"}, {"restart-strategy": "hope"}),
    ("storage on Google Cloud", {f"{C}.dir": "s3://b/x"}, {f"{C}.dir": "hdfs://b/x"}),
    ("the scheme of a storage URL", {f"{C}.dir": "file:///x"}, {f"{C}.dir": "s3a://b/x"}),
    ("a storage URL never holds", {f"{C}.savepoint-dir": "s3://b/x"}, {f"{C}.savepoint-dir": "s3://k:s@b/x"}),
)
SAMPLES: Mapping[str, tuple[str, Any]] = {
    "duration": ("10 s", "10s"), "memory": ("64mb", "64Mi"), "boolean": ("true", True), "integer": ("4", 4),
    "number": ("0.5", 0.5), "location": ("s3://b/x", "s3://b/x"), "text": ("m:C", "m:C"),
}  # fmt: skip
OWN_SAMPLES: Mapping[str, tuple[str, Any]] = {
    "stateBackend.type": ("rocksdb", "rocksdb"),
    "checkpointing.storageType": ("filesystem", "filesystem"),
    "checkpointing.inlineThreshold": ("20kb", "20Ki"),
    "stateBackend.predefinedOptions": ("DEFAULT", "DEFAULT"),
    "stateBackend.timerService": ("heap", "heap"),
    "stateBackend.storagePaths": ("/a", ["/a"]),
    "restart.strategy": ("none", "none"),
    "restart.exponentialDelay.backoffMultiplier": ("2", 2.0),
    "s3.endpoint": ("http://minio", "http://minio"),
}


def _twice() -> Iterator[Case]:
    """Each field that has two spellings among Flink's keys: one of them beside the field, and both."""
    for known in (one for one in fields.TABLE if len(one.flink) > 1):
        text, value = OWN_SAMPLES.get(known.path) or SAMPLES[known.kind]
        field: dict[str, Any] = {}
        node = field
        *sections, last = known.path.split(".")
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
        alone = {"configuration": {known.flink[0]: text}}
        both = {"configuration": dict.fromkeys(known.flink, text)}
        said = f"configuration['{known.flink[0]}']"
        yield Case("statefulsparkjobs", "spec.configuration", said, {**alone, **field}, both)


def _configuration() -> Iterator[Case]:
    for message, accepted, refused in CONFIGURATION:
        good, bad = _conf(accepted, refused)
        yield Case("statefulsparkjobs", "spec.configuration", message, good, bad)
    sections = {
        "state": {"backend": {"type": "rocksdb"}},
        "parallelism.default": 3,
        "metrics": {"a": [True, 0.5]},
    }
    yield Case(
        "statefulsparkjobs",
        "spec.flinkConfiguration",
        "means the same as configuration; keep configuration",
        {"flinkConfiguration": sections},
        {"flinkConfiguration": sections, "configuration": {"state.backend.type": "rocksdb"}},
    )


MAXIMUM = {"pipeline.max-parallelism": "64"}
FIXED = "is fixed when the job is created"
FROZEN = "is fixed when the snapshot is created"
TAKEN: Spec = {"jobRef": {"name": "flights"}}
REGISTERED: Spec = {"uri": "s3://bucket/savepoint-1"}
SNAPSHOT_ROWS: tuple[tuple[str, str, Spec, Spec], ...] = (
    ("spec", "give exactly one of jobRef", TAKEN, {**TAKEN, **REGISTERED}),
    (
        "spec.storage",
        "applies only with jobRef",
        {**TAKEN, "storage": "s3://b/x"},
        {**REGISTERED, "storage": "s3://b/x"},
    ),
    (
        "spec.formatType",
        "applies only with jobRef",
        {**TAKEN, "formatType": "native"},
        {**REGISTERED, "formatType": "native"},
    ),
    (
        "spec.triggerId",
        "applies only with jobRef",
        {**TAKEN, "triggerId": "a1"},
        {**REGISTERED, "triggerId": "a1"},
    ),
    ("spec.timeout", "applies only with jobRef", {**TAKEN, "timeout": "1m"}, {**REGISTERED, "timeout": "1m"}),
    (
        "spec.backoffLimit",
        "applies only with jobRef",
        {**TAKEN, "backoffLimit": 2},
        {**REGISTERED, "backoffLimit": 2},
    ),
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
    ("formatType", TAKEN, {**TAKEN, "deadline": "1m"}, {**TAKEN, "formatType": "native"}),
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
        Case(jobs, "spec.shards", FIXED, {"slots": 3}, {"shards": 32}, old={"shards": 16}),
        Case(
            jobs,
            "spec.maxParallelism",
            FIXED,
            {"maxParallelism": 64, "slots": 3},
            {"maxParallelism": 128},
            old={"maxParallelism": 64},
        ),
        Case(
            jobs,
            "spec.configuration",
            f"pipeline.max-parallelism {FIXED}",
            {"maxParallelism": 64},  # the other spelling
            {"configuration": {"pipeline.max-parallelism": "128"}},
            old={"configuration": MAXIMUM},
        ),
        Case(snapshots, "", "metadata.name must have at most 63", TAKEN, TAKEN, name="a.b"),
        *(Case(snapshots, *row) for row in SNAPSHOT_ROWS),
        *(
            Case(snapshots, f"spec.{field}", FROZEN, accepted, refused, old=old)
            for field, old, accepted, refused in SNAPSHOT_CHANGES
        ),
    ]
