"""The state handles that the user's code holds: they read and write the overlay of the batch at hand.

A handle belongs to one state of one operator. ``bind`` points it at an overlay; the current key is the
cursor's. Reads fall through to the committed tables of the shard stores, once per cell and overlay.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NoReturn

from sparkstate import errors
from sparkstate.backends.base import NamespacedCell, TableSpec
from sparkstate.backends.long_index import Longs
from sparkstate.backends.value_columns import Flags, Values
from sparkstate.operators.state import spaced_values, unkeyed
from sparkstate.operators.state.column_entries import ColumnEntries, PairEntries
from sparkstate.operators.state.context import Cursor
from sparkstate.operators.state.known_keys import KnownKeys, Numbers
from sparkstate.operators.state.overlay import MISSING, TableOverlay
from sparkstate.serde import composite, expiring
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.state import api
from sparkstate.state.folding import AggregateFunction, ReduceFunction

TableOf = Callable[[int], Any]
"""Key group → committed table of the shard that owns it."""


class StateHandle:
    """The common part of all handles."""

    def __init__(self, spec: TableSpec, number: int, cursor: Cursor, table_of: TableOf) -> None:
        assert spec.value_type is not None
        self.spec = spec
        self.number = number
        self._cursor = cursor
        self._table_of = table_of
        self.is_spaced = False
        """Whether nothing is ever in the default namespace."""
        self._namespace: Any = None
        self._type: TypeInformation = expiring.value_type_of(spec.value_type)
        self._type_freeze = self._type.freeze
        self._thaw = self._type.thaw
        self._immutable = bool(self._type.is_immutable)
        self._unkeyed = unkeyed.Unkeyed(f"state {spec.name!r} of operator {spec.uid!r}")
        self._table: Any = self._unkeyed
        self._entries: Any = self._unkeyed
        self._read: Any = self._unkeyed

    @property
    def value_type(self) -> TypeInformation:
        """The type of the values that the user's code sees."""
        return self._type

    def empty_columns(self) -> ColumnEntries | None:
        """Columns for the entries of an overlay that begins, where records are to have such; None: they are objects."""
        return None

    def bind(self, table: TableOverlay) -> None:
        """Work on this overlay from now on."""
        self._table = table
        self._entries, self._read = table.entries, table.read

    def unbind(self) -> None:
        """There is no key: every use is refused."""
        self._table = self._entries = self._read = self._unkeyed

    def set_current_namespace(self, namespace: Hashable) -> None:
        if namespace is None:
            self._namespace = None
            self._entries, self._read = self._table.entries, self._table.read
            return
        if type(namespace) is not int and type(namespace) is not str:
            namespace = composite.told_apart(namespace)
        self._entries, self._read = self._table.room(namespace)
        if self._namespace is None:
            self._cursor.namespaced.append(self)
        self._namespace = namespace

    def leave_namespace(self) -> None:
        """Back to the default namespace."""
        self._namespace = None
        self._entries, self._read = self._table.entries, self._table.read

    def _freeze(self, value: Any) -> Any:
        try:
            return self._type_freeze(value)
        except errors.SerializationError as error:
            self._refuse(error)

    def _refuse(self, error: errors.SerializationError) -> NoReturn:
        raise errors.SerializationError(
            f"state {self.spec.name!r} of operator {self.spec.uid!r}, key {self._cursor.get_current_key()!r}: {error}"
        ) from None

    def _locate(self) -> tuple[Any, int, Any]:
        """Committed table, key group and cell of the current key and namespace."""
        number = self._cursor.number
        key, kg = self._cursor.keys[number], self._cursor.kgs[number]
        cell = key if self._namespace is None else NamespacedCell(key, self._namespace)
        spilled = self._table.spilled
        return self._table_of(kg) if spilled is None else spilled, kg, cell


