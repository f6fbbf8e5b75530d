"""The handles of operator state, which belongs to a slot's instance of an operator and not to a key. Names are Flink's.

A list is either *split* (each element lies in one slot; when the number of slots changes, the elements are dealt out
anew) or a *union* list (each slot has elements of its own, and after a restore every slot gets all of them). Broadcast
state is a map that is the same in every slot.

Values read are the reader's own: changing one changes nothing until it is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from sparkstate.state import descriptors

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class OperatorListState(ABC, Generic[T]):
    """The elements that this slot has. No element may be None."""

    @abstractmethod
    def get(self) -> list[T]:
        """A fresh list of the elements; empty when there are none."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Append one element. Raises ``SerializationError`` if it does not fit the declared type."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append these elements."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace the list; an empty one clears. ``None`` is refused, as in Flink."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all elements."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadOnlyBroadcastState(ABC, Generic[K, V]):
    """A map that is the same in every slot, for reading. Values may be None, which ``get`` gives for a missing
    entry as well."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of that entry, or None if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is such an entry (its value may be None)."""

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V | None]]:
        """All entries. Like ``keys`` and ``values``, over the state as it is now: changing it meanwhile is allowed."""

    @abstractmethod
    def keys(self) -> Iterator[K]:
        """All keys."""

    @abstractmethod
    def values(self) -> Iterator[V | None]:
        """All values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """The same map, for writing. Every slot has to make the same changes; one slot's map is stored, and a restore gives
    it to all."""

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Set one entry."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V | None]) -> None:
        """Set all these entries."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove one entry; nothing happens if there is none."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all entries."""

    def __setitem__(self, key: K, value: V | None) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class OperatorStateStore(ABC):
    """Where a function gets its operator state. Asking twice with the same descriptor gives the same handle; a name
    belongs to one kind."""

    @abstractmethod
    def get_list_state(self, state_descriptor: descriptors.ListStateDescriptor) -> OperatorListState[Any]:
        """A split list: with another number of slots, its elements are dealt out to them in turn."""

    @abstractmethod
    def get_union_list_state(
        self, state_descriptor: descriptors.ListStateDescriptor
    ) -> OperatorListState[Any]:
        """A union list: after every restore, each slot has the elements of all slots. A function keeps those that are
        its own (by ``get_index_of_this_subtask``, say), or the list grows with each restore."""

    @abstractmethod
    def get_broadcast_state(
        self, state_descriptor: descriptors.MapStateDescriptor
    ) -> BroadcastState[Any, Any]:
        """A map that is the same in every slot."""
