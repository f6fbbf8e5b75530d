"""The classes for a job's author: ``KeyedProcessFunction`` and what it is given. Names and meaning are PyFlink's.

A function is opened once per slot, where it asks for its state, and then called once per record and once per
due timer; the current key is set for it. It yields its output::

    class Count(KeyedProcessFunction):
        def open(self, ctx):
            self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            seen = (self.count.value() or 0) + 1
            self.count.update(seen)
            yield ctx.get_current_key(), seen

Only state survives a failure. Attributes of the function object are shared by all keys of a slot, and also by
several attempts at the same epoch, so they must not hold anything that depends on the records seen. A function that
needs such variables is a ``checkpointed.CheckpointedFunction`` too.

The author writes ``AggregateFunction`` and ``ReduceFunction`` too. This module offers them; ``state.folding`` has their
code, because descriptors hold them.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from sparkstate import errors
from sparkstate.state import api, descriptors
from sparkstate.state.folding import AggregateFunction, ReduceFunction

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "AggregateFunction",
    "Context",
    "Counter",
    "Distribution",
    "KeyedFunction",
    "KeyedProcessFunction",
    "Meter",
    "MetricGroup",
    "OnTimerContext",
    "OutputTag",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeInfo",
    "TimeDomain",
    "TimerService",
]

MIN_WATERMARK: Final = -(2**63)
"""No event time has passed."""
MAX_WATERMARK: Final = 2**63 - 1
"""All event time has passed: the end of a bounded input."""


class TimeDomain(enum.Enum):
    """The clock of a timer."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


@dataclass(frozen=True)
class OutputTag:
    """Names a side output; ``yield tag, row`` sends a row there.

    ``schema`` is the DDL string of its rows (``"name string, late boolean"``); the tag given to
    ``.side_output`` must carry it. Two tags are the same output when their ``tag_id`` is the same.
    """

    tag_id: str
    schema: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.tag_id, str) or not self.tag_id:
            raise ValueError(f"OutputTag needs a non-empty string as its id, not {self.tag_id!r}")


def require_tag(given: object, where: str) -> OutputTag:
    """The tag itself. Raises ``SpecInvalid``, beginning with ``where``, for anything but the tag of a side output."""
    if not isinstance(given, OutputTag):
        raise errors.SpecInvalid(f"{where} is {given!r}; pass an OutputTag('…')")
    return given


class TimerService(ABC):
    """Time, and timers of the current key. A timer is one per key, namespace and timestamp,
    however often registered."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark in ms since the Unix epoch; ``MIN_WATERMARK`` before the first."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Wall time in ms: fixed for the whole epoch, so that a record sees one time only."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        """Call ``on_timer`` when the watermark reaches ``timestamp``; if it has already, at its next advance.

        ``timestamp`` is a whole number of milliseconds; so are those of the other methods.
        """

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        """Call ``on_timer`` in the first epoch whose processing time is not before ``timestamp``."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        """Forget that timer; nothing happens if there is none."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        """Forget that timer; nothing happens if there is none."""


class Counter(ABC):
    """A number that goes up, or down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add ``n``."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtract ``n``."""

    @abstractmethod
    def get_count(self) -> int:
        """Its value in this slot."""


class Meter(ABC):
    """Counts events; shown with their number per second."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """``value`` events happened."""

    @abstractmethod
    def get_count(self) -> int:
        """How many, in this slot."""


class Distribution(ABC):
    """Numbers of which count, sum, least and largest are shown. NaN and infinite ones are counted, nothing else."""

    @abstractmethod
    def update(self, value: float) -> None:
        """One more number."""


class MetricGroup(ABC):
    """Makes a function's own metrics, which the job's status, page and ``/metrics`` show.

    Make them in ``open`` and keep the objects: asking again for the same name gives the same metric. They count what
    ran in this slot since it started, records of attempts that were repeated included, and begin anew at 0 after a
    restore, as in Flink. An operator shows 100 metrics; further ones work and are not shown.
    """

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group in this one, whose name comes before those of its metrics; with ``extra`` a group in a group."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """A counter."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Shows what ``obj`` returns; it is called at the end of each epoch,
        never beside the function's other methods."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter whose rate is that of the last ``time_span_in_seconds``."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """A distribution."""


