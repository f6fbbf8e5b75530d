"""The premises of the state of windows (``checkpoint.premises``).

Between two runs a job may change the size of windows of time, or their lateness. It may not change what kind of windows
there are, when they fire, or what they keep.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkstate.windows.assigner import MergingWindowAssigner, WindowAssigner
from sparkstate.windows.count_windows import CountSlidingWindowAssigner
from sparkstate.windows.time_windows import GlobalWindows
from sparkstate.windows.trigger import Trigger


def premises_of(assigner: WindowAssigner, trigger: Trigger, contents: str) -> Mapping[str, str]:
    """Of an operator. Windows of time carry their bounds with them, so their size is not among them; count windows have
    numbers, which mean other rows with another size."""
    found = {
        "kind of windows": _kind(assigner),
        "trigger": _trigger(trigger),
        "contents of a window": contents,
    }
    if isinstance(assigner, CountSlidingWindowAssigner):
        found["size of windows"], found["slide of windows"] = (
            f"{assigner.size} rows",
            f"{assigner.slide} rows",
        )
    return found


def _kind(assigner: WindowAssigner) -> str:
    if isinstance(assigner, CountSlidingWindowAssigner):
        return "count windows"
    if isinstance(assigner, GlobalWindows):
        return "the global window"
    time = "event time" if assigner.is_event_time() else "processing time"
    merging = "that merge" if isinstance(assigner, MergingWindowAssigner) else "that do not merge"
    return f"windows of {time} {merging}"


def _trigger(trigger: Trigger) -> str:
    """By class: one that fires more often, or later, goes on with the timers that are there."""
    nested = getattr(trigger, "nested_trigger", None)
    name = type(trigger).__name__
    return f"{name} of {_trigger(nested)}" if isinstance(nested, Trigger) else name
