"""The CRD's schema, as packaged with the engine, applied to a manifest."""

from __future__ import annotations

import copy
import difflib
import functools
import importlib.resources
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import yaml
from jsonschema.protocols import Validator

from sparkstate_spec import configuration, rules, values
from sparkstate_spec.given import below, join
from sparkstate_spec.problems import Problem
from sparkstate_spec.rules.rule import SECRET_NAMES

Schema = Mapping[str, Any]


@functools.cache
def crd() -> Mapping[str, Any]:
    """The packaged CustomResourceDefinition."""
    text = (
        importlib.resources.files("sparkstate.manifest").joinpath("statefulsparkjobs.yaml").read_text("utf-8")
    )
    loaded: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded


def root() -> Schema:
    """The schema of the whole object."""
    found: Schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def spec() -> Schema:
    """The schema of ``spec``."""
    found: Schema = root()["properties"]["spec"]
    return found


def with_defaults(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with the schema's own defaults filled in, as the API server does before it judges."""
    filled = copy.deepcopy(dict(document))
    for name, node in spec()["properties"].items():
        if "default" in node:
            filled["spec"].setdefault(name, node["default"])
    return filled


def _pattern(
    _validator: Validator, pattern: str, value: Any, _schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    # Python's $ also matches before a last line feed; the API server's does not.
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield jsonschema.ValidationError(f"{value!r} does not match")


def _required(
    _validator: Validator, names: list[str], value: Any, _schema: Schema
) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, dict):
        yield from (jsonschema.ValidationError(name) for name in names if name not in value)


def _is_whole(_: object, value: object) -> bool:
    """A float does not count, whatever its fraction: Python slices by whole numbers alone."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: object, value: object) -> bool:
    """NaN does not count, for no bound excludes it."""
    return _is_whole(None, value) or (isinstance(value, float) and math.isfinite(value))


_TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
    {"integer": _is_whole, "number": _is_number}
)
_Validator: type[Validator] = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {"pattern": _pattern, "required": _required}, type_checker=_TYPES
)


def _path_of(start: str, parts: Any) -> str:
    path = start
    for part in parts:
        path = f"{path}[{part}]" if isinstance(part, int) else join(path, part)
    return path


def check(value: Any, schema: Schema, path: str) -> list[Problem]:
    """All findings of types, values and unknown fields, in the order of the document."""
    problems = [_describe(error, path) for error in _Validator(schema).iter_errors(value)]
    return [*_unknown(value, schema, path), *problems]


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[Problem]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict):
        known = schema.get("properties")
        other = schema.get("additionalProperties")
        for name, child in value.items():
            if known is not None and name in known:
                yield from _unknown(child, known[name], join(path, name))
            elif other:
                yield from _unknown(child, other, join(path, name))
            elif known is not None:
                yield Problem(join(path, name), f"unknown field{suggest(name, known) or _elsewhere(name)}")
    elif isinstance(value, list) and "items" in schema:
        for index, child in enumerate(value):
            yield from _unknown(child, schema["items"], f"{path}[{index}]")


def suggest(name: str, known: Mapping[str, Any]) -> str:
    """``; did you mean …?`` if a name is near."""
    lowered = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.7)
    if near:
        return f"; did you mean {lowered[near[0]]}?"
    return ""


def _elsewhere(name: str) -> str:
    """Where a field of exactly this name stands, if it was written at a wrong place."""
    found = [path for path in _paths(spec(), "spec") if path.rsplit(".", 1)[1] == name]
    return f"; there is {' and '.join(found[:3])}" if found else ""


def _paths(node: Schema, path: str) -> Iterator[str]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _paths(child, f"{path}.{name}")


TYPE_WORDS = {
    "string": "text; write it in quotes",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping of fields",
    "array": "a list",
}


def _describe(error: jsonschema.ValidationError, start: str) -> Problem:
    path = _path_of(start, error.absolute_path)
    if error.validator == "required":
        return Problem(join(path, error.message), "is missing")
    if error.validator == "type" and error.instance is None:
        return Problem(path, "is empty; give it a value or leave it out")
    if error.validator == "type" and error.validator_value == "object":
        return Problem(path, _mapping(path, error.schema, error.instance), _shown(path, error.instance))
    return Problem(path, _remedy(path, error), _shown(path, error.instance))


def _mapping(path: str, schema: Any, value: Any) -> str:
    """The demand for a mapping, with its fields. The example is the first field that takes such a value."""
    fields = schema.get("properties")
    if not fields:
        return f"must be {TYPE_WORDS['object']}"
    fitting = (name for name, node in fields.items() if _Validator(node).is_valid(value))
    example = f"{path.rpartition('.')[2]}: {{{next(fitting, next(iter(fields)))}: …}}"
    return f"must be {TYPE_WORDS['object']} ({', '.join(fields)}), for example {example}"


def _shown(path: str, value: Any) -> str:
    """A note on the value; empty where it may be or hold a password. Of Flink's keys only those that set a field have
    their values shown, and here nobody knows which do."""
    text = json.dumps(value, default=str)
    if below(path.removeprefix("spec."), *configuration.NAMES) or re.search(SECRET_NAMES, path + text):
        return ""
    return f"it is {text}" if len(text) <= 80 else f"it is {text[:77]}..."


def _remedy(path: str, error: jsonschema.ValidationError) -> str:
    wanted: Any = error.validator_value
    match error.validator:
        case "type":
            return f"must be {TYPE_WORDS[wanted]}"
        case "enum":
            offered = [option for option in wanted if not rules.is_for_later(path, option)]
            options = " or ".join(json.dumps(option) for option in offered)
            return f"must be {options}{_near(error.instance, offered)}"
        case "pattern":
            return hint(wanted)
        case "minimum":
            return f"must be at least {wanted}"
        case "maximum":
            return f"must be at most {wanted}"
        case "minLength" | "minItems":
            return "must not be empty"
        case "maxLength":
            return f"must have at most {wanted} characters"
        case "maxItems" | "maxProperties":
            return f"must have at most {wanted} entries"
    return str(error.message)


def _near(value: Any, options: list[Any]) -> str:
    near = difflib.get_close_matches(
        str(value).lower(), [str(option).lower() for option in options], n=1, cutoff=0.7
    )
    return f"; did you mean {next(o for o in options if str(o).lower() == near[0])}?" if near else ""


def hint(pattern: str) -> str:
    """The demand of a pattern of the schema, in words."""
    return values.HINTS.get(pattern, f"must match {pattern}")
