"""Windows over a savepoint into a job that declares others under the same uid: what goes on, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate import errors, windows
from sparkstate.functions import AggregateFunction
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness
from sparkstate.windows import WindowFunction

ROW = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
TUMBLING = windows.TumblingEventTimeWindows.of(10)
SESSIONS = windows.EventTimeSessionWindows.with_gap(10)


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value.value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Named(WindowFunction):
    def apply(self, key, window, inputs):
        for each in inputs:
            yield window.start, window.end, each


def summing(operation: Any) -> Any:
    return operation.aggregate(Sum(), Named(), accumulator_type=Types.LONG(), element_type=ROW)


def over(assigner: Any, lateness: int = 0, trigger: Any = None) -> Any:
    operation = windows.over(assigner)
    operation = operation.allowed_lateness(lateness) if lateness else operation
    return summing(operation.trigger(trigger) if trigger else operation)


def harness(function: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(function, key=lambda row: row.key, key_type=Types.STRING())


def row(value: int) -> dict[str, Any]:
    return {"key": "a", "value": value}


GOES_ON: dict[str, tuple[Any, Any, list[Any]]] = {
    "size": (
        TUMBLING,
        windows.TumblingEventTimeWindows.of(100),
        [(10, 20, 1), (0, 100, 2)],
    ),
    "slide": (
        TUMBLING,
        windows.SlidingEventTimeWindows.of(10, 5),
        [(5, 15, 2), (10, 20, 3)],
    ),
    "gap": (SESSIONS, windows.EventTimeSessionWindows.with_gap(3), [(11, 21, 3)]),
    "dynamic gap": (
        SESSIONS,
        windows.EventTimeSessionWindows.with_dynamic_gap(lambda row: 30),
        [(11, 42, 3)],
    ),
}


@pytest.mark.parametrize(("before", "now", "wanted"), GOES_ON.values(), ids=list(GOES_ON))
def test_windows_that_are_open_keep_their_bounds(before: Any, now: Any, wanted: list[Any]) -> None:
    with harness(over(before)) as first, harness(over(now)) as second:
        first.process_element(row(1), 11)
        second.restore(first.snapshot())
        second.process_element(row(2), 12)
        second.process_watermark(1_000)
        assert second.output() == wanted
        assert left(second) == 0


def left(job: KeyedProcessHarness) -> int:
    """Entries of state and timers."""
    return sum(store.stats().rows for store in job._stores.values())


@pytest.mark.parametrize("assigner", [TUMBLING, SESSIONS], ids=["tumbling", "session"])
@pytest.mark.parametrize("before", [0, 5, 30])
@pytest.mark.parametrize("now", [0, 5, 30])
@pytest.mark.parametrize("fired", [False, True], ids=["open", "fired"])
def test_another_lateness_holds_for_windows_that_are_there_and_leaves_nothing_behind(
    assigner: Any, before: int, now: int, fired: bool
) -> None:
    with harness(over(assigner, before)) as first, harness(over(assigner, now)) as second:
        first.process_element(row(1), 0)
        if fired:
            first.process_watermark(9)
        second.restore(first.snapshot())
        late = []
        for watermark in range(8, 60):
            second.process_watermark(watermark)
            second.clear_output()
            if watermark in (12, 20):
                # The window ended at 9: it takes the row as long as the lateness of now, if it is still there.
                second.process_element(row(5), 0)
                late.append(second.output())
        open_before = not fired or before > 0
        if open_before:
            assert late[0] == ([(0, 10, 6)] if now > 3 else [])
        second.process_watermark(1_000)
        assert left(second) == 0
        assert second.num_event_timers() == 0


PURGING = windows.PurgingTrigger.of(windows.CountTrigger.of(2))
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "sessions": (
        over(TUMBLING),
        over(SESSIONS),
        "kind of windows was windows of event time that do not merge and is now windows of event time that merge",
    ),
    "processing time": (
        over(TUMBLING),
        over(windows.TumblingProcessingTimeWindows.of(10)),
        "is now windows of processing time",
    ),
    "global": (
        over(TUMBLING),
        over(windows.GlobalWindows.create(), trigger=PURGING),
        "is now the global window",
    ),
    "count windows": (
        over(windows.CountTumblingWindowAssigner.of(5)),
        over(windows.CountTumblingWindowAssigner.of(2)),
        "size of windows was 5 rows and is now 2 rows",
    ),
    "the slide of count windows": (
        over(windows.CountSlidingWindowAssigner.of(4, 2)),
        over(windows.CountSlidingWindowAssigner.of(4, 1)),
        "slide of windows was 2 rows and is now 1 rows",
    ),
    "the trigger": (
        over(TUMBLING, trigger=PURGING),
        over(TUMBLING),
        "trigger was PurgingTrigger of CountTrigger and is now EventTimeTrigger",
    ),
    "reduce": (
        windows.over(TUMBLING).reduce(lambda a, b: a, value_type=Types.LONG()),
        over(TUMBLING),
        "contents of a window was one value, by reduce and is now one value, by aggregate",
    ),
    "an evictor": (
        over(TUMBLING),
        summing(windows.over(TUMBLING).evictor(windows.CountEvictor.of(3))),
        "contents of a window was one value, by aggregate and is now rows with their times",
    ),
}


@pytest.mark.parametrize(("before", "now", "message"), REFUSED.values(), ids=list(REFUSED))
def test_state_of_other_windows_is_refused(before: Any, now: Any, message: str) -> None:
    with harness(before) as first, harness(now) as second:
        taken = first.snapshot()
        with pytest.raises(errors.StateMigrationError, match=f"{message}.*Declare it as it was.*another uid"):
            second.restore(taken)


def test_a_trigger_of_the_same_class_may_have_other_numbers() -> None:
    with (
        harness(over(TUMBLING, trigger=windows.CountTrigger.of(3))) as first,
        harness(over(TUMBLING, trigger=windows.CountTrigger.of(2))) as second,
    ):
        first.process_element(row(1), 0)
        second.restore(first.snapshot())
        second.process_element(row(2), 0)
        assert second.output() == [(0, 10, 3)]
