"""Judges the types and bounds of a spec's fields by the models that the CRDs' schemas are made of. An API server lets
nothing else through, but perhaps the CRD of another version did."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from sparkstate_operator.core.problems import Problem
from sparkstate_operator.model.spec import StatefulSparkJobSpec
from sparkstate_spec import fields, values
from sparkstate_spec.given import join

_PLAIN = ("duration", "memory", "boolean", "integer", "number")
_OBJECT = "must be an object (name: value pairs)"
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this version; remove it",
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "tuple_type": "must be a list",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
}


def problems(
    spec: Mapping[str, Any], root: str = "spec", model: type[pydantic.BaseModel] = StatefulSparkJobSpec
) -> Iterator[Problem]:
    """Every field below ``root`` that the schema would refuse."""
    for found in _errors(spec, model):
        path = _path(found["loc"])
        yield Problem(f"{root}.{path}", _message(found), shown(path, found["input"]))


def fitting(spec: Mapping[str, Any], model: type[pydantic.BaseModel]) -> tuple[dict[str, Any], list[Problem]]:
    """The fields of a spec that the operator can read, and what is wrong with the others. A field that only a later
    version knows is neither."""
    known = {name: value for name, value in spec.items() if name in _names(model)}
    wrong = list(problems(known, model=model))
    dropped = {re.split(r"[.\[]", one.field.removeprefix("spec."))[0] for one in wrong}
    return {name: value for name, value in known.items() if name not in dropped}, wrong


@functools.cache
def _names(model: type[pydantic.BaseModel]) -> frozenset[str]:
    return frozenset(str(field.alias) for field in model.model_fields.values())


def _errors(spec: Mapping[str, Any], model: type[pydantic.BaseModel]) -> list[Any]:
    try:
        model.model_validate(dict(spec))
    except pydantic.ValidationError as error:
        return list(error.errors(include_url=False))
    return []


def is_harmless(path: str, value: Any) -> bool:
    """Whether a value may be shown. Text may hold a key, above all a URL;
    a plain path and the name of a choice hold none."""
    line = fields.BY_PATH.get(path)
    if line is None:
        return path in ("savepoints.schedule", "trigger.schedule")
    if line.kind == "location":
        return "://" not in str(value)
    return line.kind in _PLAIN or bool(line.words)


def shown(path: str, value: Any) -> str:
    """A value as a message tells it; empty where it may not be shown, or is not a single value."""
    single = value is None or isinstance(value, str | int | float)
    return repr(value)[:80] if single and is_harmless(path, value) else ""


def _path(location: tuple[str | int, ...]) -> str:
    path = ""
    for part in location:
        path = f"{path}[{part}]" if isinstance(part, int) else join(path, part)
    return path


def _message(found: Any) -> str:
    kind = found["type"]
    if kind == "string_pattern_mismatch":
        pattern = found["ctx"]["pattern"]
        return values.HINTS.get(pattern, f"must match {pattern}")
    if kind in _WORDS:
        return _WORDS[kind]
    told = str(found["msg"]).replace("greater than or equal to", "at least")
    return re.sub(r"^\w+ should ", "must ", told.replace("less than or equal to", "at most"))
