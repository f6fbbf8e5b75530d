"""Variances and standard deviations: count, mean, and the sum of squared distances from it, merged as Chan, Golub and
LeVeque do. The last digits of a result may depend on how the input was cut into batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.aggregates import aggregate
from sparkstate.aggregates.aggregate import Accumulators, Aggregate, Codes, Part, Rows
from sparkstate.serde.types import Types


@dataclass(frozen=True)
class Deviation(Aggregate):
    """Of a sample (null for a single value), or of the whole population; the variance, or its root."""

    is_sample: bool = True
    is_root: bool = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part("count", Types.LONG()), Part("mean", Types.DOUBLE()), Part("squares", Types.DOUBLE()))

    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        values, is_valid = aggregate.numbers(rows.values, np.float64)
        added = (pa.array(is_valid.astype(np.int64)), pa.array(values), pa.array(np.zeros(len(values))))
        codes = np.concatenate([np.arange(rows.count), rows.codes])
        return self.merge(
            [aggregate.joined(a, b) for a, b in zip(before, added, strict=True)], codes, rows.count
        )

    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        (counts, means, squares) = (aggregate.numbers(part, np.float64)[0] for part in parts)
        some = counts > 0
        counts, means, squares, codes = counts[some], means[some], squares[some], codes[some]
        total = _sums(codes, counts, count)
        # Relative to one mean of each group: equal values then have no distance, as in Spark, and large ones do not
        # overflow.
        near = np.zeros(count)
        near[codes] = means
        with np.errstate(invalid="ignore", over="ignore"):  # infinities and NaN are values like others
            mean = near + _sums(codes, counts * (means - near[codes]), count) / np.maximum(total, 1)
            distances = means - mean[codes]
            sums = _sums(codes, squares + counts * distances * distances, count)
        present = total > 0
        return [
            aggregate.to_array(total.astype(np.int64), present),
            aggregate.to_array(mean, present),
            aggregate.to_array(sums, present),
        ]

    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        counts, _ = aggregate.numbers(parts[0], np.int64)
        squares, _ = aggregate.numbers(parts[2], np.float64)
        divisor = counts - 1 if self.is_sample else counts
        with np.errstate(invalid="ignore"):
            found = squares / np.maximum(divisor, 1)
            return aggregate.to_array(np.sqrt(found) if self.is_root else found, divisor > 0)


def _sums(codes: Codes, values: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float64]:
    # Of no values at all NumPy gives whole numbers.
    return np.bincount(codes, values, minlength=count).astype(np.float64)
