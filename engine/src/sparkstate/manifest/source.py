"""From text to plain data: one YAML document, no duplicate keys, none of YAML 1.1's surprises."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import yaml

from sparkstate import errors


class _Loader(yaml.SafeLoader):
    """SafeLoader without timestamps and base-60 numbers (Kubernetes has neither), and with duplicate keys refused."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)  # calls this method for each mapping that is merged in (<<)
        if len(node.value) > _MOST_PARTS:
            raise errors.SpecInvalid(_TOO_MUCH)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in entries
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int")
    ]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(0|[1-9][0-9]*|0x[0-9a-fA-F]+|0o?[0-7]+)$"),
    list("-+0123456789"),
)


def _construct_mapping(loader: _Loader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise errors.SpecInvalid(f"line {line}: the key {key!r} is not text; write it in quotes")
        if key in seen:
            raise errors.SpecInvalid(
                f"line {line}: {key} appears twice (first on line {seen[key]}); keep one"
            )
        seen[key] = line
    loader.flatten_mapping(node)
    return {
        loader.construct_object(key, deep=True): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


def _construct_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    """JSON writes characters beyond U+FFFF as pairs of escapes, and the operator hands manifests over as JSON. PyYAML
    leaves such a pair as two halves, which no encoding can write."""
    text = str(loader.construct_scalar(node))
    if not _HALF.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        line = node.start_mark.line + 1
        raise errors.SpecInvalid(
            f"line {line}: {ascii(text)[:80]} holds half of a character; write the whole character"
        ) from error


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    # Python refuses to write down a number of thousands of digits, so messages about it would fail.
    if len(node.value) <= _MOST_DIGITS:
        with contextlib.suppress(ValueError):  # ``!!int abc``
            return int(loader.construct_yaml_int(node))
    line = node.start_mark.line + 1
    raise errors.SpecInvalid(f"line {line}: {node.value[:40]!r} is not a number that a field takes")


def _require_bounded(document: Any) -> None:
    """Aliases (``*name``) let a few lines stand for more than a memory holds, as soon as somebody writes them out: an
    error that shows a value, for example. Each part is counted as often as the document stands for it."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if not isinstance(node, dict | list):
            return 1
        if id(node) not in sizes:
            sizes[id(node)] = 1 + sum(map(size, node.values() if isinstance(node, dict) else node))
        return sizes[id(node)]

    if size(document) > _MOST_PARTS:
        raise errors.SpecInvalid(_TOO_MUCH)


_MOST_DIGITS = 100
_MOST_PARTS = 100_000
_TOO_MUCH = (
    f"it comes to more than {_MOST_PARTS:,} parts with each YAML alias (*name) in full; write the values out"
)
_HALF = re.compile(r"[\ud800-\udfff]")
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.add_constructor("tag:yaml.org,2002:str", _construct_text)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def read(source: Path | str) -> tuple[str, str, Path | None]:
    """Text, a name for messages and the folder that relative paths mean. A ``str`` is text, a ``Path`` a file."""
    if isinstance(source, str):
        return source, "manifest", None
    if source.suffix == ".py":
        raise errors.SpecInvalid(
            f"{source} is Python code; name the job's manifest, a YAML file whose spec.pythonFile names the code "
            "(`sparkstate init FOLDER` writes both)"
        )
    try:
        return source.read_text("utf-8"), str(source), source.resolve().parent
    except OSError as error:
        raise errors.SpecInvalid(
            f"{source} cannot be read: {error.strerror}; name the job's manifest"
        ) from error
    except UnicodeDecodeError as error:
        raise errors.SpecInvalid(
            f"{source} is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error


def parse_value(text: str) -> Any:
    """One value by the same rules. Raises ``SpecInvalid``."""
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        return text
    except (RecursionError, ValueError, LookupError, AttributeError):
        raise errors.SpecInvalid(f"{text[:80]!r} is not a value that a field takes") from None
    _require_bounded(value)
    return value


def parse(text: str) -> dict[str, Any]:
    """The one document of ``text``. Raises ``SpecInvalid`` with the line."""
    try:
        documents = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise errors.SpecInvalid(f"{line}this is not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise errors.SpecInvalid(f"this is not valid YAML: {error}") from error
    except RecursionError:
        raise errors.SpecInvalid("it is nested too deeply; a manifest has a few levels") from None
    except (ValueError, LookupError, AttributeError) as error:  # ``!!float abc``, ``!!bool x``
        raise errors.SpecInvalid(f"a value does not fit its explicit tag (!!): {error}") from error
    if len(documents) != 1:
        raise errors.SpecInvalid(
            f"there are {len(documents)} YAML documents in it; one manifest holds exactly one "
            f"StatefulSparkJob"
        )
    if not isinstance(documents[0], dict):
        raise errors.SpecInvalid(
            f"the manifest is a {type(documents[0]).__name__}; it must be a mapping with kind and spec"
        )
    _require_bounded(documents[0])
    return documents[0]
