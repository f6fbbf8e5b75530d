"""One operator of a keyed and a broadcast stream in one slot.

The rows of both wait until the epoch ends, because only then all broadcast rows are there. They are applied first, in
an order that is the same in every slot (``row_order.broadcast_first``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns
from sparkstate.functions import RuntimeContext
from sparkstate.operators.common import garbage
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.spec import BroadcastSpec
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.operators.two_inputs import row_order
from sparkstate.operators.two_inputs.broadcast_calls import BROADCAST, BroadcastCalls
from sparkstate.operators.two_inputs.two_input_intake import BroadcastIntake
from sparkstate.operators.two_inputs.two_input_operator import PairedOperator


class BroadcastOperator(PairedOperator[BroadcastSpec, BroadcastCalls]):
    """One operator of one slot (``operators.base.Operator``)."""

    def _make_calls(
        self, spec: BroadcastSpec, tables: OperatorTables, operator_states: OperatorStates
    ) -> BroadcastCalls:
        self._read_keys = arrow_rows.key_reader(spec.key_columns, spec.key_type)
        return BroadcastCalls(spec, tables, operator_states, self._budget)

    def _make_intake(self, spec: BroadcastSpec, owned: Set[int]) -> BroadcastIntake:
        return BroadcastIntake(spec, owned, self._calls.outputs)

    def _open(self, context: RuntimeContext) -> None:
        self._calls.declare()
        super()._open(context)

    def _divide(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        column = self.spec.event_time_column if self.spec.sort_by_event_time else None
        return batch.slice(0, 0), row_order.broadcast_first(batch, column)

    def _process(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        is_broadcast = pc.equal(batch.column(columns.INPUT), BROADCAST)
        # Sorted: the broadcast rows of a batch are its first ones.
        count = pc.sum(is_broadcast).as_py() or 0
        if count:
            with self._lock, garbage.collection_paused():
                self._calls.broadcast(overlay, batch.slice(0, count), self._context)
        if count < batch.num_rows:
            super()._process(overlay, batch.slice(count))

    def process_rows(
        self,
        overlay: Overlay,
        keys: Sequence[Any],
        kgs: Sequence[int],
        stamps: Iterable[int | None],
        rows: Iterable[Any],
        of_input: int = 0,
    ) -> None:
        if of_input != BROADCAST:
            super().process_rows(overlay, keys, kgs, stamps, rows, of_input)
            return
        with self._lock:
            self._calls.broadcast_rows(overlay, stamps, rows, self._context)
