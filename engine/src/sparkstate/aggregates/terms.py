"""Accumulators as whole numbers that can be added and subtracted without loss.

An aggregate whose accumulators merge by addition has an inverse: what was added can be taken away. That holds for
counts and for sums of whole numbers. It does not hold for floating-point numbers, whose sums depend on their order.
The *terms* of an accumulator are whole numbers, so many that no sum over the slices of a window is too large for 64
bits. So a result is checked as exactly as if its slices had been added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate.aggregates.accumulators import ROWS, Entries, Output
from sparkstate.aggregates.aggregate import AdditiveAggregate, numbers, to_array
from sparkstate.aggregates.slices import Flags

Matrix: TypeAlias = npt.NDArray[np.int64]
"""A line for each term, a column for each accumulator."""


class Terms:
    """The terms of all aggregates of an operator; the first one counts rows."""

    def __init__(self, outputs: Sequence[Output], aggregates: Sequence[AdditiveAggregate]) -> None:
        """``aggregates`` are those of the outputs; all of them have terms."""
        self._aggregates = aggregates
        # By name, because the order of aggregates may change while state stays.
        self._order = sorted(range(len(outputs)), key=lambda number: (outputs[number].name, number))
        self.names = [ROWS]
        for number in self._order:
            each = outputs[number]
            self.names += [f"{each.name}.{each.kind}.{term}" for term in aggregates[number].terms or ()]

    @classmethod
    def of(cls, outputs: Sequence[Output]) -> Terms | None:
        """None if an aggregate has none."""
        additive = [each.aggregate for each in outputs if isinstance(each.aggregate, AdditiveAggregate)]
        if len(additive) < len(outputs) or any(each.terms is None for each in additive):
            return None
        return cls(outputs, additive)

    def of_entries(self, entries: Entries) -> Matrix:
        """The terms of accumulators; 0 where there is none."""
        lines: list[Any] = [numbers(entries[0][0], np.int64)[0]]
        for number in self._order:
            lines += self._aggregates[number].to_terms(entries[number + 1])
        return np.stack(lines)

    def to_entries(self, terms: Matrix) -> Entries:
        """The accumulators; null where no rows are. Raises ``OverflowError`` for a sum that does not fit."""
        has_rows: Flags = terms[0] > 0
        entries: Entries = [[to_array(terms[0], has_rows)], *([] for _ in self._aggregates)]
        at = 1
        for number in self._order:
            aggregate = self._aggregates[number]
            count = len(aggregate.terms or ())
            entries[number + 1] = aggregate.of_terms(list(terms[at : at + count]))
            at += count
        return entries


def summed(terms: Matrix, codes: npt.NDArray[np.int64], count: int) -> Matrix:
    """The sums of terms by group."""
    sums = np.zeros((len(terms), count), np.int64)
    for line, values in zip(sums, terms, strict=True):
        np.add.at(line, codes, values)
    return sums


def to_columns(terms: Matrix) -> list[pa.Array]:
    """A column for each term."""
    return [pa.array(line) for line in terms]


def of_columns(columns: Sequence[pa.Array]) -> Matrix:
    """The inverse; 0 where there is nothing."""
    return np.stack([numbers(column, np.int64)[0] for column in columns])
