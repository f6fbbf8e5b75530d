"""The calls of the user's code: one for each batch, and one for each set of due timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparkstate import columns, errors, user_errors
from sparkstate.backends.long_index import Longs
from sparkstate.backends.value_columns import KeyGroups
from sparkstate.batches import keys as batch_keys
from sparkstate.batches.functions import BatchRuntimeContext, RowError
from sparkstate.batches.keys import BatchKeys
from sparkstate.functions import MAX_WATERMARK, OutputTag, TimeDomain
from sparkstate.operators.batches import arrow_types
from sparkstate.operators.batches.binding import Binding
from sparkstate.operators.batches.contexts import Context
from sparkstate.operators.common import user_function
from sparkstate.operators.common.outputs import Outputs
from sparkstate.operators.rows import arrow_rows, frames
from sparkstate.operators.spec import BatchOperatorSpec
from sparkstate.operators.state.handles import StateHandle
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay, TimerKey
from sparkstate.operators.state.tables import OperatorTables


class BatchCalls:
    """Not thread-safe: one piece of work at a time."""

    def __init__(
        self, spec: BatchOperatorSpec, tables: OperatorTables, operator_states: OperatorStates
    ) -> None:
        self.spec = spec
        self.tables = tables
        self._operator_states = operator_states
        self.outputs = Outputs(spec)
        self.binding = Binding(spec.uid)
        self.cursor = self.binding.cursor
        self._context = Context(self.binding)
        self._key_type = arrow_types.arrow_type(spec.key_type)
        """Of ``keys.values`` in both calls; of timers' keys no column is there whose type it could have."""
        self._read_keys = arrow_rows.key_reader(spec.key_columns, spec.key_type)

    # --- life

    def open(self, context: BatchRuntimeContext) -> None:
        """Open the function, which declares its state."""
        user_function.open_with(self.spec.function, context, self.spec.uid)

    def finish(self, overlay: Overlay, handles: Iterable[StateHandle]) -> None:
        """The input has ended: call ``finish`` and put out what it yields. There are no keys."""
        self.bind(overlay, MAX_WATERMARK)
        self.without_key(handles)
        self.outputs.start_piece(overlay)
        step = f"epoch {overlay.epoch}: finish()"
        for frame in user_function.calling(self.spec.uid, step, lambda: _frames(self.spec.function.finish())):
            self._put(overlay, frame)
        self.outputs.end_piece(overlay)

    def close(self, handles: Iterable[StateHandle]) -> None:
        """Close the function, which no longer has keys; ``handles`` are all that it was given."""
        self.without_key(handles)
        user_function.close(self.spec.function, self.spec.uid)

    def without_key(self, handles: Iterable[StateHandle]) -> None:
        """There are no keys: handles and contexts refuse to be used."""
        self.binding.unbind()
        for handle in handles:
            handle.unbind()

    def bind(self, overlay: Overlay, watermark: int) -> None:
        """Point handles, context and timer service at this overlay."""
        self.binding.bind(overlay, watermark)
        for handle, table in zip(self.tables.handles, overlay.tables, strict=True):
            handle.bind(table)
        self._operator_states.bind(overlay.operator_changes)

    # --- the calls

    def process(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        """Call ``process_batch``. The overlay is bound."""
        spec = self.spec
        codes, uniques = batch_keys.of_columns([batch.column(name) for name in spec.key_columns])
        each = uniques.flatten() if len(spec.key_columns) > 1 else [uniques]
        fields = dict(zip(spec.key_columns, each, strict=True))
        rows = batch.select(list(spec.columns_of(batch)))
        first_rows = batch_keys.first_rows(codes, len(uniques))
        kgs = batch.column(columns.KEY_GROUP).to_numpy(zero_copy_only=False)[first_rows]
        values = uniques.cast(self._key_type)
        if self.tables.in_columns:
            numbers = self.tables.prefetch_longs(overlay, values, kgs, each_once=True)
        else:
            python_keys = self._read_keys(lambda name: arrow_rows.column_values(fields[name]))
            numbers = np.asarray(self.tables.prefetch(overlay, python_keys, kgs), np.int64)
        keys = BatchKeys(codes, values, rows, numbers)
        stamps = (
            batch.column(spec.event_time_column)
            if spec.event_time_column
            else pa.nulls(batch.num_rows, pa.int64())
        )
        self._run(overlay, keys, stamps, lambda: spec.function.process_batch(rows, keys, self._context), rows)

    def process_values(
        self,
        overlay: Overlay,
        keys: Sequence[Any],
        kgs: Sequence[int],
        stamps: Sequence[int | None],
        rows: pa.RecordBatch,
    ) -> None:
        """The same for keys that are Python values already."""
        numbers = self.tables.prefetch(overlay, keys, kgs)
        found = dict.fromkeys(numbers)
        places = {number: place for place, number in enumerate(found)}
        codes = np.array([places[number] for number in numbers], np.int32)
        values = arrow_types.to_array([overlay.known.keys[number] for number in found], self.spec.key_type)
        made = BatchKeys(codes, values, rows, np.array(list(found), np.int64))
        times = pa.array(stamps, pa.int64())
        self._run(
            overlay, made, times, lambda: self.spec.function.process_batch(rows, made, self._context), rows
        )

    def fire(self, overlay: Overlay, domain: TimeDomain, timers: Sequence[TimerKey]) -> None:
        """Call ``on_timers`` for timers of one namespace, each of another key."""
        numbers = overlay.known.numbers_of([key for _, key, _ in timers])
        stamps = pa.array([timestamp for timestamp, _, _ in timers], pa.int64())
        values = arrow_types.to_array([key for _, key, _ in timers], self.spec.key_type)
        keys = BatchKeys(np.arange(len(timers), dtype=np.int32), values, None, numbers)
        self._context.domain, self._context.timer_namespace = domain, timers[0][2]
        overlay.timers_fired += len(timers)
        self._run(
            overlay, keys, stamps, lambda: self.spec.function.on_timers(stamps, keys, self._context), None
        )

    def fire_columns(self, overlay: Overlay, timestamps: Longs, keys: Longs, groups: KeyGroups) -> None:
        """The same for timers of event time in the default namespace, as columns."""
        values = pa.array(keys)
        numbers = self.tables.prefetch_longs(overlay, values, groups)
        made = BatchKeys(np.arange(len(keys), dtype=np.int32), values.cast(self._key_type), None, numbers)
        stamps = pa.array(timestamps)
        self._context.domain, self._context.timer_namespace = TimeDomain.EVENT_TIME, None
        overlay.timers_fired += len(keys)
        self._run(
            overlay, made, stamps, lambda: self.spec.function.on_timers(stamps, made, self._context), None
        )

    def _run(
        self,
        overlay: Overlay,
        keys: BatchKeys,
        stamps: pa.Array,
        call: Callable[[], Iterable[Any] | None],
        rows: pa.RecordBatch | None,
    ) -> None:
        self._context.stamps = stamps
        self.binding.enter(keys, stamps)
        try:
            yielded = call()
            for frame in (yielded,) if frames.is_frame(yielded) else yielded or ():
                self._put(overlay, frame)
        except user_function.RAISED as error:
            raise self._user_error(overlay, error, rows) from error
        finally:
            self.binding.leave()

    # --- what it yields and raises

    def _put(self, overlay: Overlay, yielded: Any) -> None:
        tag: str | None = None
        if type(yielded) is tuple and len(yielded) == 2 and type(yielded[0]) is OutputTag:
            tag, yielded = yielded[0].tag_id, yielded[1]
        try:
            self.outputs.put_frame(overlay, tag, frames.to_batch(yielded))
        except frames.FrameError as error:
            output = "its output" if tag is None else f"the side output {tag!r}"
            raise errors.UserCodeError(
                f"operator {self.spec.uid!r}, epoch {overlay.epoch}: what it yielded does not fit {output}: {error}"
            ) from error

    def _user_error(self, overlay: Overlay, error: BaseException, rows: pa.RecordBatch | None) -> Exception:
        if isinstance(error, errors.SparkstateError) and not isinstance(error, errors.StateError):
            return error
        where = "timers" if rows is None else f"a batch of {rows.num_rows} rows"
        if isinstance(error, RowError) and rows is not None and error.row in range(rows.num_rows):
            where = self._shown(rows.slice(error.row, 1).to_pylist()[0])
        return errors.UserCodeError(
            f"operator {self.spec.uid!r}, epoch {overlay.epoch}, {where}: {user_errors.describe(error)}"
        )

    def _shown(self, row: dict[str, Any]) -> str:
        """A row as an error names it. Of a combined row people know the key, and not the parts of accumulators."""
        if columns.ROWS not in row:
            return f"row {user_function.shorten(row)}"
        key = [row[name] for name in self.spec.key_columns]
        shown = user_function.shorten(key[0] if len(key) == 1 else tuple(key))
        return f"one of {row[columns.ROWS]} rows with the key {shown}"


def _frames(yielded: Any) -> list[Any]:
    """All that ``finish`` gives: one frame, or those that it yields."""
    return [yielded] if frames.is_frame(yielded) else list(yielded or ())
