"""Rows of an epoch in order of event time or key groups, even where they do not fit in memory: runs are sorted on
disk and merged.

The order is that of one stable sort of all rows as they came. Of the batches read last from each run, a merge
step takes all rows up to the least of their ends, run by run, and sorts them; the run whose end that is goes on
with its next batch. Rows of equal time stay in the order of the runs, because a later run gives its rows of that
time only when the earlier ones have none left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.rows import files

SLICE_ROWS = 65_536
"""Rows in a batch that was sorted in memory."""
_RUN_ROWS = 4_096
"""Rows in a batch of a run, at most: one of each run is in memory while they are merged."""
_LEAST_RUN_ROWS = 16


def sort(
    batches: Iterable[pa.RecordBatch], column: str, slice_rows: int = SLICE_ROWS
) -> list[pa.RecordBatch]:
    """All rows in order of ``column``, rows without a value first, equal ones as they came."""
    table = pa.Table.from_batches(batches)
    order = pc.sort_indices(_stamps(table.column(column)))  # a stable sort
    return table.take(order).to_batches(max_chunksize=slice_rows)  # type: ignore[no-any-return]


def sort_run(
    batches: Sequence[pa.RecordBatch], column: str, batch_bytes: int | None = None
) -> list[pa.RecordBatch]:
    """The rows of one run, in batches of about ``batch_bytes`` (None: of thousands of rows)."""
    rows = _RUN_ROWS
    if batch_bytes is not None:
        sizes = sum(batch.nbytes for batch in batches), sum(batch.num_rows for batch in batches)
        rows = rows_in(batch_bytes, *sizes, _LEAST_RUN_ROWS, _RUN_ROWS)
    return sort(batches, column, rows)


def rows_in(size: int, known_bytes: int, known_rows: int, least: int, most: int) -> int:
    """How many rows have ``size`` bytes, if they are as wide as the known ones: from ``least`` to ``most``."""
    width = known_bytes // max(1, known_rows)
    return max(least, min(most, size // max(1, width)))


def merge(runs: Sequence[Path], last: Sequence[pa.RecordBatch], column: str) -> Iterator[pa.RecordBatch]:
    """The rows of all runs and of ``last`` (unsorted, the latest to come), in order."""
    sources = [files.read_stream(path) for path in runs]
    if last:
        sources.append(iter(sort_run(last, column)))
    heads = [_Head(source, column) for source in sources]
    while True:
        open_heads = [head for head in heads if head.batch is not None]
        if not open_heads:
            return
        number, least = min(
            ((number, head) for number, head in enumerate(heads) if head.batch is not None),
            key=lambda item: (item[1].end, item[0]),
        )
        end = least.end
        taken = [
            head.take(end, including=at <= number) for at, head in enumerate(heads) if head.batch is not None
        ]
        parts = [part for part in taken if part.num_rows]
        yield parts[0] if len(parts) == 1 else _one(sort(parts, column, sum(p.num_rows for p in parts)))


class _Head:
    """The rows of one run that were read last and are not taken yet."""

    def __init__(self, source: Iterator[pa.RecordBatch], column: str) -> None:
        self._source = source
        self._column = column
        self.batch: pa.RecordBatch | None = None
        self.end = 0
        self._sorted: Any = None
        """The batch's event times or key groups."""
        self._advance()

    def _advance(self) -> None:
        self.batch = next((batch for batch in self._source if batch.num_rows), None)
        if self.batch is not None:
            # Each step of a merge asks all runs. With Arrow's comparison it took four times as long.
            self._sorted = _stamps(self.batch.column(self._column)).to_numpy()
            self.end = int(self._sorted[-1])

    def take(self, end: int, including: bool) -> pa.RecordBatch:
        """The rows before ``end``, or up to and including it; the next batch is read when none is left."""
        assert self.batch is not None
        count = int(np.searchsorted(self._sorted, end, "right" if including else "left"))
        part = self.batch.slice(0, count)
        if count == self.batch.num_rows:
            self._advance()
        elif count:
            self.batch, self._sorted = self.batch.slice(count), self._sorted[count:]
        return part


def _stamps(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    # Key groups, the other order of rows, are shorter integers than event times.
    return pc.fill_null(column.cast(pa.int64()), MIN_WATERMARK)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return (
        batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    )
