"""The accumulators of one operator as state: a value per part of each aggregate, by key and namespace.

The first aggregate of each set counts rows. An entry exists where it has a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate import columns
from sparkstate.aggregates import aggregate
from sparkstate.aggregates.aggregate import Aggregate, Codes, Rows, numbers
from sparkstate.aggregates.slices import Flags, Times
from sparkstate.aggregates.sums import Count
from sparkstate.batches.functions import BatchRuntimeContext
from sparkstate.batches.keys import BatchKeys
from sparkstate.batches.state import BatchValueState
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor

Entries: TypeAlias = list[list[pa.Array]]
"""For each aggregate its parts, with one entry per key and namespace; null where there is none."""
ROWS = "rows"
"""The state that counts the rows of each key and slice."""


@dataclass(frozen=True)
class Output:
    """One column of the result: its name, the aggregate, and the column of its values (None: rows are counted)."""

    name: str
    kind: str
    aggregate: Aggregate
    column: str | None
    type: pa.DataType | None = None
    """Of the column."""
    definition: str = ""
    """The aggregate as SQL has it, for people and for comparison with what state was built on."""
    combined: tuple[str, ...] = ()
    """The columns of its parts in combined rows."""


class StoredAccumulators:
    """A set of accumulators. ``suffix`` tells several sets of one operator apart."""

    def __init__(self, ctx: BatchRuntimeContext, outputs: Sequence[Output], suffix: str = "") -> None:
        self._outputs = outputs
        self._aggregates: list[Aggregate] = [Count(), *(output.aggregate for output in outputs)]
        self._rows = ctx.get_state(ValueStateDescriptor(ROWS + suffix, Types.LONG()), in_namespaces=True)
        self._states = [[self._rows]]
        for each in outputs:
            names = [(f"{each.name}.{each.kind}.{part.name}{suffix}", part) for part in each.aggregate.parts]
            self._states.append(
                [
                    ctx.get_state(ValueStateDescriptor(name, part.type), in_namespaces=True)
                    for name, part in names
                ]
            )

    def present(self, keys: BatchKeys, spaces: Times) -> Flags:
        """Whether there are entries."""
        found: Flags = self._rows.get(keys, namespaces=spaces).is_valid().to_numpy(zero_copy_only=False)
        return found

    def read(self, keys: BatchKeys, spaces: Times) -> Entries:
        """The entries; null where there is none."""
        counts = self._rows.get(keys, namespaces=spaces)
        return [[counts], *(self._parts(states, keys, spaces, counts) for states in self._states[1:])]

    @staticmethod
    def _parts(
        states: Sequence[BatchValueState], keys: BatchKeys, spaces: Times, counts: pa.Array
    ) -> list[pa.Array]:
        """One aggregate's parts of all entries. They are looked for only where there are rows, because most slices that
        rows come for are new."""
        if not counts.null_count:
            return [state.get(keys, namespaces=spaces) for state in states]
        chosen = np.flatnonzero(counts.is_valid().to_numpy(zero_copy_only=False))
        some, where = keys.select(chosen), np.full(len(counts), -1)
        where[chosen] = np.arange(len(chosen))
        places = pa.array(where, mask=where < 0)
        return [state.get(some, namespaces=spaces[chosen]).take(places) for state in states]

    def read_present(self, keys: BatchKeys, spaces: Times) -> tuple[Entries, Flags]:
        """The entries that are there, and which are."""
        counts = self._rows.get(keys, namespaces=spaces)
        present = counts.is_valid()
        flags: Flags = present.to_numpy(zero_copy_only=False)
        if counts.null_count:
            chosen = np.flatnonzero(flags)
            keys, spaces, counts = keys.select(chosen), spaces[chosen], counts.filter(present)
        others = [[state.get(keys, namespaces=spaces) for state in states] for states in self._states[1:]]
        return [[counts], *others], flags

    def write(self, keys: BatchKeys, spaces: Times, entries: Entries) -> None:
        """Set entries; those that are null are removed."""
        for states, arrays in zip(self._states, entries, strict=True):
            for state, array in zip(states, arrays, strict=True):
                state.update(keys, array, namespaces=spaces)

    def clear(self, keys: BatchKeys, spaces: Times) -> None:
        """Remove the entries that are there."""
        chosen = np.flatnonzero(self.present(keys, spaces))
        if len(chosen):
            self.remove(keys.select(chosen), spaces[chosen])

    def remove(self, keys: BatchKeys, spaces: Times) -> None:
        """Remove entries, all of which are there."""
        for states in self._states:
            for state in states:
                state.clear(keys, namespaces=spaces)

    def fold(
        self, keys: BatchKeys, spaces: Times, batch: pa.RecordBatch, codes: Codes, times: Times
    ) -> Flags:
        """Fold rows into the entries of their keys and namespaces, of which ``codes`` are the numbers. Answers which
        entries were there before."""
        stored = self._rows.get(keys, namespaces=spaces)
        counts, was_there = numbers(stored, np.int64)
        is_new = ~was_there
        self._rows.update_new(keys, counts + np.bincount(codes, minlength=len(counts)), is_new, spaces)
        for output, states in zip(self._outputs, self._states[1:], strict=True):
            if not states:
                continue
            values = batch.column(output.column).cast(output.type)
            before = self._parts(states, keys, spaces, stored)
            folded = output.aggregate.fold(before, Rows(codes, len(keys), values, times))
            for state, array in zip(states, folded, strict=True):
                state.update_new(keys, array, is_new, spaces)
        return was_there

    def fold_combined(self, keys: BatchKeys, spaces: Times, batch: pa.RecordBatch, codes: Codes) -> Flags:
        """The same for rows that Spark has combined: they have the parts of accumulators."""
        stored = self._rows.get(keys, namespaces=spaces)
        counts, was_there = numbers(stored, np.int64)
        np.add.at(counts, codes, numbers(batch.column(columns.ROWS), np.int64)[0])
        is_new = ~was_there
        self._rows.update_new(keys, counts, is_new, spaces)
        codes = np.concatenate([np.arange(len(keys)), codes])
        for output, states in zip(self._outputs, self._states[1:], strict=True):
            if not states:
                continue
            before = self._parts(states, keys, spaces, stored)
            added = [batch.column(name) for name in output.combined]
            both = [aggregate.joined(one, other) for one, other in zip(before, added, strict=True)]
            merged = output.aggregate.merge(both, codes, len(keys))
            for state, array in zip(states, merged, strict=True):
                state.update_new(keys, array, is_new, spaces)
        return was_there

    def merge(self, entries: Entries, codes: Codes, count: int) -> Entries:
        """One entry for each group of entries; those of a group come in the order of time."""
        return [
            each.merge(parts, codes, count) for each, parts in zip(self._aggregates, entries, strict=True)
        ]

    def results(self, entries: Entries) -> list[pa.Array]:
        """The columns of the result."""
        rows: npt.NDArray[np.int64] = numbers(entries[0][0], np.int64)[0]
        return [
            output.aggregate.result(parts, rows)
            for output, parts in zip(self._outputs, entries[1:], strict=True)
        ]


def joined(*sets: Entries) -> Entries:
    """The entries of several sets, one behind the other."""
    return [
        [_concatenated(arrays) for arrays in zip(*parts, strict=True)] for parts in zip(*sets, strict=True)
    ]


def _concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([array.cast(arrays[0].type) for array in arrays])


def taken(entries: Entries, places: Any) -> Entries:
    """The entries at these places; null for a place that is null."""
    indices = places if isinstance(places, pa.Array) else pa.array(places)
    return [[array.take(indices) for array in parts] for parts in entries]


def has_rows(entries: Entries) -> Flags:
    """Which entries are there."""
    found: Flags = entries[0][0].is_valid().to_numpy(zero_copy_only=False)
    return found
