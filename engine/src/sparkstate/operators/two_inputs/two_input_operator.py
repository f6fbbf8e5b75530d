"""One operator with two inputs in one slot: the rows' order, and the work per batch around the record loop."""

from __future__ import annotations

import abc
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, TypeVar

import pyarrow as pa

from sparkstate import columns
from sparkstate.functions import MIN_WATERMARK, RuntimeContext
from sparkstate.operators.common import garbage, key_numbers
from sparkstate.operators.common.overlay_operator import OverlayOperator
from sparkstate.operators.keyed import firing
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.spec import PairedSpec, TwoInputSpec
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.operators.two_inputs import row_order
from sparkstate.operators.two_inputs.two_input_calls import PairedCalls, TwoInputCalls
from sparkstate.operators.two_inputs.two_input_intake import TwoInputIntake

_STRETCH_ROWS = 2048
"""Rows that become Python objects at a time, as in ``keyed``."""
S = TypeVar("S", bound=PairedSpec)
C = TypeVar("C", bound=PairedCalls)


class PairedOperator(OverlayOperator[S, C]):
    """The common half of operators whose batches have rows of two inputs."""

    def _make_intake(self, spec: S, owned: Set[int]) -> TwoInputIntake:
        return TwoInputIntake(spec, owned, self._calls.outputs)

    _read_keys: Callable[[arrow_rows.ReadColumn], list[Any]]

    def _open(self, context: RuntimeContext) -> None:
        self._calls.open(context)

    def _open_context(self) -> RuntimeContext:
        return self._context

    def _fire(self, overlay: Overlay, watermark: int) -> None:
        firing.fire_all(self._calls, self._budget, overlay, watermark)

    def begin(
        self, epoch: int, watermark: int = MIN_WATERMARK, processing_time: int | None = None
    ) -> Overlay:
        overlay = super().begin(epoch, watermark, processing_time)
        overlay.sort_column = columns.ORDER
        return overlay

    def process_batch(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0 or overlay.dropped:
            return
        with self._at_work():
            first, waiting = self._divide(self._intake.take(overlay, batch))
            if first.num_rows:
                self._process_parts(overlay, first)
            if waiting.num_rows:
                overlay.held.append(waiting)
                self._make_room(overlay)

    @abc.abstractmethod
    def _divide(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows to process now, and those that wait until the epoch ends, with their order."""

    def _process(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        read = functools.cache(lambda name: arrow_rows.column_values(batch.column(name)))
        calls = self._calls
        with self._lock, garbage.collection_paused():
            calls.bind(overlay, overlay.watermark)
            numbers = key_numbers.number_rows(
                self._tables, overlay, batch, self.spec.key_columns, lambda: self._read_keys(read)
            )
            calls.outputs.start_piece(overlay)
            for start in range(0, batch.num_rows, _STRETCH_ROWS):
                if overlay.dropped:  # by another thread: whatever comes of it goes nowhere
                    return
                piece = batch.slice(start, _STRETCH_ROWS)
                found = numbers.of(slice(start, start + _STRETCH_ROWS))
                calls.run(overlay, zip(found, self._stamps(piece), *calls.of_batch(piece), strict=True))
            calls.outputs.end_piece(overlay)

    def _stamps(self, piece: pa.RecordBatch) -> Iterable[int | None]:
        column = self.spec.event_time_column
        if column is None:
            return itertools.repeat(None, piece.num_rows)
        return arrow_rows.column_values(piece.column(column))

    def process_rows(
        self,
        overlay: Overlay,
        keys: Sequence[Any],
        kgs: Sequence[int],
        stamps: Iterable[int | None],
        rows: Iterable[Any],
        of_input: int = 0,
    ) -> None:
        with self._lock, garbage.collection_paused():
            self._calls.bind(overlay, overlay.watermark)
            numbers = self._tables.prefetch(overlay, keys, kgs)
            calls = itertools.repeat(self._calls.calls[of_input], len(keys))
            self._calls.run(overlay, zip(numbers, stamps, calls, rows, strict=True))


class TwoInputOperator(PairedOperator[TwoInputSpec, TwoInputCalls]):
    """One operator of one slot (``operators.base.Operator``)."""

    indexes_longs = True

    def _make_calls(
        self, spec: TwoInputSpec, tables: OperatorTables, operator_states: OperatorStates
    ) -> TwoInputCalls:
        self._read_keys = arrow_rows.key_reader(spec.key_columns, spec.key_type)
        return TwoInputCalls(spec, tables, operator_states)

    def _divide(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        if self.spec.sort_by_event_time:
            return batch.slice(0, 0), row_order.by_event_time(batch, self.spec.event_time_column)
        return row_order.divide(batch)
