"""The keys of a batch: its rows, numbered by key, and the steps that authors would otherwise write by hand.

Theory. ``codes`` gives each row the number of its key. Numbers go by first appearance: the key of the first row is 0,
the next new key is 1, and so on. Arrow's hash aggregation returns its groups by first appearance too, so its answer for
``codes`` is in the order of the keys, and needs no sorting, unless the batch itself was sorted (``sort_by``).

A column is given by name or as an array with one entry per row; ``per_key`` arguments have one entry per key.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import errors
from sparkstate.batches import decimal_sums, running

Column: TypeAlias = Any
"""The name of one of the batch's columns, or a ``pa.Array``, ``np.ndarray``, ``pd.Series`` or list."""


class BatchKeys:
    """The keys of one batch. Made by the engine; valid during the call that it is given to."""

    def __init__(
        self,
        codes: npt.NDArray[np.int32],
        values: pa.Array,
        batch: pa.RecordBatch | None = None,
        numbers: npt.NDArray[np.int64] | None = None,
        origin: npt.NDArray[np.int64] | None = None,
        order: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.codes = codes
        """For each row the number of its key; int32, do not change it."""
        self.values = values
        """The key of each number; a struct of f0, f1, … where a key has several columns."""
        self._batch = batch
        self.numbers = numbers
        """The engine's own numbers of these keys."""
        self.origin = numbers if origin is None else origin
        """The numbers of all keys of the call from which these were selected."""
        self.order = order
        """The place of each row in the call's batch; None: the rows are where they were."""

    @property
    def count(self) -> int:
        """How many keys there are."""
        return len(self.values)

    @property
    def is_selection(self) -> bool:
        """Whether these are some of a call's keys, with a row for each."""
        return self.numbers is not self.origin

    def __len__(self) -> int:
        return len(self.values)

    def select(self, places: Any) -> BatchKeys:
        """Some of these keys, by their numbers: one row for each. A key may come several times, to be used with another
        namespace each time."""
        chosen = np.asarray(places, np.int64)
        numbers = None if self.numbers is None else self.numbers[chosen]
        codes = np.arange(len(chosen), dtype=np.int32)
        return BatchKeys(codes, self.values.take(pa.array(chosen)), None, numbers, self.origin)

    # --- one value per key

    def size(self) -> pa.Array:
        """Rows of each key, int64."""
        return pa.array(np.bincount(self.codes, minlength=self.count))

    def sum(self, column: Column) -> pa.Array:
        """The sum of each key; nulls count as nothing, and null where a key has no other value. Whole numbers give
        int64, which wraps around without an error; a column that is cast to ``pa.decimal128(38, 0)`` first does not.
        Decimals keep their scale and have 38 digits, those of decimal256 76; a sum with more raises ``StateError``."""
        values = self.column(column)
        if not pa.types.is_decimal(values.type):
            return self._aggregate(values, "sum")
        most = int(np.bincount(self.codes).max(initial=0))
        return decimal_sums.narrowed(self._aggregate(decimal_sums.widened(values, most), "sum"), values.type)

    def min(self, column: Column) -> pa.Array:
        """The least value of each key; null where it has none. NaN counts only where a key has no number."""
        return self._extreme(column, "min")

    def max(self, column: Column) -> pa.Array:
        """The greatest value of each key; null where it has none. NaN counts only where a key has no number."""
        return self._extreme(column, "max")

    def count_of(self, column: Column) -> pa.Array:
        """Values of each key that are not null, int64."""
        return self._aggregate(column, "count")

    def first(self, column: Column) -> pa.Array:
        """The value in each key's first row, even if it is null."""
        return pc.take(self.column(column), pa.array(self.first_rows()))

    def last(self, column: Column) -> pa.Array:
        """The value in each key's last row, even if it is null."""
        return pc.take(self.column(column), pa.array(self.last_rows()))

    def first_rows(self) -> npt.NDArray[np.int64]:
        """The number of each key's first row."""
        return first_rows(self.codes, self.count)

    def last_rows(self) -> npt.NDArray[np.int64]:
        """The number of each key's last row."""
        rows = np.empty(self.count, np.int64)
        rows[self.codes] = np.arange(len(self.codes))
        return rows

    # --- one value per row

    def take(self, values: Any) -> pa.Array:
        """One value per key → one per row."""
        return per_key(self, values).take(pa.array(self.codes))

    def rank(self) -> pa.Array:
        """The place of each row among the rows of its key, from 1; int64."""
        return pa.array(running.rank(self.codes, self.count))

    def cumulative_sum(self, column: Column, start: Any = None) -> pa.Array:
        """For each row the sum of its key's values up to it, in the order of the rows; ``start`` is one value per key
        to begin with (null and None: nothing). Nulls count as nothing. Whole numbers give int64, which
        wraps around as in ``sum``."""
        return self._running(column, start, running.SUM)

    def cumulative_max(self, column: Column, start: Any = None) -> pa.Array:
        """The greatest of ``start`` and the values so far. Nulls count as nothing, and NaN only
        before a key's first number."""
        return self._running(column, start, running.MAX)

    def cumulative_min(self, column: Column, start: Any = None) -> pa.Array:
        """The same for the least value."""
        return self._running(column, start, running.MIN)

    def sort_by(self, column: Column) -> tuple[pa.RecordBatch, BatchKeys]:
        """The batch in the order of a column, and its keys; nulls come first, and equal values keep their order."""
        if self._batch is None:
            raise errors.StateError("these keys have no batch to sort: they are those of timers")
        values = self.column(column)
        table = pa.table({"given": pc.is_valid(values), "by": values, "row": np.arange(len(self.codes))})
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
        batch, places = self._batch.take(order), order.to_numpy().astype(np.int64)
        before = places if self.order is None else self.order[places]
        return batch, BatchKeys(self.codes[places], self.values, batch, self.numbers, self.origin, before)

    # ---

    def column(self, column: Column) -> pa.Array:
        """One entry per row, as an Arrow array. Raises ``StateError`` for another length, or an unknown name."""
        if isinstance(column, str):
            if self._batch is None or column not in self._batch.schema.names:
                known = ", ".join(self._batch.schema.names) if self._batch is not None else "none"
                raise errors.StateError(f"the batch has no column {column!r}; its columns are: {known}")
            return self._batch.column(column)
        return _array(column, len(self.codes), "row")

    def _extreme(self, column: Column, how: str) -> pa.Array:
        values = self.column(column)
        is_nan = pc.is_nan(values) if pa.types.is_floating(values.type) else None
        if is_nan is None or not pc.any(is_nan).as_py():
            return self._aggregate(values, how)
        # For a key that has nothing but NaN, older versions of Arrow (18) give the infinity with which they begin.
        found = self._aggregate(pc.if_else(is_nan, pa.scalar(None, values.type), values), how)
        has_nan_alone = pc.and_(pc.is_null(found), pc.greater(self.count_of(values), 0))
        return pc.if_else(has_nan_alone, pa.scalar(float("nan"), values.type), found)

    def _aggregate(self, column: Column, how: str) -> pa.Array:
        if self._each_once and (found := _of_one_row(self.column(column), how)) is not None:
            return found
        table = pa.table({"key": self.codes, "value": self.column(column)})
        grouped = table.group_by("key", use_threads=False).aggregate([("value", how)])
        found = to_array(grouped.column(f"value_{how}"))
        if how == "sum" and pa.types.is_uint64(found.type):
            found = found.cast(pa.int64(), safe=False)
        groups = grouped.column("key").to_numpy()
        # Groups come by first appearance. In a batch that was sorted that is not the order of the keys.
        is_ordered = bool((groups == np.arange(len(groups))).all())
        return found if is_ordered else found.take(pa.array(np.argsort(groups)))

    @cached_property
    def _each_once(self) -> bool:
        """Whether each key has one row, in the order of the keys."""
        return running.each_once(self.codes, self.count)

    def _running(self, column: Column, start: Any, how: running.Running) -> pa.Array:
        values = self.column(column)
        starts = None if start is None else per_key(self, start)
        return running.over(self.codes, self.count, values, starts, how, self._each_once)


def to_array(values: Any) -> pa.Array:
    """An Arrow array of what may stand for a column: an array in one piece or several, a Series, a list."""
    # Arrow makes several pieces of a Series that has several.
    found = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _of_one_row(values: pa.Array, how: str) -> pa.Array | None:
    """``how`` of groups of one row each, as Arrow's hash aggregation answers it; None: let it answer. A tenth of a
    slot's time, in jobs where no key comes twice, goes to grouping what is grouped already."""
    if how == "count":
        return values.is_valid().cast(pa.int64())
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64(), safe=False) if how == "sum" else values
    if pa.types.is_float32(values.type) or pa.types.is_float64(values.type):
        # Zero is added as in a sum of several rows: -0.0 becomes 0.0.
        return pc.add(values.cast(pa.float64()), 0.0) if how == "sum" else values
    return None