class RuntimeInfo(ABC):
    """The facts that a function may ask about its slot and its job."""

    @abstractmethod
    def get_task_name(self) -> str:
        """The operator's uid."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """How many slots the job has."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The job's max parallelism (number of key groups)."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """This slot's number, from 0."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """The operator's uid and this slot's place among all, from 1: ``rotations (3/6)``."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often the job's state was restored or begun before this time: 0 for the first life."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """The manifest's ``params`` of that name, as a string, or ``default_value``."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """The operator's group, in which metrics of its own are made."""


class RuntimeContext(RuntimeInfo):
    """Given to ``open``: where a function gets its state. Asking twice with the same descriptor gives
    the same handle."""

    @abstractmethod
    def get_state(self, state_descriptor: descriptors.ValueStateDescriptor) -> api.ValueState[Any]:
        """One value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: descriptors.ListStateDescriptor) -> api.ListState[Any]:
        """A list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: descriptors.MapStateDescriptor) -> api.MapState[Any, Any]:
        """A map per key."""

    @abstractmethod
    def get_reducing_state(
        self, state_descriptor: descriptors.ReducingStateDescriptor
    ) -> api.ReducingState[Any]:
        """One value per key, into which added ones are folded."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: descriptors.AggregatingStateDescriptor
    ) -> api.AggregatingState[Any, Any]:
        """One accumulator per key; what is read may be of another type than what is added."""


class Context(ABC):
    """Given to ``process_element``. One object, reused: do not keep it beyond the call."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The record's event time in ms (of a timer: the time it was registered for), None without event time."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Times, and timers of the current key."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The current key: a scalar for one key column, a tuple for more."""


class OnTimerContext(Context):
    """Given to ``on_timer``."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Which clock fired."""

    @abstractmethod
    def namespace(self) -> Any:
        """The namespace the timer was registered with; None is the default one."""


_Context: TypeAlias = Context
_OnTimerContext: TypeAlias = OnTimerContext


class KeyedFunction:
    """The user's code on a keyed stream, whatever it is called with. An author extends a kind of it:
    ``KeyedProcessFunction`` or ``KeyedBatchFunction``."""

    inputs: ClassVar[str] = "one keyed stream"
    """The streams that it runs on."""
    undo_refusal: ClassVar[str] = ""
    """Why the changes of one record cannot be undone, as ``on_error="side-output"`` asks; empty: they can."""
    judges_lateness: ClassVar[bool] = False
    """Whether the function itself finds and counts late rows, as windows do: it is given every row then."""

    @property
    def operator_title(self) -> str:
        """The function's name on the job's page: its class, or the calls, such as ``window(…)``, that made it."""
        return type(self).__name__

    @property
    def state_premises(self) -> Mapping[str, str]:
        """Facts beside types on which the meaning of the function's state depends, by names that a person knows. A
        snapshot keeps them, and a restore with others is refused. Functions of ours have some, such as windows; those
        of a job's author have none. A function that had none needs a rule for stored state before it gets some:
        snapshots say that it had none."""
        return {}

    @property
    def author_object(self) -> object:
        """The author's object that the function calls, where ``map`` or ``window(…)`` made the function; else the
        function itself. It may be a ``CheckpointedFunction`` or a ``CheckpointListener``."""
        return self

    @property
    def needs_event_time(self) -> bool:
        """Whether it fails at a row without event time."""
        return False

    def after_rejected_timer(self) -> Iterable[Callable[[int, OnTimerContext], object]]:
        """The calls that are left for a timer that was rejected and undone, as ``on_error="side-output"`` asks.

        They are like those of ``on_timer``, and made one after another until one does not fail. None of them puts
        anything out. Windows have some, because they end all the same; other functions have none."""
        return ()

    def finish(self) -> Iterable[Any] | None:
        """Called once when a bounded input has ended, and at a drain, after the last timer. Yields what is left to put
        out; there is no key, so keyed state and timers cannot be used. Does nothing unless overridden."""


class KeyedProcessFunction(KeyedFunction):
    """The user's code for the records of a keyed stream."""

    Context: TypeAlias = _Context
    """As PyFlink names it in annotations: ``ctx: KeyedProcessFunction.Context``."""
    OnTimerContext: TypeAlias = _OnTimerContext

    def open(self, ctx: RuntimeContext) -> None:
        """Called once in every slot, after the state was restored and before the first record."""

    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        """Called for every record, ``value`` being a row with the columns as attributes. Yields output rows."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process_element")

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """Called for every due timer, in order of time. Yields output rows. Does nothing unless overridden."""

    def close(self) -> None:
        """Called once at the end, also after a failure. It emits nothing: ``finish`` does."""
