"""The order in which the rows of two inputs are processed within an epoch: pure, on batches.

The order is a number for each row, by which waiting rows are sorted (``operators.rows.sorting``); the sort is stable,
so rows of equal numbers stay as they came.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns
from sparkstate.functions import MIN_WATERMARK

_LARGEST: Final = (1 << 62) - 1
"""Beyond it times count as equal: 146 million years from now."""


def divide(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of the first input, which are processed now, and those of the second, which wait."""
    is_second = pc.equal(batch.column(columns.INPUT), 1)
    waiting = batch.filter(is_second)
    return batch.filter(pc.invert(is_second)), _with(waiting, np.ones(waiting.num_rows, np.int64))


def by_event_time(batch: pa.RecordBatch, column: str | None) -> pa.RecordBatch:
    """With the order of event time: rows without one first; at equal times the first input's rows first."""
    inputs = batch.column(columns.INPUT).to_numpy(zero_copy_only=False).astype(np.int64)
    if column is None:
        return _with(batch, inputs + MIN_WATERMARK)
    stamps = batch.column(column)
    times = np.clip(pc.fill_null(stamps, 0).to_numpy(zero_copy_only=False), -_LARGEST, _LARGEST)
    missing = stamps.is_null().to_numpy(zero_copy_only=False)
    return _with(batch, np.where(missing, MIN_WATERMARK + inputs, times * 2 + inputs))


def broadcast_first(batch: pa.RecordBatch, column: str | None) -> pa.RecordBatch:
    """The rows of the second input, a broadcast one, in the order that Spark gave them; then those of the first, as
    they came or, with a ``column``, in order of event time."""
    is_keyed = pc.equal(batch.column(columns.INPUT), 0).to_numpy(zero_copy_only=False)
    given = pc.fill_null(batch.column(columns.ORDER), 0).to_numpy(zero_copy_only=False)
    behind: npt.NDArray[np.int64] = np.zeros(batch.num_rows, np.int64)
    if column is not None:
        stamps = batch.column(column)
        behind = np.clip(pc.fill_null(stamps, 0).to_numpy(zero_copy_only=False), -_LARGEST, _LARGEST)
        behind[stamps.is_null().to_numpy(zero_copy_only=False)] = -_LARGEST - 1
    # Spark's numbers are partition and row; they stay below 2**62 as long as there are fewer than 2**29 partitions.
    order = np.where(is_keyed, behind, given + MIN_WATERMARK)
    return _with(batch.drop_columns([columns.ORDER]), order)


def _with(batch: pa.RecordBatch, order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    return batch.append_column(columns.ORDER, pa.array(order, pa.int64()))
