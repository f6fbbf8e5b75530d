"""The key columns of an operator, whose Spark types decide in which key groups its keys lie.

Spark's hash depends on a column's type: ``1`` as ``int`` and ``1`` as ``bigint`` have two hashes, while both are a
``LONG`` in the slots. After such a change a key would be looked for in another key group than the one that has its
state, and nothing in the types of states would tell. So a snapshot keeps the key columns of each operator, and a
restore compares them with those that the job declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sparkstate.checkpoint.premises import Change


class KeyColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a stream's key; ``type`` as Spark writes it, such as ``bigint`` or ``decimal(10,2)``."""

    name: str
    type: str


_ONE_HASH: Final[Mapping[str, str]] = {"tinyint": "int", "smallint": "int"}
"""Types that Spark hashes as another one."""
_ONE_TYPE: Final[Mapping[str, str]] = {"bigint": "int", "double": "float"}
"""Hashed types that have the type of another one in the slots (``spark.plans.key_type``)."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)")
_LONG_DIGITS: Final = 18
"""Spark hashes the unscaled value of a decimal as one long up to this precision, and as bytes beyond it."""


_HARM: Final = "Spark hashes these differently, so keys would not find their state"


def changes(uid: str, stored: Sequence[KeyColumn], declared: Sequence[KeyColumn]) -> Iterator[Change]:
    """The changes by which keys would lie in other key groups, of those that the types of states cannot tell.

    None where ``stored`` is empty, as of snapshots of older versions. Columns may have other names than before.
    """
    if _types(stored) != _types(declared):
        return  # by these the states themselves are refused
    before, now = _names(stored), _names(declared)
    if before != now and sorted(before) == sorted(now):
        order = ", ".join(before)
        remedy = f"Key by {order} in this order"
        yield Change(uid, "order of key columns", order, ", ".join(now), _HARM, remedy)
        return
    for was, column in zip(stored, declared, strict=True):
        if _hashed(was.type) != _hashed(column.type):
            remedy = f"Cast the column to {was.type} before it becomes a key"
            yield Change(uid, f"type of key column {column.name!r}", was.type, column.type, _HARM, remedy)


def no_keys(uid: str, stored: str) -> Change:
    """The change of an operator that has had timers into one of a stream without keys. ``stored``: the type of its
    keys. Other state by key needs no refusal: it stays in every snapshot, and nothing asks for it."""
    harm, remedy = "timers that it has left would never fire", "Key its stream as before"
    return Change(uid, "key type", stored, "none", harm, remedy)


def _names(columns: Sequence[KeyColumn]) -> list[str]:
    return [column.name for column in columns]


def _types(columns: Sequence[KeyColumn]) -> list[str]:
    """The types that the key has in the slots: equal for columns between which no state's type can tell."""
    hashed = [_hashed(column.type) for column in columns]
    return ["decimal" if each.startswith("decimal") else _ONE_TYPE.get(each, each) for each in hashed]


def _hashed(kind: str) -> str:
    """Equal for types whose equal values have equal hashes."""
    found = _DECIMAL.fullmatch(kind)
    if found is None:
        return _ONE_HASH.get(kind, kind)
    precision, scale = found.groups()
    return f"decimal of {'a long' if int(precision) <= _LONG_DIGITS else 'bytes'}, scale {scale}"
