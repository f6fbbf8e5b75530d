"""Makes a CustomResourceDefinition with a structural schema from models and rules."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from sparkstate_operator.model import helm
from sparkstate_operator.model.job import GROUP, VERSION
from sparkstate_operator.model.resources import Column, Resource

Schema = dict[str, Any]

KEPT = (
    "type", "description", "default", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength",
    "minItems",
    "maxItems", "minProperties", "maxProperties", "required", "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip


def build_crd(resource: Resource) -> dict[str, Any]:
    """The whole CustomResourceDefinition as plain data."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [resource.short],
                "categories": ["sparkstate"],
            },
            "versions": [_version(resource)],
        },
    }


def _version(resource: Resource) -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in resource.columns],
        "subresources": {"status": {}, **_scale(resource)},
        "schema": {"openAPIV3Schema": build_schema(resource)},
    }


def _scale(resource: Resource) -> dict[str, Any]:
    scale = resource.scale
    if scale is None:
        return {}
    return {
        "scale": {
            "specReplicasPath": scale.spec,
            "statusReplicasPath": scale.status,
            "labelSelectorPath": scale.selector,
        }
    }


def _column(column: Column) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        entry["description"] = column.description
    return {**entry, "priority": column.priority} if column.priority else entry


def build_schema(resource: Resource) -> Schema:
    """The structural schema with its CEL rules."""
    schema: Schema = {
        "type": "object",
        "description": resource.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"Always {resource.kind}."},
            "metadata": {"type": "object"},
            "spec": structural(resource.spec),
            "status": structural(resource.status),
        },
    }
    conditions = schema["properties"]["status"]["properties"]["conditions"]
    conditions["x-kubernetes-list-type"] = "map"
    conditions["x-kubernetes-list-map-keys"] = ["type"]
    if resource.defaulted:
        helm.name_values(schema["properties"]["spec"])
    for rule in resource.rules:
        node_at(schema, rule.at).setdefault("x-kubernetes-validations", []).append(rule.as_validation())
    return schema


def node_at(schema: Schema, path: str) -> Schema:
    """The node of a dotted path of property names; an empty path is the root."""
    for name in filter(None, path.split(".")):
        schema = schema["properties"][name]
    return schema


def structural(model: type[BaseModel]) -> Schema:
    """pydantic's JSON schema with its references resolved, without the parts that a structural schema may not have."""
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
