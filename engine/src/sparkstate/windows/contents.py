"""The contents of a window in state: all of its rows, or the one value that they are folded into.

Contents are a state of the operator in the namespace of their window. Nothing of them is in the operator's memory, so
they spill and are stored like any state. A folded value is a value state: reading it tells whether the window was
there before, and merging needs accumulators as they are, which an aggregating state does not give.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast

from sparkstate import errors
from sparkstate.functions import RuntimeContext
from sparkstate.serde.typeinfo import TypeInformation
from sparkstate.serde.types import Types
from sparkstate.state import api, descriptors
from sparkstate.state.folding import AggregateFunction, ReduceFunction
from sparkstate.windows import states
from sparkstate.windows.evictors import TimestampedValue

NAME: Final = "contents"
ToValues: TypeAlias = Callable[[Iterable[Any]], list[Any] | None]
"""Makes the values for a window's function of the rows that an evictor has left. None: the window puts out nothing, and
the function is not called."""


class Contents(ABC):
    """The contents of the windows of the current key. One object serves all keys."""

    @abstractmethod
    def add(self, namespace: Any, element: Any, timestamp: int | None) -> bool:
        """Add a row. Answers whether the window was empty, or may have been: what goes with a window's first row is
        then done (once more)."""

    @abstractmethod
    def values(self, namespace: Any) -> list[Any]:
        """The values that the window's function is given; empty if the window is."""

    @abstractmethod
    def clear(self, namespace: Any) -> None:
        """Forget the contents."""

    @abstractmethod
    def merge(self, into: Any, others: Sequence[Any]) -> None:
        """Move the contents of the namespaces ``others`` to those of ``into``."""


@dataclass(frozen=True)
class Fold:
    """How values become one. Functions instead of methods: two of them are called for every row."""

    start: Callable[[Any], Any]
    """Of the first value."""
    add: Callable[[Any, Any], Any]
    """Of the values so far, folded, and a further one."""
    merge: Callable[[Any, Any], Any]
    """Of two folded values."""
    result: Callable[[Any], Any]
    """The value that the window's function is given."""
    empty: Callable[[], Any] | None = None
    """Of no value at all, where an evictor has removed every row; None: the window puts out nothing."""


def reducing(function: ReduceFunction | Callable[[Any, Any], Any]) -> Fold:
    """By a reduce function."""
    reduce = function.reduce if isinstance(function, ReduceFunction) else function
    return Fold(start=_same, add=reduce, merge=reduce, result=_same)


def aggregating(function: AggregateFunction) -> Fold:
    """By an aggregate function."""
    add, create = function.add, function.create_accumulator
    return Fold(
        start=lambda value: add(value, create()),
        add=lambda folded, value: add(value, folded),
        merge=function.merge,
        result=function.get_result,
        empty=create,
    )


def _same(value: Any) -> Any:
    return value


def _something(made: Any) -> Any:
    if made is None:
        raise _nothing()
    return made


def _nothing() -> errors.StateError:
    return errors.StateError(
        "the function of reduce() or aggregate() returned None, which would empty the window; return the value or the "
        "accumulator"
    )


class FoldedContents(Contents):
    """One value per window."""

    def __init__(self, fold: Fold, state: api.ValueState[Any]) -> None:
        self._fold = fold
        self._state = state

    def add(self, namespace: Any, element: Any, timestamp: int | None) -> bool:
        state, fold = self._state, self._fold
        state.set_current_namespace(namespace)
        folded = state.value()
        made = fold.start(element) if folded is None else fold.add(folded, element)
        if made is None:
            raise _nothing()
        state.update(made)
        return folded is None

    def values(self, namespace: Any) -> list[Any]:
        self._state.set_current_namespace(namespace)
        folded = self._state.value()
        return [] if folded is None else [self._fold.result(folded)]

    def clear(self, namespace: Any) -> None:
        self._state.set_current_namespace(namespace)
        self._state.clear()

    def merge(self, into: Any, others: Sequence[Any]) -> None:
        if not others:
            return
        found = []
        for namespace in (into, *others):
            self._state.set_current_namespace(namespace)
            folded = self._state.value()
            if folded is not None:
                found.append(folded)
            self._state.clear()
        if found:
            first, *rest = found
            self._state.set_current_namespace(into)
            self._state.update(first)
            for folded in rest:
                # Read again: a function may return a tuple where its arguments are rows with names.
                self._state.update(_something(self._fold.merge(self._state.value(), folded)))


