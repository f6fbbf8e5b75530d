"""The window operator: a keyed function that puts rows into windows and asks the trigger when a window fires.

Theory. A row's windows come from the assigner. Each window has contents in the state of its key, the state and the
timers of its trigger, and a timer for its end: ``allowed_lateness`` after its last moment, when nothing may come for it
any more and everything of it is forgotten. A row is late if all of its windows have ended.

All of it is keyed state in the namespace of the window, so attributes hold nothing that depends on rows. Timers are set
for the first row of a window only, which the contents tell: while they are there, so are the timers. This does not hold
for an author's trigger, which may delete a timer that is the window's end as well.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeAlias

from sparkstate.functions import (
    MAX_WATERMARK,
    Context,
    KeyedProcessFunction,
    OnTimerContext,
    OutputTag,
    RuntimeContext,
    TimeDomain,
    TimerService,
)
from sparkstate.serde.copies import copied
from sparkstate.windows import contexts, emission, states
from sparkstate.windows import window as window_module
from sparkstate.windows.assigner import WindowAssigner
from sparkstate.windows.contents import OpenContents, TimestampedContents
from sparkstate.windows.evictors import Evictor
from sparkstate.windows.functions import AnyWindowFunction
from sparkstate.windows.premises import premises_of
from sparkstate.windows.time_triggers import EventTimeTrigger
from sparkstate.windows.trigger import Trigger, TriggerResult

Fire: TypeAlias = Callable[[Any, Any, contexts.Host], list[Any]]
"""Makes the rows of a window, given the namespace of its contents."""
Forget: TypeAlias = Callable[[Any, Any], None]
"""Forgets a window, given the namespace of its contents."""


class WindowOperator(KeyedProcessFunction):
    """The common part of operators whose windows stay as they are and of those whose windows merge."""

    judges_lateness: ClassVar[bool] = True

    def __init__(
        self,
        assigner: WindowAssigner,
        trigger: Trigger,
        contents: OpenContents,
        function: AnyWindowFunction | None,
        *,
        contents_name: str,
        title: str,
        evictor: Evictor | None = None,
        lateness_ms: int = 0,
        late_tag: OutputTag | None = None,
    ) -> None:
        """For people: ``contents_name`` says what a window keeps, ``title`` what its author wrote."""
        self.assigner = assigner
        self.trigger = trigger
        self.evictor = evictor
        self.lateness_ms = lateness_ms
        self.late_tag = late_tag
        self._contents_name = contents_name
        self._title = title
        self._open_contents = contents
        self._function = function
        self._in_event_time = assigner.is_event_time()
        self._only_at_end = type(trigger) is EventTimeTrigger and self._in_event_time
        """Until the watermark reaches a window's end, only its first row concerns the trigger."""
        self._keeps_timers = type(trigger).__module__.startswith("sparkstate.") and not _has_nested(trigger)

    # --- life

    @property
    def operator_title(self) -> str:
        return self._title

    @property
    def state_premises(self) -> Mapping[str, str]:
        return premises_of(self.assigner, self.trigger, self._contents_name)

    @property
    def author_object(self) -> object:
        return self if self._function is None else self._function

    @property
    def needs_event_time(self) -> bool:
        return self._in_event_time

    def open(self, ctx: RuntimeContext) -> None:
        self._emission = emission.opened(self._function, ctx, self._merges())
        self._contents = self._open_contents(ctx)
        states.DeclaredStates(ctx, self.assigner)
        self._assigner_scope = contexts.AssignerScope(ctx)
        self._trigger_scope = contexts.TriggerScope(ctx, self.trigger)
        self._evictor_scope = contexts.EvictorScope()
        self._timers: TimerService | None = None
        self._fire_by: Fire | None = (
            None if self.evictor is None else partial(self._fire_evicting, self.evictor)
        )
        """In place of giving the window's values to its function."""

    def close(self) -> None:
        if self._function is not None:
            self._function.close()

    @abstractmethod
    def _merges(self) -> bool:
        """Whether windows may merge."""

    def _bind(self, ctx: Context) -> TimerService:
        timers = ctx.timer_service()
        if timers is not self._timers:
            self._timers = timers
            for scope in (self._assigner_scope, self._trigger_scope, self._evictor_scope):
                scope.timers = timers
            self._emission.bind(timers)
        return timers

    # --- rows

    @abstractmethod
    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None: ...

    def _after_adding(
        self,
        value: Any,
        timestamp: int | None,
        window: Any,
        contents: Any,
        is_first: bool,
        host: contexts.Host,
    ) -> list[Any]:
        """A row was added to the window whose contents are in the namespace ``contents``: what is put out now."""
        scope = self._trigger_scope
        scope.namespace = window_module.namespace_of(window)
        result = self.trigger.on_element(value, timestamp, window, scope)
        rows = self._act(result, window, contents, host)
        if is_first or not self._keeps_timers:
            self._register_end(window, scope)
        return rows

    def _act(self, result: TriggerResult, window: Any, contents: Any, host: contexts.Host) -> list[Any]:
        """Do what the trigger said."""
        rows: list[Any] = []
        if result is TriggerResult.CONTINUE:
            return rows
        if result.is_fire():
            rows = self._fire(window, contents, host)
        if result.is_purge():
            self._contents.clear(contents)
        return rows

    def _fire(self, window: Any, contents: Any, host: contexts.Host) -> list[Any]:
        """The rows that the window puts out."""
        if self._fire_by is not None:
            rows = self._fire_by(window, contents, host)
        else:
            values = self._contents.values(contents)
            rows = self._rows(window, values, host) if values else []
        if host.stamps is not None:
            host.stamps.extend([contexts.stamp_of(window, host)] * len(rows))
        return rows

    def _fire_evicting(
        self, evictor: Evictor, window: Any, contents: Any, host: contexts.Host, is_rejected: bool = False
    ) -> list[Any]:
        kept = self._contents
        assert isinstance(kept, TimestampedContents)
        elements = kept.timestamped(contents)
        if not elements:
            return []
        evictor.evict_before(elements, len(elements), window, self._evictor_scope)
        values = None if is_rejected else kept.values_of(elements)
        rows = [] if values is None else self._rows(window, values, host)
        evictor.evict_after(elements, len(elements), window, self._evictor_scope)
        kept.replace(contents, elements)
        return rows

    def _rows(self, window: Any, values: list[Any], host: contexts.Host) -> list[Any]:
        namespace = window_module.namespace_of(window)
        rows = self._emission.rows(host.get_current_key(), window, namespace, values)
        return list(map(copied, rows or ()))

    def _late(self, value: Any, timestamp: int | None, watermark: int, host: contexts.Host) -> list[Any]:
        """A row that is in no window: what is put out for it, if it is late."""
        if not self._in_event_time or timestamp is None or timestamp + self.lateness_ms > watermark:
            return []
        host.late_rows += 1
        if self.late_tag is None:
            return []
        if host.stamps is not None:
            host.stamps.append(timestamp)
        return [(self.late_tag, value)]

    # --- the end of a window

    def end_of(self, window: Any) -> int:
        """When everything of the window is forgotten; ``MAX_WATERMARK``: never."""
        last: int = window.max_timestamp()
        return min(last + self.lateness_ms, MAX_WATERMARK) if self._in_event_time else last

    def _register_both(self, window: Any, namespace: Any, timers: TimerService) -> None:
        """The timers of a window that fires at its end and nowhere else."""
        timers.register_event_time_timer(window.max_timestamp(), namespace)
        if self.lateness_ms and (end := self.end_of(window)) != MAX_WATERMARK:
            timers.register_event_time_timer(end, namespace)

    def _register_end(self, window: Any, scope: contexts.TriggerScope) -> None:
        end = self.end_of(window)
        if end == MAX_WATERMARK:
            return
        if self._in_event_time:
            scope.register_event_time_timer(end)
        else:
            scope.register_processing_time_timer(end)

    def _delete_end(self, window: Any, scope: contexts.TriggerScope) -> None:
        end = self.end_of(window)
        if self._in_event_time:
            scope.delete_event_time_timer(end)
        else:
            scope.delete_processing_time_timer(end)

    def _forget(self, window: Any, contents: Any) -> None:
        """Everything of the window, its timers included."""
        self._contents.clear(contents)
        namespace = window_module.namespace_of(window)
        if not self._only_at_end:  # that trigger's timer is due before the window ends
            self._trigger_scope.namespace = namespace
            self.trigger.clear(window, self._trigger_scope)
        self._emission.end(window, namespace)

    def _erase(self, window: Any, contents: Any) -> None:
        """The same without a call of the author's code; timers of an author's trigger may be left."""
        self._contents.clear(contents)
        namespace = window_module.namespace_of(window)
        self._trigger_scope.namespace = namespace
        self._trigger_scope.clear_states()
        self._emission.clear_states(window, namespace)

    # --- timers

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        self._bind(ctx)
        namespace = ctx.namespace()
        window = window_module.window_of(namespace)
        return self._on_timer(
            timestamp, window, ctx.time_domain() is TimeDomain.EVENT_TIME, contexts.host_of(ctx)
        )

    def after_rejected_timer(self) -> Iterable[Callable[[int, OnTimerContext], object]]:
        """The trigger and the evictor do their part, as if the function had put out nothing. Where they fail as well, a
        window that has ended is forgotten, if need be without a call of the author's code."""
        if self.evictor is not None:
            yield partial(self._fire_otherwise, partial(self._fire_evicting, self.evictor, is_rejected=True))
        yield partial(self._fire_otherwise, lambda window, contents, host: [])
        yield partial(self._end, self._forget)
        yield partial(self._end, self._erase)

    def _fire_otherwise(self, fire: Fire, timestamp: int, ctx: OnTimerContext) -> None:
        usual, self._fire_by = self._fire_by, fire
        try:
            self.on_timer(timestamp, ctx)
        finally:
            self._fire_by = usual

    def _end(self, forget: Forget, timestamp: int, ctx: OnTimerContext) -> None:
        window = window_module.window_of(ctx.namespace())
        if self._has_ended(timestamp, window, ctx.time_domain() is TimeDomain.EVENT_TIME):
            self._end_by(forget, window)

    @abstractmethod
    def _end_by(self, forget: Forget, window: Any) -> None:
        """The window has ended, if it is there: forget it by this."""

    @abstractmethod
    def _on_timer(
        self, timestamp: int, window: Any, by_event_time: bool, host: contexts.Host
    ) -> list[Any] | None:
        """A timer of this window is due."""

    def _fired_by(
        self, timestamp: int, window: Any, contents: Any, by_event_time: bool, host: contexts.Host
    ) -> list[Any]:
        """The rows that are put out because a timer of the window is due; afterwards the window may have ended."""
        if self._only_at_end:
            at_end = by_event_time and timestamp == window.max_timestamp()
            return self._fire(window, contents, host) if at_end else []
        scope = self._trigger_scope
        scope.namespace = window_module.namespace_of(window)
        if by_event_time:
            result = self.trigger.on_event_time(timestamp, window, scope)
        else:
            result = self.trigger.on_processing_time(timestamp, window, scope)
        return self._act(result, window, contents, host)

    def _has_ended(self, timestamp: int, window: Any, by_event_time: bool) -> bool:
        """Whether the window is over. Where not, its timer for that is there afterwards, even if the job had another
        lateness when the window began."""
        if by_event_time is not self._in_event_time or timestamp < window.max_timestamp():
            return False
        if timestamp >= self.end_of(window):
            return True
        self._trigger_scope.namespace = window_module.namespace_of(window)
        self._register_end(window, self._trigger_scope)
        return False


def _has_nested(trigger: Trigger) -> bool:
    """Whether an author's trigger is inside a trigger of ours."""
    nested = getattr(trigger, "nested_trigger", None)
    if nested is None:
        return False
    return not type(nested).__module__.startswith("sparkstate.") or _has_nested(nested)
