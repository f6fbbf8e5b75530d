"""Who wins, leaf by leaf: the job, then the chart's defaults. Free maps fall apart into their keys; lists and pod
templates are taken whole."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparkstate_operator.core import flink
from sparkstate_operator.model import resources
from sparkstate_operator.model.crd import structural

Origin = Literal["job", "helm", "built-in"]

EXCLUSIVE: tuple[tuple[str, ...], ...] = (
    ("managedMemoryPerSlot", "fixedMemoryPerSlot", "managedMemory"),
    ("savepoints.interval", "savepoints.schedule"),
    ("trigger.processingTime", "trigger.availableNow"),
    ("localStorage.sizeLimit", "localStorage.volumeClaimTemplate", "localStorage.paths"),
)
"""Fields that replace one another: where the job gives one, defaults for the others do not count."""

STRATEGY_SECTIONS = {
    "fixed-delay": "fixedDelay", "exponential-delay": "exponentialDelay", "failure-rate": "failureRate",
}  # fmt: skip
ONLY_ROCKSDB = tuple(
    f"stateBackend.{name}"
    for name in (
        "predefinedOptions", "options", "storagePaths", "nativeMetrics", "timerService", "writeBufferRatio",
        "highPrioPoolRatio",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Given:
    """A value and who gave it."""

    value: Any
    origin: Origin


@functools.cache
def spec_schema() -> Mapping[str, Any]:
    """The schema of a job's ``spec``."""
    return structural(resources.JOBS.spec)


def join(path: str, name: str) -> str:
    """``path`` and one more name; names that are no identifiers stand in brackets."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    return f"{path}.{name}".lstrip(".") if plain else f"{path}['{name}']"


def split(path: str) -> list[str]:
    """The names of a path made by ``join``."""
    head, bracket, rest = path.partition("['")
    return [*head.split("."), *([rest.removesuffix("']")] if bracket else [])]


def leaves(spec: Mapping[str, Any], node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of everything given."""
    for name, value in spec.items():
        child = node.get("properties", {}).get(name) or node.get("additionalProperties") or {}
        where = join(path, name)
        if value is None:  # YAML's way to leave something empty, in the chart's values above all
            continue
        if isinstance(value, Mapping) and not child.get("x-kubernetes-preserve-unknown-fields"):
            yield from leaves(value, child, where)
        else:
            yield where, value


def fold(spec: Mapping[str, Any], origin: Origin) -> dict[str, Given]:
    """All leaves of one layer, with Flink's keys as the fields that they mean."""
    plain = {name: value for name, value in spec.items() if name != "configuration"}
    given = {path: Given(value, origin) for path, value in leaves(plain, spec_schema())}
    configuration = spec.get("configuration") or {}
    for key, text in configuration.items():
        meant = flink.read(key, text)
        if meant:
            given[meant[0]] = Given(meant[1], origin)
    for key, text in flink.options(configuration).items():
        given[join("stateBackend.options", key)] = Given(text, origin)
    on = flink.metrics(configuration)
    return {**given, "stateBackend.nativeMetrics": Given(on, origin)} if on else given


def merge(job: Mapping[str, Given], defaults: Mapping[str, Given]) -> dict[str, Given]:
    """The job's leaves over the defaults', without defaults that the job's own choices leave no room for."""
    merged = {path: leaf for path, leaf in defaults.items() if not _void(path, job)}
    for group in EXCLUSIVE:
        if any(path == chosen or chosen.startswith(f"{path}.") for path in group for chosen in job):
            merged = {path: leaf for path, leaf in merged.items() if not path.startswith(group)}
    return {**merged, **job}


def _void(path: str, job: Mapping[str, Given]) -> bool:
    """Whether a default belongs to a restart strategy or state backend that the job has replaced by another."""
    strategy, backend = job.get("restart.strategy"), job.get("stateBackend.type")
    if strategy is not None and path.startswith("restart."):
        return path.split(".")[1] not in (STRATEGY_SECTIONS.get(strategy.value), "strategy")
    return backend is not None and backend.value == "hashmap" and path.startswith(ONLY_ROCKSDB)


def nested(given: Mapping[str, Given]) -> dict[str, Any]:
    """Leaves as a tree again."""
    tree: dict[str, Any] = {}
    for path, leaf in given.items():
        *parents, last = split(path)
        node = tree
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = leaf.value
    return tree
