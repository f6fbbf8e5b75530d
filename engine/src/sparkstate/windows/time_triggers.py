"""Triggers that fire by time. Names are PyFlink's."""

from __future__ import annotations

from typing import Any

from sparkstate import durations
from sparkstate.functions import MAX_WATERMARK
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ReducingStateDescriptor
from sparkstate.windows.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult


class EventTimeTrigger(Trigger):
    """Fires when the watermark reaches the end of the window, and for every late row that is still allowed."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """The trigger."""
        return EventTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger):
    """Fires when wall time reaches the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """The trigger."""
        return ProcessingTimeTrigger()

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class _ContinuousTrigger(Trigger):
    """The common part: the next time to fire is a state of the window."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self._next = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def can_merge(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(interval={self.interval} ms)"


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires at whole intervals of event time from the first row of the window on, and at its end."""

    @staticmethod
    def of(interval: durations.Duration) -> ContinuousEventTimeTrigger:
        """The trigger that fires every ``interval``."""
        return ContinuousEventTimeTrigger(
            durations.positive_ms(interval, "ContinuousEventTimeTrigger.of(interval=…)")
        )

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        if timestamp is not None and ctx.get_partitioned_state(self._next).get() is None:
            self._register(timestamp - timestamp % self.interval, end, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if time == end:
            return TriggerResult.FIRE
        state = ctx.get_partitioned_state(self._next)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        # At the end of all time a window that never ends would fire for every interval until then.
        is_over = end == MAX_WATERMARK == ctx.get_current_watermark()
        self._register(end if is_over else time, end, ctx)
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._next)
        following = ctx.get_partitioned_state(self._next).get()
        if following is not None:
            ctx.register_event_time_timer(following)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._next)
        following = state.get()
        if following is not None:
            ctx.delete_event_time_timer(following)
            state.clear()
        ctx.delete_event_time_timer(window.max_timestamp())

    def _register(self, time: int, end: int, ctx: TriggerContext) -> None:
        following = min(time + self.interval, end)
        ctx.get_partitioned_state(self._next).add(following)
        ctx.register_event_time_timer(following)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires at whole intervals of wall time from the first row of the window on, and at its end."""

    @staticmethod
    def of(interval: durations.Duration) -> ContinuousProcessingTimeTrigger:
        """The trigger that fires every ``interval``."""
        return ContinuousProcessingTimeTrigger(
            durations.positive_ms(interval, "ContinuousProcessingTimeTrigger.of(interval=…)")
        )

    def on_element(
        self, element: Any, timestamp: int | None, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        if ctx.get_partitioned_state(self._next).get() is None:
            now = ctx.get_current_processing_time()
            self._register(now - now % self.interval, window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self._next)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        # Behind the window's end there is no next time. A window of event time may end long before wall time; it fires
        # again when it gets another row.
        if time < window.max_timestamp():
            self._register(time, window, ctx)
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._next)
        following = ctx.get_partitioned_state(self._next).get()
        if following is not None:
            ctx.register_processing_time_timer(following)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._next)
        following = state.get()
        if following is not None:
            ctx.delete_processing_time_timer(following)
            state.clear()

    def _register(self, time: int, window: Any, ctx: TriggerContext) -> None:
        following = min(time + self.interval, window.max_timestamp())
        ctx.get_partitioned_state(self._next).add(following)
        ctx.register_processing_time_timer(following)
