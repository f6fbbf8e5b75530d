"""Frames of other libraries as Arrow batches, and batches as an output's columns."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from sparkstate import columns
from sparkstate.operators.rows.arrow_rows import column_values
from sparkstate.serde import lost_numbers
from sparkstate.serde.row import row_class

_SMALL = 65_536
"""Bytes that are not worth a copy."""


class FrameError(Exception):
    """A yielded object is not a frame, or does not fit the output's columns; the message says why."""


def is_frame(found: Any) -> bool:
    """Whether ``to_batch`` takes it."""
    return isinstance(found, pa.RecordBatch) or hasattr(found, "__arrow_c_stream__")


def to_batch(frame: Any) -> pa.RecordBatch:
    """A record batch as it is; a table, or a DataFrame of pandas, Polars or another library that gives its columns by
    Arrow's PyCapsule interface, as one batch. Raises :class:`FrameError`."""
    if isinstance(frame, pa.RecordBatch):
        return frame
    if not is_frame(frame):
        raise FrameError(
            f"{type(frame).__qualname__} is not a frame of columns; yield a pa.RecordBatch, a pa.Table, or a "
            "DataFrame of pandas or Polars"
        )
    table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:  # of text and binary columns, whose arrays end at 2 GiB
        raise FrameError(
            f"the frame of {table.num_rows:,} rows has more than 2 GiB in a column of text or bytes; yield it in parts"
        )
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of ``schema``, by name and in its order and types;
    others are left out. Raises :class:`FrameError`."""
    missing = [name for name in schema.names if name not in batch.schema.names]
    if missing:
        raise FrameError(
            f"the frame lacks the columns {', '.join(missing)}; it has: {', '.join(batch.schema.names) or 'none'}"
        )
    return pa.RecordBatch.from_arrays(
        [_cast(batch.column(field.name), field) for field in schema], schema=schema
    )


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    if pa.types.is_dictionary(column.type):
        column = decoded(column)
    if (wrong := other_fields(column.type, field.type) or _other_unit(column.type, field.type)) is not None:
        raise FrameError(f"column {field.name!r}: {wrong}")
    try:
        made = column.cast(field.type)
    except pa.ArrowException as error:
        raise FrameError(
            f"column {field.name!r} of type {column.type} does not fit {field.type}: {error}"
        ) from error
    if (lost := lost_numbers.first_infinite(column, made)) is not None:
        raise FrameError(
            f"column {field.name!r}: {lost} would become infinite in {field.type}; declare it as double"
        )
    return made


def decoded(column: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary array."""
    values = column.dictionary
    if pa.types.is_string_view(values.type):  # text of Polars, from which Arrow cannot take
        values = values.cast(pa.string())
    return values.take(column.indices)


def other_fields(given: pa.DataType, wanted: pa.DataType) -> str | None:
    """Where a struct has other fields than are wanted, anywhere inside: a sentence about it. Arrow's cast fills fields
    that it does not find with null, and drops those that it does not know."""
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        found, names = {field.name for field in given}, [field.name for field in wanted]
        if found != set(names):
            return f"a struct of {', '.join(sorted(found))} is given where the fields are: {', '.join(names)}"
    return next(filter(None, itertools.starmap(other_fields, _parts(given, wanted))), None)


def _other_unit(given: pa.DataType, wanted: pa.DataType) -> str | None:
    """Where whole numbers are given for times, or times for whole numbers, anywhere inside: a sentence about it.
    Arrow's cast would count in the unit that the column of times has."""
    is_count, is_time = pa.types.is_integer, pa.types.is_temporal
    if is_count(given) and is_time(wanted):
        return f"{given} has no unit for {wanted}; cast(pa.timestamp('ms', 'UTC')) gives one, or declare it as bigint"
    if is_time(given) and is_count(wanted):
        return (
            f"{given} has no unit in {wanted}; cast(pa.timestamp('ms')).cast(pa.int64()) gives milliseconds"
        )
    return next(filter(None, itertools.starmap(_other_unit, _parts(given, wanted))), None)


def _parts(given: pa.DataType, wanted: pa.DataType) -> list[tuple[pa.DataType, pa.DataType]]:
    """The types within a nested type, beside those within another."""
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        return [(given.field(field.name).type, field.type) for field in wanted]
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return [(given.key_type, wanted.key_type), (given.item_type, wanted.item_type)]
    if pa.types.is_nested(given) and pa.types.is_list(wanted) and hasattr(given, "value_type"):
        return [(given.value_type, wanted.value_type)]
    return []


def compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A small slice of large arrays as arrays of its own: a slice keeps all that it was cut from in memory."""
    if batch.get_total_buffer_size() <= 2 * batch.nbytes + _SMALL:
        return batch
    return batch.take(pa.array(range(batch.num_rows), pa.int64()))


def to_rows(batch: pa.RecordBatch) -> list[Any]:
    """The rows as Python values, without hidden columns."""
    names = [name for name in batch.schema.names if not name.startswith(columns.PREFIX)]
    make = row_class(names)
    return [
        make(values) for values in zip(*(column_values(batch.column(name)) for name in names), strict=True)
    ]
