"""The CRD's CEL rules again, in Python and with the same words: one list that reads like the specification.

``tests/contract`` holds both against the same manifests.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from sparkstate.manifest import flink_rules, job_rules, schema, state_rules
from sparkstate.manifest.judging import Rule, View
from sparkstate.manifest.problems import Problem

ALL: tuple[Rule, ...] = (
    job_rules.NAME,
    *job_rules.ENTRY,
    *job_rules.SIZE,
    *state_rules.BACKEND,
    *state_rules.PROGRESS,
    *state_rules.RESTORE,
    *state_rules.S3,
    *flink_rules.ALL,
)


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
    asked = (rule for rule in ALL if rule not in (job_rules.NAME, job_rules.ENTRY_POINT))
    return [problem for rule in asked if (problem := rule.check(view)) is not None]
