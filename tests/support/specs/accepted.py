"""Specs at random that the schema accepts, with a liking for the values that the rules look at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from sparkstate_spec import flink_tables

DURATIONS = st.sampled_from(["0s", "0m", "1ms", "2999ms", "3s", "30s", "5m", "1h30m", "61s"])
QUANTITIES = st.sampled_from(
    ["0", "1", "64Ki", "1023Ki", "1Mi", "1025Ki", "511Mi", "512Mi", "0.5Gi", "500M", "2Gi"]
)
LOCATIONS = st.sampled_from(
    [
        "s3://bucket/a",
        "s3://",
        "s3:///a",
        "s3://key@bucket/a",
        "s3a://bucket",
        "file:///data",
        "file://data",
        "file:///",
        "gs://bucket",
        "abfss://c@account/a",
        "hdfs://name/a",
        "/data",
        "relative/a@b",
        "c:/data",
        "S3://bucket",
        "://",
    ]
)
TEXTS = st.sampled_from(
    ["", "a", "m:C", "AKIAABCDEFGHIJKLMNOP", "xASIAABCDEFGHIJKLMNOP", "BAKIAABCDEFGHIJKLMNOP"]
)
SPARK_KEYS = [
    "spark.dynamicAllocation.enabled",
    "spark.python.worker.reuse",
    "spark.remote",
    "spark.connect.grpc.port",
    "spark.api.mode",
    "spark.master",
    "spark.ui.enabled",
    "spark.hadoop.fs.s3a.access.key",
    "spark.kubernetes.driver.secretKeyRef.X",
    "spark.Secret-Key",
    "spark.sql.shuffle.partitions",
]
ANSWERED = [
    "execution.checkpointing.unaligned.enabled",
    "taskmanager.network.x",
    "taskmanager.memory.managed.size",
    "state.backend.changelog.enabled",
    "dstl.dfs.base-path",
    "s3.access-key",
    "s3.secret.key",
    "execution.checkpointing.intervall",
    "my.own.key",
]
VALUES = [
    "",
    "true",
    "false",
    "True",
    "connect",
    "1",
    "2",
    "10 s",
    "64mb",
    "0.5",
    "0.5.1",
    "rocksdb",
    "forst",
    "NO_CLAIM",
]
VALUES += [
    "EXACTLY_ONCE",
    "filesystem",
    "s3a://b",
    "gs://b",
    "s3://k@b",
    "DEFAULT",
    "HEAP",
    "none",
    "1234567890",
    "5min",
]
CONFIGURATION = st.dictionaries(
    st.sampled_from(sorted({*flink_tables.understood(), *ANSWERED})), st.sampled_from(VALUES), max_size=6
)
MAPS = {
    "configuration": CONFIGURATION,
    "sparkConf": st.dictionaries(st.sampled_from(SPARK_KEYS), st.sampled_from(VALUES) | TEXTS, max_size=3),
    "params": st.dictionaries(
        st.sampled_from(["input", "primary_key", "password", "AccessKey"]), TEXTS, max_size=2
    ),
    "options": st.dictionaries(
        st.sampled_from(["state.backend.rocksdb.thread.num", "state.backend.rocksdb.x", "my.own.key"]),
        TEXTS,
        max_size=2,
    ),
}

BY_SAMPLE = [
    ("30s", DURATIONS),
    ("512Mi", QUANTITIES),
    ("@daily", st.just("@daily")),
    ("m:C", st.just("m:C")),
    ("http://minio", st.sampled_from(["http://minio:9000", "https://key:secret@minio", "http://minio/a@b"])),
    ("flights", st.just("flights")),
    ("shop", st.just("shop")),
]
"""Values for a pattern: those of the first sample that fits it and not everything else."""


def matching(pattern: str) -> st.SearchStrategy[str]:
    if re.search(pattern, "/data"):
        return LOCATIONS
    return next(strategy for sample, strategy in BY_SAMPLE if re.search(pattern, sample))


def values(name: str, node: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Anything that the schema's node accepts, with a liking for what the rules look at."""
    if name in MAPS:
        return MAPS[name]
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return st.just({})
    match node["type"]:
        case "object":
            return objects(node)
        case "array":
            return st.lists(values("", node["items"]), min_size=node.get("minItems", 0), max_size=2)
        case "boolean":
            return st.sampled_from(node.get("enum", [True, False]))
        case "integer":
            low, high = node["minimum"], node["maximum"]
            return st.integers(low, min(high, low + 20))
        case "number":
            low, high = round(node["minimum"] * 100), round(node["maximum"] * 100)
            return st.integers(low, min(high, low + 98)).map(lambda hundredths: hundredths / 100)
    if "enum" in node:
        return st.sampled_from(node["enum"])
    return matching(node["pattern"]) if "pattern" in node else TEXTS


def objects(node: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    children = {name: values(name, child) for name, child in node["properties"].items()}
    required = {name: children.pop(name) for name in node.get("required", ())}
    return st.fixed_dictionaries(required, optional=children)


NAMES = st.from_regex(r"[a-z0-9.-]{1,42}", fullmatch=True) | st.just("flights")
