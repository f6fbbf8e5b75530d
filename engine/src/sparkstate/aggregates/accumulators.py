"""The accumulators of one operator as state, by key and namespace.

All parts of fixed width are one packed row: a store reads and writes a row in much the same time, however many parts
it has. Text, decimals and sketches are states of their own. The first aggregate of each set counts rows. An entry
exists where it has a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate import columns, errors
from sparkstate.aggregates.aggregate import Accumulators, Aggregate, Codes, Rows, numbers
from sparkstate.aggregates.slices import Flags, Times
from sparkstate.aggregates.sums import Count
from sparkstate.batches.functions import BatchRuntimeContext
from sparkstate.batches.keys import BatchKeys
from sparkstate.batches.packed_columns import Packing
from sparkstate.serde.packed import WIDTHS, PackedType
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor

Entries: TypeAlias = list[list[pa.Array]]
"""For each aggregate its parts, with one entry per key and namespace; null where there is none."""
ROWS = "rows"
"""The state with the packed row of each key and slice, and the field in it that counts rows."""


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


def combined_columns(outputs: Sequence[Output]) -> list[list[str]]:
    """For each output the columns of its parts in combined rows."""
    return [
        [columns.part_of(number, part) for part in range(len(output.aggregate.parts))]
        for number, output in enumerate(outputs)
    ]


class StoredAccumulators:
    """A set of accumulators. ``suffix`` tells several sets of one operator apart."""

    def __init__(self, ctx: BatchRuntimeContext, outputs: Sequence[Output], suffix: str = "") -> None:
        self._outputs = outputs
        self._aggregates: list[Aggregate] = [Count(), *(output.aggregate for output in outputs)]
        self._layout = _Layout(outputs)
        self._packed = ctx.get_state(
            ValueStateDescriptor(ROWS + suffix, self._layout.packed), in_namespaces=True
        )
        self._others = [
            ctx.get_state(ValueStateDescriptor(name + suffix, kind), in_namespaces=True)
            for name, kind in self._layout.others
        ]

    def present(self, keys: BatchKeys, spaces: Times) -> Flags:
        """Whether there are entries."""
        return _is_valid(self._packed.get(keys, namespaces=spaces))

    def read(self, keys: BatchKeys, spaces: Times) -> Entries:
        """The entries; null where there is none."""
        return self._entries(keys, spaces, self._packed.get(keys, namespaces=spaces))

    def _entries(self, keys: BatchKeys, spaces: Times, packed: pa.Array) -> Entries:
        """With the parts that are not packed. They are looked for only where there are rows, because most slices that
        rows come for are new."""
        others: list[pa.Array] = []
        if self._others and packed.null_count:
            there = _is_valid(packed)
            chosen, where = np.flatnonzero(there), np.full(len(there), -1)
            where[chosen] = np.arange(len(chosen))
            some, places = keys.select(chosen), pa.array(where, mask=~there)
            others = [state.get(some, namespaces=spaces[chosen]).take(places) for state in self._others]
        elif self._others:
            others = [state.get(keys, namespaces=spaces) for state in self._others]
        return self._layout.entries(packed, others)

    def read_present(self, keys: BatchKeys, spaces: Times) -> tuple[Entries, Flags]:
        """The entries that are there, and which are."""
        packed = self._packed.get(keys, namespaces=spaces)
        flags = _is_valid(packed)
        if packed.null_count:
            chosen = np.flatnonzero(flags)
            keys, spaces, packed = keys.select(chosen), spaces[chosen], packed.filter(pa.array(flags))
        return self._entries(keys, spaces, packed), flags

    def read_packed(self, keys: BatchKeys, spaces: Times) -> tuple[Entries, Flags]:
        """The same for a caller who needs no parts but those of fixed width. The others are null."""
        packed = self._packed.get(keys, namespaces=spaces)
        flags = _is_valid(packed)
        found = packed.filter(pa.array(flags)) if packed.null_count else packed
        return self._layout.entries(found, [pa.nulls(len(found))] * len(self._others)), flags

    def read_table(self, keys: BatchKeys, spaces: npt.NDArray[np.int64]) -> tuple[Entries, Flags]:
        """The same where each key has a line of namespaces; the entries are in the order of the lines."""
        pairs = keys.select(np.repeat(np.arange(len(keys)), spaces.shape[1]))
        found, present = self.read_present(pairs, spaces.reshape(-1))
        return found, present.reshape(spaces.shape)

    def write(self, keys: BatchKeys, spaces: Times, entries: Entries) -> None:
        """Set entries; those that are null are removed."""
        packed, others = self._layout.columns(entries)
        self._packed.update(keys, packed, namespaces=spaces)
        for state, array in zip(self._others, others, strict=True):
            state.update(keys, array, namespaces=spaces)

    def clear(self, keys: BatchKeys, spaces: Times) -> None:
        """Remove the entries that are there."""
        chosen = np.flatnonzero(self.present(keys, spaces))
        if len(chosen):
            self.remove(keys.select(chosen), spaces[chosen])

    def remove(self, keys: BatchKeys, spaces: Times) -> None:
        """Remove entries, all of which are there."""
        for state in (self._packed, *self._others):
            state.clear(keys, namespaces=spaces)

    def fold(
        self, keys: BatchKeys, spaces: Times, batch: pa.RecordBatch, codes: Codes, times: Times
    ) -> tuple[Entries, Entries]:
        """Fold rows into the entries of their keys and namespaces, of which ``codes`` are the numbers. Answers with the
        entries before and after."""
        before = self.read(keys, spaces)
        counts, _ = numbers(before[0][0], np.int64)
        after: Entries = [[pa.array(counts + np.bincount(codes, minlength=len(counts)))]]
        for output, parts in zip(self._outputs, before[1:], strict=True):
            if not parts:
                after.append([])
                continue
            values = _values(batch, output)
            after.append(output.aggregate.fold(parts, Rows(codes, len(keys), values, times)))
        self._replace(keys, spaces, before, after)
        return before, after

    def fold_combined(
        self, keys: BatchKeys, spaces: Times, batch: pa.RecordBatch, codes: Codes
    ) -> tuple[Entries, Entries]:
        """The same for rows that Spark has combined: they have the parts of accumulators."""
        before = self.read(keys, spaces)
        added = [[batch.column(columns.ROWS)]]
        added += [[batch.column(name) for name in names] for names in combined_columns(self._outputs)]
        codes = np.concatenate([np.arange(len(keys)), codes])
        after = self.merge(joined(before, added), codes, len(keys))
        self._replace(keys, spaces, before, after)
        return before, after

    def _replace(self, keys: BatchKeys, spaces: Times, before: Entries, after: Entries) -> None:
        packed, others = self._layout.columns(after)
        is_new = ~has_rows(before)
        for state, array in zip((self._packed, *self._others), (packed, *others), strict=True):
            state.update_new(keys, array, is_new, spaces)

    def merge(self, entries: Entries, codes: Codes, count: int) -> Entries:
        """One entry for each group of entries; those of a group come in the order of time."""
        return [
            each.merge(parts, codes, count) for each, parts in zip(self._aggregates, entries, strict=True)
        ]

    def merge_what_fits(self, entries: Entries, codes: Codes, count: int) -> tuple[Entries, Flags]:
        """The same for merges of some slices of a window: a sum may be too large there, although that of the window
        fits. Such a group has no entry; the flags say which groups are such."""
        try:
            return self.merge(entries, codes, count), np.zeros(count, np.bool_)
        except OverflowError:
            too_large = np.zeros(count, np.bool_)
        for each, parts in zip(self._aggregates, entries, strict=True):
            too_large |= each.too_large(parts, codes, count)
        fitting = np.flatnonzero(~too_large[codes])
        return self.merge(taken(entries, fitting), codes[fitting], count), too_large

    def merge_lines(self, entries: Entries, where: npt.NDArray[np.int64]) -> Entries:
        """One entry for each line of ``where``, which has the places of its entries, or -1."""
        is_there = where >= 0
        return self.merge(taken(entries, where[is_there]), np.nonzero(is_there)[0], len(where))

    def results(self, entries: Entries) -> list[pa.Array]:
        """The columns of the result."""
        rows: npt.NDArray[np.int64] = numbers(entries[0][0], np.int64)[0]
        return [
            _result(output, parts, rows) for output, parts in zip(self._outputs, entries[1:], strict=True)
        ]


def _result(output: Output, parts: Accumulators, rows: npt.NDArray[np.int64]) -> pa.Array:
    """The column of one aggregate."""
    try:
        return output.aggregate.result(parts, rows)
    except pa.ArrowInvalid as error:
        raise errors.StateError(
            f"aggregate {output.name!r}, {output.definition or output.kind}: a value in state does not fit the type of "
            f"its column, which was wider when the value was stored ({error}); cast the column to its earlier type "
            "before keyed()"
        ) from None


class _Layout:
    """Which parts lie in the packed row, and which have states of their own. The order of aggregates does not matter,
    because it may change while state stays."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        places = {
            f"{each.name}.{each.kind}.{part.name}": ((number, place), part.type)
            for number, each in enumerate(outputs, 1)
            for place, part in enumerate(each.aggregate.parts)
        }
        fixed = sorted(name for name, (_, kind) in places.items() if kind.describe() in WIDTHS)
        rest = sorted(name for name in places if name not in fixed)
        self.packed = PackedType([ROWS, *fixed], [Types.LONG(), *(places[name][1] for name in fixed)])
        self.others = [(name, places[name][1]) for name in rest]
        """Names and types of the other states."""
        self._packing = Packing(self.packed)
        self._fixed_places = [(0, 0), *(places[name][0] for name in fixed)]
        self._other_places = [places[name][0] for name in rest]
        self._parts = [1, *(len(each.aggregate.parts) for each in outputs)]

    def entries(self, packed: pa.Array, others: Sequence[pa.Array]) -> Entries:
        """Columns of states as entries."""
        found: Entries = [[None] * count for count in self._parts]
        arrays = [*self._packing.unpack(packed), *others]
        for (number, place), array in zip([*self._fixed_places, *self._other_places], arrays, strict=True):
            found[number][place] = array
        return found

    def columns(self, entries: Entries) -> tuple[pa.Array, list[pa.Array]]:
        """The inverse."""
        fixed, others = (
            [entries[number][place] for number, place in places]
            for places in (self._fixed_places, self._other_places)
        )
        return self._packing.pack(fixed), others


def _values(batch: pa.RecordBatch, output: Output) -> pa.Array:
    """The values that an output aggregates; nulls for one of rows or times, which has no column."""
    if output.column is None:
        return pa.nulls(batch.num_rows)
    return batch.column(output.column).cast(output.type)


def _is_valid(array: pa.Array) -> Flags:
    found: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return found


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
    return _is_valid(entries[0][0])
