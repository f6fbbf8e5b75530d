"""Tables of committed state as dicts of Python objects.

Values are in their stored form (``serde.typeinfo``): immutable objects, or bytes. So a reader cannot change what a
table hands out. The lists and dicts of list and map states are the exception: readers get copies of them.
"""

from __future__ import annotations

import abc
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sparkstate.backends import base, heap_timers
from sparkstate.backends.base import DELETED, CanonicalRow, Cell, TableChanges, TableSpec
from sparkstate.backends.canonical import RowBlock, TableCodec
from sparkstate.backends.hashmap.key_groups import KeyGroupsOfKeys
from sparkstate.backends.keyed_table import KeyParts
from sparkstate.backends.layered_dict import ABSENT, LayeredDict, View
from sparkstate.serde import composite


class HashMapCells(abc.ABC):
    """The common part of the tables of cells."""

    def __init__(self, spec: TableSpec, key_groups: KeyGroupsOfKeys) -> None:
        self.spec = spec
        self.cells = LayeredDict()
        self.key_groups = key_groups

    def note_groups(self, changes: TableChanges, kgs: Mapping[Any, int]) -> None:
        """Remember the key groups of the changes' keys."""
        for cells in (changes.values, changes.lists, changes.maps):
            self.key_groups.add(cells.keys(), kgs)

    def load(self, codec: TableCodec, block: RowBlock) -> None:
        """Take in rows of a snapshot."""
        for row in block.rows:
            self._load(codec, CanonicalRow(block.table, *row))

    @abc.abstractmethod
    def _load(self, codec: TableCodec, row: CanonicalRow) -> None:
        """Take in one row."""

    def _cell(self, codec: TableCodec, row: CanonicalRow) -> Cell:
        """The cell of a loaded row, whose key group is remembered."""
        cell = codec.cell(row.key, row.namespace)
        self.key_groups.by_key[base.key_of(cell)] = row.key_group
        return cell

    def freeze(self) -> View:
        return self.cells.freeze()

    def migrate(self, spec: TableSpec, convert: Callable[[Any], Any]) -> None:
        """Put every value through ``convert``; the table is that of ``spec`` from then on."""
        for cell, stored in self.cells.items():
            self.cells.set(cell, self._converted(stored, convert))
        self.spec = spec

    def _converted(self, stored: Any, convert: Callable[[Any], Any]) -> Any:
        """All values of one cell."""
        return convert(stored)

    def live_keys(self) -> Iterator[Any]:
        """The keys of all cells."""
        return (base.key_of(cell) for cell, _ in self.cells.items())

    def keys(self, at_once: int) -> KeyParts:
        """As the contract says."""
        by_key = self.key_groups.by_key
        found = (
            (by_key[cell], cell) for cell in self.cells.each_key() if type(cell) is not base.NamespacedCell
        )
        while part := list(itertools.islice(found, at_once)):
            yield part

    def rows(self) -> int:
        return self.cells.estimated_len()


