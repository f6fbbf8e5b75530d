"""The handles of keyed state: PyFlink's classes and method names.

Each handle speaks about the current key. Empty state reads as ``None`` (value, reducing, aggregating), as an
empty iterable (list) or as a map without entries. Values read are the reader's own: changing a list that
``value()`` returned changes nothing until ``update``.

``set_current_namespace`` chooses a second dimension beside the key (a window, say). It holds until the record
or timer at hand is done; then the default namespace is back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """The operations of all states."""

    @abstractmethod
    def clear(self) -> None:
        """Remove everything under the current key and namespace."""

    @abstractmethod
    def set_current_namespace(self, namespace: Hashable) -> None:
        """Choose the namespace (str, whole number of 64 bits, float, bool, bytes or a tuple of them); ``None`` is the
        default one. Namespaces of different types are different ones, even where Python holds them equal, as ``1``,
        ``1.0`` and ``True``. NaN is refused."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T | None:
        """The value, or None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the value; ``None`` removes it. Raises ``SerializationError`` if it does not fit the declared type."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abstractmethod
    def get(self) -> OUT | None:
        """The values that were added, in this state's form."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add one value."""


class MergingState(AppendingState[IN, OUT]):
    """State of which two can be made one."""


class ReducingState(MergingState[T, T]):
    """One value per key, to which others are reduced. ``add(None)`` clears, ``get`` is None when empty."""


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key. ``add(None)`` clears, ``get`` gives the result, or None when empty."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key. No element may be None."""

    @abstractmethod
    def get(self) -> list[T]:
        """A fresh list of the elements; empty when there are none."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append these values."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace the list; an empty one clears. ``None`` is refused, as in Flink."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(State, Generic[K, V]):
    """A map per key. Map keys are of a key type; values may be None, which ``get`` cannot tell from a missing entry."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of that entry, or None if there is none."""

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

    def __setitem__(self, key: K, value: V | None) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()
