"""The rules on a job's name, code, Spark settings and size."""

from __future__ import annotations

import re

from sparkstate.manifest.judging import Rule, View, no_secrets, shown
from sparkstate_spec import units

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
            and units.quantity_bytes(view[f"spec.{path}"]) < units.quantity_bytes(least)
        ),
        shown(f"spec.{path}"),
    )


SET_BY_FIELDS = frozenset({
    "spark.master", "spark.submit.deployMode", "spark.driver.memory", "spark.driver.cores",
    "spark.executor.memory", "spark.executor.cores", "spark.executor.instances", "spark.ui.enabled",
})  # fmt: skip


def _spark_setting(setting: str, refused: str, message: str) -> Rule:
    return Rule(
        f"{setting} is not {refused}",
        "spec.sparkConf",
        message,
        lambda view: view.entries("spec.sparkConf").get(setting, "").lower() == refused,
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
    _spark_setting(
        "spark.dynamicAllocation.enabled",
        "true",
        "spark.dynamicAllocation.enabled cannot be true: slots hold state on their executors, so "
        "executors must not "
        "come and go; scale by spec.slots",
    ),
    _spark_setting(
        "spark.python.worker.reuse",
        "false",
        "spark.python.worker.reuse cannot be false: feeding would start a Python process per task",
    ),
    Rule(
        "no Spark Connect",
        "spec.sparkConf",
        "Spark Connect cannot be used: state lives beside the executors of a classic session",
        lambda view: any(
            name == "spark.remote"
            or name.startswith("spark.connect.")
            or (name == "spark.api.mode" and value.lower() == "connect")
            for name, value in view.entries("spec.sparkConf").items()
        ),
    ),
    Rule(
        "settings by fields",
        "spec.sparkConf",
        "a setting is said by a field: spark.master by deployment, cores and memory by driver and executor, "
        "spark.executor.instances by slots, spark.ui.enabled by ui",
        lambda view: bool(SET_BY_FIELDS & view.entries("spec.sparkConf").keys()),
        lambda view: ", ".join(sorted(SET_BY_FIELDS & view.entries("spec.sparkConf").keys())),
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