class ValueStateHandle(StateHandle, api.ValueState[Any]):
    """A value state of any type."""

    newest_space: int | None = None
    """No namespace beyond this one has left the ``pairs`` of an overlay for the stores, or for a place on disk. None:
    nobody knows, because the stores were restored."""

    def _stored(self) -> Any:
        number = self._cursor.number
        try:
            return self._entries[number]
        except KeyError:  # a namespace: the default one was read ahead
            table, kg, cell = self._locate()
            stored = self._entries[number] = self._read[number] = table.get(kg, cell)
            return stored

    def _store(self, stored: Any) -> None:
        number = self._cursor.number
        journal = self._cursor.journal
        if journal is not None:
            is_list = self._namespace is None
            old = self._entries[number] if is_list else self._entries.get(number, MISSING)
            journal.append((self._entries, number, old))
        self._entries[number] = stored

    def value(self) -> Any:
        stored = self._stored()
        return stored if self._immutable or stored is None else self._thaw(stored)

    def update(self, value: Any) -> None:
        self._store(None if value is None else self._freeze(value))

    def clear(self) -> None:
        self._store(None)

    # --- of many keys at once, by the overlay's numbers of them

    @property
    def columns(self) -> ColumnEntries | None:
        """The entries, where they are columns: only those of the default namespace are."""
        return self._table.columns if self._namespace is None else None

    def entries_of(self, numbers: list[int]) -> list[Any]:
        """The values of these keys."""
        if self._namespace is None:
            stored = list(map(self._entries.__getitem__, numbers))
        else:
            stored = []
            for self._cursor.number in numbers:
                stored.append(self._stored())
        if self._immutable:
            return stored
        return [None if value is None else self._thaw(value) for value in stored]

    def columns_in(self, numbers: Numbers, spaces: Longs, known: KnownKeys) -> tuple[Values, Flags]:
        """The values of keys, each in a namespace, and whether there is one, where ``pairs`` has them."""
        return spaced_values.read_columns(
            self._table, self._table_of, known, numbers, spaces, self.newest_space
        )

    def note_spaces(self, table: TableOverlay) -> None:
        """Note the namespaces of an overlay whose ``pairs`` go to the stores, or to disk, now."""
        if self.newest_space is None or table.pairs is None:
            return
        if table.pairs.count:
            self.newest_space = max(self.newest_space, table.pairs.newest_space())
        # A namespace beside the pairs may equal a number, as True equals 1.
        numbers = [int(space) for space in table.rooms if isinstance(space, int)]
        self.newest_space = max([self.newest_space, *numbers])

    @property
    def pairs(self) -> PairEntries | None:
        """The entries of namespaces that are whole numbers, where they are columns."""
        return self._table.pairs  # type: ignore[no-any-return]

    @property
    def namespace(self) -> Any:
        """The current namespace."""
        return self._namespace

    def entries_in(self, numbers: Numbers, spaces: list[int], known: KnownKeys) -> list[Any]:
        """The values of keys, each in a namespace."""
        stored = spaced_values.read_objects(self._table, self._table_of, known, numbers, spaces)
        return stored if self._immutable else [None if v is None else self._thaw(v) for v in stored]

    def set_entries_in(
        self, numbers: list[int], spaces: list[int], values: list[Any], *, are_stored: bool
    ) -> None:
        """Set the values of keys, each in a namespace; ``are_stored`` as of ``set_entries``."""
        rooms = {space: self._table.room(space)[0] for space in set(spaces)}
        for number, space, value in zip(numbers, spaces, values, strict=True):
            if are_stored or value is None:
                rooms[space][number] = value
            else:
                self._cursor.number = number  # for the error's text
                rooms[space][number] = self._freeze(value)

    def set_entries(self, numbers: list[int], values: list[Any], *, are_stored: bool) -> None:
        """Set the values of these keys; ``are_stored``: they are stored values for certain."""
        entries, cursor = self._entries, self._cursor
        if are_stored:
            for number, value in zip(numbers, values, strict=True):
                entries[number] = value
            return
        for number, value in zip(numbers, values, strict=True):
            if value is None:
                entries[number] = value
            else:
                cursor.number = number  # for the error's text
                entries[number] = self._freeze(value)


