"""The first and the last value of a window, by event time; of rows of one time by the order in which they came.

Spark takes the rows as they come, so its answer may change with every run. By event time there is one answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.aggregates import aggregate
from sparkstate.aggregates.aggregate import Accumulators, Aggregate, Codes, Part, Rows
from sparkstate.serde.types import Types


@dataclass(frozen=True)
class EndValue(Aggregate):
    """The value of the first row or the last one, which may be null; with ``ignores_nulls`` of those that have one."""

    kind: pa.DataType
    is_last: bool
    ignores_nulls: bool = False

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part("value", aggregate.state_type(self.kind)), Part("time", Types.LONG()))

    @property
    def options(self) -> str:
        return " ignore nulls" if self.ignores_nulls else ""

    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        codes = np.concatenate([np.arange(rows.count), rows.codes])
        values = aggregate.joined(before[0], rows.values)
        times = pa.concat_arrays([before[1], pa.array(rows.times)])
        if self.ignores_nulls:
            has_value = values.is_valid().to_numpy(zero_copy_only=False)
            times = pa.array(times.fill_null(0).to_numpy(), mask=~has_value | times.is_null().to_numpy(False))
        return self._chosen(values, times, codes, rows.count)

    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        return self._chosen(parts[0], parts[1], codes, count)

    def _chosen(self, values: pa.Array, times: pa.Array, codes: Codes, count: int) -> Accumulators:
        stamps, present = aggregate.numbers(times, np.int64)
        rows = np.flatnonzero(present)
        rows = rows[np.lexsort((stamps[rows], codes[rows]))]  # stable: rows of one time stay in their order
        if not self.is_last:
            rows = rows[::-1]
        # Of several writes to one place NumPy keeps the last.
        chosen, has_one = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        chosen[codes[rows]], has_one[codes[rows]] = rows, True
        places = aggregate.to_array(chosen, has_one)
        return [values.take(places), times.take(places)]

    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        return parts[0].cast(self.kind)
