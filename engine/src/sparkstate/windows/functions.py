"""The functions that a job's author writes for the contents of a window. Names are PyFlink's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeAlias

from sparkstate.functions import RuntimeContext
from sparkstate.state import api, descriptors


class KeyedStateStore(ABC):
    """Gives the states of a scope. Each descriptor is an attribute of the function."""

    @abstractmethod
    def get_state(self, state_descriptor: descriptors.ValueStateDescriptor) -> api.ValueState[Any]:
        """One value."""

    @abstractmethod
    def get_list_state(self, state_descriptor: descriptors.ListStateDescriptor) -> api.ListState[Any]:
        """A list."""

    @abstractmethod
    def get_map_state(self, state_descriptor: descriptors.MapStateDescriptor) -> api.MapState[Any, Any]:
        """A map."""

    @abstractmethod
    def get_reducing_state(
        self, state_descriptor: descriptors.ReducingStateDescriptor
    ) -> api.ReducingState[Any]:
        """One value, into which added ones are folded."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: descriptors.AggregatingStateDescriptor
    ) -> api.AggregatingState[Any, Any]:
        """One accumulator."""


class WindowContext(ABC):
    """Given to ``ProcessWindowFunction``. One object, reused: do not keep it beyond the call."""

    @abstractmethod
    def window(self) -> Any:
        """The window: a ``TimeWindow`` with ``start`` and ``end`` in ms, a ``CountWindow``, or the ``GlobalWindow``."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark in ms; ``MIN_WATERMARK`` before the first."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Wall time in ms: fixed for the whole epoch."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """The states of the current key and window. ``clear`` has to clear them. Refused where windows merge, and for a
        state that ``open`` asked for."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """The states of the current key, for all of its windows."""


_Context: TypeAlias = WindowContext


class AnyWindowFunction:
    """The methods that both kinds of window functions have."""

    def open(self, ctx: RuntimeContext) -> None:
        """Called once in every slot, before the first row. States asked for here are those of the key."""

    def close(self) -> None:
        """Called once at the end, also after a failure."""


class ProcessWindowFunction(AnyWindowFunction, ABC):
    """Makes output rows of a window's contents, and may keep state of the window and of the key.

    Descriptors that ``process`` or ``clear`` use are attributes: the states are asked for before the first row.
    """

    Context: TypeAlias = _Context
    """As PyFlink names it in annotations: ``context: ProcessWindowFunction.Context``."""

    @abstractmethod
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Called when the window fires. ``elements`` is a list: the rows, or the one value after ``reduce`` or
        ``aggregate``. Yields output rows."""

    def clear(self, context: WindowContext) -> None:
        """Called when the window ends: clear what ``window_state`` holds. Does nothing unless overridden."""


class WindowFunction(AnyWindowFunction, ABC):
    """Makes output rows of a window's contents, without state of its own."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Called when the window fires. ``inputs`` is a list: the rows, or the one value after ``reduce`` or
        ``aggregate``. Yields output rows."""
