"""The first and the last event time of rows: what an operator of sessions keeps beside the aggregates of its job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.aggregates import aggregate
from sparkstate.aggregates.accumulators import Entries, Output
from sparkstate.aggregates.aggregate import Accumulators, Aggregate, Codes, Part, Rows
from sparkstate.aggregates.slices import Flags, Times
from sparkstate.serde.types import Types

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""Times before and after all others."""


@dataclass(frozen=True)
class Span(Aggregate):
    """Two times, which every accumulator has."""

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part("first", Types.LONG()), Part("last", Types.LONG()))

    def fold(self, before: Accumulators, rows: Rows) -> Accumulators:
        first, last = _bounds(before)
        np.minimum.at(first, rows.codes, rows.times)
        np.maximum.at(last, rows.codes, rows.times)
        return [pa.array(first), pa.array(last)]

    def merge(self, parts: Accumulators, codes: Codes, count: int) -> Accumulators:
        first, last = np.full(count, GREATEST), np.full(count, LEAST)
        for times, found, extreme in zip(
            _bounds(parts), (first, last), (np.minimum, np.maximum), strict=True
        ):
            extreme.at(found, codes, times)
        return [pa.array(first), pa.array(last)]

    def result(self, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
        return parts[0]


SPAN: Final = Output("session", "span", Span(), None)
"""The first output of an operator of sessions. No aggregate of a job has its kind, so none has its name in state."""


def of_entries(entries: Entries) -> tuple[Times, Times]:
    """The first and the last time of each entry, where ``SPAN`` is the first output. Where there is no entry, a time
    after all others and one before all others."""
    return _bounds(entries[1])


def of_places(entries: Entries, present: Flags) -> tuple[Times, Times]:
    """The same for places of which only those with a flag have an entry."""
    first, last = np.full(present.shape, GREATEST), np.full(present.shape, LEAST)
    first[present], last[present] = of_entries(entries)
    return first, last


def _bounds(parts: Accumulators) -> tuple[Times, Times]:
    first, last = (aggregate.numbers(part, np.int64) for part in parts)
    return (
        np.where(first[1], first[0], GREATEST),
        np.where(last[1], last[0], LEAST),
    )
