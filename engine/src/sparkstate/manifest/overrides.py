"""``--set spec.slots=3``: one value of the manifest given on the command line, read as the schema says. Flink's own
file is given as ``--set spec.configuration=@conf/flink-conf.yaml``.

``spec.configuration`` and ``spec.flinkConfiguration`` are one field: a path means the map that is there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkstate import errors
from sparkstate.manifest import flink_conf, schema, source
from sparkstate_spec import configuration, given

_MAPS = [[name] for name in configuration.NAMES]
_NAME = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_]*)|\['([^']+)'\]|\[\"([^\"]+)\"\]")


def apply(
    document: dict[str, Any], overrides: Sequence[str], base_dir: Path | None = None
) -> tuple[dict[str, Any], list[str]]:
    """``document`` (changed in place) with the overrides, and their paths. ``path=null`` takes a field away.

    ``spec.configuration=@file`` and ``spec.flinkConfiguration=@file`` put the keys of a file of Flink's under those
    that are there; a relative path begins at ``base_dir``, the manifest's folder."""
    paths = []
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals:
            raise errors.SpecInvalid(f"--set {text}: there is no '='; write it as spec.slots=3")
        names = _of_the_manifest(list(_names(path.strip())), document)
        if not names:
            raise errors.SpecInvalid(f"--set {text}: there is no field before '='; write it as spec.slots=3")
        if names[:1] == ["spec"] and names[1:] in _MAPS and value.startswith("@"):
            conf = flink_conf.read((base_dir or Path()) / value[1:])
            own = (document.get("spec") or {}).get(names[1]) or {}
            _put(document, names, flink_conf.beneath(own if isinstance(own, dict) else {}, conf), path)
            continue
        try:
            read = None if value == "null" else _read(value, _node(names))
        except errors.SpecInvalid as error:
            raise errors.SpecInvalid(f"--set {path}: {error}") from error
        _put(document, names, read, path)
        paths.append(_spelled(names))
    return document, paths


def _of_the_manifest(names: list[str], document: dict[str, Any]) -> list[str]:
    """A path into the map of Flink's keys, by the spelling that is there. Sections of ``flinkConfiguration`` become
    whole keys before one of them is set, so that the new value replaces the old one."""
    if names[:1] != ["spec"] or names[1:2] not in _MAPS:
        return names
    spec = document.get("spec")
    if not isinstance(spec, dict) or all(spec.get(name) is None for name in configuration.NAMES):
        return names
    found = configuration.spelling(spec)
    if found == configuration.AS_IN_FLINK and isinstance(spec[found], dict):
        try:
            spec[found] = configuration.flat(spec[found])
        except ValueError:
            return ["spec", found, *names[2:]]  # the finding comes with all others
    return ["spec", found, *names[2:]]


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
        free = node.get("additionalProperties") or node is _spec_of(configuration.AS_IN_FLINK)
        if free and rest.startswith("."):
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


def _spec_of(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema.spec()["properties"][name]
    return found


def _node(names: Sequence[str]) -> Mapping[str, Any]:
    if names[1:2] == [configuration.AS_IN_FLINK] and len(names) > 2:
        return {"type": "string"}  # as below configuration
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
    return source.parse_value(text)


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
