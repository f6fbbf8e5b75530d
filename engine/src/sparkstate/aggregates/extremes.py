"""Least and greatest values. NaN is greater than any other number, as in Spark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.aggregates import aggregate
from sparkstate.aggregates.aggregate import Accumulators, Aggregate, Codes, Part, Rows


@dataclass(frozen=True)
class Extreme(Aggregate):
    """The least value, or the greatest; null where there is none."""

    kind: pa.DataType
    is_greatest: bool

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part("value", aggregate.state_type(self.kind)),)

    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        return [self._extreme(before[0], rows.codes, rows.values)]

    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        return [self._extreme(pa.nulls(count, parts[0].type), codes, parts[0])]

    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        return parts[0].cast(self.kind)

    def _extreme(self, before: pa.Array, codes: Codes, values: pa.Array) -> pa.Array:
        if pa.types.is_floating(before.type):
            return self._of_numbers(before, codes, values)
        # Arrow gives groups in the order in which they appear: the groups themselves come first, in their order.
        all_codes = np.concatenate([np.arange(len(before)), codes])
        table = pa.table({"code": all_codes, "value": aggregate.joined(before, values)})
        how = "max" if self.is_greatest else "min"
        grouped = table.group_by("code", use_threads=False).aggregate([("value", how)])
        return grouped.column(f"value_{how}").combine_chunks()

    def _of_numbers(self, before: pa.Array, codes: Codes, values: pa.Array) -> pa.Array:
        found, present = aggregate.numbers(before, np.float64)
        added, is_valid = aggregate.numbers(values, np.float64)
        codes, added = codes[is_valid], added[is_valid]
        # A NaN is taken by `maximum`, and left by `fmin` as long as there is another number.
        found[~present] = -np.inf if self.is_greatest else np.nan
        with np.errstate(invalid="ignore"):
            (np.maximum if self.is_greatest else np.fmin).at(found, codes, added)
        present[codes] = True
        return aggregate.to_array(found, present)
