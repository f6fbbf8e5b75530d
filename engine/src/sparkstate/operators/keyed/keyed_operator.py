"""One keyed operator in one slot: runs the user's function over rows and due timers, one at a time.

The work around the record loop (``keyed.calls``) happens here, per batch, not per record: columns become lists, the
values of all keys not yet seen are read from the stores in one call per shard and state,
and what was yielded becomes Arrow again.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from sparkstate.functions import RuntimeContext
from sparkstate.operators import compiled
from sparkstate.operators.common import garbage, key_numbers
from sparkstate.operators.common.overlay_operator import OverlayOperator
from sparkstate.operators.keyed import compiled_loop, firing
from sparkstate.operators.keyed.calls import Calls
from sparkstate.operators.keyed.compiled_loop import CompiledLoop
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.spec import OperatorSpec
from sparkstate.operators.state import compiled_state, handles
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.serde import row as rows_module
from sparkstate.serde.typeinfo import TypeInformation

_STRETCH_ROWS = 2048
"""Rows that become Python objects at a time: so few that they stay in the processor's cache. Measured: with all
65,536 of a batch at once a record took nearly twice as long."""


class KeyedOperator(OverlayOperator[OperatorSpec, Calls]):
    """One operator of one slot (``operators.base.Operator``). Calls may come from several threads;
    they run one after another."""

    indexes_longs = takes_any_order = True

    def _make_calls(
        self, spec: OperatorSpec, tables: OperatorTables, operator_states: OperatorStates
    ) -> Calls:
        self._row_class = rows_module.row_class(spec.row_columns)
        self._read_keys = arrow_rows.key_reader(spec.key_columns, spec.key_type)
        calls = Calls(spec, tables, operator_states)
        records = compiled.records() if compiled_loop.runs(spec) else None
        self._compiled = None if records is None else CompiledLoop(records, calls, self._row_class)
        return calls

    def _value_handle_class(self) -> Callable[[TypeInformation, bool], type[handles.ValueStateHandle]]:
        if self._compiled is not None and self._tables.takes_columns and self._tables.indexes_longs:
            return compiled_state.value_handle_class_of(self._compiled.records)
        return super()._value_handle_class()

    def _open(self, context: RuntimeContext) -> None:
        self._calls.open(context)

    def _open_context(self) -> RuntimeContext:
        return self._context

    def _fire(self, overlay: Overlay, watermark: int) -> None:
        firing.fire_all(self._calls, self._budget, overlay, watermark)

    def _process(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        # Each column once: where the key is one of the row's columns, key and field are the same objects.
        read = functools.cache(lambda name: arrow_rows.column_values(batch.column(name)))
        calls = self._calls
        with self._lock, garbage.collection_paused():
            calls.bind(overlay, overlay.watermark)
            numbers = key_numbers.number_rows(
                self._tables, overlay, batch, self.spec.key_columns, lambda: self._read_keys(read)
            )
            calls.outputs.start_piece(overlay)
            if self._compiled is not None:
                keys = self._listed_keys()
                if self._compiled.run(overlay, batch, numbers.all, read, keys, _STRETCH_ROWS):
                    calls.outputs.end_piece(overlay)
                return
            for start in range(0, batch.num_rows, _STRETCH_ROWS):
                if overlay.dropped:  # by another thread: whatever comes of it goes nowhere
                    return
                stretch = slice(start, start + _STRETCH_ROWS)
                stamps, rows = self._stamped_rows(batch, read, stretch)
                calls.run(overlay, zip(numbers.of(stretch), stamps, rows, strict=True))
            calls.outputs.end_piece(overlay)

    def _listed_keys(self) -> tuple[str, ...]:
        """The key columns that became lists for the numbering."""
        return () if self._tables.indexes_longs else self.spec.key_columns

    def _stamped_rows(
        self, batch: pa.RecordBatch, read: arrow_rows.ReadColumn, stretch: slice
    ) -> tuple[Iterable[int | None], Iterable[Any]]:
        """Event times and rows of a stretch of the batch. Key columns may be lists already, others become some here."""
        keys = self._listed_keys()
        size = stretch.stop - stretch.start
        values = [
            read(name)[stretch]
            if name in keys
            else arrow_rows.column_values(batch.column(name).slice(stretch.start, size))
            for name in self.spec.row_columns
        ]
        rows = map(self._row_class, zip(*values, strict=True))
        stamp = self.spec.event_time_column
        if stamp is None:
            return itertools.repeat(None, len(values[0])), rows
        return arrow_rows.column_values(batch.column(stamp).slice(stretch.start, size)), rows

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
            self._calls.run(overlay, zip(numbers, stamps, rows, strict=True))
