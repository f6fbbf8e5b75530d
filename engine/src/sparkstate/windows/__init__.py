"""Windows of a keyed stream: assigners, triggers, evictors, functions. Names and meaning are PyFlink's.

``operation`` puts them together; the result is a ``KeyedProcessFunction`` of sparkstate's own, so a window's contents,
its trigger's state and its timers are keyed state like any other: they spill, they are in every checkpoint, and they
move between backends and parallelisms. The room knows functions and state. It knows no operator and no Spark.
"""

from __future__ import annotations

from sparkstate.durations import Time
from sparkstate.windows.assigner import MergingWindowAssigner, WindowAssigner
from sparkstate.windows.count_triggers import CountTrigger, NeverTrigger, PurgingTrigger
from sparkstate.windows.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from sparkstate.windows.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from sparkstate.windows.functions import ProcessWindowFunction, WindowFunction
from sparkstate.windows.operation import WindowOperation, over
from sparkstate.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from sparkstate.windows.time_triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
)
from sparkstate.windows.time_windows import (
    GlobalWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from sparkstate.windows.trigger import Trigger, TriggerResult
from sparkstate.windows.window import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "DeltaEvictor",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "Time",
    "TimeEvictor",
    "TimeWindow",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowOperation",
    "over",
]
