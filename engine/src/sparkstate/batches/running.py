"""Running values per key: sums, least and greatest values up to each row.

Rows are brought together by key with a stable sort of their codes, so that each key's rows lie in one stretch and in
their order. Whole numbers are then summed in one pass over all stretches. The sum before each stretch is subtracted,
which is exact, because int64 wraps around. It is not exact for floating-point numbers, where an infinity or a large
value of one key would reach the next key. Those, and least and greatest values, go by levels: the first row of every
key at once, then every second row, and so on. A batch of n rows has at most √n levels with more than √n keys in them.
The keys that are left then are gone through one by one, so no batch needs more than 2√n steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import errors

_FEW_CODES = 1 << 16
"""Below it codes are sorted as 16-bit numbers, for which NumPy has a radix sort: 0.4 instead of 3.6 ms
for 65,536 rows."""


@dataclass(frozen=True)
class Running:
    """A way to fold values: ``combine`` is a NumPy ufunc."""

    name: str
    combine: np.ufunc


SUM = Running("sum", np.add)
MIN = Running("min", np.fmin)
MAX = Running("max", np.fmax)
"""NaN counts only where there is no number, as in ``BatchKeys.min`` and ``max``."""


def order_by_code(codes: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    """The rows by key, those of one key in their order."""
    if count <= _FEW_CODES:
        return np.argsort(codes.astype(np.uint16), kind="stable")
    return np.argsort(codes, kind="stable")


def each_once(codes: npt.NDArray[np.int32], count: int) -> bool:
    """Whether each code has one row, in the order of the codes."""
    return len(codes) == count and bool((codes == np.arange(count)).all())


def rank(codes: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    """The place of each row among the rows of its key, from 1."""
    order = order_by_code(codes, count)
    sizes = np.bincount(codes, minlength=count)
    starts = np.cumsum(sizes) - sizes
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(1, len(codes) + 1) - np.repeat(starts, sizes)
    return ranks


def over(
    codes: npt.NDArray[np.int32],
    count: int,
    values: pa.Array,
    start: pa.Array | None,
    how: Running,
    is_each_once: bool,
) -> pa.Array:
    """One value per row. ``start``: one per key, null for none. Nulls in ``values`` count as nothing.
    ``is_each_once`` is what ``each_once`` says of the codes."""
    kind = _kind(values.type, how)
    if start is not None and start.type != kind and not pa.types.is_null(start.type):
        has_float = pa.types.is_floating(kind) or pa.types.is_floating(start.type)
        kind = pa.float64() if has_float else pa.int64()
    # A sum of 64-bit numbers wraps around, so an unsigned one may as well begin as its negative twin. Whole numbers
    # become the nearest floats, as in Python and in states.
    is_float = pa.types.is_floating(kind)
    values = values.cast(kind, safe=not (is_float or (how is SUM and pa.types.is_uint64(values.type))))
    start = pa.nulls(count, kind) if start is None else start.cast(kind, safe=not is_float)
    if is_each_once:
        return _of_one_row(values, start, kind, how)
    order = order_by_code(codes, count)
    sizes = np.bincount(codes, minlength=count)
    neutral = _neutral(kind, how)
    sorted_values = _numbers(values, neutral)[order]
    first = _numbers(start, neutral)
    if how is SUM and pa.types.is_integer(kind):
        folded = _sum_of_integers(sorted_values, first, sizes)
    else:
        with np.errstate(invalid="ignore", over="ignore"):  # infinities are values like others
            folded = _by_levels(sorted_values, first, sizes, how.combine)
    result = np.empty_like(folded)
    result[order] = folded
    return pa.array(result, type=kind, mask=_missing(values, start, codes, order, sizes))


def _of_one_row(values: pa.Array, start: pa.Array, kind: pa.DataType, how: Running) -> pa.Array:
    """``over`` where each key has one row, in their order."""
    neutral = _neutral(kind, how)
    with np.errstate(invalid="ignore", over="ignore"):
        folded = how.combine(_numbers(start, neutral), _numbers(values, neutral))
    missing = pc.and_(pc.is_null(values), pc.is_null(start)) if values.null_count else None
    return pa.array(folded, type=kind, mask=missing and missing.to_numpy(zero_copy_only=False))


def _kind(given: pa.DataType, how: Running) -> pa.DataType:
    if pa.types.is_integer(given):
        return pa.int64() if how is SUM else given
    if pa.types.is_floating(given):
        return pa.float64() if how is SUM else given
    raise errors.StateError(f"a running {how.name} needs numbers, not {given}; cast the column first")


def _neutral(kind: pa.DataType, how: Running) -> Any:
    if how is SUM:
        return 0
    dtype = np.dtype(kind.to_pandas_dtype())
    if dtype.kind == "f":
        return np.nan
    limits = np.iinfo(dtype)
    return limits.max if how is MIN else limits.min


def _numbers(array: pa.Array, neutral: Any) -> npt.NDArray[Any]:
    filled = array.fill_null(pa.scalar(neutral, type=array.type)) if array.null_count else array
    numbers: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _sum_of_integers(
    values: npt.NDArray[Any], first: npt.NDArray[Any], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    sums = np.cumsum(values)
    before = np.concatenate(([0], sums))[np.cumsum(sizes) - sizes]
    result: npt.NDArray[Any] = sums + np.repeat(first - before, sizes)
    return result


def _by_levels(
    values: npt.NDArray[Any], first: npt.NDArray[Any], sizes: npt.NDArray[np.int64], combine: np.ufunc
) -> npt.NDArray[Any]:
    result = np.empty_like(values)
    starts = np.cumsum(sizes) - sizes
    longest_first = np.argsort(-sizes, kind="stable")
    starts, sizes, folded = starts[longest_first], sizes[longest_first], first[longest_first]
    few = int(np.sqrt(len(values)))
    level, alive = 0, int(np.count_nonzero(sizes))
    while alive > few:
        rows = starts[:alive] + level
        folded[:alive] = result[rows] = combine(folded[:alive], values[rows])
        level += 1
        alive = int(np.searchsorted(-sizes, -level, side="left"))
    for key in range(alive):
        begin, end = starts[key] + level, starts[key] + sizes[key]
        stretch = np.concatenate((folded[key : key + 1], values[begin:end]))
        result[begin:end] = combine.accumulate(stretch)[1:]
    return result


def _missing(
    values: pa.Array,
    start: pa.Array,
    codes: npt.NDArray[np.int32],
    order: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_] | None:
    """True where a key has had no value yet, neither at the start nor in a row."""
    if not values.null_count:
        return None
    given = pc.is_valid(values).to_numpy(zero_copy_only=False)[order].astype(np.int64)
    seen = np.empty(len(codes), np.int64)
    seen[order] = _sum_of_integers(given, np.zeros(len(sizes), np.int64), sizes)
    begun = pc.is_valid(start).to_numpy(zero_copy_only=False)[codes]
    missing: npt.NDArray[np.bool_] = (seen == 0) & ~begun
    return missing
