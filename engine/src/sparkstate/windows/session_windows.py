"""Assigners of sessions: windows that go on as long as rows come within a gap of each other. Names are PyFlink's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar

from sparkstate import durations, errors
from sparkstate.windows import time_triggers, time_windows
from sparkstate.windows.assigner import MergingWindowAssigner, WindowAssignerContext
from sparkstate.windows.trigger import Trigger
from sparkstate.windows.window import MergeCallback, TimeWindow, time_window


class SessionWindowTimeGapExtractor(ABC):
    """Reads the gap of a session from a row."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The time without rows after this row that ends its session, in ms; more than 0."""


class _Sessions(MergingWindowAssigner):
    """The common part. ``gap`` is a number of ms, or an extractor."""

    merges_what_touches: ClassVar[bool] = True

    def __init__(self, gap: int | SessionWindowTimeGapExtractor | Callable[[Any], int]) -> None:
        self.gap = gap
        self._extract = gap.extract if isinstance(gap, SessionWindowTimeGapExtractor) else gap

    def assign_windows(
        self, element: Any, timestamp: int | None, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        moment = timestamp if self.is_event_time() else context.get_current_processing_time()
        if moment is None:
            time_windows.refuse_missing_time(self)
        return (time_window(moment, self._gap_of(element)),)

    @property
    def assigner_title(self) -> str:
        gap = f"a gap of {durations.text(self.gap)}" if isinstance(self.gap, int) else "a dynamic gap"
        return f"{type(self).__name__} with {gap}"

    def _gap_of(self, element: Any) -> int:
        if isinstance(self._extract, int):
            return self._extract
        gap = self._extract(element)
        if not isinstance(gap, int) or isinstance(gap, bool) or gap <= 0:
            raise errors.StateError(
                f"the gap of a session is {gap!r}; with_dynamic_gap's extractor must return whole milliseconds, more "
                "than 0"
            )
        return gap

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_default_trigger(self, env: Any = None) -> Trigger:
        if self.is_event_time():
            return time_triggers.EventTimeTrigger.create()
        return time_triggers.ProcessingTimeTrigger.create()

    def __repr__(self) -> str:
        gap = f"gap={self.gap} ms" if isinstance(self.gap, int) else f"gap by {self.gap!r}"
        return f"{type(self).__name__}({gap})"


def _checked(name: str, extractor: Any) -> SessionWindowTimeGapExtractor | Callable[[Any], int]:
    if isinstance(extractor, SessionWindowTimeGapExtractor) or (
        callable(extractor) and not isinstance(extractor, type)
    ):
        return extractor
    raise errors.SpecInvalid(
        f"{name}.with_dynamic_gap({extractor!r}): pass a SessionWindowTimeGapExtractor object, or a function of the "
        "row that returns milliseconds"
    )


class EventTimeSessionWindows(_Sessions):
    """Sessions by the event time of the rows."""

    @staticmethod
    def with_gap(size: durations.Duration) -> EventTimeSessionWindows:
        """Sessions that end after ``size`` without a row."""
        return EventTimeSessionWindows(
            durations.positive_ms(size, "EventTimeSessionWindows.with_gap(size=…)")
        )

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicEventTimeSessionWindows:
        """Sessions whose gap is read from each row."""
        return DynamicEventTimeSessionWindows(_checked("EventTimeSessionWindows", extractor))

    def is_event_time(self) -> bool:
        return True


class DynamicEventTimeSessionWindows(EventTimeSessionWindows):
    """Sessions by event time whose gap is read from each row."""


class ProcessingTimeSessionWindows(_Sessions):
    """Sessions by wall time."""

    @staticmethod
    def with_gap(size: durations.Duration) -> ProcessingTimeSessionWindows:
        """Sessions that end after ``size`` without a row."""
        return ProcessingTimeSessionWindows(
            durations.positive_ms(size, "ProcessingTimeSessionWindows.with_gap(size=…)")
        )

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], int],
    ) -> DynamicProcessingTimeSessionWindows:
        """Sessions whose gap is read from each row."""
        return DynamicProcessingTimeSessionWindows(_checked("ProcessingTimeSessionWindows", extractor))

    def is_event_time(self) -> bool:
        return False


class DynamicProcessingTimeSessionWindows(ProcessingTimeSessionWindows):
    """Sessions by wall time whose gap is read from each row."""
