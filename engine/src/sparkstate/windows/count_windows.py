"""Assigners of windows of a number of rows of a key. Names are PyFlink's."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sparkstate import errors
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.windows.assigner import WindowAssigner, WindowAssignerContext
from sparkstate.windows.count_triggers import CountTrigger
from sparkstate.windows.trigger import Trigger
from sparkstate.windows.window import CountWindow


class CountSlidingWindowAssigner(WindowAssigner):
    """Windows of ``window_size`` rows of a key, of which one starts every ``window_slide`` rows.

    The number of rows of a key so far is a state, and stays as long as the key.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        self.size = _count("window_size", window_size)
        self.slide = _count("window_slide", window_slide)
        self._rows = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """The assigner; both are numbers of rows."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: Any, timestamp: int | None, context: WindowAssignerContext
    ) -> Collection[CountWindow]:
        rows = context.get_runtime_context().get_state(self._rows)
        before = rows.value() or 0
        rows.update(before + 1)
        last, slide = before // self.slide, self.slide
        first = max(0, -(-(before - self.size + 1) // slide))
        return [CountWindow(number) for number in range(last, first - 1, -1)]

    @property
    def assigner_title(self) -> str:
        every = "" if self.slide == self.size else f" every {self.slide}"
        return f"{type(self).__name__} of {self.size} rows{every}"

    def completes(self, window: CountWindow, context: WindowAssignerContext) -> bool:
        """Whether the row that was just assigned is the window's last one."""
        rows = context.get_runtime_context().get_state(self._rows).value() or 0
        return rows == window.id * self.slide + self.size

    def get_default_trigger(self, env: Any = None) -> Trigger:
        return CountTrigger.of(self.size)

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        slide = "" if self.slide == self.size else f", slide={self.slide}"
        return f"{type(self).__name__}(size={self.size}{slide})"


class CountTumblingWindowAssigner(CountSlidingWindowAssigner):
    """Windows of ``window_size`` rows of a key, one after another."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size)
        self._rows = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int | None = None) -> CountTumblingWindowAssigner:
        """The assigner of windows of that many rows."""
        if window_slide not in (None, window_size):
            raise errors.SpecInvalid(
                f"CountTumblingWindowAssigner.of(window_slide={window_slide!r}): use CountSlidingWindowAssigner"
            )
        return CountTumblingWindowAssigner(window_size)


def _count(name: str, rows: int) -> int:
    if not isinstance(rows, int) or isinstance(rows, bool) or not 0 < rows < 2**63:
        raise errors.SpecInvalid(
            f"a count window's {name} is {rows!r}; give a whole number of rows, at least 1"
        )
    return rows
