"""Between Arrow batches and rows of Python values. Most of an epoch's time is spent here and in the user's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from sparkstate import errors
from sparkstate.serde import containers, scalars
from sparkstate.serde.typeinfo import TypeInformation

_SHOWN_CHARACTERS: Final = 500


def column_values(array: pa.Array) -> list[Any]:
    """The column as Python values: what ``to_pylist`` gives, several times faster for numbers and text."""
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if array.null_count == 0:
            return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
        values = array.fill_null(0).to_numpy(zero_copy_only=False).tolist()
        for index in array.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
            values[index] = None
        return values  # type: ignore[no-any-return]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    if pa.types.is_boolean(kind) and array.null_count == 0:
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


ReadColumn = Callable[[str], list[Any]]
"""Column name → its values in the batch at hand."""


def key_reader(columns: Sequence[str], key_type: TypeInformation) -> Callable[[ReadColumn], list[Any]]:
    """A function that reads a batch's keys: scalars for one column, tuples for more. Every NaN is one object, because
    a dict finds a NaN only by identity."""
    if len(columns) == 1:
        column = columns[0]
        if isinstance(key_type, scalars.FloatType):
            return lambda read: one_nan(read(column))
        return lambda read: read(column)
    fields = key_type.fields if isinstance(key_type, containers.TupleType) else ()
    floats = {
        name for name, field in zip(columns, fields, strict=True) if isinstance(field, scalars.FloatType)
    }

    def read_tuples(read: ReadColumn) -> list[Any]:
        values = [one_nan(read(name)) if name in floats else read(name) for name in columns]
        return list(zip(*values, strict=True))

    return read_tuples


def one_nan(values: list[Any]) -> list[Any]:
    """Floating-point numbers, every NaN the same object."""
    return [scalars.NAN if value != value else value for value in values]  # noqa: PLR0124 - finds NaN


class OutputError(Exception):
    """A yielded row does not fit the output's columns; the message says which and why."""


def to_batch(rows: Sequence[Any], schema: pa.Schema, kinds: set[type] | None = None) -> pa.RecordBatch:
    """Rows as a batch; ``kinds``: their types, where they are known. A row is a tuple, list or Row by position, a dict
    by name, or the bare value of a single column.

    Raises :class:`OutputError`.
    """
    width = len(schema)
    if not all(issubclass(kind, (tuple, list)) for kind in kinds or set(map(type, rows))):
        rows = [_by_position(row, schema) for row in rows]
    try:
        columns = list(zip(*rows, strict=True)) if rows else [()] * width
    except ValueError:
        columns = []  # rows of several lengths
    if len(columns) != width:
        wrong = next(row for row in rows if len(row) != width)
        raise OutputError(
            f"the row {_shown(wrong)} has {len(wrong)} values; "
            f"the output has {width} columns: {', '.join(schema.names)}"
        )
    arrays = [_array(values, field) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _by_position(row: Any, schema: pa.Schema) -> Sequence[Any]:
    if isinstance(row, (tuple, list)):
        return row
    if isinstance(row, dict):
        if set(row) != set(schema.names):
            raise OutputError(
                f"the row {_shown(row)} has other names than the output: {', '.join(schema.names)}"
            )
        return [row[name] for name in schema.names]
    if len(schema) == 1:
        return (row,)
    raise OutputError(
        f"{_shown(row)} is not a row; yield a tuple of {len(schema)} values: {', '.join(schema.names)}"
    )


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        for value in values:
            try:
                pa.array([value], type=field.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                raise OutputError(
                    f"the value {_shown(value)} (Python type {type(value).__qualname__}) does not fit column "
                    f"{field.name!r} of type {field.type}"
                ) from error
        raise OutputError(f"column {field.name!r} of type {field.type}: {error}") from error


def _shown(value: Any) -> str:
    """A value as an error shows it. The error travels to the driver, and into the status."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "…"


def check_columns(names: Iterable[str], batch: pa.RecordBatch, uid: str) -> None:
    """Raise ``StateError`` when the batch lacks a column that the operator was built for."""
    missing = [name for name in names if name not in batch.schema.names]
    if missing:
        raise errors.StateError(
            f"operator {uid!r}: the batch lacks the columns {missing}; it has {batch.schema.names}"
        )
