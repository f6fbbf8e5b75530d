"""The map of Flink's keys in a spec, in both of its spellings.

``configuration`` holds texts by whole keys, and the API server judges them. ``flinkConfiguration`` is the name that
Flink's Kubernetes operator has for it. There, as in Flink's ``config.yaml``, a value may be a number, a switch or a
list, and a part of the keys may be written as sections: ``state: {backend: {type: rocksdb}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkstate_spec.problems import Problem

NAME = "configuration"
AS_IN_FLINK = "flinkConfiguration"
NAMES = (NAME, AS_IN_FLINK)

MOST_KEYS = 100
LONGEST_TEXT = 1024
"""Bounds of both spellings; those of ``configuration`` are in the schema too."""
MOST_PARTS = 10_000
MOST_CHARACTERS = 1024 * 1024
"""Bounds of the reading itself. A few lines of YAML aliases may stand for more than a memory holds."""
_TOO_MUCH = (
    f"its sections and lists come to more than {MOST_PARTS:,} parts or {MOST_CHARACTERS:,} characters, with each YAML "
    "alias (*name) in full; write out the few keys that count"
)


def spelling(spec: Mapping[str, Any]) -> str:
    """The name of the map that the spec gives; ``configuration`` where it gives both or neither."""
    other = spec.get(NAME) is None and spec.get(AS_IN_FLINK) is not None
    return AS_IN_FLINK if other else NAME


def keys(spec: Mapping[str, Any]) -> Mapping[str, str]:
    """Flink's keys as texts. Raises ValueError for a map that has :func:`problems`."""
    if spelling(spec) == NAME:
        return spec.get(NAME) or {}
    return flat(spec[AS_IN_FLINK])


def problems(spec: Mapping[str, Any]) -> list[Problem]:
    """The finding about a ``flinkConfiguration`` that cannot be read as texts by keys."""
    if spec.get(AS_IN_FLINK) is None:
        return []
    path = f"spec.{AS_IN_FLINK}"
    try:
        found = flat(spec[AS_IN_FLINK])
    except ValueError as error:
        return [Problem(path, str(error))]
    if len(found) > MOST_KEYS:
        return [Problem(path, f"must have at most {MOST_KEYS} entries", f"it has {len(found)}")]
    long = [key for key, text in found.items() if len(text) > LONGEST_TEXT]
    return [Problem(path, f"must have at most {LONGEST_TEXT} characters in a value", long[0])] if long else []


def plain(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec with its ``flinkConfiguration`` as ``configuration``. Raises ValueError as :func:`keys` does."""
    if spelling(spec) == NAME:
        return spec
    return {NAME: keys(spec), **{name: value for name, value in spec.items() if name not in NAMES}}


def as_written(problem: Problem, name: str) -> Problem:
    """A finding about :func:`plain`'s ``configuration``, in the words of the spelling ``name``."""
    path, message = (
        text.replace(f"spec.{NAME}", f"spec.{name}").replace(f"{NAME}['", f"{name}['")
        for text in (problem.path, problem.message)
    )
    return replace(problem, path=path, message=message)


def flat(tree: Any) -> dict[str, str]:
    """Sections as whole keys, and every value as Flink writes it: lists with ``;``, switches as true and false.

    Raises ValueError, which names the key and never a value: it may be a password.
    """
    if not isinstance(tree, Mapping):
        raise ValueError("must be a mapping of keys and values")
    found: dict[str, str] = {}
    waiting: list[tuple[str, Any]] = [("", tree)]
    parts = characters = 0
    while waiting:
        key, value = waiting.pop()
        parts += 1 + (len(value) if isinstance(value, list) else 0)
        characters += len(key) + _characters(value)
        if parts + len(waiting) > MOST_PARTS or characters > MOST_CHARACTERS:
            raise ValueError(_TOO_MUCH)
        if isinstance(value, Mapping):
            waiting += reversed([(f"{key}.{name}", child) for name, child in value.items()])
        elif (whole := key[1:]) in found:
            raise ValueError(f"{whole} appears twice; keep one")
        else:
            found[whole] = _text(whole, value)
    return found


def _characters(value: Any) -> int:
    texts = value if isinstance(value, list) else (value,)
    return sum(len(each) for each in texts if isinstance(each, str))


def _text(key: str, value: Any) -> str:
    if isinstance(value, list):
        if not all(isinstance(item, str | int | float) for item in value):
            raise ValueError(f"{key} is a list of more than texts; write it as texts")
        return ";".join(_text(key, item) for item in value)
    if value is None:
        raise ValueError(f"{key} is empty; give it a value or leave it out")
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise ValueError(f"{key} is neither text, a number, true or false; write it in quotes")
    return f"{value}"
