"""The contract of triggers, which a job's author may extend. Names are PyFlink's."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, TypeAlias

from sparkstate.functions import MetricGroup
from sparkstate.state import descriptors


class TriggerResult(enum.Enum):
    """The answer of a trigger: whether the result of the window is put out, and whether its contents are forgotten.

    A window without contents puts out nothing.
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the result is put out."""
        return self in _FIRING

    def is_purge(self) -> bool:
        """Whether the contents are forgotten. State of the trigger and of the function stays until the window ends."""
        return self in _PURGING


_FIRING = (TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE)
_PURGING = (TriggerResult.PURGE, TriggerResult.FIRE_AND_PURGE)


class TriggerContext(ABC):
    """Given to a trigger's methods: times, timers and state of the current key and window."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """The watermark in ms; ``MIN_WATERMARK`` before the first."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Wall time in ms: fixed for the whole epoch."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """The operator's metrics."""

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None:
        """Call ``on_event_time`` when the watermark reaches ``time`` (ms)."""

    @abstractmethod
    def register_processing_time_timer(self, time: int) -> None:
        """Call ``on_processing_time`` when wall time reaches ``time`` (ms)."""

    @abstractmethod
    def delete_event_time_timer(self, time: int) -> None:
        """Forget that timer; nothing happens if there is none."""

    @abstractmethod
    def delete_processing_time_timer(self, time: int) -> None:
        """Forget that timer; nothing happens if there is none."""

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: descriptors.StateDescriptor) -> Any:
        """The state of the current key and window; it belongs to this trigger alone."""


class OnMergeContext(TriggerContext):
    """Given to ``on_merge``."""

    @abstractmethod
    def merge_partitioned_state(self, state_descriptor: descriptors.StateDescriptor) -> None:
        """Move the state of the windows that were merged into that of the result: reducing or list state."""


_TriggerContext: TypeAlias = TriggerContext
_OnMergeContext: TypeAlias = OnMergeContext


class Trigger(ABC):
    """Says when a window puts out its result, and when its contents are forgotten.

    One object serves all keys and windows, so it keeps nothing in attributes but its settings and the descriptors of
    its states. Descriptors have to be attributes: the states are asked for before the first row.
    """

    TriggerContext: TypeAlias = _TriggerContext
    """As PyFlink names it in annotations."""
    OnMergeContext: TypeAlias = _OnMergeContext

    @abstractmethod
    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        """Called for every row that was added to the window. ``timestamp`` is the row's event time in ms."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Called when an event-time timer of the window is due: the trigger's own, or that of the window's end."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Called when a processing-time timer of the window is due."""

    def can_merge(self) -> bool:
        """Whether it may be used where windows merge; it then defines ``on_merge``."""
        return False

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        """Called when windows were merged into ``window``; ``clear`` is called for each of them afterwards."""
        raise NotImplementedError(f"{type(self).__qualname__} does not define on_merge")

    @abstractmethod
    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Called when the window ends: clear the states and delete the timers of this trigger."""
