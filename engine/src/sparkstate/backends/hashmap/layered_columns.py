"""Columns of values by key, with copy-on-write views: what ``backends.layered_dict`` is for objects.

``backends.copy_on_write`` has the theory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkstate.backends import copy_on_write, value_columns
from sparkstate.backends.long_index import LongIndex
from sparkstate.backends.value_columns import Flags, ValueColumns, Values

_FEW: Final = 1000
"""So many deleted entries are not worth a sweep."""
_KEY_GROUPS: Final = 1 << 15
"""The most there can be."""
_AT_ONCE: Final = 1 << 20
"""Each part looks through all entries once, which takes 1 ns for each."""


class _Layer:
    """Entries by place: index, key group, value, and whether there is one or a mark that it was deleted."""

    __slots__ = ("_groups", "_present", "_values", "deleted", "index")

    def __init__(self, dtype: Any, index: LongIndex) -> None:
        self.index = index
        self.deleted = 0
        """How many entries are marks."""
        self._groups: npt.NDArray[np.int16] = np.empty(0, np.int16)
        self._values: Values = np.empty(0, dtype)
        self._present: Flags = np.empty(0, np.bool_)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self._groups.nbytes + self._values.nbytes + self._present.nbytes

    def read(self, keys: Any, into: Values, present: Flags) -> Flags:
        """Write what is known of these keys; answers of which something is."""
        places = self.index.find(keys)
        if not self.index.count:
            return np.zeros(len(keys), np.bool_)
        known: Flags = places >= 0
        if known.all():
            np.take(self._values, places, out=into)
            np.take(self._present, places, out=present)
        else:
            found = places[known]
            into[known], present[known] = self._values[found], self._present[found]
        return known

    def write(self, change: ValueColumns, keeps_marks: bool) -> None:
        """Set these entries. Without ``keeps_marks`` nothing lies below, and deleting what is not there is nothing."""
        places = self.index.find(change.keys)
        known = places >= 0
        if not known.all():
            new = change.select(~known if keeps_marks else ~known & change.present)
            before = self.index.count
            self.index.add(new.keys)
            self._grow(before)
            self._set(slice(before, self.index.count), new)
            self.deleted += len(new) - int(np.count_nonzero(new.present))
            places, change = places[known], change.select(known)
        self.deleted += int(np.count_nonzero(self._present[places]))
        self.deleted -= int(np.count_nonzero(change.present))
        self._set(places, change)

    def _set(self, places: Any, change: ValueColumns) -> None:
        self._groups[places] = change.key_groups
        self._values[places] = change.values
        self._present[places] = change.present

    def _grow(self, used: int) -> None:
        count = self.index.count
        if count > len(self._values):
            room = max(count, len(self._values) + len(self._values) // 2)
            self._groups, self._values, self._present = (
                value_columns.with_room(each, used, room)
                for each in (self._groups, self._values, self._present)
            )

    def count_groups(self, flags: Flags) -> npt.NDArray[np.int64]:
        """How many of these entries each key group has."""
        counts = np.zeros(_KEY_GROUPS, np.int64)
        for start in range(0, len(flags), _AT_ONCE):  # counting takes 8 bytes for each
            part = flags[start : start + _AT_ONCE]
            counts += np.bincount(self._groups[start : start + len(part)][part], minlength=_KEY_GROUPS)
        return counts

    def select(self, flags: Flags, groups: tuple[int, int]) -> tuple[Any, npt.NDArray[np.int16], Values]:
        """Keys, key groups and values of those of these entries that are in a range of key groups."""
        of_all = self._groups[: self.index.count]
        places = np.flatnonzero(flags & (of_all >= groups[0]) & (of_all < groups[1]))
        return self.index.keys[places], of_all[places], self._values[places]

    def keys_at(self, places: Any) -> tuple[list[int], list[Any]]:
        """Key groups and keys of these entries."""
        return self._groups[places].tolist(), self.index.keys[places].tolist()

    def entries(self) -> ValueColumns:
        """All entries and marks, by place."""
        count = self.index.count
        groups = self._groups[:count].astype(np.int32)
        return ValueColumns(self.index.keys, groups, self._values[:count], self._present[:count])


class ColumnView:
    """The columns as they were when they were frozen. Read from any thread until released."""

    def __init__(self, layers: tuple[_Layer, ...]) -> None:
        self._layers = layers
        self.released = False

    @property
    def is_empty(self) -> bool:
        """Whether there is no entry, not even the mark of one."""
        return not any(layer.index.count for layer in self._layers)

    def live(self, at_once: int = _AT_ONCE) -> Iterator[ValueColumns]:
        """All entries that are there, by key group and key; at most ``at_once``, or those of one key group, at a time,
        so that a snapshot takes a tenth of the store's memory and not as much again."""
        shown = [(layer, flags) for layer, flags in _shown(self._layers) if flags.any()]
        for groups in _runs(sum(layer.count_groups(flags) for layer, flags in shown), at_once):
            parts = [layer.select(flags, groups) for layer, flags in shown]
            keys, key_groups, values = (np.concatenate(each) for each in zip(*parts, strict=True))
            order = value_columns.row_order(keys, key_groups)
            present = np.ones(len(order), np.bool_)
            yield ValueColumns(keys[order], key_groups[order].astype(np.int32), values[order], present)

    def release(self) -> None:
        """Let the owner fold the layers again, at its next write."""
        self.released = True
        self._layers = ()