def first_rows(codes: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    """For each of ``count`` codes the number of the first row that has it."""
    rows = np.empty(count, np.int64)
    # Of several writes to one place NumPy keeps the last, so the rows are written backwards.
    rows[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return rows


def per_key(keys: BatchKeys, values: Any) -> pa.Array:
    """An array with one entry per key. Raises ``StateError`` for another length."""
    return _array(values, keys.count, "key")


def _array(values: Any, length: int, per: str) -> pa.Array:
    array = to_array(values)
    if len(array) != length:
        raise errors.StateError(f"an array has {len(array)} entries, where one per {per} is needed: {length}")
    return array


def of_columns(columns: Sequence[pa.Array]) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """The codes of the rows, and the key of each code, of one or more key columns of one length."""
    codes, uniques = _encode(columns[0])
    if len(columns) == 1:
        return codes, uniques
    # Two codes make one number, which is encoded again: so many columns make no larger numbers than two do.
    for column in columns[1:]:
        more, _ = _encode(column)
        width = int(more.max(initial=-1)) + 1
        codes, _ = _encode(pa.array(codes.astype(np.int64) * width + more))
    count = int(codes.max(initial=-1)) + 1
    first = pa.array(first_rows(codes, count))
    each = [column.take(first) for column in columns]
    values = pa.StructArray.from_arrays(each, [f"f{number}" for number in range(len(each))])
    return codes, values


def _encode(column: pa.Array) -> tuple[npt.NDArray[np.int32], pa.Array]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False), encoded.dictionary
