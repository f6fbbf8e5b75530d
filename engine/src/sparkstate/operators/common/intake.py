"""The intake of a batch, before the user's code sees it: checked, counted, late rows taken out."""

from __future__ import annotations

from collections.abc import Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns, errors
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.common.outputs import Outputs
from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.spec import KeyedSpec
from sparkstate.operators.state.overlay import Overlay


class Intake:
    """The entrance of one operator; ``owned`` are the key groups of its slot."""

    def __init__(self, spec: KeyedSpec, owned: Set[int], outputs: Outputs) -> None:
        self._spec = spec
        self._owned = owned
        self._outputs = outputs

    def take(self, overlay: Overlay, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows to process. Raises ``StateError`` for rows of key groups that the slot does not own."""
        self._check(overlay, batch)
        return self._take_late_rows(overlay, batch)

    def _check(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        stamp = () if self._spec.event_time_column is None else (self._spec.event_time_column,)
        arrow_rows.check_columns(
            (columns.KEY_GROUP, *self._spec.key_columns, *stamp, *self._row_columns(batch)),
            batch,
            self._spec.uid,
        )
        self._check_key_groups(batch.column(columns.KEY_GROUP))
        overlay.rows_in += self._counted(batch)
        overlay.has_rows |= batch.num_rows > 0
        if stamp:
            latest = pc.max(batch.column(stamp[0])).as_py()
            if latest is not None and (overlay.max_timestamp is None or latest > overlay.max_timestamp):
                overlay.max_timestamp = latest

    def _check_key_groups(self, key_groups: pa.Array) -> None:
        strange = [kg for kg in pc.unique(key_groups).to_pylist() if kg not in self._owned]
        if strange:
            raise errors.StateError(
                f"operator {self._spec.uid!r}: a batch has rows of key group {strange[0]}, which this slot "
                f"does not own (it owns {len(self._owned)} key groups); "
                "the rows were sent to the wrong slot"
            )

    def _take_late_rows(self, overlay: Overlay, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count rows that are not after the watermark, and send them to the late output if there is one."""
        if (
            self._spec.judges_lateness
            or self._spec.event_time_column is None
            or overlay.watermark == MIN_WATERMARK
        ):
            return batch
        is_late = pc.fill_null(
            pc.less_equal(batch.column(self._spec.event_time_column), overlay.watermark), False
        )
        late = pc.sum(is_late).as_py()
        if not late:
            return batch
        overlay.late_rows += self._counted_late(batch, is_late, late)
        return self._put_late(overlay, batch, is_late)

    # --- what depends on the rows

    def _counted(self, batch: pa.RecordBatch) -> int:
        """How many of these rows this slot has to count."""
        if columns.ROWS in batch.schema.names:
            combined: int = pc.sum(batch.column(columns.ROWS)).as_py() or 0
            return combined
        return batch.num_rows  # type: ignore[no-any-return]

    def _counted_late(self, batch: pa.RecordBatch, is_late: pa.Array, late: int) -> int:
        """How many of the ``late`` rows of a batch this slot has to count."""
        del batch, is_late
        return late

    def _row_columns(self, batch: pa.RecordBatch) -> Sequence[str]:
        """The columns in which the rows of a batch lie."""
        return self._spec.columns_of(batch)

    def _put_late(self, overlay: Overlay, batch: pa.RecordBatch, is_late: pa.Array) -> pa.RecordBatch:
        """Send late rows to the late output, if there is one; the other rows."""
        if self._spec.late_tag is None:
            return batch
        late = batch.filter(is_late)
        rows = late.select(list(self._row_columns(batch)))
        self._outputs.put_side_batch(
            overlay, self._spec.late_tag, rows, late.column(self._spec.event_time_column)
        )
        return batch.filter(pc.invert(is_late))
