"""The type of a stream's rows as state keeps them, derived from Spark's schema."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as T

from sparkstate import errors
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types

_SCALARS: Final[dict[type[T.DataType], TypeInformation]] = {
    T.BooleanType: Types.BOOLEAN(),
    T.ByteType: Types.LONG(),
    T.ShortType: Types.LONG(),
    T.IntegerType: Types.LONG(),
    T.LongType: Types.LONG(),
    T.FloatType: Types.DOUBLE(),
    T.DoubleType: Types.DOUBLE(),
    T.DecimalType: Types.BIG_DEC(),
    T.DateType: Types.SQL_DATE(),
    T.TimestampType: Types.INSTANT(),
    T.TimestampNTZType: Types.SQL_TIMESTAMP(),
    T.BinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


def row_type(struct: T.StructType, argument: str) -> TypeInformation:
    """``ROW_NAMED`` of the columns. Raises ``SpecInvalid`` for a column whose values state cannot keep as the function
    sees them; ``argument`` is what the author may give instead."""
    return Types.ROW_NAMED(
        struct.names, [_column_type(field.name, field.dataType, argument) for field in struct]
    )


def _column_type(name: str, kind: T.DataType, argument: str) -> TypeInformation:
    if isinstance(kind, T.StringType):
        return Types.STRING()
    if isinstance(kind, T.ArrayType):
        return Types.OBJECT_ARRAY(_column_type(name, kind.elementType, argument))
    found = _SCALARS.get(type(kind))
    if found is None:
        raise errors.SpecInvalid(
            f"{argument}: column {name!r} is {kind.simpleString()}, for which there is no type of its own; give the "
            "type of a row, or select the column's parts before keyed()"
        )
    return found
