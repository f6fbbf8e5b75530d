"""Triggers that fire by the number of rows, never, or as another one does. Names are PyFlink's."""

from __future__ import annotations

import operator
from typing import Any

from sparkstate import errors
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ReducingStateDescriptor
from sparkstate.windows.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult


class CountTrigger(Trigger):
    """Fires for every ``window_size`` rows of the window. It forgets its count when it fires, and no contents."""

    def __init__(self, window_size: int) -> None:
        if not isinstance(window_size, int) or isinstance(window_size, bool) or window_size < 1:
            raise errors.SpecInvalid(
                f"CountTrigger.of(window_size={window_size!r}): give a whole number of rows, at least 1"
            )
        self.window_size = window_size
        self._count = ReducingStateDescriptor("count", operator.add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """The trigger that fires for every ``window_size`` rows."""
        return CountTrigger(window_size)

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger(window_size={self.window_size})"


class NeverTrigger(Trigger):
    """Never fires: the trigger of ``GlobalWindows``."""

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        """Nothing is kept, so nothing is merged; ``can_merge`` is False, as in Flink."""

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Nothing is kept."""


class PurgingTrigger(Trigger):
    """Fires when another trigger does, and forgets the contents of the window then."""

    def __init__(self, nested_trigger: Trigger) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise errors.SpecInvalid(
                f"PurgingTrigger.of({nested_trigger!r}): pass a Trigger object, such as CountTrigger.of(100)"
            )
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """The trigger that purges where ``nested_trigger`` fires."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
