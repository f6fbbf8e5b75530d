"""Evictors: they remove rows from a window before or after its function is called. Names are Flink's.

Where there is an evictor, a window keeps all of its rows, also under ``reduce`` and ``aggregate``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from sparkstate import durations, errors

T = TypeVar("T")


class _ValuePair(NamedTuple):
    value: Any
    timestamp: int | None


class TimestampedValue(_ValuePair, Generic[T]):
    """A row of a window (``value``) and its event time in ms (``timestamp``, None without one)."""

    __slots__ = ()


class EvictorContext(ABC):
    """Given to an evictor."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """The watermark in ms; ``MIN_WATERMARK`` before the first."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Wall time in ms: fixed for the whole epoch."""


_Context: TypeAlias = EvictorContext


class Evictor(ABC):
    """Removes rows from a window. One object serves all keys and windows."""

    EvictorContext: TypeAlias = _Context

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        """Called before the window's function: delete from the list what is not to be seen. ``size`` is its length."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        """Called after the window's function: delete from the list what the window is to forget."""


class _BuiltIn(Evictor):
    """The common part: the same rule before or after the function."""

    def __init__(self, do_evict_after: bool) -> None:
        self.do_evict_after = bool(do_evict_after)

    def evict_before(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        if not self.do_evict_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue[Any]], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        if self.do_evict_after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        """The rule."""


class CountEvictor(_BuiltIn):
    """Keeps the last ``max_count`` rows."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if not isinstance(max_count, int) or isinstance(max_count, bool) or max_count < 0:
            raise errors.SpecInvalid(
                f"CountEvictor.of(max_count={max_count!r}): give a whole number of rows, 0 or more"
            )
        self.max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """The evictor that keeps the last ``max_count`` rows."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        del elements[: max(0, len(elements) - self.max_count)]


class TimeEvictor(_BuiltIn):
    """Keeps the rows less than ``window_size`` older than the newest. Rows without event time are all kept."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.window_size = window_size

    @staticmethod
    def of(window_size: durations.Duration, do_evict_after: bool = False) -> TimeEvictor:
        """The evictor that keeps rows less than ``window_size`` older than the newest."""
        return TimeEvictor(
            durations.positive_ms(window_size, "TimeEvictor.of(window_size=…)"), do_evict_after
        )

    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        stamps = [element.timestamp for element in elements if element.timestamp is not None]
        if not stamps:
            return
        cutoff = max(stamps) - self.window_size
        elements[:] = [each for each in elements if each.timestamp is None or each.timestamp > cutoff]


class DeltaEvictor(_BuiltIn):
    """Removes the rows whose difference from the last one, by a function of both, is ``threshold`` or more."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        if not callable(delta_function):
            raise errors.SpecInvalid(
                f"DeltaEvictor.of(delta_function={delta_function!r}): pass a function of two rows that returns a number"
            )
        self.threshold = threshold
        self._delta = delta_function

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> DeltaEvictor:
        """The evictor; ``delta_function(old, last)`` is the difference of a row from the last one."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[Any]]) -> None:
        if elements:
            last = elements[-1].value
            # Not "less than": as in Flink, a delta that is NaN is no reason to remove a row.
            elements[:] = [each for each in elements if not self._delta(each.value, last) >= self.threshold]
