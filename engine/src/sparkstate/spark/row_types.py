"""The types under which rows of Spark are kept in state, and which of them can be summed or compared."""

from __future__ import annotations

from pyspark.sql import types as T

from sparkstate import errors
from sparkstate.keyed_functions import rolling
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types

_SCALARS = {
    T.BooleanType: Types.BOOLEAN(),
    T.ByteType: Types.BYTE(),
    T.ShortType: Types.SHORT(),
    T.IntegerType: Types.INT(),
    T.LongType: Types.LONG(),
    T.FloatType: Types.FLOAT(),
    T.DoubleType: Types.DOUBLE(),
    T.DecimalType: Types.BIG_DEC(),
    T.StringType: Types.STRING(),
    T.DateType: Types.SQL_DATE(),
    T.TimestampType: Types.INSTANT(),
    T.TimestampNTZType: Types.SQL_TIMESTAMP(),
    T.BinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}
_WIDE = {
    **_SCALARS,
    **dict.fromkeys((T.ByteType, T.ShortType, T.IntegerType), Types.LONG()),
    T.FloatType: Types.DOUBLE(),
}
"""Types of rows that a function folds: the sum of two values has room in them."""


def state_type(field: T.StructField, where: str) -> TypeInformation:
    """The type of a column in state. ``where`` begins the error about one that has none."""
    kind = field.dataType
    if isinstance(kind, T.ArrayType):
        return Types.OBJECT_ARRAY(state_type(T.StructField(field.name, kind.elementType), where))
    found = _SCALARS.get(type(kind))
    if found is None:
        raise errors.SpecInvalid(
            f"{where}: it keeps rows in state, and column {field.name!r} is {kind.simpleString()}; select the columns "
            "that it needs before keyed(), or write a KeyedProcessFunction"
        )
    return found


def row_type(struct: T.StructType, argument: str) -> TypeInformation:
    """``ROW_NAMED`` of the columns. Raises ``SpecInvalid`` for a column whose values state cannot keep as the function
    sees them; ``argument`` is what the author may give instead."""
    return Types.ROW_NAMED(
        struct.names, [_column_type(field.name, field.dataType, argument) for field in struct]
    )


def _column_type(name: str, kind: T.DataType, argument: str) -> TypeInformation:
    if isinstance(kind, T.ArrayType):
        return Types.OBJECT_ARRAY(_column_type(name, kind.elementType, argument))
    found = _WIDE.get(type(kind))
    if found is None:
        raise errors.SpecInvalid(
            f"{argument}: column {name!r} is {kind.simpleString()}, for which there is no type of its own; give the "
            "type of a row, or select the column's parts before keyed()"
        )
    return found


def precision_and_scale(field: T.StructField) -> tuple[int, int] | None:
    """Of a column of decimals; None for others."""
    kind = field.dataType
    return (kind.precision, kind.scale) if isinstance(kind, T.DecimalType) else None


def check_rolling(how: rolling.How, field: T.StructField, where: str) -> None:
    """Raise ``SpecInvalid`` for a column that cannot be summed (``how`` is ``sum``), or not be compared; the error
    begins with ``where``."""
    kind = field.dataType
    column = f"{where}: column {field.name!r}"
    rolling.check_type(how, state_type(field, where), kind.simpleString(), column)
    if getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        raise errors.SpecInvalid(
            f"{column} has the collation {getattr(kind, 'collation', '')}, whose order only Spark knows; use "
            "collate(…, 'UTF8_BINARY')"
        )
