"""One keyed operator in one slot whose function is called with Arrow batches.

Its overlays, its tables and its stored bytes are those of the record path, so a job can change from one to the other
over a savepoint, and spill, commit, restore and rescale know no difference. Only the call differs: the rows of a
batch are numbered by key with Arrow's dictionary encoding, and Python sees each key once, not each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sparkstate.batches.functions import BatchRuntimeContext
from sparkstate.operators.batches import firing
from sparkstate.operators.batches.calls import BatchCalls
from sparkstate.operators.batches.contexts import OperatorBatchRuntimeContext
from sparkstate.operators.common import garbage
from sparkstate.operators.common.overlay_operator import OverlayOperator
from sparkstate.operators.spec import BatchOperatorSpec
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.serde.row import Row


class KeyedBatchOperator(OverlayOperator[BatchOperatorSpec, BatchCalls]):
    """One operator of one slot (``operators.base.Operator``)."""

    in_columns = takes_any_order = True

    def _make_calls(
        self, spec: BatchOperatorSpec, tables: OperatorTables, operator_states: OperatorStates
    ) -> BatchCalls:
        return BatchCalls(spec, tables, operator_states)

    def _open(self, context: BatchRuntimeContext) -> None:
        self._calls.open(context)

    def _open_context(self) -> BatchRuntimeContext:
        return OperatorBatchRuntimeContext(self._context, self._calls.binding)

    def _process(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        with self._lock, garbage.collection_paused():
            self._calls.bind(overlay, overlay.watermark)
            self._calls.outputs.start_piece(overlay)
            self._calls.process(overlay, batch)
            self._calls.outputs.end_piece(overlay)

    def _fire(self, overlay: Overlay, watermark: int) -> None:
        firing.fire_all(self._calls, self._budget, overlay, watermark)

    def process_rows(
        self,
        overlay: Overlay,
        keys: Sequence[Any],
        kgs: Sequence[int],
        stamps: Iterable[int | None],
        rows: Iterable[Any],
        of_input: int = 0,
    ) -> None:
        """As the contract says; the rows have names (``Row``, dict), and become one batch whose types Arrow finds."""
        found = [row.asDict() if isinstance(row, Row) else dict(row) for row in rows]
        if not found:
            return
        with self._lock, garbage.collection_paused():
            self._calls.bind(overlay, overlay.watermark)
            batch = pa.RecordBatch.from_pylist(found)
            self._calls.process_values(overlay, keys, kgs, list(stamps), batch)
