"""The rows of a batch by key and slice: what all operators of windows with built-in aggregates begin and end with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate import columns
from sparkstate.aggregates.slices import FARTHEST_TIME, Flags, Slices, Times
from sparkstate.batches.functions import RowError
from sparkstate.batches.keys import BatchKeys

START, END = "window_start", "window_end"


@dataclass(frozen=True)
class SlicedRows:
    """Rows grouped by pairs of a key and a slice."""

    batch: pa.RecordBatch
    times: Times
    pairs: npt.NDArray[np.int64]
    """For each row the number of its pair."""
    pair_keys: npt.NDArray[np.int64]
    pair_slices: Times


def chosen_rows(
    batch: pa.RecordBatch, keys: BatchKeys, times: Times, slices: Times, kept: Flags
) -> SlicedRows:
    """Those of a batch's rows that are kept; ``slices`` has the slice of each row."""
    codes: Any = keys.codes
    if not kept.all():
        batch, codes = batch.filter(pa.array(kept)), codes[kept]
        times, slices = times[kept], slices[kept]
    starts, numbers_of = _distinct(slices)
    pairs = pa.array(codes.astype(np.int64) * len(starts) + numbers_of).dictionary_encode()
    distinct = pairs.dictionary.to_numpy()
    return SlicedRows(
        batch,
        times,
        pairs.indices.to_numpy().astype(np.int64),
        distinct // len(starts),
        starts[distinct % len(starts)],
    )


def _distinct(slices: Times) -> tuple[Times, Any]:
    """The slices that there are, and for each row the number of its own."""
    if (slices == slices[0]).all():
        return slices[:1], 0
    encoded = pa.array(slices).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()


def are_combined(batch: pa.RecordBatch) -> bool:
    """Whether Spark has combined the rows of a batch: each stands for several of one key and slice."""
    return columns.ROWS in batch.schema.names


def count(batch: pa.RecordBatch, chosen: Flags) -> int:
    """How many rows of the stream these rows of a batch are."""
    if not are_combined(batch):
        return int(np.count_nonzero(chosen))
    return int(batch.column(columns.ROWS).to_numpy()[chosen].sum())


def bounded(watermark: int) -> int:
    """A watermark near enough to all times of windows that it can be added to and subtracted from in 64 bits."""
    return max(-2 * FARTHEST_TIME, min(watermark, 2 * FARTHEST_TIME))


def times_of(stamps: pa.Array, slices: Slices) -> Times:
    """The event times of rows, in ms. Raises ``RowError`` for one that no window has."""
    if stamps.null_count:
        raise RowError(
            int(np.flatnonzero(stamps.is_null().to_numpy(zero_copy_only=False))[0]),
            "a row without event time has no place in a window; fill the event-time column, or filter such rows out "
            "before keyed()",
        )
    times: Times = stamps.to_numpy()
    limit = FARTHEST_TIME - slices.size - slices.lateness
    # Not by the absolute value: the least number of 64 bits has none.
    wrong = np.flatnonzero((times < -limit) | (times > limit))
    if len(wrong):
        row = int(wrong[0])
        raise RowError(
            row,
            f"its event time is {times[row]} ms; windows take times from -{limit} to {limit} ms since 1970",
        )
    return times


def frame(
    keys: BatchKeys,
    key_names: Sequence[str],
    bounds: tuple[Times, Times],
    results: Sequence[pa.Array],
    result_names: Sequence[str],
) -> pa.RecordBatch:
    """A row for each window, from its start and its end: key columns, both bounds, results, and the last millisecond of
    the window as event time."""
    each = keys.values.flatten() if len(key_names) > 1 else [keys.values]
    names = [*key_names, START, END, *result_names, columns.TIMESTAMP]
    arrays = [*each, *(_timestamps(times) for times in bounds), *results, pa.array(bounds[1] - 1)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _timestamps(times: Times) -> pa.Array:
    return pa.array(times * 1000, pa.timestamp("us", "UTC"))
