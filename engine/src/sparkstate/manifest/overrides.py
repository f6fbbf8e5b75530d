"""``--set spec.slots=3``: one value of the manifest given on the command line, read as the schema says. Flink's own
file is given as ``--set spec.configuration=@conf/flink-conf.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sparkstate import errors
from sparkstate.manifest import flink_conf, schema
from sparkstate_spec import given

_NAME = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_]*)|\['([^']+)'\]|\[\"([^\"]+)\"\]")


def apply(
    document: dict[str, Any], overrides: Sequence[str], base_dir: Path | None = None
) -> tuple[dict[str, Any], list[str]]:
    """``document`` (changed in place) with the overrides, and their paths. ``path=null`` takes a field away.

    ``spec.configuration=@file`` puts the keys of a file of Flink's under those that are there; a relative path begins
    at ``base_dir``, the manifest's folder."""
    paths = []
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals:
            raise errors.SpecInvalid(f"--set {text}: there is no '='; write it as spec.slots=3")
        names = list(_names(path.strip()))
        if names == ["spec", "configuration"] and value.startswith("@"):
            conf = flink_conf.read((base_dir or Path()) / value[1:])
            own = (document.get("spec") or {}).get("configuration") or {}
            _put(document, names, flink_conf.beneath(own if isinstance(own, dict) else {}, conf), path)
            continue
        node = _node(names)
        _put(document, names, None if value == "null" else _read(value, node), path)
        paths.append(_spelled(names))
    return document, paths


def _spelled(names: Sequence[str]) -> str:
    path = ""
    for name in names:
        path = given.join(path, name)
    return path


def _names(path: str) -> Iterator[str]:
    """The names of a path; below a free map (``params``, ``sparkConf``, …) the whole rest is one key."""
    node: Mapping[str, Any] = {"properties": {**schema.root()["properties"], "metadata": _METADATA}}
    position = 0
    while position < len(path):
        rest = path[position:]
        if node.get("additionalProperties") and rest.startswith("."):
            yield rest[1:]
            return
        match = _NAME.match(path, position)
        if not match:
            raise errors.SpecInvalid(
                f"--set {path}: {rest!r} is not the name of a field; write a path such as spec.slots"
            )
        name = match[1] or match[2] or match[3]
        properties = node.get("properties")
        if properties is not None and name not in properties:
            raise errors.SpecInvalid(f"--set {path}: unknown field {name}{schema.suggest(name, properties)}")
        node = (properties or {}).get(name) or node.get("additionalProperties") or {}
        position = match.end()
        yield name


_METADATA = {"type": "object", "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}}}


def _node(names: Sequence[str]) -> Mapping[str, Any]:
    node: Mapping[str, Any] = {"properties": {**schema.root()["properties"], "metadata": _METADATA}}
    for name in names:
        node = node.get("properties", {}).get(name) or node.get("additionalProperties") or {}
    return node


def _read(text: str, node: Mapping[str, Any]) -> Any:
    kind = node.get("type")
    if kind == "string":
        return text
    if kind == "array" and not text.startswith("["):
        return [item.strip() for item in text.split(",") if item.strip()]
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _put(document: dict[str, Any], names: Sequence[str], value: Any, path: str) -> None:
    node = document
    for name in names[:-1]:
        if node.get(name) is None:
            node[name] = {}
        if not isinstance(node[name], dict):
            raise errors.SpecInvalid(f"--set {path}: {name} is {node[name]!r} in the manifest, not a mapping")
        node = node[name]
    if value is None:
        node.pop(names[-1], None)
    else:
        node[names[-1]] = value
