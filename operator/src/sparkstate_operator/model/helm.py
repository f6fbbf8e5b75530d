"""The fields of a job's spec for which the chart may have a default (``defaults.*`` in its values)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

OWN = (
    "pythonFile", "module", "configMapRef", "function", "params", "configuration", "flinkConfiguration",
    "deployment", "state", "upgradeMode", "maxParallelism", "shards", "restoreFrom", "startEmpty",
    "allowNonRestoredState", "restartNonce", "trigger.schedule",
)  # fmt: skip
"""Fields that are each job's own: its code, the state that it restores, fields that are fixed at its creation, and
fields with a schema default. Flink's keys are among them, because a default is given by the field that a key means."""
REFUSED = ("s3.accessKey", "s3.secretKey", "s3.sessionToken", "stateBackend.changelog")
"""Never valid, so no default of it could be."""


def has_value(path: str) -> bool:
    """Whether ``defaults.<path>`` is a Helm value."""
    own = any(path == name or path.startswith(f"{name}.") for name in OWN)
    return not own and not path.startswith(REFUSED)


def name_values(node: Schema, path: str = "") -> None:
    """Add to every description below ``spec`` which Helm value it has (changes ``node``)."""
    for name, child in node.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        if not has_value(where):
            continue
        if "properties" in child:
            name_values(child, where)
        elif "Helm value" not in child["description"]:
            child["description"] += f" Helm value: defaults.{where}."


def values_schema(spec: Mapping[str, Any]) -> Schema:
    """A JSON schema (draft 7, as Helm reads it) of the chart's ``defaults``, from the spec's schema."""
    return _strict(spec, "")


def _strict(node: Mapping[str, Any], path: str) -> Schema:
    kept = {key: value for key, value in node.items() if not key.startswith("x-") and key != "format"}
    kept.pop("default", None)
    if "items" in node:
        kept["items"] = _strict(node["items"], f"{path}[]")
    if "properties" in node:
        names = {f"{path}.{name}".lstrip("."): name for name in node["properties"]}
        kept["properties"] = {
            name: _strict(node["properties"][name], where)
            for where, name in names.items()
            if has_value(where)
        }
        kept["additionalProperties"] = False
    return kept
