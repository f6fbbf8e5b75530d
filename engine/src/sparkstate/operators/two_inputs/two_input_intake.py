"""The intake of batches with rows of two inputs."""

from __future__ import annotations

from collections.abc import Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns
from sparkstate.operators.common.intake import Intake
from sparkstate.operators.common.outputs import Outputs
from sparkstate.operators.spec import PairedSpec
from sparkstate.operators.state.overlay import Overlay


class TwoInputIntake(Intake):
    """Late rows of each input go to a side output of that input's own."""

    def __init__(self, spec: PairedSpec, owned: Set[int], outputs: Outputs) -> None:
        super().__init__(spec, owned, outputs)
        self._inputs = spec.columns_of_inputs
        self._late_tags = spec.late_tags

    def _row_columns(self, batch: pa.RecordBatch) -> Sequence[str]:
        names = [columns.of_input(number, name) for number, each in enumerate(self._inputs) for name in each]
        return [columns.INPUT, *names]

    def _put_late(self, overlay: Overlay, batch: pa.RecordBatch, is_late: pa.Array) -> pa.RecordBatch:
        for number, tag in enumerate(self._late_tags):
            if tag is None:
                continue
            goes = pc.and_(is_late, pc.equal(batch.column(columns.INPUT), number))
            late = batch.filter(goes)
            rows = rows_of(late, number, self._inputs[number])
            self._outputs.put_side_batch(overlay, tag, rows, late.column(self._spec.event_time_column))
            batch, is_late = batch.filter(pc.invert(goes)), is_late.filter(pc.invert(goes))
        return batch


class BroadcastIntake(TwoInputIntake):
    """Every slot gets each row of the second input; the first slot alone counts them."""

    def __init__(self, spec: PairedSpec, owned: Set[int], outputs: Outputs) -> None:
        super().__init__(spec, owned, outputs)
        self._counts_all = 0 in owned

    def _counted(self, batch: pa.RecordBatch) -> int:
        if self._counts_all:
            return super()._counted(batch)
        own: int = pc.sum(pc.equal(batch.column(columns.INPUT), 0)).as_py() or 0
        return own

    def _counted_late(self, batch: pa.RecordBatch, is_late: pa.Array, late: int) -> int:
        return self._counted(batch.filter(is_late))


def rows_of(batch: pa.RecordBatch, number: int, names: Sequence[str]) -> pa.RecordBatch:
    """Rows of one input, by the names of its columns."""
    arrays = [batch.column(columns.of_input(number, name)) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
