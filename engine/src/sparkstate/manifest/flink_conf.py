"""Flink's own configuration file, as a map of texts: ``flink-conf.yaml`` (before Flink 2) and ``config.yaml``.

Flink reads the former line by line, not as YAML: a key, a colon and a blank, and the rest of the line as the value. The
latter is YAML, in which sections may be nested and lists written out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sparkstate import errors
from sparkstate_spec import configuration, fields

_LARGEST_BYTES = 1024 * 1024
_KEY = re.compile(r"[-._$a-zA-Z0-9]+\Z")


def read(path: Path) -> dict[str, str]:
    """The keys of a file. Raises ``SpecInvalid`` with its name and line."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise errors.SpecInvalid(f"{path} has more than 1 MiB; name Flink's configuration file")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.SpecInvalid(
            f"{path} cannot be read: {error}; name Flink's configuration file, from the manifest's folder on"
        ) from error
    try:
        return parse(text)
    except errors.SpecInvalid as error:
        raise errors.SpecInvalid(f"{path}: {error}") from error.__cause__


def parse(text: str) -> dict[str, str]:
    """The keys of a file's text. A file that is nested, or whose lists are written out, is read as YAML.

    Raises ``SpecInvalid`` with the line."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _content(line)]
    if any(line[0] in " \t-" or _content(line).endswith(":") for _, line in lines):
        return _of_yaml(text)
    found: dict[str, str] = {}
    for number, line in lines:
        key, colon, value = (part.strip() for part in _content(line).partition(": "))
        if not colon or not _KEY.match(key) or not value:
            # Not the line itself, which may hold a password.
            raise errors.SpecInvalid(f"line {number} is not of the form 'key: value'")
        if key in found:
            raise errors.SpecInvalid(f"line {number}: {key} appears twice; keep one")
        found[key] = _unquoted(value)
    return found


def beneath(own: dict[str, str], conf: dict[str, str]) -> dict[str, str]:
    """The keys of ``conf`` under those of ``own``, whose other spelling counts as the same key."""
    taken = {twin for key in own for twin in (fields.BY_KEY[key].flink if key in fields.BY_KEY else (key,))}
    return {**{key: value for key, value in conf.items() if key not in taken}, **own}


def _content(line: str) -> str:
    """Without a comment, which Flink lets begin anywhere."""
    return line.split("#", 1)[0].strip()


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


class _Loader(yaml.BaseLoader):
    """Every scalar is text, and a key may not appear twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found = super().construct_mapping(node, deep=deep)
        if len(found) < len(node.value):
            names = [str(getattr(key, "value", "")) for key, _ in node.value]
            twice = next((name for name in names if names.count(name) > 1), "a key")
            raise errors.SpecInvalid(f"line {node.start_mark.line + 1}: {twice} appears twice; keep one")
        return found


def _of_yaml(text: str) -> dict[str, str]:
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark else "it"
        raise errors.SpecInvalid(f"{line} is not valid YAML") from None
    except RecursionError:
        raise errors.SpecInvalid("it is nested too deeply; name Flink's configuration file") from None
    if not isinstance(document, dict):
        raise errors.SpecInvalid("it is not a map of keys and values")
    try:
        return configuration.flat(document)
    except ValueError as error:
        raise errors.SpecInvalid(str(error)) from None
