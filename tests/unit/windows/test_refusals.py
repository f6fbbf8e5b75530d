"""Arguments that cannot work are refused where they are given, with the argument, its value and the remedy."""

from __future__ import annotations

import contextlib
import datetime
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import durations, errors, windows
from sparkstate.functions import AggregateFunction, OutputTag
from sparkstate.serde.types import Types
from sparkstate.windows import Time

TUMBLING = windows.TumblingEventTimeWindows.of("5 min")
SESSIONS = windows.EventTimeSessionWindows.with_gap(Time.seconds(3))
BY_THE_CLOCK = windows.TumblingProcessingTimeWindows.of(10)
LONG = Types.LONG()


class NoMerge(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator

    def get_result(self, accumulator):
        return accumulator


class Process(windows.ProcessWindowFunction):
    def process(self, key, context, elements):
        return []


class Apply(windows.WindowFunction):
    def apply(self, key, window, inputs):
        return []


class BadDefault(windows.GlobalWindows):
    def get_default_trigger(self, env=None):
        return "never"


over = windows.over
WRONG: dict[str, tuple[Any, str]] = {
    "negative size": (lambda: windows.TumblingEventTimeWindows.of(-5), r"TumblingEventTimeWindows.of\(size=…\) is -5"),
    "no size": (lambda: windows.SlidingProcessingTimeWindows.of("0 s", 5), "longer than 0 ms"),
    "no slide": (lambda: windows.SlidingEventTimeWindows.of(5, 0), r"of\(slide=…\) is 0"),
    "text": (lambda: windows.TumblingEventTimeWindows.of("soon"), "write a duration"),
    "truth": (lambda: windows.TumblingEventTimeWindows.of(True), "give Time.minutes"),
    "fraction": (lambda: windows.TumblingEventTimeWindows.of(1.5), "whole milliseconds"),
    "microseconds": (
        lambda: windows.TumblingEventTimeWindows.of(datetime.timedelta(microseconds=1500)),
        "whole milliseconds",
    ),
    "too long": (lambda: windows.TumblingEventTimeWindows.of(2**63), "give less"),
    "offset": (lambda: windows.TumblingEventTimeWindows.of(10, 10), "shorter than the size, which is 10 ms"),
    "negative offset": (lambda: windows.SlidingEventTimeWindows.of(10, 5, -5), "shorter than the slide, which is 5 ms"),
    "gap": (lambda: windows.EventTimeSessionWindows.with_gap(0), r"with_gap\(size=…\) is 0"),
    "extractor": (lambda: windows.EventTimeSessionWindows.with_dynamic_gap(5), "SessionWindowTimeGapExtractor"),
    "rows": (lambda: windows.CountTumblingWindowAssigner.of(0), "window_size is 0"),
    "slide in rows": (lambda: windows.CountSlidingWindowAssigner.of(3, 1.0), "window_slide is 1.0"),
    "count": (lambda: windows.CountTrigger.of(True), r"CountTrigger.of\(window_size=True\)"),
    "interval": (lambda: windows.ContinuousEventTimeTrigger.of(0), r"of\(interval=…\) is 0"),
    "nested": (lambda: windows.PurgingTrigger.of(windows.CountTrigger), "pass a Trigger object"),
    "evicted rows": (lambda: windows.CountEvictor.of(-1), r"max_count=-1"),
    "evicted time": (lambda: windows.TimeEvictor.of(0), r"of\(window_size=…\) is 0"),
    "delta": (lambda: windows.DeltaEvictor.of(1, None), "delta_function=None"),
    "assigner": (lambda: over(windows.GlobalWindows), "create an instance of the class"),
    "size alone": (lambda: over(Time.minutes(5)), "pass a WindowAssigner"),
    "trigger": (lambda: over(TUMBLING).trigger(windows.CountTrigger), "pass a Trigger object"),
    "trigger that cannot merge": (lambda: over(SESSIONS).trigger(windows.NeverTrigger()), "let can_merge return True"),
    "evictor": (lambda: over(TUMBLING).evictor(5), "pass an Evictor object"),
    "lateness": (lambda: over(TUMBLING).allowed_lateness(-1), "0 ms or more"),
    "lateness by the clock": (lambda: over(BY_THE_CLOCK).allowed_lateness(1), "do not end by event time"),
    "late data by the clock": (lambda: over(BY_THE_CLOCK).side_output_late_data(OutputTag("l")), "no row is late"),
    "late data": (lambda: over(TUMBLING).side_output_late_data("late"), "pass an OutputTag"),
    "reduce": (lambda: over(TUMBLING).reduce(5, value_type=LONG), "a ReduceFunction object or a function"),
    "value type": (lambda: over(TUMBLING).reduce(min, value_type=int), r"reduce\(value_type=…\) is <class 'int'>"),
    "aggregate": (lambda: over(TUMBLING).aggregate(NoMerge, accumulator_type=LONG), "create an instance"),
    "accumulator type": (lambda: over(TUMBLING).aggregate(NoMerge(), accumulator_type=None), "accumulator_type=…"),
    "no merge": (lambda: over(SESSIONS).aggregate(NoMerge(), accumulator_type=LONG), r"define merge\(acc_a, acc_b\)"),
    "rows of an evictor": (
        lambda: over(TUMBLING).evictor(windows.CountEvictor.of(1)).aggregate(NoMerge(), accumulator_type=LONG),
        "element_type=….*keeps all rows",
    ),
    "window function": (
        lambda: over(TUMBLING).reduce(min, Process, value_type=LONG),
        "window_function=.*create an instance",
    ),
    "process": (lambda: over(TUMBLING).process(min, element_type=LONG), "pass a ProcessWindowFunction object"),
    "apply": (lambda: over(TUMBLING).apply(Process(), element_type=LONG), "pass a WindowFunction object"),
    "element type": (lambda: over(TUMBLING).process(Process(), element_type="long"), "made by Types"),
    "default trigger": (lambda: over(BadDefault()).process(Process(), element_type=LONG), "return a Trigger object"),
}  # fmt: skip


@pytest.mark.parametrize(("attempt", "told"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_refused_with_the_remedy(attempt: Any, told: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=told):
        attempt()


def test_what_flink_allows_is_allowed() -> None:
    assert windows.SlidingEventTimeWindows.of(5, 20).windows_at(7) == []
    assert windows.SlidingEventTimeWindows.of(5, 20).windows_at(21) == [windows.TimeWindow(20, 25)]
    assert windows.TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8)).windows_at(0) == [
        windows.TimeWindow(-28_800_000, 57_600_000)
    ]
    over(SESSIONS).evictor(windows.CountEvictor.of(1)).aggregate(
        NoMerge(), accumulator_type=LONG, element_type=LONG
    )


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.timedeltas(),
    st.builds(Time, st.integers()),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
)


