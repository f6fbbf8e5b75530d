"""Sums, counts and averages.

Whole numbers are summed in 64 bits. Where Spark's ANSI mode is on, a sum that does not fit fails the epoch; otherwise
it wraps around: both as Spark does. Floating-point numbers of a slice are added in the order of the rows, so its sum
does not depend on how the input was cut into batches. Where windows overlap four times or more, the order in which the
sums of slices are added depends on the watermark.
"""

from __future__ import annotations

import contextlib
import decimal
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate.aggregates import aggregate
from sparkstate.aggregates.aggregate import Accumulators, AdditiveAggregate, Aggregate, Codes, Part, Rows
from sparkstate.serde.types import Types

_WIDE: Final = pa.decimal256(76, 38)
"""The Arrow type of a BIG_DEC state."""
_SURELY_FITS: Final = 2.0**62
_LOW: Final = 2**32 - 1
_EXACT: Final = decimal.Context(prec=76, rounding=decimal.ROUND_HALF_UP)


@dataclass(frozen=True)
class Count(AdditiveAggregate):
    """Values that are not null; with ``of_rows`` all rows, which the window counts anyway."""

    of_rows: bool = False

    @property
    def parts(self) -> tuple[Part, ...]:
        return () if self.of_rows else (Part("count", Types.LONG()),)

    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        return [] if self.of_rows else [_count(before[0], rows.codes, rows.count, rows.values)]

    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        return [] if self.of_rows else [_add(_nothing(count), codes, parts[0], is_checked=False)]

    @property
    def terms(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    def to_terms(self, parts: Accumulators) -> list[npt.NDArray[np.int64]]:
        return [aggregate.numbers(part, np.int64)[0] for part in parts]

    def of_terms(self, terms: list[npt.NDArray[np.int64]]) -> Accumulators:
        return [pa.array(term) for term in terms]

    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        return pa.array(rows) if self.of_rows else parts[0].fill_null(0)


@dataclass(frozen=True)
class Sum(AdditiveAggregate):
    """The sum of values; null where there are none. ``kind`` is the result's type."""

    kind: pa.DataType
    is_checked: bool = True
    """Whether a sum that does not fit is an error."""

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part("sum", aggregate.state_type(self.kind)),)

    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        return [self._added(before[0], rows.codes, rows.values)]

    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        return [self._added(pa.nulls(count, parts[0].type), codes, parts[0])]

    def too_large(self, parts: Accumulators, codes: Codes, count: int) -> npt.NDArray[np.bool_]:
        if pa.types.is_decimal(self.kind):
            return _too_many_digits(parts[0], codes, count, _scale(self.kind))
        found = np.zeros(count, np.bool_)
        if self.is_checked and pa.types.is_integer(self.kind):
            added, _ = aggregate.numbers(parts[0], np.int64)
            wrong, _ = _sums_that_wrap(np.zeros(count, np.int64), codes, added)
            found[wrong] = True
        return found

    def _added(self, before: pa.Array, codes: Codes, values: pa.Array) -> pa.Array:
        if pa.types.is_decimal(self.kind):
            return _add_decimals(before, codes, values, _scale(self.kind))
        return _add(before, codes, values, self.is_checked)

    @property
    def terms(self) -> tuple[str, ...] | None:
        """Halves of the sum: those of 100,000 slices can be added up, where the sums themselves may not fit. And how
        many slices have values, because a sum of none is null."""
        return ("high", "low", "slices") if pa.types.is_integer(self.kind) else None

    def to_terms(self, parts: Accumulators) -> list[npt.NDArray[np.int64]]:
        total, present = aggregate.numbers(parts[0], np.int64)
        return [total >> 32, total & _LOW, present.astype(np.int64)]

    def of_terms(self, terms: list[npt.NDArray[np.int64]]) -> Accumulators:
        high, low, slices = terms
        top = high + (low >> 32)
        wrong = np.flatnonzero((top < -(2**31)) | (top >= 2**31))
        if self.is_checked and len(wrong):
            raise _does_not_fit(float(high[wrong[0]]) * 2.0**32 + float(low[wrong[0]]))
        return [aggregate.to_array((high << 32) + low, slices > 0)]

    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        return _fitted(parts[0], self.kind, self.is_checked)


