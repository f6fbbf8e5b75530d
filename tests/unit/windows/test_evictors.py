"""Each evictor by itself, before and after the function, and what the window keeps."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate import windows
from sparkstate.functions import AggregateFunction
from sparkstate.serde.row import Row
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

ROW = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])


class Values(windows.ProcessWindowFunction):
    def process(self, key, context, elements):
        yield [element.value for element in elements]


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value.value

    def get_result(self, accumulator):
        return (accumulator,)


class Alternate(windows.Evictor):
    """An author's: what the function sees has odd values only; afterwards the first row goes."""

    def evict_before(self, elements, size, window, ctx):
        assert size == len(elements)
        assert ctx.get_current_watermark() < window.max_timestamp()
        elements[:] = [each for each in elements if each.value.value % 2]

    def evict_after(self, elements, size, window, ctx):
        assert size == len(elements)
        elements.pop(0)


def outputs(evictor: windows.Evictor, rows: list[tuple[int, int | None]], by: str = "process") -> list[Any]:
    """What is put out at each of the rows (value, event time), all in one window that fires for each."""
    operation = (
        windows.over(windows.GlobalWindows.create()).trigger(windows.CountTrigger.of(1)).evictor(evictor)
    )
    if isinstance(evictor, Alternate):
        operation = (
            windows.over(windows.TumblingEventTimeWindows.of(100))
            .trigger(windows.CountTrigger.of(1))
            .evictor(evictor)
        )
    function = {
        "process": lambda: operation.process(Values(), element_type=ROW),
        "aggregate": lambda: operation.aggregate(Total(), accumulator_type=Types.LONG(), element_type=ROW),
        "reduce": lambda: operation.reduce(
            lambda a, b: Row.of(key=a.key, value=a.value + b.value), value_type=ROW
        ),
    }[by]()
    with KeyedProcessHarness(function, key=lambda row: row.key, key_type=Types.STRING()) as harness:
        for value, at in rows:
            harness.process_element({"key": "a", "value": value}, at)
        return harness.output()


def test_a_count_keeps_the_last_rows():
    rows = [(1, None), (2, None), (3, None)]
    assert outputs(windows.CountEvictor.of(2), rows) == [[1], [1, 2], [2, 3]]
    assert outputs(windows.CountEvictor.of(1, do_evict_after=True), rows) == [[1], [1, 2], [2, 3]]
    assert outputs(windows.CountEvictor.of(0), rows) == [[], [], []]


def test_a_time_keeps_rows_less_than_so_much_older_than_the_newest():
    rows = [(1, 10), (2, 14), (3, 15), (4, 11)]
    assert outputs(windows.TimeEvictor.of("5 ms"), rows) == [[1], [1, 2], [2, 3], [2, 3, 4]]
    assert outputs(windows.TimeEvictor.of(5, True), rows) == [[1], [1, 2], [1, 2, 3], [2, 3, 4]]
    assert outputs(windows.TimeEvictor.of(5), [(1, None), (2, None)]) == [[1], [1, 2]]


def test_a_delta_removes_rows_too_far_from_the_last():
    far = windows.DeltaEvictor.of(10.0, lambda old, last: abs(last.value - old.value))
    assert outputs(far, [(1, 0), (5, 0), (12, 0), (3, 0)]) == [[1], [1, 5], [5, 12], [5, 12, 3]]


@pytest.mark.parametrize("do_evict_after", [False, True], ids=["before", "after"])
def test_a_delta_that_is_nan_removes_no_row(do_evict_after: bool):
    nan = float("nan")
    numbers = {-1: nan, -2: nan}
    far = windows.DeltaEvictor.of(
        10.0,
        lambda old, last: numbers.get(last.value, last.value) - numbers.get(old.value, old.value),
        do_evict_after,
    )
    in_the_middle = outputs(far, [(1, 0), (-1, 0), (5, 0), (12, 0)])
    assert in_the_middle[-1] == ([1, -1, 5, 12] if do_evict_after else [-1, 5, 12])
    last = outputs(far, [(1, 0), (50, 0), (-1, 0), (-2, 0)])
    assert last[-1] == [50, -1, -2]


def test_an_authors_evictor_edits_the_list_before_and_after():
    assert outputs(Alternate(), [(1, 0), (3, 0), (5, 0)]) == [[1], [3], [5]]
    with pytest.raises(Exception, match="pop from empty list"):
        outputs(Alternate(), [(2, 0)])


def test_reduce_and_aggregate_fold_the_rows_that_are_left():
    rows = [(1, None), (2, None), (3, None)]
    assert outputs(windows.CountEvictor.of(2), rows, "aggregate") == [(1,), (3,), (5,)]
    assert [row.value for row in outputs(windows.CountEvictor.of(2), rows, "reduce")] == [1, 3, 5]


def test_where_no_row_is_left_an_aggregation_gives_its_empty_result_and_reduce_nothing():
    assert outputs(windows.CountEvictor.of(0), [(1, None)], "aggregate") == [(0,)]
    assert outputs(windows.CountEvictor.of(0), [(1, None)], "reduce") == []
