"""The states of a window function belong to the key or to a window; no call moves one to the other."""

from __future__ import annotations

import pytest

from sparkstate import errors, windows
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness

ROW = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
SLIDING = windows.SlidingEventTimeWindows.of(20, 10)


class Counting(windows.ProcessWindowFunction):
    """Counts firings with a state that ``open`` asked for."""

    FIRINGS = ValueStateDescriptor("firings", Types.LONG())

    def __init__(self, asks_for_window_state: bool) -> None:
        self.asks_for_window_state = asks_for_window_state

    def open(self, ctx):
        self.firings = ctx.get_state(self.FIRINGS)

    def process(self, key, context, elements):
        self.firings.update((self.firings.value() or 0) + 1)
        yield context.global_state().get_state(self.FIRINGS).value()
        if self.asks_for_window_state:
            context.window_state().get_state(self.FIRINGS).update(100)


def driven(asks_for_window_state: bool) -> KeyedProcessHarness:
    operation = windows.over(SLIDING).trigger(windows.CountTrigger.of(1))
    function = operation.process(Counting(asks_for_window_state), element_type=ROW)
    return KeyedProcessHarness(function, key=lambda row: row.key, key_type=Types.STRING())


def test_a_state_that_open_asked_for_is_that_of_the_key_in_every_window() -> None:
    with driven(asks_for_window_state=False) as job:
        job.process_element({"key": "a", "value": 1}, 15)
        assert job.output() == [1, 2]
        assert job.state("firings", "a") == 2


def test_a_state_that_open_asked_for_cannot_be_one_of_the_window() -> None:
    with (
        driven(asks_for_window_state=True) as job,
        pytest.raises(
            errors.UserCodeError,
            match=r"'firings' is asked for .*open\(\) asked for it as a state of the key",
        ),
    ):
        job.process_element({"key": "a", "value": 1}, 15)
