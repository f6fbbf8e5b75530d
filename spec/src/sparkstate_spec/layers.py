"""The layers of a spec, merged leaf by leaf: the job's code wins over its fields, these over its Flink keys, and the
job over the defaults that somebody gave for all jobs. Free maps are split into their keys, lists and pod templates are
taken whole, and Flink's keys are folded into the fields that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkstate_spec import configuration, fields, flink
from sparkstate_spec.flink_tables import METRICS, NATIVE_METRICS, OPTION_KEYS
from sparkstate_spec.given import GivenValue, Leaves, below, join, leaves


def fold(spec: Mapping[str, Any], origin: str) -> dict[str, GivenValue]:
    """All leaves of one layer, its fields over its Flink keys. A key that means nothing is left out: the rules
    have been asked before."""
    plain = {name: value for name, value in spec.items() if name not in configuration.NAMES}
    given = {path: GivenValue(value, origin) for path, value in leaves(plain)}
    keys = of_keys(configuration.keys(spec), origin, configuration.spelling(spec))
    if fields.BACKEND_CLASS in given:  # a class alone says the type too
        given.setdefault(fields.BACKEND_TYPE, GivenValue("custom", origin))
    chosen = given.get("stateBackend.type") or keys.get("stateBackend.type")
    if chosen is not None and chosen.value == "hashmap":  # as in Flink: RocksDB's keys are not read then
        keys = {path: leaf for path, leaf in keys.items() if not below(path, *fields.ONLY_ROCKSDB)}
    return merge(given, keys)


def of_keys(
    told: Mapping[str, str], origin: str, spelling: str = configuration.NAME
) -> dict[str, GivenValue]:
    """The fields that Flink's keys mean. ``spelling``: the map that holds them.

    Raises ValueError for a value that the rules refuse."""
    given: dict[str, GivenValue] = {}
    metrics: list[str] = []
    for key, text in told.items():
        if key in fields.BY_KEY:
            known = fields.BY_KEY[key]
            given[known.path] = GivenValue(flink.read(known, text), origin, key, spelling)
        elif key in OPTION_KEYS:
            given[join("stateBackend.options", key)] = GivenValue(text, origin, key, spelling)
        elif text.lower() == "true" and key.removeprefix(f"{METRICS}.") in NATIVE_METRICS:
            metrics.append(key.removeprefix(f"{METRICS}."))
    if metrics:
        given["stateBackend.nativeMetrics"] = GivenValue(metrics, origin, f"{METRICS}.*", spelling)
    return given


def merge(job: Leaves, defaults: Leaves) -> dict[str, GivenValue]:
    """The job's leaves over the defaults', without defaults that the job's own choices leave no room for."""
    merged = {path: leaf for path, leaf in defaults.items() if not _void(path, job, defaults)}
    for group in fields.EXCLUSIVE:
        if fields.chosen(job, group):
            merged = {path: leaf for path, leaf in merged.items() if not below(path, *group)}
    return {**merged, **job}


def _void(path: str, job: Leaves, defaults: Leaves) -> bool:
    # The default belongs to a restart strategy or state backend that the job has replaced by another.
    strategy = job.get("restart.strategy")
    if strategy is not None and path.startswith("restart."):
        return path.split(".")[1] not in (fields.STRATEGY_SECTIONS.get(strategy.value), "strategy")
    return fields.BACKEND_TYPE in job and _of_another_backend(path, job, defaults)


def _of_another_backend(path: str, job: Leaves, defaults: Leaves) -> bool:
    chosen = job[fields.BACKEND_TYPE].value
    if below(path, fields.BACKEND_OPTIONS):
        # RocksDB's options, or those of the class that the defaults name.
        return chosen == "hashmap" or _class(defaults) != _class(job)
    if path == fields.BACKEND_CLASS:
        return bool(chosen != "custom")
    return chosen in ("hashmap", "custom") and path.startswith(fields.ONLY_ROCKSDB)


def _class(given: Leaves) -> str:
    """``module:Class`` and ``module.Class`` are one class. Empty: none."""
    leaf = given.get(fields.BACKEND_CLASS)
    return "" if leaf is None else str(leaf.value).replace(":", ".")
