"""How values of one type become values of another: a plan, which is data, and what carries it out.

A plan works on packed values, as msgpack has them (``typeinfo``), and leads from the bytes of one type to the bytes of
another. Plans are stored beside values that are not migrated yet, so that a value is read by the rules that were in
force when its type was changed, whatever later versions think. So a tag or a field once written here stays readable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, Union

import msgspec

from sparkstate import errors
from sparkstate.serde import expiring
from sparkstate.serde.typeinfo import SCHEMA_PREFIX, TypeInformation, pack_bytes

Packed: TypeAlias = Any
_DAY_US: Final = 24 * 3600 * 1_000_000
_NIL: Final = b"\xc0"


class Cast(msgspec.Struct, frozen=True, tag="cast"):
    """A single value in another form: a whole number as ``digits`` or ``float``, a day as its ``midnight`` in µs."""

    to: Literal["digits", "float", "midnight"]


class Constants(msgspec.Struct, frozen=True, tag="enum"):
    """A constant of an enum by another number."""

    places: tuple[int, ...]
    """By its number among the old constants, its number among the new ones."""


class Names(msgspec.Struct, frozen=True, tag="names"):
    """A constant of an enum as text."""

    names: tuple[str, ...]
    """By its number."""


class FieldPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a field of the new row comes from."""

    source: int
    """Its place in the old row; -1: the old row does not have it."""
    plan: Plan | None = None
    """The plan of its value, unless that is null; None: it stays."""
    default: bytes = _NIL
    """The packed value of a field that the old row does not have, as msgpack."""


class Fields(msgspec.Struct, frozen=True, tag="row"):
    """A row or tuple, field by field of the new one."""

    fields: tuple[FieldPlan, ...]


class Elements(msgspec.Struct, frozen=True, tag="list"):
    """Each element of a list that is not null."""

    plan: Plan


class Entries(msgspec.Struct, frozen=True, tag="map", omit_defaults=True):
    """Each value of a map that is not null, and each key; no two keys become one."""

    plan: Plan | None
    """None: values stay."""
    keys: Plan | None = None
    """None: keys stay, as all do but enums."""


Plan: TypeAlias = Union[Cast, Constants, Names, Fields, Elements, Entries]  # noqa: UP007 - msgspec resolves the name at run time

_CASTS: Final[dict[str, Callable[[Packed], Packed]]] = {
    "digits": str,
    "float": float,
    "midnight": lambda day: day * _DAY_US,
}


def converter(plan: Plan) -> Callable[[Packed], Packed]:
    """The function that carries out ``plan`` on a packed value."""
    if isinstance(plan, Cast):
        return _CASTS[plan.to]
    if isinstance(plan, (Constants, Names)):
        # A dict, because a negative number is no place.
        return dict(enumerate(plan.places if isinstance(plan, Constants) else plan.names)).__getitem__
    if isinstance(plan, Fields):
        return _row_converter(plan)
    if isinstance(plan, Elements):
        each = converter(plan.plan)
        return lambda packed: [None if item is None else each(item) for item in packed]
    key_of, value_of = _or_same(plan.keys), _or_same(plan.plan)
    return lambda packed: [(key_of(key), None if value is None else value_of(value)) for key, value in packed]


def _or_same(plan: Plan | None) -> Callable[[Packed], Packed]:
    return (lambda packed: packed) if plan is None else converter(plan)


def _row_converter(plan: Fields) -> Callable[[Packed], Packed]:
    sources = [_field_source(field) for field in plan.fields]
    return lambda packed: [source(packed) for source in sources]


def _field_source(field: FieldPlan) -> Callable[[Sequence[Packed]], Packed]:
    at = field.source
    if at < 0:
        default = msgspec.msgpack.decode(field.default)
        return lambda row: default
    if field.plan is None:
        return lambda row: row[at]
    each = converter(field.plan)
    return lambda row: None if row[at] is None else each(row[at])


class Migration:
    """Stored bytes of a type to stored bytes of another, by plans one after another; schema ids are 0 on both sides.

    A value that expires keeps its stamp. An empty value, which stands for null, stays empty. A value with another
    schema id stays as it is, so that its type refuses it when it is read.
    """

    def __init__(self, before: TypeInformation, plans: Sequence[Plan]) -> None:
        self._before = expiring.value_type_of(before)
        self._decode = msgspec.msgpack.Decoder(self._before.wire).decode
        self._converters = [converter(plan) for plan in plans]

    def __call__(self, data: bytes) -> bytes:
        """Raises ``CorruptData`` for bytes that are not of the type before."""
        if data[:1] == expiring.MARK:
            return data[: expiring.STAMP_BYTES] + self(data[expiring.STAMP_BYTES :])
        if data[:1] != SCHEMA_PREFIX:
            return data
        try:
            packed = self._decode(data[1:])
            for convert in self._converters:
                packed = convert(packed)
        except (msgspec.DecodeError, ValueError, TypeError, LookupError) as error:
            raise errors.CorruptData(
                f"a stored value is not of type {self._before.describe()}: {error}"
            ) from error
        return SCHEMA_PREFIX + pack_bytes(packed)
