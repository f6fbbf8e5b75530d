"""The rules on a job's name, code, Spark settings and size."""

from __future__ import annotations

import re

from sparkstate_spec import units
from sparkstate_spec.rules.rule import Rule, no_secrets, shown

NAME_LIMIT = 40
"""Spark adds up to 17 characters to an executor's name, the operator an attempt's number: 63 in all."""
_NAME = re.compile(rf"^[a-z]([-a-z0-9]{{0,{NAME_LIMIT - 2}}}[a-z0-9])?\Z")


SPARKS_LEAST = "512Mi"
LEAST_MEMORY = {
    "driver.memory": SPARKS_LEAST,
    "executor.memory": SPARKS_LEAST,
    "managedMemoryPerSlot": "1Mi",
    "fixedMemoryPerSlot": "1Mi",
    "operatorStateMemoryPerSlot": "1Mi",
}


def _at_most(name: str, less: str, more: str, message: str, said: str) -> Rule:
    return Rule(
        name,
        f"spec.{less}",
        message,
        lambda view: (
            view.count(f"spec.{less}", f"spec.{more}") == 2 and view[f"spec.{less}"] > view[f"spec.{more}"]
        ),
        lambda view: said.format(view[f"spec.{less}"], view[f"spec.{more}"]),
        f"spec.{more}",
    )


def _below(path: str) -> Rule:
    least = LEAST_MEMORY[path]
    return Rule(
        f"{path} is large enough",
        f"spec.{path}",
        f"Spark needs at least {least}" if least == SPARKS_LEAST else f"must be at least {least}",
        lambda view: (
            view[f"spec.{path}"] is not None
            and units.quantity_bytes(view[f"spec.{path}"]) < units.quantity_bytes(least)
        ),
        shown(f"spec.{path}"),
    )


SET_BY_FIELDS = (
    "spark.master", "spark.submit.deployMode", "spark.driver.memory", "spark.driver.cores",
    "spark.executor.memory", "spark.executor.cores", "spark.executor.instances", "spark.ui.enabled",
)  # fmt: skip


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
    f"metadata.name must have at most {NAME_LIMIT} characters of a-z, 0-9 and '-', begin with a letter and not end "
    "with '-', so that the name of every child fits 63 characters",
    lambda view: not _NAME.search(view["metadata.name"]),
    shown("metadata.name"),
)

ENTRY_POINT = Rule(
    "one entry point",
    "spec",
    "give exactly one of pythonFile, module and configMapRef, to say where the job's code is",
    lambda view: view.count("spec.pythonFile", "spec.module", "spec.configMapRef") != 1,
)

ENTRY = (
    ENTRY_POINT,
    *no_secrets("spec.params"),
    *no_secrets("spec.sparkConf"),
    _spark_setting(
        "spark.dynamicAllocation.enabled",
        "true",
        "spark.dynamicAllocation.enabled cannot be true: slots hold state on their executors, so executors must not "
        "come and go; scale with spec.slots",
    ),
    _spark_setting(
        "spark.python.worker.reuse",
        "false",
        "spark.python.worker.reuse cannot be false: every task would start a Python process of its own",
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
        "use the field for this setting: deployment for spark.master, driver and executor for cores and memory, slots "
        "for spark.executor.instances, ui for spark.ui.enabled",
        lambda view: bool(set(SET_BY_FIELDS) & view.entries("spec.sparkConf").keys()),
        lambda view: ", ".join(sorted(set(SET_BY_FIELDS) & view.entries("spec.sparkConf").keys())),
    ),
)

SIZE = (
    _at_most(
        "slots fit shards",
        "slots",
        "shards",
        "there are more slots than shards; each slot needs at least one shard, so lower slots",
        "{} slots, {} shards",
    ),
    _at_most(
        "slots fit key groups",
        "slots",
        "maxParallelism",
        "there are more slots than key groups (maxParallelism); lower slots",
        "{} slots, maxParallelism {}",
    ),
    _at_most(
        "shards fit key groups",
        "shards",
        "maxParallelism",
        "there are more shards than key groups (maxParallelism); lower shards",
        "{} shards, maxParallelism {}",
    ),
    _below("driver.memory"),
    _below("executor.memory"),
    Rule(
        "one way of memory",
        "spec",
        "managedMemoryPerSlot, fixedMemoryPerSlot and managedMemory: false exclude one another; keep one",
        lambda view: (
            view.count("spec.managedMemoryPerSlot", "spec.fixedMemoryPerSlot")
            + (view["spec.managedMemory"] is False)
            > 1
        ),
    ),
    _below("managedMemoryPerSlot"),
    _below("fixedMemoryPerSlot"),
    _below("operatorStateMemoryPerSlot"),
    Rule(
        "one kind of local storage",
        "spec.localStorage",
        "sizeLimit, volumeClaimTemplate and paths exclude one another; keep one",
        lambda view: (
            view.count(
                *(f"spec.localStorage.{name}" for name in ("sizeLimit", "volumeClaimTemplate", "paths"))
            )
            > 1
        ),
    ),
)