@given(size=ANYTHING, slide=ANYTHING, offset=ANYTHING)
def test_any_argument_gives_windows_or_a_clear_refusal(size: Any, slide: Any, offset: Any) -> None:
    for make in (
        lambda: windows.TumblingEventTimeWindows.of(size, offset),
        lambda: windows.SlidingEventTimeWindows.of(size, slide, offset),
        lambda: windows.EventTimeSessionWindows.with_gap(size),
        lambda: windows.CountSlidingWindowAssigner.of(size, slide),
        lambda: windows.CountEvictor.of(size),
        lambda: windows.ContinuousProcessingTimeTrigger.of(size),
        lambda: over(TUMBLING).allowed_lateness(size),
    ):
        with contextlib.suppress(errors.SpecInvalid):
            assert make() is not None


ONE_ARGUMENT: dict[str, Any] = {
    "TumblingEventTimeWindows.of(size": windows.TumblingEventTimeWindows.of,
    "TumblingProcessingTimeWindows.of(size": windows.TumblingProcessingTimeWindows.of,
    "TumblingEventTimeWindows.of(offset": lambda it: windows.TumblingEventTimeWindows.of(10, it),
    "SlidingEventTimeWindows.of(size": lambda it: windows.SlidingEventTimeWindows.of(it, 10),
    "SlidingProcessingTimeWindows.of(slide": lambda it: windows.SlidingProcessingTimeWindows.of(10, it),
    "SlidingEventTimeWindows.of(offset": lambda it: windows.SlidingEventTimeWindows.of(10, 5, it),
    "EventTimeSessionWindows.with_gap(size": windows.EventTimeSessionWindows.with_gap,
    "ProcessingTimeSessionWindows.with_gap(size": windows.ProcessingTimeSessionWindows.with_gap,
    "with_dynamic_gap(": windows.EventTimeSessionWindows.with_dynamic_gap,
    "window_size": windows.CountTumblingWindowAssigner.of,
    "window_slide": lambda it: windows.CountSlidingWindowAssigner.of(3, it),
    "CountTrigger.of(window_size": windows.CountTrigger.of,
    "ContinuousEventTimeTrigger.of(interval": windows.ContinuousEventTimeTrigger.of,
    "ContinuousProcessingTimeTrigger.of(interval": windows.ContinuousProcessingTimeTrigger.of,
    "PurgingTrigger.of(": windows.PurgingTrigger.of,
    "CountEvictor.of(max_count": windows.CountEvictor.of,
    "TimeEvictor.of(window_size": windows.TimeEvictor.of,
    "DeltaEvictor.of(threshold": lambda it: windows.DeltaEvictor.of(it, min),
    "DeltaEvictor.of(delta_function": lambda it: windows.DeltaEvictor.of(1, it),
    "window(": over,
    "trigger(": lambda it: over(TUMBLING).trigger(it),
    "evictor(": lambda it: over(TUMBLING).evictor(it),
    "allowed_lateness(": lambda it: over(TUMBLING).allowed_lateness(it),
    "side_output_late_data(": lambda it: over(TUMBLING).side_output_late_data(it),
    "reduce(": lambda it: over(TUMBLING).reduce(it, value_type=LONG),
    "reduce(value_type": lambda it: over(TUMBLING).reduce(min, value_type=it),
    "aggregate(": lambda it: over(TUMBLING).aggregate(it, accumulator_type=LONG),
    "process(": lambda it: over(TUMBLING).process(it, element_type=LONG),
    "apply(element_type": lambda it: over(TUMBLING).apply(Apply(), element_type=it),
}
"""By what the message has to name: calls whose one argument is whatever comes."""