class ListedContents(Contents):
    """All rows of a window."""

    def __init__(self, state: api.ListState[Any]) -> None:
        self._state = state

    def add(self, namespace: Any, element: Any, timestamp: int | None) -> bool:
        state = self._state
        state.set_current_namespace(namespace)
        was_empty = not cast("_ListState", state).holds_items()
        state.add(element)
        return was_empty

    def values(self, namespace: Any) -> list[Any]:
        self._state.set_current_namespace(namespace)
        return list(self._state.get())

    def clear(self, namespace: Any) -> None:
        self._state.set_current_namespace(namespace)
        self._state.clear()

    def merge(self, into: Any, others: Sequence[Any]) -> None:
        if not others:
            return
        moved: list[Any] = []
        for namespace in others:
            moved += self.values(namespace)
            self.clear(namespace)
        self._state.set_current_namespace(into)
        self._state.add_all(moved)


class _ListState(Protocol):
    """The list state of an operator."""

    def holds_items(self) -> bool:
        """Whether this epoch added items that are still there. Reads no store."""


class TimestampedContents(ListedContents):
    """All rows of a window with their event times, for an evictor. ``to_values`` makes of the rows that are left what
    the window's function is given."""

    def __init__(self, state: api.ListState[Any], to_values: ToValues) -> None:
        super().__init__(state)
        self._to_values = to_values

    def add(self, namespace: Any, element: Any, timestamp: int | None) -> bool:
        return super().add(namespace, (element, timestamp), timestamp)

    def timestamped(self, namespace: Any) -> list[TimestampedValue[Any]]:
        """The rows, for the evictor to remove some."""
        return [TimestampedValue(*pair) for pair in super().values(namespace)]

    def values_of(self, elements: Iterable[TimestampedValue[Any]]) -> list[Any] | None:
        """The values that the window's function is given, of the rows that are left; None: it is not called."""
        return self._to_values(element.value for element in elements)

    def replace(self, namespace: Any, elements: Sequence[TimestampedValue[Any]]) -> None:
        """These are the contents."""
        self._state.set_current_namespace(namespace)
        self._state.update(elements)


OpenContents: TypeAlias = Callable[[RuntimeContext], Contents]
"""Asks for the state of the contents: a window operation has this, and its operator calls it once."""


def keep_folded(fold: Fold, value_type: TypeInformation) -> OpenContents:
    """One value of ``value_type`` per window."""
    descriptor = states.own(descriptors.ValueStateDescriptor(NAME, value_type))
    return lambda runtime: FoldedContents(fold, runtime.get_state(descriptor))


def keep_rows(element_type: TypeInformation) -> OpenContents:
    """All rows of a window."""
    descriptor = states.own(descriptors.ListStateDescriptor(NAME, element_type))
    return lambda runtime: ListedContents(runtime.get_list_state(descriptor))


def keep_timestamped(element_type: TypeInformation, to_values: ToValues) -> OpenContents:
    """All rows of a window with their event times."""
    kind = Types.ROW([element_type, Types.LONG()])
    descriptor = states.own(descriptors.ListStateDescriptor(NAME, kind))
    return lambda runtime: TimestampedContents(runtime.get_list_state(descriptor), to_values)


def folded(fold: Fold, folded_type: TypeInformation, values: Iterable[Any]) -> list[Any] | None:
    """The one value that these become; None, if there are none and nothing becomes of that."""
    rest = iter(values)
    for first in rest:
        found = folded_type.normalize(_something(fold.start(first)))
        for value in rest:
            found = folded_type.normalize(_something(fold.add(found, value)))
        return [fold.result(found)]
    return None if fold.empty is None else [fold.result(fold.empty())]
