"""Windows whose function, trigger or evictor fails at a timer, with ``on_error="side-output"``: they go on, and end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import errors, windows
from sparkstate.backends import canonical
from sparkstate.functions import AggregateFunction, KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness
from sparkstate.windows import TriggerResult

ROW = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
TUMBLING = windows.TumblingEventTimeWindows.of(10)
ENDLESS = windows.TumblingEventTimeWindows.of(1000)


def harness(function: Any, **options: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(
        function, key=lambda row: row.key, key_type=Types.STRING(), on_error="side-output", **options
    )


def row(value: int, key: str = "a") -> dict[str, Any]:
    return {"key": key, "value": value}


def assert_nothing_is_left(job: KeyedProcessHarness) -> None:
    assert [canonical.sizes(shard) for shard in job.snapshot().shards] == [{}, {}]  # timers are among it


class Picky(windows.ProcessWindowFunction):
    """Yields the values of a window, and fails at a negative one; ``calls`` has the first value of each call."""

    SEEN = ValueStateDescriptor("seen", Types.LONG())

    def __init__(self, *, keeps_state: bool = False, fails_to_clear: bool = False) -> None:
        self.keeps_state = keeps_state
        self.fails_to_clear = fails_to_clear
        self.calls: list[int] = []
        self.cleared: list[Any] = []

    def __deepcopy__(self, memo: Any) -> Picky:
        return self

    def process(self, key, context, elements):
        self.calls.append(elements[0].value)
        if self.keeps_state:
            context.window_state().get_state(self.SEEN).update(len(elements))
        yield [each.value for each in elements]
        if any(each.value < 0 for each in elements):
            raise ValueError("negative")

    def clear(self, context):
        self.cleared.append(context.window())
        if self.fails_to_clear:
            raise ValueError("not cleared")
        if self.keeps_state:
            context.window_state().get_state(self.SEEN).clear()


# --- the end of a window


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    ("assigner", "trigger", "lateness"),
    [
        (TUMBLING, None, 0),
        (TUMBLING, None, 5),
        (TUMBLING, windows.ContinuousEventTimeTrigger.of(4), 0),
        (TUMBLING, windows.PurgingTrigger.of(windows.EventTimeTrigger()), 0),
        (windows.EventTimeSessionWindows.with_gap(10), None, 0),
        (windows.EventTimeSessionWindows.with_gap(10), windows.ContinuousEventTimeTrigger.of(4), 3),
        (windows.TumblingProcessingTimeWindows.of(10), None, 0),
        (windows.ProcessingTimeSessionWindows.with_gap(10), None, 0),
    ],
    ids=lambda value: None if isinstance(value, int) else type(value).__name__,
)
def test_a_window_whose_function_fails_at_its_end_leaves_nothing(
    assigner: Any, trigger: Any, lateness: int, backend: str
) -> None:
    function = Picky()
    operation = windows.over(assigner) if trigger is None else windows.over(assigner).trigger(trigger)
    operation = operation.allowed_lateness(lateness) if lateness else operation
    with harness(operation.process(function, element_type=ROW), backend=backend) as job:
        for number in range(3):
            at = number * 100
            job.process_elements([(row(-1, "bad"), at + 3), (row(number, "good"), at + 3)], at + 4)
            job.process_elements([(row(-2, "bad"), at + 6), (row(number, "good"), at + 6)], at + 50)
            job.set_processing_time(at + 50)
        job.set_processing_time(1000)
        job.end_input()
        assert_nothing_is_left(job)
        assert job.output()[-1] == [2, 2]
        assert len(job.side_output("errors")) == len(job.output())
        assert len(function.calls) == 2 * len(job.output()), "the function was called again for a window"
        assert len(function.cleared) == 6


def test_what_a_function_has_written_before_it_failed_goes_with_the_window() -> None:
    function = Picky(keeps_state=True)
    with harness(windows.over(TUMBLING).allowed_lateness(5).process(function, element_type=ROW)) as job:
        job.process_elements([(row(1), 1)], 10)
        job.process_element(row(-1), 2)  # rejected as a row
        assert job.state("seen", "a", windows.TimeWindow(0, 10)) == 1
        job.process_elements([(row(2), 3), (row(-1), 12)], 50)
        assert job.output() == [[1], [1, 2]]
        assert len(job.side_output("errors")) == 2
        assert_nothing_is_left(job)


def test_a_result_that_cannot_be_had_is_not_asked_for_again() -> None:
    asked: list[int] = []

    class Total(AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + value.value

        def get_result(self, accumulator):
            asked.append(accumulator)
            return 1 // accumulator

    with harness(windows.over(TUMBLING).aggregate(Total(), accumulator_type=Types.LONG())) as job:
        job.process_elements([(row(0), 1), (row(1), 11)], 50)
        assert (job.output(), asked) == ([1], [0, 1])
        assert_nothing_is_left(job)


# --- while a window is open


@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "processing time"])
def test_a_continuous_trigger_goes_on_after_a_rejection(by_event_time: bool) -> None:
    class NotTwo(windows.WindowFunction):
        def apply(self, key, window, inputs):
            if len(inputs) == 2:
                raise ValueError("two")
            yield len(inputs)

    trigger: Any = (
        windows.ContinuousEventTimeTrigger if by_event_time else windows.ContinuousProcessingTimeTrigger
    )
    operation = windows.over(windows.GlobalWindows.create()).trigger(trigger.of(10))
    with harness(operation.apply(NotTwo(), element_type=ROW)) as job:
        for number in range(4):
            job.process_elements([(row(1), number * 10 + 1)], number * 10 + 10 if by_event_time else None)
            job.set_processing_time(number * 10 + 10)
        assert job.output() == [1, 3, 4]
        assert len(job.side_output("errors")) == 1


def test_a_purging_trigger_forgets_the_contents_that_were_rejected() -> None:
    trigger = windows.PurgingTrigger.of(windows.ContinuousEventTimeTrigger.of(10))
    with harness(windows.over(ENDLESS).trigger(trigger).process(Picky(), element_type=ROW)) as job:
        job.process_elements([(row(-1), 1)], 10)
        job.process_elements([(row(2), 11)], 20)
        assert job.output() == [[2]]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_evictor_removes_rows_of_a_firing_that_was_rejected(after: bool) -> None:
    trigger = windows.ContinuousEventTimeTrigger.of(10)
    evictor = windows.CountEvictor.of(0 if after else 1, after)
    function = Picky()
    with harness(
        windows.over(ENDLESS).trigger(trigger).evictor(evictor).process(function, element_type=ROW)
    ) as job:
        job.process_elements([(row(1), 1), (row(-2), 2)], 10)
        kept = job.state("_window/contents", "a", windows.TimeWindow(0, 1000))
        assert [stamp for _, stamp in kept or ()] == ([] if after else [2])
        job.process_elements([(row(3), 11)], 20)
        assert job.output() == [[3]]
        assert function.calls == [1 if after else -2, 3]


def test_a_trigger_goes_on_where_an_evictor_fails() -> None:
    def delta(old: Any, last: Any) -> float:
        return 1 / (last.value - 2)  # fails at 2

    operation = (
        windows.over(TUMBLING)
        .trigger(windows.ContinuousEventTimeTrigger.of(4))
        .evictor(windows.DeltaEvictor.of(5, delta))
    )
    with harness(operation.process(Picky(), element_type=ROW)) as job:
        job.process_elements([(row(2), 1)], 4)
        job.process_elements([(row(3), 5)], 8)
        assert job.output() == [[2, 3]]
        job.process_elements([(row(2), 9)], 50)
        assert len(job.side_output("errors")) == 2
        assert_nothing_is_left(job)


# --- errors of a trigger, and of `clear`


class Failing(windows.Trigger):
    """Fails at its timer if ``at_end``, and in ``clear`` if ``in_clear``; it has state."""

    def __init__(self, *, at_end: bool = False, in_clear: bool = False) -> None:
        self.at_end = at_end
        self.in_clear = in_clear
        self.rows = ValueStateDescriptor("rows", Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        ctx.get_partitioned_state(self.rows).update(1)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        if self.at_end:
            raise ValueError("the trigger failed")
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        if self.in_clear:
            raise ValueError("the trigger was not cleared")
        ctx.get_partitioned_state(self.rows).clear()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("assigner", [TUMBLING, windows.EventTimeSessionWindows.with_gap(10)])
@pytest.mark.parametrize("value", [1, -1], ids=["good", "rejected"])
@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("trigger", "the trigger failed"),
        ("clear of the trigger", "the trigger was not cleared"),
        ("clear of the function", "not cleared"),
    ],
)
def test_a_window_ends_whatever_of_its_authors_code_fails(
    what: str, told: str, value: int, assigner: Any, backend: str
) -> None:
    trigger = Failing(at_end=what == "trigger", in_clear=what == "clear of the trigger")
    function = Picky(keeps_state=assigner is TUMBLING, fails_to_clear=what == "clear of the function")
    operation = windows.over(assigner).trigger(trigger)
    with harness(operation.process(function, element_type=ROW), backend=backend) as job:
        job.process_element(row(value), 1)
        job.process_watermark(50)
        ((error,),) = job.side_output("errors")
        assert ("negative" if value < 0 and what != "trigger" else told) in error
        assert job.output() == []
        assert function.calls == ([] if what == "trigger" else [value])
        assert_nothing_is_left(job)


def test_a_trigger_that_fails_before_the_end_does_not_end_its_window() -> None:
    class AtOnce(Failing):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(timestamp)
            return TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            if time < window.max_timestamp():
                raise ValueError("too early")
            return TriggerResult.FIRE

    operation = windows.over(TUMBLING).trigger(AtOnce())
    with harness(operation.process(Picky(), element_type=ROW)) as job:
        job.process_elements([(row(1), 1)], 5)
        assert (job.output(), len(job.side_output("errors"))) == ([], 1)
        job.process_watermark(50)
        assert job.output() == [[1]]
        assert_nothing_is_left(job)


# --- in an operator


def test_times_of_rows_stay_those_of_their_windows_after_a_rejection() -> None:
    kind = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.LONG()])

    class Sums(windows.ProcessWindowFunction):
        def process(self, key, context, elements):
            (amount,) = [each.amount for each in elements]
            if amount < 0:
                raise ValueError("negative")
            yield key, amount

    sides = {"errors": pa.schema([("user", pa.string()), ("amount", pa.int64()), ("error", pa.string())])}
    function = windows.over(TUMBLING).process(Sums(), element_type=kind)
    operator = ops.make_operator(function, emit_timestamps=True, on_error="side-output", side_schemas=sides)
    overlay = ops.run(operator, ("ann", 1, 1), ("ann", -1, 11), ("ann", 2, 21), after=50)
    assert ops.rows_of(overlay) == [("ann", 1, 9), ("ann", 2, 29)]
    assert [told[:2] for told in ops.rows_of(overlay, "errors")] == [(None, None)]
    assert overlay.timers_fired == 3


class Recovering(KeyedProcessFunction):
    """Has calls to make after its timer was rejected."""

    STATE = ValueStateDescriptor("state", Types.LONG())

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    def open(self, ctx):
        self.state = ctx.get_state(self.STATE)

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp, ctx):
        self.state.set_current_namespace("n")
        self.state.update(1)
        raise ValueError("first")

    def after_rejected_timer(self):
        return self.failing, self.counting, self.failing

    def failing(self, timestamp, ctx):
        self.state.update(100)
        raise self.failure

    def counting(self, timestamp, ctx):
        self.state.update((self.state.value() or 0) + timestamp)


def test_the_first_call_that_does_not_fail_is_the_last_and_the_others_are_undone() -> None:
    with harness(Recovering(ValueError("second"))) as job:
        job.process_elements([(row(1), 1)], 50)
        assert (job.state("state", "a"), job.state("state", "a", "n")) == (10, None)
        ((error,),) = job.side_output("errors")
        assert "ValueError: first" in error


def test_an_error_of_the_engine_in_these_calls_fails_the_epoch() -> None:
    function = Recovering(errors.StorageUnavailable("gone"))
    with harness(function) as job, pytest.raises(errors.StorageUnavailable, match="gone"):
        job.process_elements([(row(1), 1)], 50)
