"""From the contents of a window that fires to output rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkstate.functions import RuntimeContext, TimerService
from sparkstate.windows.contexts import FunctionScope
from sparkstate.windows.functions import AnyWindowFunction, ProcessWindowFunction, WindowFunction


class Emission:
    """Makes the rows of a window: here the values are the rows, as of ``reduce`` and ``aggregate`` alone."""

    def bind(self, timers: TimerService) -> None:
        """The times of the records to come."""

    def rows(self, key: Any, window: Any, namespace: Any, values: list[Any]) -> Iterable[Any] | None:
        """The rows that the window puts out for these values."""
        return values

    def end(self, window: Any, namespace: Any) -> None:
        """The window has ended."""

    def clear_states(self, window: Any, namespace: Any) -> None:
        """Empty the states of a window that has ended, without a call of the author's code."""


class ByWindowFunction(Emission):
    """By a ``WindowFunction``."""

    def __init__(self, function: WindowFunction) -> None:
        self._function = function

    def rows(self, key: Any, window: Any, namespace: Any, values: list[Any]) -> Iterable[Any] | None:
        return self._function.apply(key, window, values)


class ByProcessWindowFunction(Emission):
    """By a ``ProcessWindowFunction``."""

    def __init__(self, function: ProcessWindowFunction, scope: FunctionScope) -> None:
        self._function = function
        self._scope = scope

    def bind(self, timers: TimerService) -> None:
        self._scope.timers = timers

    def rows(self, key: Any, window: Any, namespace: Any, values: list[Any]) -> Iterable[Any] | None:
        self._scope.enter(window, namespace)
        return self._function.process(key, self._scope, values)

    def end(self, window: Any, namespace: Any) -> None:
        self._scope.enter(window, namespace)
        self._function.clear(self._scope)

    def clear_states(self, window: Any, namespace: Any) -> None:
        self._scope.enter(window, namespace)
        self._scope.clear_states()


def opened(function: AnyWindowFunction | None, runtime: RuntimeContext, merging: bool) -> Emission:
    """Opens the author's function, if there is one; ``merging``: windows may merge."""
    if function is not None:
        function.open(runtime)
    if isinstance(function, ProcessWindowFunction):
        return ByProcessWindowFunction(function, FunctionScope(runtime, function, merging))
    return ByWindowFunction(function) if isinstance(function, WindowFunction) else Emission()