@dataclass(frozen=True)
class Average(Aggregate):
    """The mean of values: of floating-point numbers for all types but decimals, as in Spark."""

    kind: pa.DataType
    is_checked: bool = True

    @property
    def _is_decimal(self) -> bool:
        return bool(pa.types.is_decimal(self.kind))

    @property
    def parts(self) -> tuple[Part, ...]:
        kind = Types.BIG_DEC() if self._is_decimal else Types.DOUBLE()
        return (Part("sum", kind), Part("count", Types.LONG()))

    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        total = self._added(before[0], rows.codes, rows.values)
        return [total, _count(before[1], rows.codes, rows.count, rows.values)]

    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        total = self._added(pa.nulls(count, parts[0].type), codes, parts[0])
        return [total, _add(_nothing(count), codes, parts[1], is_checked=False)]

    def too_large(self, parts: Accumulators, codes: Codes, count: int) -> npt.NDArray[np.bool_]:
        if not self._is_decimal:
            return np.zeros(count, np.bool_)
        return _too_many_digits(parts[0], codes, count, _scale(self.kind))

    def _added(self, before: pa.Array, codes: Codes, values: pa.Array) -> pa.Array:
        if self._is_decimal:
            return _add_decimals(before, codes, values, _scale(self.kind))
        return _add(before, codes, values, is_checked=False)

    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        if not self._is_decimal:
            total, present = aggregate.numbers(parts[0], np.float64)
            count, _ = aggregate.numbers(parts[1], np.int64)
            return aggregate.to_array(total / np.maximum(count, 1), present)
        places = decimal.Decimal(1).scaleb(-self.kind.scale)
        means = [
            None if total is None else _EXACT.quantize(_EXACT.divide(total, count), places)
            for total, count in zip(parts[0].to_pylist(), parts[1].to_pylist(), strict=True)
        ]
        return _fitted(pa.array(means, pa.decimal256(76, self.kind.scale)), self.kind, self.is_checked)


def _nothing(count: int) -> pa.Array:
    return pa.nulls(count, pa.int64())


def _count(before: pa.Array, codes: Codes, count: int, values: pa.Array) -> pa.Array:
    counts, present = aggregate.numbers(before, np.int64)
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    more = np.bincount(codes[is_valid], minlength=count)
    return aggregate.to_array(counts + more, present | (more > 0))


def _add(before: pa.Array, codes: Codes, values: pa.Array, is_checked: bool) -> pa.Array:
    is_float = pa.types.is_floating(before.type)
    dtype: Any = np.float64 if is_float else np.int64
    total, present = aggregate.numbers(before, dtype)
    added, is_valid = aggregate.numbers(values, dtype)
    if not is_valid.all():
        codes, added = codes[is_valid], added[is_valid]
    if is_checked and not is_float:
        _check_fits(total, codes, added)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are values like others
        np.add.at(total, codes, added)
    present[codes] = True
    return aggregate.to_array(total, present)


def _check_fits(total: npt.NDArray[np.int64], codes: Codes, added: npt.NDArray[np.int64]) -> None:
    """Raise ``OverflowError`` if a sum does not fit in 64 bits."""
    largest = float(np.abs(total.astype(np.float64)).max(initial=0))
    if largest + float(np.abs(added.astype(np.float64)).sum()) < _SURELY_FITS:
        return
    wrong, rough = _sums_that_wrap(total, codes, added)
    if len(wrong):
        raise _does_not_fit(rough[0])


