"""The Arrow type of a declared type, and values on their way between the two."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from sparkstate import errors
from sparkstate.operators.rows import arrow_rows, frames
from sparkstate.serde import containers, enums, packed, scalars
from sparkstate.serde.typeinfo import TypeInformation

_SCALARS: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "LONG": pa.int64(),
    "FLOAT": pa.float64(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "STRING": pa.string(),
    "BIG_INT": pa.decimal256(76, 0),
    "BIG_DEC": pa.decimal256(76, 38),
    "SQL_DATE": pa.date32(),
    "SQL_TIME": pa.time64("us"),
    "SQL_TIMESTAMP": pa.timestamp("us"),
    "INSTANT": pa.timestamp("us", "UTC"),
    "PRIMITIVE_ARRAY<BYTE>": pa.binary(),
}
"""FLOAT has 64 bits, as everywhere in stored state. BIG_DEC holds every decimal of Spark, whatever its scale."""
_EXACT = decimal.Context(prec=76)
"""Python's default context rounds to 28 digits."""


def arrow_type(declared: TypeInformation) -> pa.DataType:
    """The Arrow type of a declared one. Raises ``StateError`` for pickled values."""
    found = _SCALARS.get(declared.describe())
    if found is not None:
        return found
    if isinstance(declared, enums.EnumType):
        return pa.string()
    if isinstance(declared, packed.PackedType):
        return pa.binary(declared.width)
    if isinstance(declared, containers.ListType):
        return pa.list_(arrow_type(declared.element))
    if isinstance(declared, containers.MapType):
        return pa.map_(arrow_type(declared.key), arrow_type(declared.value))
    if isinstance(declared, (containers.RowType, containers.TupleType)):
        return pa.struct(list(zip(_names(declared), map(arrow_type, declared.fields), strict=True)))
    raise errors.StateError(
        f"values of type {declared.describe()} have no Arrow type; declare the state with one of the other Types, or "
        "use a KeyedProcessFunction"
    )


def _names(declared: containers.RowType | containers.TupleType) -> list[str]:
    named = declared.names if isinstance(declared, containers.RowType) else None
    return list(named) if named is not None else [f"f{number}" for number in range(len(declared.fields))]


def to_array(values: Iterable[Any], declared: TypeInformation) -> pa.Array:
    """Values as the user's code of a record would see them, as an array."""
    name = namer(declared)
    return pa.array([_optional(name, value) for value in values], type=arrow_type(declared))


def namer(declared: TypeInformation) -> Callable[[Any], Any] | None:
    """From what the user's code of a record sees to what Arrow takes: members of enums become their names, at any
    depth. None: there are none."""
    if isinstance(declared, enums.EnumType):
        return declared.normalize
    if isinstance(declared, containers.ListType):
        return _of_list(namer(declared.element))
    if isinstance(declared, containers.MapType):
        pairs = pair_namer(declared.key, declared.value)
        return None if pairs is None else lambda items: pairs(items.items())
    if isinstance(declared, (containers.RowType, containers.TupleType)):
        fields = [namer(field) for field in declared.fields]
        if not any(fields):
            return None
        return lambda row: tuple(_optional(name, item) for name, item in zip(fields, row, strict=True))
    return None


def pair_namer(
    key_type: TypeInformation, value_type: TypeInformation
) -> Callable[[Iterable[tuple[Any, Any]]], list[tuple[Any, Any]]] | None:
    """The same for pairs of map key and value."""
    key, value = namer(key_type), namer(value_type)
    if key is value is None:
        return None
    return lambda pairs: [(_optional(key, name), _optional(value, item)) for name, item in pairs]


def enum_classes(declared: TypeInformation) -> frozenset[type]:
    """The classes of the enums within a type."""
    if isinstance(declared, enums.EnumType):
        return frozenset() if declared.enum_class is None else frozenset((declared.enum_class,))
    parts: tuple[TypeInformation, ...] = ()
    if isinstance(declared, containers.ListType):
        parts = (declared.element,)
    elif isinstance(declared, containers.MapType):
        parts = (declared.key, declared.value)
    elif isinstance(declared, (containers.RowType, containers.TupleType)):
        parts = declared.fields
    return frozenset[type]().union(*map(enum_classes, parts))


