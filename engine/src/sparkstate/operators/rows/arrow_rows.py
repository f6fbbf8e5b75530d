"""Between Arrow batches and rows of Python values. Most of an epoch's time is spent here and in the user's code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from sparkstate import errors
from sparkstate.operators.rows.output_columns import OutputError, shown, to_array
from sparkstate.serde import containers, scalars, utc_types
from sparkstate.serde import row as rows_of_names
from sparkstate.serde.typeinfo import TypeInformation


def column_values(array: pa.Array) -> list[Any]:
    """The column as Python values: what ``to_pylist`` gives, with maps as dicts and times in UTC. Numbers and text come
    several times faster than from there."""
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
    convert = _dict_maker(kind) if pa.types.is_nested(kind) else None
    utc = utc_types.in_utc(kind)
    given = (array if utc == kind else array.cast(utc)).to_pylist()
    return given if convert is None else [_optional(convert, value) for value in given]


@functools.lru_cache(maxsize=1024)
def _dict_maker(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """A function that makes dicts of the maps in a value, at any depth, which ``to_pylist`` gives as pairs: the last of
    equal keys counts. None: there are none. A map whose keys cannot be those of a dict stays a list of pairs."""
    if pa.types.is_map(kind):
        item = _dict_maker(kind.item_type)
        if pa.types.is_nested(kind.key_type):
            return None
        return dict if item is None else lambda pairs: {key: _optional(item, value) for key, value in pairs}
    if pa.types.is_struct(kind):
        made = {field.name: make for field in kind if (make := _dict_maker(field.type)) is not None}
        if not made:
            return None
        return lambda struct: {name: _optional(made.get(name), value) for name, value in struct.items()}
    element = _dict_maker(kind.value_type) if hasattr(kind, "value_type") else None
    return None if element is None else lambda items: [_optional(element, item) for item in items]


def _optional(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


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


def to_batch(rows: Sequence[Any], schema: pa.Schema, kinds: set[type] | None = None) -> pa.RecordBatch:
    """Rows as a batch; ``kinds``: their types, where they are known. A row is a dict or Row by name, a tuple or list by
    position, or the bare value of a single column.

    Raises :class:`~sparkstate.operators.rows.output_columns.OutputError`.
    """
    width, names = len(schema), tuple(schema.names)
    kinds = kinds or set(map(type, rows))
    if not all(issubclass(kind, (tuple, list)) for kind in kinds):
        rows = [_by_position(row, schema) for row in rows]
    if any(_may_have_names(kind, names) for kind in kinds):
        rows = [_arranged(row, names) for row in rows]
    try:
        columns = list(zip(*rows, strict=True)) if rows else [()] * width
    except ValueError:
        columns = []  # rows of several lengths
    if len(columns) != width:
        wrong = next(row for row in rows if len(row) != width)
        raise OutputError(
            f"the row {shown(wrong)} has {len(wrong)} values; "
            f"the output has {width} columns: {', '.join(schema.names)}"
        )
    arrays = [to_array(values, field) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _by_position(row: Any, schema: pa.Schema) -> Sequence[Any]:
    if isinstance(row, (tuple, list)):
        return row
    if isinstance(row, dict):
        if set(row) != set(schema.names):
            raise _other_names(row, schema.names)
        return [row[name] for name in schema.names]
    if len(schema) == 1:
        return (row,)
    raise OutputError(
        f"{shown(row)} is not a row; yield a tuple of {len(schema)} values: {', '.join(schema.names)}"
    )


def _may_have_names(kind: type, names: tuple[str, ...]) -> bool:
    """Whether rows of a class may have names, other than these. Each of PySpark's rows has names of its own."""
    is_row = issubclass(kind, tuple) and kind is not tuple
    return is_row and kind is not rows_of_names.Row and getattr(kind, "__fields__", None) != names


def _arranged(row: Sequence[Any], names: tuple[str, ...]) -> Sequence[Any]:
    if not isinstance(row, tuple):
        return row
    found = rows_of_names.arranged(row, names)
    if found is None:
        raise _other_names(row, names)
    return found


def _other_names(row: Any, names: Iterable[str]) -> OutputError:
    return OutputError(f"the row {shown(row)} has other names than the output: {', '.join(names)}")


def check_columns(names: Iterable[str], batch: pa.RecordBatch, uid: str) -> None:
    """Raise ``StateError`` when the batch lacks a column that the operator was built for."""
    missing = [name for name in names if name not in batch.schema.names]
    if missing:
        raise errors.StateError(
            f"operator {uid!r}: the batch lacks the columns {missing}; it has {batch.schema.names}"
        )
