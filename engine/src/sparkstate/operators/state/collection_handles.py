"""The handles of list and map state.

The methods that a function calls once per record are written out: another call within costs as much as the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from sparkstate import errors
from sparkstate.backends.base import DELETED, TableSpec
from sparkstate.operators.state.context import Cursor
from sparkstate.operators.state.handles import StateHandle, TableOf
from sparkstate.operators.state.overlay import MISSING, ListCell, MapCell, TableOverlay
from sparkstate.state import api


class ListStateHandle(StateHandle, api.ListState[Any]):
    """A list state: appended items are kept apart, so that adding reads nothing."""

    def _cell(self) -> ListCell:
        number = self._cursor.number
        found: ListCell | None = self._entries.get(number)
        if found is None:
            found = self._entries[number] = ListCell()
        return found

    def get(self) -> list[Any]:
        cell = self._cell()
        items = cell.items
        if not cell.replaced:
            if cell.stored is None:
                table, kg, stored_cell = self._locate()
                cell.stored = table.get(kg, stored_cell)
                self._table.elements += len(cell.stored)
            items = cell.stored + items
        return list(items) if self._immutable else [self._thaw(item) for item in items]

    def _elements(self) -> list[Any]:
        """All items in their stored form; a fresh list."""
        cell = self._cell()
        if cell.replaced:
            return list(cell.items)
        if cell.stored is None:
            table, kg, stored_cell = self._locate()
            cell.stored = table.get(kg, stored_cell)
            self._table.elements += len(cell.stored)
        return cell.stored + cell.items

    def add(self, value: Any) -> None:
        # Written out: one call per record of its own, and that of the type.
        if value is None:
            self._refuse_none()
        try:
            item = self._type_freeze(value)
        except errors.SerializationError as error:
            self._refuse(error)
        cell = self._entries.get(self._cursor.number)
        if cell is None:
            cell = self._cell()
        if self._cursor.journal is not None:
            self._remember(cell)
        cell.items.append(item)
        self._table.elements += 1

    def holds_items(self) -> bool:
        """Whether this epoch added items that are still there. Reads no store."""
        cell = self._entries.get(self._cursor.number)
        return cell is not None and bool(cell.items)

    def add_all(self, values: Iterable[Any]) -> None:
        self._append(self._freeze_all(values))

    def _append(self, items: list[Any]) -> None:
        cell = self._cell()
        self._remember(cell)
        cell.items.extend(items)
        self._table.elements += len(items)

    def update(self, values: Iterable[Any]) -> None:
        self._replace(self._freeze_all(values))

    def clear(self) -> None:
        self._replace([])

    # --- of windows that merge

    def take(self) -> list[Any]:
        """Empty the current namespace; its items as they are stored, for :meth:`merge`."""
        taken = self._elements()
        self._replace([])
        return taken

    def merge(self, taken: list[Any]) -> None:
        """Append items that were taken from another namespace."""
        self._append(taken)

    def _replace(self, items: list[Any]) -> None:
        cell, table = self._cell(), self._table
        self._remember(cell)
        if self._cursor.journal is not None:
            self._cursor.journal.append((_put_count, table, table.elements))
        # What was stored may be long, and is not asked for again; undoing the change reads it once more.
        gone = len(cell.stored or ()) + len(cell.items)
        cell.replaced = True
        cell.items = items
        cell.stored = None
        # Of a record that was undone, what it read stays and is not counted.
        table.elements = max(0, table.elements - gone) + len(items)

    def _remember(self, cell: ListCell) -> None:
        if self._cursor.journal is not None:
            self._cursor.journal.append((cell.restore, cell.replaced, cell.items, len(cell.items)))

    def _freeze_all(self, values: Iterable[Any]) -> list[Any]:
        if values is None:
            self._refuse(
                errors.SerializationError("None is not a list of values; use clear() to empty the list")
            )
        return [self._freeze_item(value) for value in values]

    def _freeze_item(self, value: Any) -> Any:
        if value is None:
            self._refuse_none()
        return self._freeze(value)

    def _refuse_none(self) -> NoReturn:
        self._refuse(errors.SerializationError("None cannot be an element of a list state"))


class MapStateHandle(StateHandle, api.MapState[Any, Any]):
    """A map state: single entries are read and written by themselves."""

    def __init__(self, spec: TableSpec, number: int, cursor: Cursor, table_of: TableOf) -> None:
        super().__init__(spec, number, cursor, table_of)
        assert spec.user_key_type is not None
        self._normalize_key = spec.user_key_type.normalize_map_key
        self._thaw_key = spec.user_key_type.thaw_key

    def _cell(self) -> MapCell:
        number = self._cursor.number
        found: MapCell | None = self._entries.get(number)
        if found is None:
            found = self._entries[number] = MapCell()
        return found

    def _stored(self, key: Any) -> Any:
        """The stored value of an entry, or DELETED."""
        try:
            user_key = self._normalize_key(key)
        except errors.SerializationError as error:
            self._refuse_key(error)
        cell = self._entries.get(self._cursor.number)
        if cell is None:
            cell = self._cell()
        stored = cell.entries.get(user_key, MISSING)
        return self._read_entry(cell, user_key) if stored is MISSING else stored

    def _read_entry(self, cell: MapCell, user_key: Any) -> Any:
        """The same, where the epoch has not changed the entry."""
        if cell.cleared:
            return DELETED
        if cell.stored is not None:
            return cell.stored.get(user_key, DELETED)
        stored = cell.read.get(user_key, MISSING)
        if stored is MISSING:
            table, kg, stored_cell = self._locate()
            stored = cell.read[user_key] = table.get(kg, stored_cell, user_key)
            self._table.elements += 1
        return stored

    def _all(self) -> dict[Any, Any]:
        """All entries, in their stored form; a fresh dict."""
        cell = self._cell()
        entries: dict[Any, Any] = {}
        if not cell.cleared:
            if cell.stored is None:
                table, kg, stored_cell = self._locate()
                cell.stored = table.items(kg, stored_cell)
                cell.read.clear()
                self._table.elements += len(cell.stored)
            entries.update(cell.stored)
        entries.update(cell.entries)
        return {key: value for key, value in entries.items() if value is not DELETED}

    def _value(self, stored: Any) -> Any:
        return stored if self._immutable or stored is None else self._thaw(stored)

    def _put(self, user_key: Any, stored: Any) -> None:
        cell = self._entries.get(self._cursor.number)
        if cell is None:
            cell = self._cell()
        entries = cell.entries
        if self._cursor.journal is not None:
            self._cursor.journal.append((entries, user_key, entries.get(user_key, MISSING)))
        before = len(entries)
        entries[user_key] = stored
        self._table.elements += len(entries) - before

    def _refuse_key(self, error: errors.SerializationError) -> NoReturn:
        self._refuse(errors.SerializationError(f"map key {error}"))

    def get(self, key: Any) -> Any:
        stored = self._stored(key)
        if stored is DELETED or stored is None:
            return None
        return stored if self._immutable else self._thaw(stored)

    def contains(self, key: Any) -> bool:
        return self._stored(key) is not DELETED

    def put(self, key: Any, value: Any) -> None:
        try:
            user_key = self._normalize_key(key)
        except errors.SerializationError as error:
            self._refuse_key(error)
        self._put(user_key, None if value is None else self._freeze(value))

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        try:
            user_key = self._normalize_key(key)
        except errors.SerializationError as error:
            self._refuse_key(error)
        self._put(user_key, DELETED)

    def items(self) -> Iterator[tuple[Any, Any]]:
        thaw, entries = self._thaw_key, self._all()
        if thaw is None:
            return iter([(key, self._value(stored)) for key, stored in entries.items()])
        return iter([(thaw(key), self._value(stored)) for key, stored in entries.items()])

    def keys(self) -> Iterator[Any]:
        thaw, keys = self._thaw_key, list(self._all())
        return iter(keys if thaw is None else list(map(thaw, keys)))

    def values(self) -> Iterator[Any]:
        return iter([self._value(stored) for stored in self._all().values()])

    def is_empty(self) -> bool:
        return not self._all()

    def clear(self) -> None:
        cell = self._cell()
        if self._cursor.journal is not None:
            self._cursor.journal.append((cell.restore, cell.cleared, cell.entries))
        cell.cleared = True
        cell.entries = {}


def _put_count(table: TableOverlay, elements: int) -> None:
    """Undo: there were so many elements."""
    table.elements = elements
