"""From models and rules to a CustomResourceDefinition with a structural schema."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from sparkstate_operator.model import rules
from sparkstate_operator.model.job import GROUP, KIND, PLURAL, VERSION
from sparkstate_operator.model.spec import StatefulSparkJobSpec
from sparkstate_operator.model.status import StatefulSparkJobStatus

Schema = dict[str, Any]

COLUMNS = (
    ("Phase", "string", ".status.phase", "Where the job stands"),
    ("Slots", "integer", ".status.slots", "Slots that run"),
    ("Backend", "string", ".status.backend", "State backend"),
    ("State", "string", ".status.stateSize", "Size of the state at the last checkpoint"),
    ("Last-Checkpoint", "date", ".status.lastCheckpoint.time", "Age of the newest completed checkpoint"),
    ("Restarts", "integer", ".status.restarts.total", "Restarts since the job was created"),
    ("Age", "date", ".metadata.creationTimestamp", ""),
)
KEPT = (
    "type", "description", "default", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems",
    "maxItems", "minProperties", "maxProperties", "required", "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip


def build_crd() -> dict[str, Any]:
    """The whole CustomResourceDefinition as plain data."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["ssj"],
                "categories": ["sparkstate"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(*column) for column in COLUMNS],
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.slots",
                "statusReplicasPath": ".status.slots",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": build_schema()},
    }


def _column(name: str, kind: str, path: str, description: str) -> dict[str, str]:
    column = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "description": description} if description else column


def build_schema() -> Schema:
    """The structural schema with its CEL rules."""
    schema: Schema = {
        "type": "object",
        "description": "A streaming Spark job with keyed state: checkpoints and savepoints.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"Always {KIND}."},
            "metadata": {"type": "object"},
            "spec": structural(StatefulSparkJobSpec),
            "status": structural(StatefulSparkJobStatus),
        },
    }
    conditions = schema["properties"]["status"]["properties"]["conditions"]
    conditions["x-kubernetes-list-type"] = "map"
    conditions["x-kubernetes-list-map-keys"] = ["type"]
    for rule in rules.ALL:
        node_at(schema, rule.at).setdefault("x-kubernetes-validations", []).append(rule.as_validation())
    return schema


def node_at(schema: Schema, path: str) -> Schema:
    """The node of a dotted path of property names; an empty path is the root."""
    for name in filter(None, path.split(".")):
        schema = schema["properties"][name]
    return schema


def structural(model: type[BaseModel]) -> Schema:
    """pydantic's JSON schema with references resolved and everything dropped that a structural schema may not
    have."""
    raw = model.model_json_schema(by_alias=True)
    return _convert(raw, raw.get("$defs", {}))


def _convert(node: Schema, definitions: Schema) -> Schema:
    node = _resolve(node, definitions)
    result = {key: node[key] for key in KEPT if key in node and not (key == "default" and node[key] is None)}
    if "const" in node:
        result["enum"] = [node["const"]]
        result.setdefault("type", "boolean" if isinstance(node["const"], bool) else "string")
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return {key: value for key, value in result.items() if key not in ("required",)}
    if "properties" in node:
        result["properties"] = {
            name: _convert(child, definitions) for name, child in node["properties"].items()
        }
    if isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _convert(node["additionalProperties"], definitions)
    elif node.get("additionalProperties") is True:
        result["x-kubernetes-preserve-unknown-fields"] = True
    if "items" in node:
        result["items"] = _convert(node["items"], definitions)
    if node.get("format") == "date-time":
        result["format"] = "date-time"
    if result["type"] == "integer":
        result["format"] = "int64" if node.get("maximum", 2**31) >= 2**31 else "int32"
    if node.get("x-immutable"):
        result["x-kubernetes-validations"] = [
            {
                "rule": "self == oldSelf",
                "message": "is fixed when the job is created; give a new job another name",
            }
        ]
    return result


def _resolve(node: Schema, definitions: Schema) -> Schema:
    """Follow ``$ref`` and drop ``null`` from ``anyOf``; the outer description and defaults win."""
    outer = {key: value for key, value in node.items() if key not in ("anyOf", "$ref", "allOf")}
    if "$ref" in node:
        return {**_resolve(definitions[node["$ref"].rsplit("/", 1)[1]], definitions), **outer}
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option.get("type") != "null"]
        if len(options) != 1:
            raise ValueError(f"a structural schema has one type per field, not {options}")
        return {**_resolve(options[0], definitions), **outer}
    return node
