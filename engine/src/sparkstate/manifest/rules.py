"""The CRD's CEL rules again, in Python and with the same words: one list that reads like the specification.

``tests/contract`` holds both against the same manifests.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from sparkstate.manifest import flink_rules, schema, units
from sparkstate.manifest.flink_tables import ROCKSDB, ROCKSDB_OPTIONS
from sparkstate.manifest.judging import Rule, View, location, no_secrets, not_in_this_version, positive, shown
from sparkstate.manifest.problems import Problem

NAME_LIMIT = 40
"""Spark adds up to 17 characters to an executor's name, the operator an attempt's number: 63 in all."""
_NAME = re.compile(rf"^[a-z]([-a-z0-9]{{0,{NAME_LIMIT - 2}}}[a-z0-9])?\Z")


def _more(view: View, less: str, more: str) -> bool:
    return view.count(less, more) == 2 and view[less] > view[more]


def _below(path: str, least: str) -> Rule:
    return Rule(
        f"{path} is at least {least}",
        f"spec.{path}",
        "Spark needs at least 512Mi" if path.endswith(".memory") else f"must be at least {least}",
        lambda view: (
            view[f"spec.{path}"] is not None
            and units.parse_quantity(view[f"spec.{path}"]) < units.parse_quantity(least)
        ),
        shown(f"spec.{path}"),
    )


NAME = Rule(
    "name fits",
    "metadata.name",
    f"metadata.name must have at most {NAME_LIMIT} characters of a-z, 0-9 and '-', begin with a letter "
    f"and not "
    "end with '-', so that the name of every child fits 63 characters",
    lambda view: not _NAME.search(view["metadata.name"]),
    shown("metadata.name"),
)

ENTRY_POINT = Rule(
    "one entry point",
    "spec",
    "exactly one of pythonFile, module and configMapRef says where the job's code is",
    lambda view: view.count("spec.pythonFile", "spec.module", "spec.configMapRef") != 1,
)

ENTRY = (
    ENTRY_POINT,
    *no_secrets("spec.params"),
    *no_secrets("spec.sparkConf"),
    Rule(
        "no dynamic allocation",
        "spec.sparkConf",
        "spark.dynamicAllocation.enabled cannot be true: slots hold state and do not come and go; scale "
        "by spec.slots",
        lambda view: view.entries("spec.sparkConf").get("spark.dynamicAllocation.enabled") == "true",
    ),
    Rule(
        "no Spark Connect",
        "spec.sparkConf",
        "Spark Connect cannot be used: state lives beside the executors of a classic session",
        lambda view: any(
            name == "spark.remote"
            or name.startswith("spark.connect.")
            or (name == "spark.api.mode" and value == "connect")
            for name, value in view.entries("spec.sparkConf").items()
        ),
    ),
    Rule(
        "no master",
        "spec.sparkConf",
        "spark.master is set by spec.deployment",
        lambda view: "spark.master" in view.entries("spec.sparkConf"),
    ),
)

SIZE = (
    Rule(
        "slots fit shards",
        "spec.slots",
        "there are more slots than shards; a slot holds at least one shard",
        lambda view: _more(view, "spec.slots", "spec.shards"),
        lambda view: f"{view['spec.slots']} slots, {view['spec.shards']} shards",
    ),
    Rule(
        "slots fit key groups",
        "spec.slots",
        "there are more slots than key groups (maxParallelism)",
        lambda view: _more(view, "spec.slots", "spec.maxParallelism"),
        lambda view: f"{view['spec.slots']} slots, maxParallelism {view['spec.maxParallelism']}",
    ),
    Rule(
        "shards fit key groups",
        "spec.shards",
        "there are more shards than key groups (maxParallelism)",
        lambda view: _more(view, "spec.shards", "spec.maxParallelism"),
        lambda view: f"{view['spec.shards']} shards, maxParallelism {view['spec.maxParallelism']}",
    ),
    _below("driver.memory", "512Mi"),
    _below("executor.memory", "512Mi"),
    Rule(
        "one way of memory",
        "spec",
        "managedMemoryPerSlot, fixedMemoryPerSlot and managedMemory: false exclude one another",
        lambda view: (
            view.count("spec.managedMemoryPerSlot", "spec.fixedMemoryPerSlot")
            + (view["spec.managedMemory"] is False)
            > 1
        ),
    ),
    _below("managedMemoryPerSlot", "1Mi"),
    _below("fixedMemoryPerSlot", "1Mi"),
    Rule(
        "one kind of local storage",
        "spec.localStorage",
        "sizeLimit, volumeClaimTemplate and paths exclude one another",
        lambda view: (
            view.count(
                *(f"spec.localStorage.{name}" for name in ("sizeLimit", "volumeClaimTemplate", "paths"))
            )
            > 1
        ),
    ),
)


def _only_rocksdb(field: str) -> Rule:
    return Rule(
        f"{field} for rocksdb",
        f"spec.stateBackend.{field}",
        "applies to type rocksdb only",
        lambda view: (
            view[f"spec.stateBackend.{field}"] is not None and view["spec.stateBackend.type"] == "hashmap"
        ),
    )


def _foreign_options(view: View) -> list[str]:
    known = {f"{ROCKSDB}.{name}" for name in ROCKSDB_OPTIONS}
    given = view.entries("spec.stateBackend.options")
    return [] if view["spec.stateBackend.optionsFactory"] else [name for name in given if name not in known]


BACKEND = (
    not_in_this_version("spec.stateBackend.type", "custom", "custom state backends are"),
    not_in_this_version("spec.stateBackend.type", "external", "external state backends are"),
    not_in_this_version("spec.stateBackend.localRecovery", True, "local recovery is"),
    not_in_this_version("spec.stateBackend.changelog.enabled", True, "the changelog state backend is"),
    *(
        _only_rocksdb(field)
        for field in ("predefinedOptions", "options", "optionsFactory", "storagePaths", "nativeMetrics")
    ),
    Rule(
        "heap timers on the heap",
        "spec.stateBackend.timerService",
        "with type hashmap timers live on the heap",
        lambda view: (
            view["spec.stateBackend.timerService"] == "rocksdb"
            and view["spec.stateBackend.type"] == "hashmap"
        ),
    ),
    Rule(
        "known options",
        "spec.stateBackend.options",
        "an option is none of Flink's configurable RocksDB keys (state.backend.rocksdb.…); own keys need an "
        "optionsFactory",
        lambda view: bool(_foreign_options(view)),
        lambda view: ", ".join(_foreign_options(view)),
    ),
    Rule(
        "ratios fit",
        "spec.stateBackend.highPrioPoolRatio",
        "writeBufferRatio and highPrioPoolRatio together must be less than 1",
        lambda view: (
            view.count("spec.stateBackend.writeBufferRatio", "spec.stateBackend.highPrioPoolRatio") == 2
            and view["spec.stateBackend.writeBufferRatio"] + view["spec.stateBackend.highPrioPoolRatio"] >= 1
        ),
    ),
)


def _section(section: str, strategy: str) -> Rule:
    return Rule(
        f"{section} with its strategy",
        f"spec.restart.{section}",
        f"needs strategy: {strategy}",
        lambda view: (
            view[f"spec.restart.{section}"] is not None and view["spec.restart.strategy"] != strategy
        ),
    )


def _backoffs_disagree(view: View) -> bool:
    first, longest = (
        view[f"spec.restart.exponentialDelay.{name}"] for name in ("initialBackoff", "maxBackoff")
    )
    return bool(first and longest) and units.parse_duration_ms(first) > units.parse_duration_ms(longest)


PROGRESS = (
    not_in_this_version("spec.checkpointing.mode", "changelog", "checkpointing mode changelog is"),
    *positive("spec.checkpointing.interval", "spec.checkpointing.timeout"),
    *location("spec.checkpointing.storage"),
    Rule(
        "inline threshold",
        "spec.checkpointing.inlineThreshold",
        "cannot be larger than 1Mi",
        lambda view: units.parse_quantity(view["spec.checkpointing.inlineThreshold"] or "0") > 2**20,
        shown("spec.checkpointing.inlineThreshold"),
    ),
    Rule(
        "write buffer",
        "spec.checkpointing.writeBufferSize",
        "must be more than 0",
        lambda view: units.parse_quantity(view["spec.checkpointing.writeBufferSize"] or "1") < 1,
    ),
    Rule(
        "storage for a cluster",
        "spec.checkpointing.storage",
        "deployment cluster needs a URL that every pod reaches, not a plain path",
        lambda view: (
            view["spec.deployment"] == "cluster"
            and "://" not in (view["spec.checkpointing.storage"] or "://")
        ),
        shown("spec.checkpointing.storage"),
    ),
    *location("spec.savepoints.storage"),
    *positive("spec.savepoints.interval", "spec.savepoints.maxAge"),
    Rule(
        "one clock for savepoints",
        "spec.savepoints",
        "interval and schedule exclude one another",
        lambda view: view.count("spec.savepoints.interval", "spec.savepoints.schedule") > 1,
    ),
    Rule(
        "one trigger",
        "spec.trigger",
        "processingTime and availableNow exclude one another",
        lambda view: (
            view["spec.trigger.processingTime"] is not None and view["spec.trigger.availableNow"] is True
        ),
    ),
    _section("fixedDelay", "fixed-delay"),
    _section("exponentialDelay", "exponential-delay"),
    _section("failureRate", "failure-rate"),
    *positive("spec.restart.exponentialDelay.initialBackoff", "spec.restart.exponentialDelay.maxBackoff"),
    Rule(
        "backoffs agree",
        "spec.restart.exponentialDelay.initialBackoff",
        "initialBackoff is longer than maxBackoff",
        _backoffs_disagree,
    ),
    *positive("spec.restart.failureRate.failureRateInterval"),
    Rule(
        "fence timeout",
        "spec.fenceTimeout",
        "must be at least 3s: the log is read again every third of it",
        lambda view: units.parse_duration_ms(view["spec.fenceTimeout"] or "3s") < 3000,
        shown("spec.fenceTimeout"),
    ),
    *positive("spec.sinkTimeout", "spec.deletion.deadline"),
)

RESTORE = (
    Rule(
        "one thing to restore",
        "spec.restoreFrom",
        "exactly one of snapshotRef, latest and uri says what to restore",
        lambda view: (
            view["spec.restoreFrom"] is not None
            and view.count(*(f"spec.restoreFrom.{n}" for n in ("snapshotRef", "latest", "uri", "beforeTime")))
            != 1
        ),
    ),
    not_in_this_version("spec.restoreFrom.beforeTime", None, "restoring the state before a time is"),
    *location("spec.restoreFrom.uri"),
    Rule(
        "empty or restored",
        "spec.startEmpty",
        "startEmpty and restoreFrom exclude one another",
        lambda view: view["spec.startEmpty"] is True and view["spec.restoreFrom"] is not None,
    ),
)


def _inline_key(field: str) -> Rule:
    return Rule(
        f"no {field}",
        f"spec.s3.{field}",
        "keys are never written into a job; put them into a Secret and name it by secretRef",
        lambda view: view[f"spec.s3.{field}"] is not None,
    )


S3 = (
    *(_inline_key(field) for field in ("accessKey", "secretKey", "sessionToken")),
    Rule(
        "no credentials in the endpoint",
        "spec.s3.endpoint",
        "a URL never holds credentials; use secretRef",
        lambda view: bool(re.search("^https?://[^/]*@", view["spec.s3.endpoint"] or "")),
    ),
)

ALL: tuple[Rule, ...] = (NAME, *ENTRY, *SIZE, *BACKEND, *PROGRESS, *RESTORE, *S3, *flink_rules.ALL)


def with_schema_defaults(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with the schema's own defaults filled in, as the API server does before it judges."""
    filled = copy.deepcopy(dict(document))
    for name, node in schema.spec()["properties"].items():
        if "default" in node:
            filled["spec"].setdefault(name, node["default"])
    return filled


def check(document: Mapping[str, Any]) -> list[Problem]:
    """Every rule that ``document`` breaks."""
    view = View(document)
    return [problem for rule in ALL if (problem := rule.check(view)) is not None]


def check_part(spec: Mapping[str, Any]) -> list[Problem]:
    """The rules for a part of a spec (the cluster's defaults), which names no job and no code."""
    view = View({"spec": spec})
    asked = (rule for rule in ALL if rule not in (NAME, ENTRY_POINT))
    return [problem for rule in asked if (problem := rule.check(view)) is not None]