def _sums_that_wrap(
    total: npt.NDArray[np.int64], codes: Codes, added: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The groups whose sums do not fit in 64 bits, and roughly these sums."""
    wrapped, rough = total.copy(), total.astype(np.float64)
    np.add.at(wrapped, codes, added)
    np.add.at(rough, codes, added.astype(np.float64))
    # A sum that wraps is wrong by 2**64 at least; one in floating point by far less than 2**62.
    wrong = np.flatnonzero(np.abs(rough - wrapped.astype(np.float64)) > _SURELY_FITS)
    return wrong, rough[wrong]


def _does_not_fit(rough: float) -> OverflowError:
    return OverflowError(
        f"a sum of whole numbers is about {rough:.4g}, which does not fit in 64 bits; cast the column to double or "
        "decimal, or set spark.sql.ansi.enabled to false for sums that wrap around"
    )


def _add_decimals(before: pa.Array, codes: Codes, values: pa.Array, scale: int) -> pa.Array:
    total = _sums_of_decimals(before, codes, values, scale)
    if not pc.all(_fit_in_state(total), min_count=0).as_py():
        raise OverflowError(
            "a sum of decimals has more than 38 digits before the point; cast the column to double"
        )
    return total.cast(_WIDE)


def _too_many_digits(values: pa.Array, codes: Codes, count: int, scale: int) -> npt.NDArray[np.bool_]:
    """The groups whose sums have more digits than state has room for."""
    total = _sums_of_decimals(pa.nulls(count, values.type), codes, values, scale)
    fits = _fit_in_state(total).fill_null(True)
    return ~np.asarray(fits.to_numpy(zero_copy_only=False), np.bool_)


def _fit_in_state(total: pa.Array) -> pa.Array:
    return _fit_within(total, _WIDE.precision - _WIDE.scale)


def _sums_of_decimals(before: pa.Array, codes: Codes, values: pa.Array, scale: int) -> pa.Array:
    # Arrow gives groups in the order in which they appear: the groups themselves come first, in their order.
    all_codes = np.concatenate([np.arange(len(before)), codes])
    table = pa.table({"code": all_codes, "value": _in_one_scale(before, values, scale)})
    grouped = table.group_by("code", use_threads=False).aggregate([("value", "sum")])
    return grouped.column("value_sum").combine_chunks()


def _in_one_scale(before: pa.Array, values: pa.Array, scale: int) -> pa.Array:
    """Both in the least scale that loses no digit: that of the column, unless state was stored when it had more."""
    for each in range(scale, _WIDE.scale):
        kind = pa.decimal256(_WIDE.precision, each)
        with contextlib.suppress(pa.ArrowInvalid):
            return pa.concat_arrays([before.cast(kind), values.cast(kind)])
    return pa.concat_arrays([before.cast(_WIDE), values.cast(_WIDE)])


def _fit_within(values: pa.Array, digits: int) -> pa.Array:
    """Which decimals have at most so many digits before the point."""
    # Not "less than 10 ** digits": beside 38 digits behind the point, that number has 77, and Arrow has no such type.
    beyond, step = decimal.Decimal(1).scaleb(digits), decimal.Decimal(1).scaleb(-values.type.scale)
    greatest = _EXACT.subtract(beyond, step)
    return pc.less_equal(pc.abs(values), pa.scalar(greatest, values.type))


def _fitted(values: pa.Array, kind: pa.DataType, is_checked: bool) -> pa.Array:
    """Decimals in the result's type; what does not fit is null, or an error."""
    if not pa.types.is_decimal(kind):
        return values
    fits = _fit_within(values, kind.precision - kind.scale)
    if not pc.all(fits, min_count=0).as_py():
        if is_checked:
            raise OverflowError(
                f"a decimal does not fit in {kind}; cast the column to a wider decimal or to double"
            )
        values = pc.if_else(fits, values, pa.nulls(len(values), values.type))
    return values.cast(kind)


def _scale(kind: pa.DataType) -> int:
    """Of the values that are summed: averages have up to four digits more than those."""
    return int(kind.scale)