def to_values(array: pa.Array, declared: TypeInformation) -> list[Any]:
    """The inverse. The array is cast first; raises ``SerializationError`` if it cannot be.

    Decimals of another type than the state's keep their scale, as a row's would: ``1.50`` is stored as ``1.50``."""
    is_decimal = isinstance(declared, scalars.DecimalType) and pa.types.is_decimal(array.type)
    if is_decimal and array.type != arrow_type(declared):
        return array.to_pylist()  # type: ignore[no-any-return]
    made = cast(array, declared)
    # A map's entries are read as pairs here, because its keys may be structs.
    values = made.to_pylist() if pa.types.is_nested(made.type) else arrow_rows.column_values(made)
    convert = _converter(declared)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def cast(array: pa.Array, declared: TypeInformation) -> pa.Array:
    """The array in the declared type's Arrow type. Raises ``SerializationError`` for values that do not fit."""
    wanted = arrow_type(declared)
    if pa.types.is_dictionary(array.type):
        array = frames.decoded(array)
    wrong = frames.other_fields(array.type, wanted)
    if wrong is None and not _fits(array.type, wanted):
        wrong = "cast it first"
    if wrong is not None:
        raise errors.SerializationError(
            f"an array of {array.type} does not fit {declared.describe()}: {wrong}"
        )
    try:
        return array if array.type == wanted else array.cast(wanted, safe=not pa.types.is_floating(wanted))
    except pa.ArrowException as error:
        raise errors.SerializationError(
            f"an array of {array.type} does not fit {declared.describe()}: {error}"
        ) from None


def _family(kind: pa.DataType) -> str:
    """Types within a family are cast into one another; a state takes no others, as it takes no other Python types."""
    types = pa.types
    if types.is_timestamp(kind):
        return "instant" if kind.tz else "timestamp"
    checks = {
        "integer": types.is_integer, "float": types.is_floating, "decimal": types.is_decimal, "date": types.is_date,
        "time": types.is_time, "null": types.is_null, "struct": types.is_struct, "map": types.is_map,
    }  # fmt: skip
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list"
    return next((name for name, check in checks.items() if check(kind)), str(kind))


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    one, other = _family(given), _family(wanted)
    if one == "null" or (one == "integer" and other in ("float", "decimal")):
        return True
    if one != other:
        return False
    if one == "list":
        return _fits(given.value_type, wanted.value_type)
    if one == "map":
        return _fits(given.key_type, wanted.key_type) and _fits(given.item_type, wanted.item_type)
    if one == "struct":
        return all(_fits(given.field(field.name).type, field.type) for field in wanted)
    return True


def _converter(declared: TypeInformation) -> Callable[[Any], Any] | None:
    """From what Arrow gives to what the type takes; None: it is the same."""
    if isinstance(declared, scalars.BigIntegerType):
        return int
    if isinstance(declared, scalars.DecimalType):
        return _plain
    if isinstance(declared, containers.ListType):
        return _of_list(_converter(declared.element))
    if isinstance(declared, containers.MapType):
        return _of_map(_converter(declared.key), _converter(declared.value))
    if isinstance(declared, (containers.RowType, containers.TupleType)):
        return _of_struct([_converter(field) for field in declared.fields])
    return None


def _plain(value: decimal.Decimal) -> decimal.Decimal:
    """Without the zeros that Arrow's scale adds: equal numbers are stored in the same bytes."""
    if value == value.to_integral_value(context=_EXACT):
        return value.quantize(decimal.Decimal(1), context=_EXACT)
    return value.normalize(_EXACT)


def _optional(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _of_list(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if convert is None else lambda items: [_optional(convert, item) for item in items]


def _of_map(key: Callable[[Any], Any] | None, value: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return lambda pairs: {_optional(key, name): _optional(value, item) for name, item in pairs}


def _of_struct(fields: list[Callable[[Any], Any] | None]) -> Callable[[Any], Any]:
    return lambda struct: tuple(
        _optional(convert, item) for convert, item in zip(fields, struct.values(), strict=True)
    )
