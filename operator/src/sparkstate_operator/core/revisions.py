"""ControllerRevisions: a resolved spec, kept as it was accepted, and what a difference between two of them asks for."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_operator.core import naming
from sparkstate_operator.core.settings import Resolved
from sparkstate_operator.model.base import ChangeKind
from sparkstate_operator.model.spec import StatefulSparkJobSpec
from sparkstate_spec import given

FORMAT = 1
DIGEST_LENGTH = 10
ORDER = tuple(ChangeKind)
"""From weakest to strongest."""


@dataclass(frozen=True)
class Change:
    """The difference: the strongest kind of all changed fields, and their paths."""

    kind: ChangeKind | None
    paths: tuple[str, ...]


def data(resolved: Resolved) -> dict[str, Any]:
    """``data`` of the ControllerRevision."""
    return {
        "format": FORMAT,
        "spec": _plain(resolved.spec),
        "origins": dict(sorted(resolved.origins.items())),
    }


def read(stored: Mapping[str, Any]) -> Resolved:
    """The resolved spec of a ControllerRevision. Raises ValueError for a format of a later version."""
    if stored.get("format") != FORMAT:
        raise ValueError(f"a revision has format {stored.get('format')!r}; this operator reads {FORMAT}")
    return Resolved(stored["spec"], stored["origins"])


def digest(resolved: Resolved) -> str:
    """Of the values alone. If a field gets the same value from another layer, the job is the
    same and must not restart."""
    text = json.dumps(_plain(resolved.spec), sort_keys=True, separators=(",", ":"))
    return naming.digest(text, DIGEST_LENGTH)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(child) for name, child in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def change(old: Resolved, new: Resolved) -> Change:
    """The difference that ``new`` makes to a job that runs ``old``. ``kind`` None: nothing differs."""
    before, after = (dict(given.leaves(each.spec)) for each in (old, new))
    paths = sorted(
        path for path in before.keys() | after.keys() if _plain(before.get(path)) != _plain(after.get(path))
    )
    kinds = {kind_of(path) for path in paths}
    return Change(max(kinds, key=ORDER.index) if kinds else None, tuple(paths))


def strongest(paths: Iterable[str]) -> ChangeKind | None:
    """The strongest kind of change among these fields; None if there are none. Whether the job runs or is suspended
    (``state``) does not change what it runs, and does not count."""
    return max((kind_of(path) for path in paths if path != "state"), key=ORDER.index, default=None)


def kind_of(path: str) -> ChangeKind:
    """The kind of change that the field at ``path`` is: its own or that of a section around it, whichever is
    stronger; keys of a free map are like the map."""
    names = given.split(path)
    above = (".".join(names[:length]) for length in range(1, len(names) + 1))
    found = [kind for name in above if (kind := _kinds().get(name)) is not None]
    if not found:
        raise KeyError(f"{path} is not a field of a job's spec")
    return max(found, key=ORDER.index)


@functools.cache
def _kinds() -> Mapping[str, ChangeKind]:
    schema = StatefulSparkJobSpec.model_json_schema(by_alias=True)
    return dict(_walk(schema, schema["$defs"], ""))


def _walk(
    node: Mapping[str, Any], definitions: Mapping[str, Any], path: str
) -> Iterator[tuple[str, ChangeKind]]:
    for name, child in node.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        if "x-change" in child:
            yield where, ChangeKind(child["x-change"])
        for option in (child, *child.get("anyOf", ())):
            if "$ref" in option:
                yield from _walk(definitions[option["$ref"].rsplit("/", 1)[1]], definitions, where)
