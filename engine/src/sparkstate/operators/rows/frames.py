"""Frames of other libraries as Arrow batches, and batches as an output's columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sparkstate.serde.row import row_class


class FrameError(Exception):
    """A yielded object is not a frame, or does not fit the output's columns; the message says why."""


def to_batch(frame: Any) -> pa.RecordBatch:
    """A record batch as it is; a table, or a DataFrame of pandas, Polars or another library that gives its columns by
    Arrow's PyCapsule interface, as one batch. Raises :class:`FrameError`."""
    if isinstance(frame, pa.RecordBatch):
        return frame
    if not hasattr(frame, "__arrow_c_stream__"):
        raise FrameError(
            f"{type(frame).__qualname__} is not a frame of columns; yield a pa.RecordBatch, a pa.Table, or a "
            "DataFrame of pandas or Polars"
        )
    table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of ``schema``, by name and in its order and types; others are left out. Raises
    :class:`FrameError`."""
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
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise FrameError(
            f"column {field.name!r} of type {column.type} does not fit {field.type}: {error}"
        ) from error


def to_rows(batch: pa.RecordBatch) -> list[Any]:
    """The rows as Python values."""
    make = row_class(batch.schema.names)
    return [make(values) for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
