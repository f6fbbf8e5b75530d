"""The record loop where the extension runs it (``operators.compiled``): the same calls as those of ``calls.Calls``, and
the same output."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparkstate.operators.common import user_function
from sparkstate.operators.keyed.calls import Calls
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.spec import OperatorSpec
from sparkstate.operators.state.context import Cursor
from sparkstate.operators.state.known_keys import Numbers
from sparkstate.operators.state.overlay import Overlay
from sparkstate.serde.row import Row

_FLUSH_BYTES: Final = 16 << 20
"""So many bytes of output become a batch before the piece of work is done."""


def runs(spec: OperatorSpec) -> bool:
    """Whether the extension has a loop for this operator, which neither undoes records nor puts out timestamps."""
    return spec.on_error == "fail" and not spec.keeps_times and bool(spec.row_columns)


class CompiledLoop:
    """The loop of one operator. Not thread-safe: the operator calls it under its lock."""

    def __init__(self, records: Any, calls: Calls, row_class: type[Row]) -> None:
        self.records = records
        self._calls = calls
        self._row_class = row_class
        self._kinds = kinds_of(calls.spec.output_schema, records.KINDS)
        self._output_row = _row_by_position(row_class, calls.spec.output_schema)

    def run(
        self,
        overlay: Overlay,
        batch: pa.RecordBatch,
        numbers: Numbers | list[int],
        read: arrow_rows.ReadColumn,
        keys: Collection[str],
        stretch_rows: int,
    ) -> bool:
        """Call the function for each row of a batch, and put out what it yields, so many rows at a time. Columns named
        in ``keys`` are those that ``read`` gives. False: the overlay was dropped meanwhile. The overlay is bound."""
        columns = _BatchColumns(self.records, batch, numbers, read, keys)
        outputs = self._calls.outputs
        loop = self.records.Loop(self._calls.cursor, Cursor, self._row_class, outputs.copied, outputs.plain)
        output = None if self._kinds is None else self.records.Output(self._kinds, self._output_row)
        for start in range(0, batch.num_rows, stretch_rows):
            if overlay.dropped:
                return False
            rows = range(start, min(start + stretch_rows, batch.num_rows))
            rest = self._run(overlay, loop, columns, rows, output)
            self._calls.count_late_rows(overlay)
            if output is not None and (rest or output.nbytes > _FLUSH_BYTES):
                self._flush(overlay, output)
            self._calls.outputs.put(overlay, rest, None)
        if output is not None:
            self._flush(overlay, output)
        return True

    def _run(
        self, overlay: Overlay, loop: Any, columns: _BatchColumns, rows: range, output: Any
    ) -> list[Any]:
        """The items from the first one on that has no place in the output."""
        numbers, stamps, sources = columns.sources(self._calls.spec, rows)
        process = self._calls.spec.function.process_element
        try:
            return loop.run(process, numbers, stamps, sources, rows.start, rows.stop, output)  # type: ignore[no-any-return]
        except user_function.RAISED as error:
            where = f"row {user_function.shorten(loop.row)}"
            raise self._calls.user_error(overlay, error, where) from error

    def _flush(self, overlay: Overlay, output: Any) -> None:
        schema, count = self._calls.spec.output_schema, output.count
        if not count:
            return
        assert schema is not None
        arrays = [
            pa.Array.from_buffers(
                field.type, count, [None if each is None else pa.py_buffer(each) for each in buffers]
            )
            for field, buffers in zip(schema, output.finish(), strict=True)
        ]
        overlay.batches.setdefault(None, []).append(pa.RecordBatch.from_arrays(arrays, schema=schema))


class _BatchColumns:
    """The columns of a batch, as the extension reads them: numbers as arrays, anything else as lists, of which only a
    stretch is made at a time."""

    def __init__(
        self,
        records: Any,
        batch: pa.RecordBatch,
        numbers: Numbers | list[int],
        read: arrow_rows.ReadColumn,
        keys: Collection[str],
    ) -> None:
        self._records = records
        self._batch = batch
        self._numbers = records.Source(numbers)
        self._read = read
        self._keys = keys
        self._arrays: dict[str, Any] = {}

    def sources(self, spec: OperatorSpec, rows: range) -> tuple[Any, Any, list[Any]]:
        """Numbers of the keys, event times, and the columns of these rows."""
        stamp = spec.event_time_column
        stamps = self._records.Source(None) if stamp is None else self._source(stamp, rows, ())
        return self._numbers, stamps, [self._source(name, rows, self._keys) for name in spec.row_columns]

    def _source(self, name: str, rows: range, keys: Collection[str]) -> Any:
        if name in keys:
            return self._records.Source(self._read(name))
        if name not in self._arrays:
            array = numbers_of(self._batch.column(name))
            self._arrays[name] = None if array is None else self._records.Source(array)
        source = self._arrays[name]
        if source is not None:
            return source
        stretch = self._batch.column(name).slice(rows.start, len(rows))
        return self._records.Source(arrow_rows.column_values(stretch), rows.start)


def numbers_of(array: pa.Array) -> Any:
    """A column of numbers without nulls as an array of 64 bits; None for any other."""
    kind = array.type
    if array.null_count:
        return None
    if pa.types.is_signed_integer(kind):
        return array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return None


def _row_by_position(row_class: type[Row], schema: pa.Schema | None) -> type:
    """The class of rows that an output takes by position beside plain tuples: that of the input where it has the
    output's names. The Python path goes by the names of any other row."""
    return row_class if schema is not None and row_class.__fields__ == tuple(schema.names) else tuple


def kinds_of(schema: pa.Schema | None, known: Mapping[str, int]) -> list[int] | None:
    """The kinds of the output's columns; None: not all of them can be built in C."""
    if schema is None or not len(schema):
        return None
    names = [str(field.type) for field in schema]
    return [known[name] for name in names] if all(name in known for name in names) else None