class HashMapValueTable(HashMapCells):
    """Table of a VALUE, REDUCING or AGGREGATING state."""

    def get(self, kg: int, cell: Cell) -> Any:
        value = self.cells.get(cell)
        return None if value is ABSENT else value

    def get_many(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        return self.cells.get_many(cells)

    def apply(self, changes: TableChanges, kgs: Mapping[Any, int]) -> int:
        """Apply one epoch's changes; the number of deletions."""
        self.cells.fold()
        gone = sum(map(operator.is_, changes.values.values(), itertools.repeat(DELETED)))
        if not gone:
            self.cells.top.update(changes.values)
            return 0
        for cell, value in changes.values.items():
            if value is DELETED:
                self.cells.delete(cell)
            else:
                self.cells.set(cell, value)
        return gone

    def _load(self, codec: TableCodec, row: CanonicalRow) -> None:
        assert codec.value_type is not None
        self.cells.set(self._cell(codec, row), codec.value_type.decode(row.value))


class HashMapListTable(HashMapCells):
    """Table of a LIST state: a list per cell, copied before it grows if a snapshot holds it."""

    def get(self, kg: int, cell: Cell) -> list[Any]:
        items = self.cells.get(cell)
        return [] if items is ABSENT else list(items)

    def _converted(self, stored: Any, convert: Callable[[Any], Any]) -> Any:
        return [convert(item) for item in stored]

    def apply(self, changes: TableChanges, kgs: Mapping[Any, int]) -> int:
        self.cells.fold()
        deletions = 0
        for cell, change in changes.lists.items():
            if change.replaced:
                if change.items:
                    self.cells.set(cell, list(change.items))
                else:
                    self.cells.delete(cell)
                    deletions += 1
            elif change.items:
                self._append(cell, change.items)
        return deletions

    def _append(self, cell: Cell, items: list[Any]) -> None:
        own = self.cells.get_own(cell)
        if own is not ABSENT:
            own.extend(items)
        else:
            stored = self.cells.get(cell)
            self.cells.set(cell, list(items) if stored is ABSENT else [*stored, *items])

    def _load(self, codec: TableCodec, row: CanonicalRow) -> None:
        assert codec.value_type is not None
        self._append(self._cell(codec, row), [codec.value_type.decode(row.value)])


class HashMapMapTable(HashMapCells):
    """Table of a MAP state: a dict per cell, copied before it changes if a snapshot holds it."""

    def get(self, kg: int, cell: Cell, user_key: Any) -> Any:
        entries = self.cells.get(cell)
        return DELETED if entries is ABSENT else entries.get(user_key, DELETED)

    def items(self, kg: int, cell: Cell) -> dict[Any, Any]:
        entries = self.cells.get(cell)
        return {} if entries is ABSENT else dict(entries)

    def _converted(self, stored: Any, convert: Callable[[Any], Any]) -> Any:
        return {user_key: convert(value) for user_key, value in stored.items()}

    def apply(self, changes: TableChanges, kgs: Mapping[Any, int]) -> int:
        self.cells.fold()
        deletions = 0
        for cell, change in changes.maps.items():
            entries = {} if change.cleared else self._own(cell)
            for user_key, value in change.entries.items():
                if value is DELETED:
                    entries.pop(user_key, None)
                else:
                    entries[user_key] = value
            if entries:
                self.cells.set(cell, entries)
            else:
                self.cells.delete(cell)
                deletions += 1
        return deletions

    def _own(self, cell: Cell) -> dict[Any, Any]:
        own = self.cells.get_own(cell)
        if own is ABSENT:
            stored = self.cells.get(cell)
            return {} if stored is ABSENT else dict(stored)
        return own  # type: ignore[no-any-return]

    def _load(self, codec: TableCodec, row: CanonicalRow) -> None:
        assert codec.value_type is not None
        assert codec.user_key is not None
        entries = self._own(cell := self._cell(codec, row))
        entries[codec.user_key.decode(row.sub)[0]] = codec.value_type.decode(row.value)
        self.cells.set(cell, entries)


class HashMapTimerTable(heap_timers.HeapTimerTable):
    """Table of timers."""

    def __init__(self, spec: TableSpec) -> None:
        super().__init__()
        self.spec = spec

    def live_keys(self) -> Iterator[Any]:
        """None: timers carry their own key groups."""
        return iter(())

    def note_groups(self, changes: TableChanges, kgs: Mapping[Any, int]) -> None:
        """Remember nothing, for the same reason."""

    def rows(self) -> int:
        return len(self)

    def apply(self, changes: TableChanges, kgs: Mapping[Any, int]) -> int:
        for timer, registered in changes.timers.items():
            if registered:
                self.add(timer)
            else:
                self.remove(timer)
        if changes.timer_columns is not None:
            self.apply_columns(changes.timer_columns)
        return 0

    def load(self, codec: TableCodec, block: RowBlock) -> None:
        """Take in rows of a snapshot."""
        for row in block.rows:
            self.add(codec.timer(CanonicalRow(block.table, *row)))


def rows_of_cell(
    codec: TableCodec, table: int, key_group: int, cell: Cell, stored: Any
) -> Iterator[CanonicalRow]:
    """The canonical rows of one cell of a table that is not of timers."""
    key, namespace = codec.cell_bytes(cell)
    encode = codec.value_type.encode  # type: ignore[union-attr]
    if codec.kind is base.StateKind.LIST:
        for position, item in enumerate(stored):
            yield CanonicalRow(
                table, key_group, key, namespace, composite.encode_long(position), encode(item)
            )
    elif codec.kind is base.StateKind.MAP:
        assert codec.user_key is not None
        for user_key, value in stored.items():
            sub = codec.user_key.encode(user_key)
            yield CanonicalRow(table, key_group, key, namespace, sub, encode(value))
    else:
        yield CanonicalRow(table, key_group, key, namespace, b"", encode(stored))
