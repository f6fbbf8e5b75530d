"""The contract of window assigners, which a job's author may extend. Names are PyFlink's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, ClassVar, TypeAlias

from sparkstate.functions import RuntimeContext
from sparkstate.windows import window
from sparkstate.windows.trigger import Trigger
from sparkstate.windows.window import TimeWindow, Window


class WindowAssignerContext(ABC):
    """Given to an assigner."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Wall time in ms: fixed for the whole epoch."""

    @abstractmethod
    def get_runtime_context(self) -> RuntimeContext:
        """The operator's context: its states are those of the current key."""


_Context: TypeAlias = WindowAssignerContext


class WindowAssigner(ABC):
    """Says which windows a row belongs to.

    An assigner keeps nothing in its attributes that depends on the rows. Descriptors of the states that it asks
    ``get_runtime_context`` for are attributes of it, so that they are known before the first row.
    """

    WindowAssignerContext: TypeAlias = _Context
    """As PyFlink names it in annotations."""

    @property
    def assigner_title(self) -> str:
        """The windows' name on the job's page."""
        return type(self).__name__

    @abstractmethod
    def assign_windows(
        self, element: Any, timestamp: int | None, context: WindowAssignerContext
    ) -> Collection[Window]:
        """The windows of a row: ``TimeWindow``, ``CountWindow`` or ``GlobalWindow`` objects, perhaps none.
        ``timestamp`` is the row's event time in ms; None without one."""

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger:
        """The trigger of a stream that names none. ``env`` is PyFlink's environment; here it is None."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by event time: rows may be late then. Otherwise they end by wall time."""


class MergingWindowAssigner(WindowAssigner):
    """An assigner whose windows may grow together, as sessions do. Its windows are ``TimeWindow`` objects."""

    MergeCallback: TypeAlias = window.MergeCallback
    merges_what_touches: ClassVar[bool] = False
    """Whether ``merge_windows`` is ``TimeWindow.merge_windows``: the engine then merges without asking."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        """Call ``callback.merge(these, result)`` for the windows of the current key that become one."""
