"""From the contents of a window that fires to output rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from sparkstate.functions import RuntimeContext, TimerService
from sparkstate.windows.contexts import FunctionScope
from sparkstate.windows.functions import ProcessWindowFunction, WindowFunction


class Emission(ABC):
    """What makes the rows of a window."""

    @abstractmethod
    def open(self, runtime: RuntimeContext, merging: bool) -> None:
        """Open the author's function; ``merging``: windows may merge."""

    @abstractmethod
    def rows(self, key: Any, window: Any, namespace: Any, values: list[Any]) -> Iterable[Any] | None:
        """The rows that the window puts out for these values."""

    def bind(self, timers: TimerService) -> None:  # noqa: B027 - most have no use for it
        """The times of the records to come."""

    def end(self, window: Any, namespace: Any) -> None:  # noqa: B027 - the same
        """The window has ended."""

    @abstractmethod
    def close(self) -> None:
        """Close the author's function."""


class ValuesAsRows(Emission):
    """The values are rows: ``reduce`` and ``aggregate`` without a window function."""

    def open(self, runtime: RuntimeContext, merging: bool) -> None:
        """There is nothing to open."""

    def rows(self, key: Any, window: Any, namespace: Any, values: list[Any]) -> Iterable[Any] | None:
        return values

    def close(self) -> None:
        """There is nothing to close."""


class ByWindowFunction(Emission):
    """By a ``WindowFunction``."""

    def __init__(self, function: WindowFunction) -> None:
        self._function = function

    def open(self, runtime: RuntimeContext, merging: bool) -> None:
        self._function.open(runtime)

    def rows(self, key: Any, window: Any, namespace: Any, values: list[Any]) -> Iterable[Any] | None:
        return self._function.apply(key, window, values)

    def close(self) -> None:
        self._function.close()


class ByProcessWindowFunction(Emission):
    """By a ``ProcessWindowFunction``."""

    def __init__(self, function: ProcessWindowFunction) -> None:
        self._function = function
        self._scope: FunctionScope

    def open(self, runtime: RuntimeContext, merging: bool) -> None:
        self._function.open(runtime)
        self._scope = FunctionScope(runtime, self._function, merging)

    def bind(self, timers: TimerService) -> None:
        self._scope.timers = timers

    def rows(self, key: Any, window: Any, namespace: Any, values: list[Any]) -> Iterable[Any] | None:
        self._scope.enter(window, namespace)
        return self._function.process(key, self._scope, values)

    def end(self, window: Any, namespace: Any) -> None:
        self._scope.enter(window, namespace)
        self._function.clear(self._scope)

    def close(self) -> None:
        self._function.close()
