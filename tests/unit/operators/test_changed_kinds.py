"""State and timers of a process function do not come to an operator of ours that takes its place, and the reverse."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate import errors, windows
from sparkstate.connected_functions import KeyedCoProcessFunction
from sparkstate.functions import KeyedProcessFunction
from sparkstate.keyed_functions.interval_join import ProcessJoinFunction
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness, typed_stream
from sparkstate.testing.two_input_harness import KeyedCoProcessHarness

STREAM = typed_stream.keyed(Types.ROW_NAMED(["user", "amount"], [Types.LONG(), Types.LONG()]), "user")
ROW = {"user": 1, "amount": 2}


class Alarms(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(100)


class Stateless(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class PairAlarms(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(100)

    def process_element2(self, value: Any, ctx: Any) -> None:
        pass


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left.user, left.amount, right.amount


def sessions() -> KeyedProcessFunction:
    gap = windows.EventTimeSessionWindows.with_gap(10)
    return STREAM.window(gap).reduce(lambda one, other: one, value_type=STREAM.row_type)


def harness(function: KeyedProcessFunction) -> KeyedProcessHarness:
    return KeyedProcessHarness(function, key=STREAM.key, key_type=STREAM.key_type)


def test_timers_of_a_process_function_are_no_timers_of_windows() -> None:
    with harness(Alarms()) as before, harness(sessions()) as now:
        before.process_element(ROW, 5)
        with pytest.raises(
            errors.StateMigrationError, match=r"function was one of another kind .* windows of event time"
        ):
            now.restore(before.snapshot())
        now.process_element(ROW, 5)  # It goes on as it was.


def test_timers_of_a_process_function_are_no_timers_of_an_interval_join() -> None:
    join = STREAM.interval_join(STREAM).between(-10, 10).process(Pairs())
    with (
        KeyedCoProcessHarness(PairAlarms(), key=STREAM.key, key_type=STREAM.key_type) as before,
        KeyedCoProcessHarness(join, key=STREAM.key, key_type=STREAM.key_type) as now,
    ):
        before.process_element1(ROW, 5)
        with pytest.raises(
            errors.StateMigrationError, match="is now one with lower bound: -10 ms, upper bound: 10 ms"
        ):
            now.restore(before.snapshot())


def test_a_function_without_state_may_become_windows() -> None:
    with harness(Stateless()) as before, harness(sessions()) as now:
        before.process_element(ROW, 5)
        now.restore(before.snapshot())
        now.process_element(ROW, 50)
        now.process_watermark(200)
        assert len(now.output()) == 1