@pytest.mark.parametrize("field", list(ONE_ARGUMENT))
@given(it=ANYTHING)
def test_a_refusal_names_the_argument_its_value_and_a_remedy(field: str, it: Any) -> None:
    try:
        assert ONE_ARGUMENT[field](it) is not None
    except errors.SpecInvalid as refused:
        message = str(refused)
        assert field in message
        assert repr(it) in message or f" {it}" in message
        assert re.search(r"\b(must|give|write|pass|longer than|shorter than)\b", message)


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_windows_at_the_ends_of_time_are_cut_and_can_be_stored(moment: int, size: int) -> None:
    (window,) = windows.TumblingEventTimeWindows.of(size).windows_at(moment)
    assert -(2**63) <= window.start <= moment < window.end <= 2**63 - 1 or window.end == 2**63 - 1
    session = windows.EventTimeSessionWindows.with_gap(size).assign_windows(None, moment, None)
    assert all(-(2**63) <= bound < 2**63 for window in session for bound in window)


def test_lengths_are_read_in_every_form() -> None:
    forms: list[Any] = [
        Time.minutes(5),
        "5 minutes",
        "300 s",
        300_000,
        datetime.timedelta(minutes=5),
        "5 min",
    ]
    assert {durations.milliseconds(form, "it") for form in forms} == {300_000}
    assert [Time.milliseconds(1), Time.seconds(1), Time.hours(1), Time.days(1)] == [
        Time(1), Time(1_000), Time(3_600_000), Time(86_400_000),
    ]  # fmt: skip