class ImmutableValueStateHandle(ValueStateHandle):
    """A value state whose values can be handed out as they are: reading is written out for speed."""

    def value(self) -> Any:
        try:
            return self._entries[self._cursor.number]
        except KeyError:
            return self._stored()


class LongValueStateHandle(ImmutableValueStateHandle):
    """A value state of LONG, in an operator that never undoes a record: writing is written out too."""

    def update(self, value: Any) -> None:
        if type(value) is int and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
            self._entries[self._cursor.number] = value
        else:
            self._store(None if value is None else self._freeze(value))


class BooleanValueStateHandle(ImmutableValueStateHandle):
    """The same for BOOLEAN."""

    def update(self, value: Any) -> None:
        if type(value) is bool:
            self._entries[self._cursor.number] = value
        else:
            self._store(None if value is None else self._freeze(value))


class StringValueStateHandle(ImmutableValueStateHandle):
    """The same for STRING. Text beyond ASCII may hold half of a character, so it is looked at."""

    def update(self, value: Any) -> None:
        if type(value) is str and value.isascii():
            self._entries[self._cursor.number] = value
        else:
            self._store(None if value is None else self._freeze(value))


class BytesValueStateHandle(ImmutableValueStateHandle):
    """The same for bytes."""

    def update(self, value: Any) -> None:
        if type(value) is bytes:
            self._entries[self._cursor.number] = value
        else:
            self._store(None if value is None else self._freeze(value))


_WRITTEN_OUT: dict[str, type[ValueStateHandle]] = {
    "LONG": LongValueStateHandle,
    "BOOLEAN": BooleanValueStateHandle,
    "STRING": StringValueStateHandle,
    "PRIMITIVE_ARRAY<BYTE>": BytesValueStateHandle,
}


class ReducingStateHandle(ValueStateHandle, api.ReducingState[Any]):
    """A reducing state: a value state and a function."""

    function: ReduceFunction

    def get(self) -> Any:
        return self.value()

    def add(self, value: Any) -> None:
        if value is None:
            self._store(None)
            return
        value = self._thaw(self._freeze(value))
        current = self.value()
        self.update(value if current is None else self.function.reduce(current, value))

    # --- of windows that merge

    def take(self) -> Any:
        """Empty the current namespace; its entry as it is stored, for :meth:`merge`. None: there is none."""
        stored = self._stored()
        if stored is not None:
            self._store(None)
        return stored

    def merge(self, taken: Any) -> None:
        """Fold an entry that was taken from another namespace into the current one."""
        current = self._stored()
        self._store(taken if current is None else self._reduced(current, taken))

    def _reduced(self, one: Any, other: Any) -> Any:
        """Of two stored values."""
        reduced = self.function.reduce(self._thaw(one), self._thaw(other))
        return None if reduced is None else self._freeze(reduced)


class AggregatingStateHandle(ValueStateHandle, api.AggregatingState[Any, Any]):
    """An aggregating state: its accumulator is a value state."""

    function: AggregateFunction

    def get(self) -> Any:
        accumulator = self.value()
        return None if accumulator is None else self.function.get_result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            self._store(None)
            return
        accumulator = self.value()
        if accumulator is None:
            accumulator = self.function.create_accumulator()
        self.update(self.function.add(value, accumulator))


def value_handle_class(value_type: TypeInformation, undoes_records: bool) -> type[ValueStateHandle]:
    """The fastest handle for a value state of this type."""
    if not value_type.is_immutable:
        return ValueStateHandle
    written_out = None if undoes_records else _WRITTEN_OUT.get(value_type.describe())
    return written_out or ImmutableValueStateHandle
