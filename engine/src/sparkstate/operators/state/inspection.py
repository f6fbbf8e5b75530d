"""Reading one committed cell from outside."""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkstate.backends.base import NamespacedCell, StateKind, TableSpec
from sparkstate.serde import composite, expiring, packed


def read_cell(
    spec: TableSpec,
    table_of: Callable[[int], Any],
    kgs: Sequence[int],
    key: Any,
    namespace: Any,
    cutoff: int = expiring.NO_STAMP,
) -> Any:
    """The cell's value (a list, a dict, or a value), searched for in these key groups; None if it is in none. Values
    stamped at ``cutoff`` or before have expired and are left out."""
    key = spec.key_type.normalize_key(key)
    cell = key if namespace is None else NamespacedCell(key, composite.told_apart(namespace))
    for kg in kgs:
        table = table_of(kg)
        if spec.kind is StateKind.LIST:
            stored = table.get(kg, cell)
        elif spec.kind is StateKind.MAP:
            stored = table.items(kg, cell)
        else:
            stored = table.get(kg, cell)
        if stored is not None and expiring.ttl_of(spec.value_type) is not None:
            stored = expiring.live_part(stored, cutoff)
        if stored is not None and (stored or spec.kind not in (StateKind.LIST, StateKind.MAP)):
            return _value(spec, stored)
    return None


def _value(spec: TableSpec, stored: Any) -> Any:
    assert spec.value_type is not None
    if isinstance(spec.value_type, packed.PackedType):
        return spec.value_type.read(stored)
    thaw = spec.value_type.thaw
    if spec.kind is StateKind.LIST:
        return [thaw(item) for item in stored]
    if spec.kind is StateKind.MAP:
        assert spec.user_key_type is not None
        thaw_key = spec.user_key_type.thaw_key
        return {
            key if thaw_key is None else thaw_key(key): None if value is None else thaw(value)
            for key, value in stored.items()
        }
    return thaw(stored)


def to_json(value: Any) -> Any:
    """Dates and times in ISO 8601, decimals as text, bytes in base64, members of enums by name, map keys as text.
    JSON has no NaN and no infinity: they are text too, because null is how a value that is not there looks."""
    match value:
        case enum.Enum():  # first: it may be a number or text as well
            return value._name_
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {str(to_json(k)): to_json(v) for k, v in value.items()}
        case tuple() | list():
            return [to_json(item) for item in value]
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case _:
            return repr(value)
