"""The value of a field for which neither the job nor its defaults give one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkstate_spec import fields, units
from sparkstate_spec.given import BUILT_IN, GivenValue, Leaves

_PLAIN: Mapping[str, Callable[[str], Any]] = {"duration": units.duration_s, "memory": units.quantity_bytes}


def value(path: str) -> Any:
    """The built-in value of a field, in the field's own spelling. Raises KeyError where there is none."""
    found = fields.BY_PATH[path].built_in
    if found is None:
        raise KeyError(f"{path} has no built-in value")
    return found


def plain(path: str) -> Any:
    """The same in plain units: durations in seconds, sizes in bytes."""
    read = reader(path)
    return value(path) if read is None else read(value(path))


def reader(path: str) -> Callable[[str], Any] | None:
    """From a field's own spelling to plain units; None where the value is plain as it is."""
    return _PLAIN.get(fields.BY_PATH[path].kind) if path in fields.BY_PATH else None


def shown(path: str) -> str:
    """The same as YAML has it."""
    found = value(path)
    return str(found).lower() if isinstance(found, bool) else str(found)


def fill(given: Leaves) -> dict[str, GivenValue]:
    """``given`` with the built-in values of all fields that nobody gave, so that they are written down: a revision
    shows them, and other built-in values of a later version do not change a running job."""
    filled = dict(given)
    for line in fields.TABLE:
        if line.built_in is not None and line.path not in filled and line.applies(filled):
            filled[line.path] = GivenValue(line.built_in, BUILT_IN)
    return filled
