"""What the page calls operators of windows: the calls of the job's author."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sparkstate import windows
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.session_aggregation import SessionAggregation
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Count, Sum
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.functions import AggregateFunction
from sparkstate.serde.types import Types
from sparkstate.windows import Time

LONG = Types.LONG()


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a


class Named(windows.WindowFunction):
    def apply(self, key, window, inputs):
        return []


def newer(one: Any, other: Any) -> Any:
    return other


over = windows.over
OUTPUTS = (
    Output("total", "sum", Sum(pa.int64()), "v", pa.int64(), "sum(v)"),
    Output("rows", "count", Count(of_rows=True), None, definition="count(*)"),
)
TITLES: dict[str, Any] = {
    "window(TumblingEventTimeWindows of 1 min).aggregate(Total, Named)": over(
        windows.TumblingEventTimeWindows.of("60 s")
    ).aggregate(Total(), Named(), accumulator_type=LONG),
    "window(SlidingProcessingTimeWindows of 1 h every 90 s).trigger(CountTrigger).reduce(newer)": over(
        windows.SlidingProcessingTimeWindows.of("1 h", "90 s")
    )
    .trigger(windows.CountTrigger.of(4))
    .reduce(newer, value_type=LONG),
    "window(EventTimeSessionWindows with a gap of 1500 ms).evictor(CountEvictor).apply(Named)": over(
        windows.EventTimeSessionWindows.with_gap(1500)
    )
    .evictor(windows.CountEvictor.of(1))
    .apply(Named(), element_type=LONG),
    "window(DynamicProcessingTimeSessionWindows with a dynamic gap).aggregate(Total)": over(
        windows.ProcessingTimeSessionWindows.with_dynamic_gap(len)
    ).aggregate(Total(), accumulator_type=LONG),
    "window(CountSlidingWindowAssigner of 5 rows every 2).aggregate(Total)": over(
        windows.CountSlidingWindowAssigner.of(5, 2)
    ).aggregate(Total(), accumulator_type=LONG),
    "window(SlidingEventTimeWindows of 1 h every 1 min).agg(sum(v), count(*))": WindowAggregation(
        Slices(3_600_000, 60_000), ("k",), OUTPUTS
    ),
    "window(EventTimeSessionWindows with a gap of 90 s).agg(sum(v), count(*))": SessionAggregation(
        Slices(90_000, 90_000), ("k",), OUTPUTS
    ),
    "window(TumblingEventTimeWindows of 2 d).agg(sum(v), count(*))": WindowAggregation(
        Slices(Time.days(2).to_milliseconds(), Time.days(2).to_milliseconds()), ("k",), OUTPUTS
    ),
}


@pytest.mark.parametrize("wanted", list(TITLES))
def test_an_operator_of_windows_is_called_what_its_author_wrote(wanted: str) -> None:
    assert TITLES[wanted].operator_title == wanted
