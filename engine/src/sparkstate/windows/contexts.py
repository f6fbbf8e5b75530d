"""The contexts that assigners, triggers, evictors and window functions are given. One of each per operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, cast

from sparkstate import errors
from sparkstate.functions import Context, MetricGroup, RuntimeContext, TimerService
from sparkstate.state import descriptors
from sparkstate.windows import states, window
from sparkstate.windows.assigner import WindowAssignerContext
from sparkstate.windows.evictors import EvictorContext
from sparkstate.windows.functions import KeyedStateStore, WindowContext
from sparkstate.windows.trigger import OnMergeContext


class Host(Protocol):
    """The cursor of an operator, as far as windows need more of it than an author's function does."""

    late_rows: int
    """Rows found late; the operator takes them from here."""
    stamps: list[int | None] | None
    """Takes the event time of each row that is yielded; None: nobody asks."""

    def timestamp(self) -> int | None:
        """The event time of the record, or the time of the timer."""

    def get_current_key(self) -> Any:
        """The key."""

    def timer_service(self) -> TimerService:
        """Times and timers."""


class _Merging(Protocol):
    """A reducing or a list state of an operator."""

    def set_current_namespace(self, namespace: Any) -> None:
        """Work on this namespace."""

    def take(self) -> Any:
        """Empty the namespace; what it had, as it is stored, with the time of its last access. None: nothing."""

    def merge(self, taken: Any) -> None:
        """Put that into the namespace at hand."""


class _Clock:
    """The times, which several contexts give."""

    def __init__(self) -> None:
        self.timers: TimerService = _NO_TIMERS

    def get_current_watermark(self) -> int:
        return self.timers.current_watermark()

    def get_current_processing_time(self) -> int:
        return self.timers.current_processing_time()


class AssignerScope(_Clock, WindowAssignerContext):
    """For the assigner."""

    def __init__(self, runtime: RuntimeContext) -> None:
        super().__init__()
        self._runtime = runtime

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime


class EvictorScope(_Clock, EvictorContext):
    """For the evictor."""


class TriggerScope(_Clock, OnMergeContext):
    """For the trigger. ``namespace`` is that of the window at hand."""

    def __init__(self, runtime: RuntimeContext, trigger: object) -> None:
        super().__init__()
        self._runtime = runtime
        self._states = states.DeclaredStates(runtime, trigger, states.TRIGGER)
        self.namespace: Any = None
        self.merged: Sequence[Any] = ()
        """The windows that were merged into the one at hand."""

    def get_metric_group(self) -> MetricGroup:
        return self._runtime.get_metrics_group()

    def register_event_time_timer(self, time: int) -> None:
        self.timers.register_event_time_timer(time, self.namespace)

    def register_processing_time_timer(self, time: int) -> None:
        self.timers.register_processing_time_timer(time, self.namespace)

    def delete_event_time_timer(self, time: int) -> None:
        self.timers.delete_event_time_timer(time, self.namespace)

    def delete_processing_time_timer(self, time: int) -> None:
        self.timers.delete_processing_time_timer(time, self.namespace)

    def get_partitioned_state(self, state_descriptor: descriptors.StateDescriptor) -> Any:
        state = self._states.of(state_descriptor)
        state.set_current_namespace(self.namespace)
        return state

    def clear_states(self) -> None:
        """Empty all states of the trigger for the window at hand."""
        self._states.clear(self.namespace)

    def merge_partitioned_state(self, state_descriptor: descriptors.StateDescriptor) -> None:
        state: _Merging = self._states.of(state_descriptor)
        mergeable = (descriptors.ReducingStateDescriptor, descriptors.ListStateDescriptor)
        if not isinstance(state_descriptor, mergeable):
            raise errors.StateError(
                f"merge_partitioned_state({state_descriptor!r}): only a reducing or a list state of a trigger can be "
                "merged"
            )
        for namespace in self.merged:
            state.set_current_namespace(namespace)
            taken = state.take()
            if taken is not None:
                state.set_current_namespace(self.namespace)
                state.merge(taken)


class FunctionScope(_Clock, WindowContext):
    """For a ``ProcessWindowFunction``. Its states are those of the window and of the key."""

    def __init__(self, runtime: RuntimeContext, function: object, merging: bool) -> None:
        """The function is open: the states that it has asked for are those of the key."""
        super().__init__()
        asked_for = states.names_asked_for(runtime)
        self._declared = declared = states.DeclaredStates(runtime, function)
        self._scopes: dict[str, Any] = {}
        self._of_window = states.ScopedStore(declared, self._scopes, asked_for)
        self._of_key = states.ScopedStore(declared, self._scopes)
        self._merging = merging
        self._window: Any = None

    def enter(self, current: Any, namespace: Any) -> None:
        """This window is at hand from now on."""
        self._window = current
        self._scopes.clear()
        self._of_window.namespace = states.GLOBAL_NAMESPACE if namespace is None else namespace

    def clear_states(self) -> None:
        """Empty all states of the window at hand."""
        self._declared.clear(self._of_window.namespace)

    def window(self) -> Any:
        return self._window

    def current_watermark(self) -> int:
        return self.timers.current_watermark()

    def current_processing_time(self) -> int:
        return self.timers.current_processing_time()

    def window_state(self) -> KeyedStateStore:
        return states.RefusedStore() if self._merging else self._of_window

    def global_state(self) -> KeyedStateStore:
        return self._of_key


class _NoTimers:
    def __getattr__(self, name: str) -> NoReturn:
        raise errors.StateError(
            "times and timers belong to a row or timer; they cannot be used in open() or close()"
        )


_NO_TIMERS: Any = _NoTimers()


def stamp_of(current: Any, host: Host) -> int | None:
    """The event time of the rows that a window puts out: the window's last moment. Windows without an end give the
    time of the row or timer that made them fire."""
    return current.max_timestamp() if isinstance(current, window.TimeWindow) else host.timestamp()


def host_of(ctx: Context) -> Host:
    """The operator's cursor, which the operator gives as the context."""
    return cast("Host", ctx)
