"""Assigners of windows of a fixed length, and of the one global window. Names are PyFlink's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, NoReturn, Self

from sparkstate import durations, errors
from sparkstate.windows import time_triggers
from sparkstate.windows.assigner import WindowAssigner, WindowAssignerContext
from sparkstate.windows.count_triggers import NeverTrigger
from sparkstate.windows.trigger import Trigger
from sparkstate.windows.window import GLOBAL, GlobalWindow, TimeWindow, time_window


def refuse_missing_time(assigner: WindowAssigner) -> NoReturn:
    """For a row without event time where windows need one."""
    raise errors.StateError(
        f"a row without event time has no place in {assigner!r}: its event-time column is null, or finish() of "
        "an operator yielded it; fill the column, filter such rows out before keyed(), or use windows of processing "
        "time"
    )


class FixedWindows(WindowAssigner):
    """The common part: windows of ``size`` ms that start every ``slide`` ms, counted from ``offset``."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self.size, self.slide, self.offset = size, slide, offset
        self.in_event_time = self.is_event_time()

    @abstractmethod
    def is_event_time(self) -> bool: ...

    def assign_windows(
        self, element: Any, timestamp: int | None, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        moment = timestamp if self.in_event_time else context.get_current_processing_time()
        if moment is None:
            refuse_missing_time(self)
        return self.windows_at(moment)

    @property
    def assigner_title(self) -> str:
        every = "" if self.slide == self.size else f" every {durations.text(self.slide)}"
        return f"{type(self).__name__} of {durations.text(self.size)}{every}"

    def windows_at(self, moment: int) -> list[TimeWindow]:
        """The windows that hold this moment (ms), the latest first."""
        last, size = moment - (moment - self.offset) % self.slide, self.size
        return [time_window(start, size) for start in range(last, moment - size, -self.slide)]

    def get_default_trigger(self, env: Any = None) -> Trigger:
        if self.in_event_time:
            return time_triggers.EventTimeTrigger.create()
        return time_triggers.ProcessingTimeTrigger.create()

    def __repr__(self) -> str:
        slide = "" if self.slide == self.size else f"slide={self.slide} ms, "
        return f"{type(self).__name__}(size={self.size} ms, {slide}offset={self.offset} ms)"


class _TumblingWindows(FixedWindows):
    @classmethod
    def of(cls, size: durations.Duration, offset: durations.Duration | None = None) -> Self:
        """Windows of ``size``, one after another. They start at ``offset`` from the Unix epoch and at whole sizes from
        there: ``of(Time.days(1), "8 hours")`` begins a day at 08:00 UTC. ``offset`` may be negative; it is shorter
        than ``size``, without its sign."""
        name = cls.__name__
        length = durations.positive_ms(size, f"{name}.of(size=…)")
        return cls(length, length, _offset(name, offset, "size", length))

    def windows_at(self, moment: int) -> list[TimeWindow]:
        size = self.slide
        return [time_window(moment - (moment - self.offset) % size, size)]


class _SlidingWindows(FixedWindows):
    @classmethod
    def of(
        cls,
        size: durations.Duration,
        slide: durations.Duration,
        offset: durations.Duration | None = None,
    ) -> Self:
        """Windows of ``size``, of which one starts every ``slide``. A row is in ``size / slide`` of them; where
        ``slide`` is longer than ``size`` there are gaps whose rows are in none. ``offset`` is shorter than ``slide``
        and may be negative."""
        name = cls.__name__
        length = durations.positive_ms(size, f"{name}.of(size=…)")
        step = durations.positive_ms(slide, f"{name}.of(slide=…)")
        return cls(length, step, _offset(name, offset, "slide", step))


def _offset(name: str, offset: durations.Duration | None, bound: str, bound_ms: int) -> int:
    found = 0 if offset is None else durations.milliseconds(offset, f"{name}.of(offset=…)")
    if abs(found) >= bound_ms:
        raise errors.SpecInvalid(
            f"{name}.of(offset={offset!r}): the offset must be shorter than the {bound}, which is {bound_ms} ms"
        )
    return found


class TumblingEventTimeWindows(_TumblingWindows):
    """Windows of one length, one after another, by the event time of the rows."""

    def is_event_time(self) -> bool:
        return True


class TumblingProcessingTimeWindows(_TumblingWindows):
    """Windows of one length, one after another, by wall time."""

    def is_event_time(self) -> bool:
        return False


class SlidingEventTimeWindows(_SlidingWindows):
    """Windows of one length that overlap, by the event time of the rows."""

    def is_event_time(self) -> bool:
        return True


class SlidingProcessingTimeWindows(_SlidingWindows):
    """Windows of one length that overlap, by wall time."""

    def is_event_time(self) -> bool:
        return False


class GlobalWindows(WindowAssigner):
    """All rows of a key in one window. It never ends: a trigger has to be named for it to put out anything."""

    @staticmethod
    def create() -> GlobalWindows:
        """The assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int | None, context: WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return (GLOBAL,)

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return NeverTrigger()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
