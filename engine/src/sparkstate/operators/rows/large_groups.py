"""Rows of a key group that is too large to be sorted in memory, in the order of their keys.

Theory. Such a group has a hot key, or the slot has few groups. Its rows are divided by one of its keys, as quicksort
does: those with lesser keys, those with the key itself and those with greater keys wait in a file each. Rows of the key
itself are in order, however many they are. The others are sorted in memory, or are divided again, so each division
writes a row once. The first one takes the middle key of the rows that came first: the hot key, if it has most rows.
Later ones take the middle of a sample, because the keys may rise from the first row to the last.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from sparkstate.operators.rows import sorting
from sparkstate.operators.rows.files import WaitingRows

MOST_ROWS: Final = 65_536
LEAST_ROWS: Final = 64
"""Of a part, whatever its bytes."""
_HELD_PARTS: Final = 2
"""Rows that are held are there twice while they are sorted, and so take four parts."""
_MOST_DIVISIONS: Final = 8
"""Rows that are too many even then are sorted part by part, and their keys begin anew in each part."""


class LargeGroups:
    """``order`` gives the indices that sort rows of one group by key, equal keys as they came. ``new_rows`` makes the
    files. No part has many more bytes than ``part_bytes``."""

    def __init__(
        self, order: Callable[[pa.Table], pa.Array], part_bytes: int, new_rows: Callable[[], WaitingRows]
    ) -> None:
        self._order = order
        self._part_bytes = part_bytes
        self._new_rows = new_rows

    def has_room(self, rows: int, size: int) -> bool:
        """Whether a group with as many rows and bytes is sorted in memory."""
        size_of_all, least = _HELD_PARTS * self._part_bytes, _HELD_PARTS * LEAST_ROWS
        return rows < sorting.rows_in(size_of_all, size, rows, least, sys.maxsize)

    def sort(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one group. Nobody else may keep the batches, or they are in memory once more."""
        return self._sort(batches, [], 0)

    def _sort(
        self, batches: Iterator[pa.RecordBatch], sample: list[pa.Table], divisions: int
    ) -> Iterator[pa.RecordBatch]:
        while held := self._hold(batches):
            rows, size = sum(each.num_rows for each in held), sum(each.nbytes for each in held)
            if self.has_room(rows, size) or divisions == _MOST_DIVISIONS:
                yield from self._parts(held, rows, size)
            else:
                pivot = self._middle(pa.concat_tables(sample) if sample else pa.Table.from_batches(held))
                yield from self._divided(chain(_emptied(held), batches), pivot, divisions + 1)

    def _hold(self, batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """All rows, or as many as there is room for, and a batch more."""
        held, rows, size = [], 0, 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if not self.has_room(rows, size):
                break
        return held

    def _parts(self, held: list[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(held).combine_chunks()  # each ``take`` would do it
        held.clear()
        order = self._order(table)
        part_rows = sorting.rows_in(self._part_bytes, size, rows, LEAST_ROWS, MOST_ROWS)
        for start in range(0, rows, part_rows):
            yield from table.take(order.slice(start, part_rows)).to_batches()

    def _divided(
        self, batches: Iterator[pa.RecordBatch], pivot: pa.Table, divisions: int
    ) -> Iterator[pa.RecordBatch]:
        sides = less, same, greater = [_Side(self._new_rows()) for _ in range(3)]
        try:
            self._divide_all(batches, pivot, sides)
            yield from self._sort(less.rows.take(), less.sample, divisions)
            yield from same.rows.take()
            yield from self._sort(greater.rows.take(), greater.sample, divisions)
        finally:
            for side in sides:
                side.rows.close()

    def _divide_all(self, batches: Iterator[pa.RecordBatch], pivot: pa.Table, sides: Sequence[_Side]) -> None:
        """Not in the generator, which would keep the last piece while the sides are read."""
        for piece in self._pieces(batches):
            for side, rows in zip(sides, self._divide(piece, pivot), strict=True):
                side.add(rows)

    def _pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The same rows, about a part at a time."""
        piece, size = [], 0
        for batch in batches:
            piece.append(batch)
            size += batch.nbytes
            if size >= self._part_bytes:
                yield pa.Table.from_batches(_emptied(piece)).combine_chunks()
                size = 0
        if piece:
            yield pa.Table.from_batches(piece).combine_chunks()

    def _divide(self, piece: pa.Table, pivot: pa.Table) -> Iterator[pa.Table]:
        """Rows with keys below the pivot's, with its key, and above it. The sort is stable, so rows of one key lie
        between a pivot before them and a pivot behind them."""
        order = self._order(pa.concat_tables([pivot, piece, pivot])).to_numpy()
        before, behind = np.flatnonzero((order == 0) | (order == len(order) - 1))
        rows = order.astype(np.int64) - 1
        for each in (rows[:before], rows[before + 1 : behind], rows[behind + 1 :]):
            yield piece.take(pa.array(each))

    def _middle(self, table: pa.Table) -> pa.Table:
        return _row(table, self._order(table)[table.num_rows // 2].as_py())


class _Side:
    """Rows on one side of a pivot, with one of each addition as a sample."""

    def __init__(self, rows: WaitingRows) -> None:
        self.rows = rows
        self.sample: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        if table.num_rows:
            self.rows.add(table.to_batches())
            self.sample.append(_row(table, table.num_rows // 2))


def _row(table: pa.Table, index: int) -> pa.Table:
    """One row in memory of its own: a slice would keep its whole table."""
    return table.slice(index, 1).take([0])


def _emptied(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches one by one, each of them let go."""
    batches.reverse()
    while batches:
        yield batches.pop()
