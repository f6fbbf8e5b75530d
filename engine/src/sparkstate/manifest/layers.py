"""Who wins: job over cluster default over built-in, leaf by leaf, with Flink's keys folded into the fields
they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate.manifest import flink_keys, schema
from sparkstate.manifest.flink_tables import METRICS, ROCKSDB, ROCKSDB_OPTIONS

JOB = "job"
CLUSTER_DEFAULT = "cluster default"
BUILT_IN = "built-in"

EXCLUSIVE: tuple[tuple[str, ...], ...] = (
    ("pythonFile", "module", "configMapRef"),
    ("managedMemoryPerSlot", "fixedMemoryPerSlot", "managedMemory"),
    ("savepoints.interval", "savepoints.schedule"),
    ("trigger.processingTime", "trigger.availableNow"),
    ("localStorage.sizeLimit", "localStorage.volumeClaimTemplate", "localStorage.paths"),
    ("restoreFrom.snapshotRef.name", "restoreFrom.latest", "restoreFrom.uri", "startEmpty"),
)
"""Fields that replace one another: when the job gives one, the cluster's defaults for the others do not
count."""


STRATEGY_SECTIONS = {
    "fixed-delay": "fixedDelay",
    "exponential-delay": "exponentialDelay",
    "failure-rate": "failureRate",
}
ONLY_ROCKSDB = tuple(
    f"stateBackend.{name}"
    for name in (
        "predefinedOptions",
        "options",
        "storagePaths",
        "nativeMetrics",
        "timerService",
        "writeBufferRatio",
        "highPrioPoolRatio",
    )
)


@dataclass(frozen=True)
class Given:
    """A value and who gave it."""

    value: Any
    origin: str


def leaves(spec: Mapping[str, Any], node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Paths (below ``spec``) and values of everything given; free maps fall apart into their keys."""
    for name, value in spec.items():
        child = node.get("properties", {}).get(name) or node.get("additionalProperties") or {}
        where = schema.join(path, name)
        if isinstance(value, dict) and not child.get("x-kubernetes-preserve-unknown-fields"):
            yield from leaves(value, child, where)
        else:
            yield where, value


def fold(spec: Mapping[str, Any], origin: str) -> dict[str, Given]:
    """All leaves of one layer, Flink's keys folded into the fields they mean. The rules were asked before."""
    plain = {key: value for key, value in spec.items() if key != "configuration"}
    given = {path: Given(value, origin) for path, value in leaves(plain, schema.spec())}
    metrics: list[str] = []
    for key, text in spec.get("configuration", {}).items():
        name = key.removeprefix(f"{METRICS}.")
        if key in flink_keys.BY_SPELLING:
            known = flink_keys.BY_SPELLING[key]
            given[known.path] = Given(known.read(text), f"{origin} ({key})")
        elif key.removeprefix(f"{ROCKSDB}.") in ROCKSDB_OPTIONS:
            given[schema.join("stateBackend.options", key)] = Given(text, f"{origin} ({key})")
        elif name != key and text == "true":
            metrics.append(name)
    if metrics:
        given["stateBackend.nativeMetrics"] = Given(metrics, f"{origin} ({METRICS}.*)")
    return given


def merge(job: Mapping[str, Given], defaults: Mapping[str, Given]) -> dict[str, Given]:
    """The job's leaves over the defaults' leaves, without defaults that the job's own choices leave no room
    for."""
    merged = {path: leaf for path, leaf in defaults.items() if not _void(path, job)}
    for group in EXCLUSIVE:
        if any(path in job for path in group):
            for path in group:
                merged.pop(path, None)
    return {**merged, **job}


def _void(path: str, job: Mapping[str, Given]) -> bool:
    """Whether a default belongs to a state backend or restart strategy that the job has replaced by another."""
    strategy, backend = job.get("restart.strategy"), job.get("stateBackend.type")
    if strategy is not None and path.startswith("restart."):
        return path.split(".")[1] not in (STRATEGY_SECTIONS.get(strategy.value), "strategy")
    on_heap = backend is not None and backend.value == "hashmap"
    return on_heap and path.startswith(ONLY_ROCKSDB)


def nested(given: Mapping[str, Given]) -> dict[str, Any]:
    """Leaves back into a tree, for the schema and the rules."""
    tree: dict[str, Any] = {}
    for path, leaf in given.items():
        names = list(_split(path))
        node = tree
        for name in names[:-1]:
            node = node.setdefault(name, {})
        node[names[-1]] = leaf.value
    return tree


def _split(path: str) -> Iterator[str]:
    head, bracket, rest = path.partition("['")
    yield from head.split(".")
    if bracket:
        yield rest.removesuffix("']")