def _shown(layers: Sequence[_Layer]) -> Iterator[tuple[_Layer, Flags]]:
    """The layers, and which of their entries are there and have no entry or mark above them."""
    for number, layer in enumerate(layers):
        flags = layer.entries().present.copy()
        for above in layers[number + 1 :]:
            places = layer.index.find(above.index.keys)
            flags[places[places >= 0]] = False
        yield layer, flags


def _runs(counts: Any, at_once: int) -> Iterator[tuple[int, int]]:
    """Key groups from … to …, together with at most so many entries, or a single one; ``counts`` is by key group."""
    first = size = 0
    for group, count in enumerate(np.atleast_1d(counts).tolist()):
        if size and size + count > at_once:
            yield first, group
            first, size = group, 0
        size += count
    if size:
        yield first, len(counts)


class LayeredColumns(copy_on_write.CopyOnWrite[_Layer, ColumnView]):
    """The columns of one table. ``index_type`` says what its keys are: whole numbers, or those with a namespace."""

    __slots__ = ("_dtype", "_index_type")

    def __init__(self, dtype: Any, index_type: type[LongIndex] = LongIndex) -> None:
        super().__init__(_Layer(dtype, index_type()))
        self._dtype = dtype
        self._index_type = index_type

    def _layer(self) -> _Layer:
        return _Layer(self._dtype, self._index_type())

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(layer.nbytes for layer in self._layers())

    def read(self, keys: Any) -> tuple[Values, Flags]:
        """The value of each key, and whether there is one."""
        values, present = np.zeros(len(keys), self._dtype), np.zeros(len(keys), np.bool_)
        known = self.top.read(keys, values, present)
        rest = np.flatnonzero(~known) if self._frozen else np.empty(0, np.int64)
        for layer in reversed(self._frozen):
            if not len(rest):
                break
            found, is_there = np.zeros(len(rest), self._dtype), np.zeros(len(rest), np.bool_)
            known = layer.read(keys[rest], found, is_there)
            values[rest], present[rest] = found, is_there
            rest = rest[~known]
        return values, present

    def write(self, change: ValueColumns) -> None:
        """Set and delete these entries."""
        self.fold()
        self.top.write(change, keeps_marks=bool(self._frozen))
        if not self._frozen and self.top.deleted > max(_FEW, self.top.index.count // 2):
            self._sweep()

    def _sweep(self) -> None:
        """Forget the deleted entries; memory goes back."""
        entries = self.top.entries()
        self.top = self._layer()
        self.top.write(entries.select(entries.present), keeps_marks=False)

    def live(self) -> Iterator[ValueColumns]:
        """All entries that are there, as of a view; nothing may be written meanwhile."""
        return ColumnView(tuple(self._layers())).live()

    def keys(self, at_once: int) -> Iterator[list[tuple[int, Any]]]:
        """Key groups and keys of all entries that are there, by layer; nothing may be written meanwhile."""
        for layer, flags in _shown(self._layers()):
            for start in range(0, len(flags), at_once):
                places = np.flatnonzero(flags[start : start + at_once]) + start
                if len(places):
                    yield list(zip(*layer.keys_at(places), strict=True))

    def estimated_len(self) -> int:
        """The number of entries: exact while nothing is frozen, otherwise an upper bound."""
        return sum(layer.index.count - layer.deleted for layer in self._layers())

    def _is_used(self) -> bool:
        return bool(self.top.index.count)

    def _empty(self) -> _Layer:
        return self._layer()

    def _view(self, frozen: tuple[_Layer, ...]) -> ColumnView:
        return ColumnView(frozen)

    def _merge(self, base: _Layer, layer: _Layer, *, keeps_marks: bool) -> None:
        base.write(layer.entries(), keeps_marks=keeps_marks)
