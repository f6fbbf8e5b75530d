"""Judges an object by the CRD as an API server would: the schema's defaults, then the CEL rules.

The expressions are evaluated by the CEL project's own runtime (C++); Kubernetes' functions that the rules use
are added here. That a real API server accepts the CRD, and says the same, is the operator's tests' affair.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from cel_expr_python import cel

from sparkstate_spec import units


def with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """A copy with the schema's defaults, also below objects that are there."""
    if not isinstance(value, Mapping) or "properties" not in schema:
        return copy.deepcopy(value)
    filled = dict(value)
    for name, child in schema["properties"].items():
        if "default" in child:
            filled.setdefault(name, child["default"])
        if name in filled:
            filled[name] = with_defaults(filled[name], child)
    return filled


def violations(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(path, message) of every CEL rule that ``document`` breaks. Its types must fit the schema."""
    return list(_walk(with_defaults(document, schema), None, schema, ""))


def change_violations(
    old: Mapping[str, Any], new: Mapping[str, Any], schema: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """The same for the change of ``old`` to ``new``: transition rules too."""
    return list(_walk(with_defaults(new, schema), with_defaults(old, schema), schema, ""))


def rules(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every rule of the schema with the path of its node."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule
    for name, child in schema.get("properties", {}).items():
        yield from rules(child, f"{path}.{name}".lstrip("."))


def _walk(value: Any, old: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        applies = old is not None or "oldSelf" not in rule["rule"]
        if applies and not _holds(rule["rule"], _typed(value, schema), _typed(old, schema)):
            yield f"{path}{rule.get('fieldPath', '')}".lstrip("."), rule["message"]
    for name, child in schema.get("properties", {}).items():
        if isinstance(value, Mapping) and name in value:
            before = old.get(name) if isinstance(old, Mapping) else None
            yield from _walk(value[name], before, child, f"{path}.{name}".lstrip("."))


def _holds(expression: str, value: Any, old: Any) -> bool:
    return bool(_program(expression).eval(data={"self": value, "oldSelf": old}).value())


@functools.cache
def _program(expression: str) -> cel.Expression:
    return _environment().compile(expression)


@functools.cache
def _environment() -> cel.Env:
    quantity = cel.Overload("quantity_string", cel.Type.INT, [cel.Type.STRING], False, units.quantity_bytes)
    compare = cel.Overload("compare", cel.Type.INT, [cel.Type.INT, cel.Type.INT], True, _compare)
    functions = [cel.FunctionDecl("quantity", [quantity]), cel.FunctionDecl("compareTo", [compare])]
    extension = cel.CelExtension("kubernetes", functions)
    return cel.NewEnv(variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN}, extensions=[extension])


def _compare(one: int, other: int) -> int:
    return (one > other) - (one < other)


def _typed(value: Any, schema: Mapping[str, Any]) -> Any:
    """Values by the schema's types, not by YAML's: ``2`` is a double where the schema says number."""
    if isinstance(value, Mapping):
        children = schema.get("properties", {})
        other = schema.get("additionalProperties", {})
        return {name: _typed(child, children.get(name, other)) for name, child in value.items()}
    if isinstance(value, list):
        return [_typed(item, schema.get("items", {})) for item in value]
    return float(value) if schema.get("type") == "number" else value
