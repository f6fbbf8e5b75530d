"""Window functions, authors' assigners, and windows in an operator: state, late rows, timestamps, errors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import errors, windows
from sparkstate.functions import MAX_WATERMARK, AggregateFunction, OutputTag, ReduceFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.row import Row
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness
from sparkstate.windows.window import time_window

ROW = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
TUMBLING = windows.TumblingEventTimeWindows.of(10)
LATE = OutputTag("late")


def harness(function: Any, **options: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(function, key=lambda row: row.key, key_type=Types.STRING(), **options)


def row(value: int, key: str = "a") -> dict[str, Any]:
    return {"key": key, "value": value}


class Ranked(windows.ProcessWindowFunction):
    """Numbers the firings of the window (its state) and the windows of the key (the key's state)."""

    FIRINGS = ValueStateDescriptor("firings", Types.LONG())

    def open(self, ctx):
        self.windows = ValueStateDescriptor("windows", Types.LONG())
        self.names = ctx.get_map_state(MapStateDescriptor("names", Types.LONG(), Types.LONG()))

    def process(self, key, context, elements):
        firings = context.window_state().get_state(self.FIRINGS)
        seen = context.global_state().get_state(self.windows)
        if firings.value() is None:
            seen.update((seen.value() or 0) + 1)
        firings.update((firings.value() or 0) + 1)
        self.names.put(firings.value(), context.window().max_timestamp() % 1000)
        yield seen.value(), firings.value(), context.current_watermark(), context.current_processing_time()

    def clear(self, context):
        context.window_state().get_state(self.FIRINGS).clear()


@pytest.mark.parametrize("assigner", [TUMBLING, windows.GlobalWindows.create()], ids=["tumbling", "global"])
def test_a_window_and_its_key_have_states_and_those_of_the_window_go_with_it(assigner: Any) -> None:
    operation = windows.over(assigner).trigger(windows.CountTrigger.of(1))
    with harness(operation.process(Ranked(), element_type=ROW), processing_time=7) as job:
        for at in (1, 2, 11):
            job.process_element(row(at), at)
        if assigner is TUMBLING:
            assert [rank[:2] for rank in job.output()] == [(1, 1), (1, 2), (2, 1)]
            assert job.state("firings", "a", windows.TimeWindow(0, 10)) == 2
        else:
            assert [rank[:2] for rank in job.output()] == [(1, 1), (1, 2), (1, 3)]
        assert job.output()[0][3] == 7
        job.process_watermark(MAX_WATERMARK)
        assert job.state("windows", "a") == (2 if assigner is TUMBLING else 1)
        if assigner is TUMBLING:
            assert job.state("firings", "a", windows.TimeWindow(0, 10)) is None


class Confused(windows.ProcessWindowFunction):
    STATE = ValueStateDescriptor("state", Types.LONG())

    def __init__(self, what: str) -> None:
        self.what = what

    def process(self, key, context, elements):
        if self.what == "both":
            context.window_state().get_state(self.STATE)
            context.global_state().get_state(self.STATE)
        if self.what == "merging":
            context.window_state().get_state(self.STATE)
        if self.what == "unknown":
            context.global_state().get_state(ValueStateDescriptor("other", Types.LONG()))
        if self.what == "type":
            context.global_state().get_state(ValueStateDescriptor("state", Types.STRING()))
        return []


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("both", "from window_state.. and from global_state.. in one call"),
        ("merging", "windows that merge have no state of their own"),
        ("unknown", "asks for the state 'other'.*keep each descriptor in an attribute"),
        ("type", "its attribute says otherwise"),
    ],
)
def test_states_that_a_function_cannot_have_are_refused_with_the_remedy(what: str, told: str) -> None:
    assigner = windows.EventTimeSessionWindows.with_gap(5) if what == "merging" else TUMBLING
    with harness(windows.over(assigner).process(Confused(what), element_type=ROW)) as job:
        job.process_element(row(1), 1)
        with pytest.raises(errors.UserCodeError, match=told):
            job.process_watermark(100)


class Larger(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 if value1.value >= value2.value else value2


class Name(windows.WindowFunction):
    def apply(self, key, window, inputs):
        (only,) = inputs
        yield key, window, only.value


@pytest.mark.parametrize(
    "by", [Larger(), lambda a, b: a if a.value >= b.value else b], ids=["class", "function"]
)
def test_reduce_folds_rows_and_gives_the_one_to_a_window_function(by: Any) -> None:
    for function, wanted in ((None, Row.of(key="a", value=5)), (Name(), ("a", windows.TimeWindow(0, 10), 5))):
        with harness(windows.over(TUMBLING).reduce(by, function, value_type=ROW)) as job:
            for value in (3, 5, 4):
                job.process_element(row(value), 1)
            assert job.state("_window/contents", "a", windows.TimeWindow(0, 10)) == (("a", 5))
            job.process_watermark(9)
            assert job.output() == [wanted]


FOLDING = {
    "a further row": windows.over(TUMBLING),
    "sessions that merge": windows.over(windows.EventTimeSessionWindows.with_gap(10)),
    "rows that an evictor left": windows.over(TUMBLING).evictor(windows.CountEvictor.of(2)),
}


@pytest.mark.parametrize("operation", FOLDING.values(), ids=FOLDING)
def test_a_fold_that_returns_nothing_is_refused_and_does_not_empty_the_window(operation: Any) -> None:
    with harness(operation.reduce(lambda a, b: None, value_type=ROW)) as job:
        job.process_elements([(row(1), 1), (row(2), 15)])
        with pytest.raises(errors.UserCodeError, match="returned None, which would empty the window"):
            job.process_elements([(row(3), 8)], 100)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value.value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_aggregate_keeps_an_accumulator_which_merges_with_its_session() -> None:
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    operation = windows.over(windows.EventTimeSessionWindows.with_gap(10))
    with harness(operation.aggregate(Mean(), accumulator_type=pair)) as job:
        for value, at in ((1, 0), (2, 15), (6, 8)):
            job.process_element(row(value), at)
        assert job.state("_window/contents", "a") == (9, 3)
        assert job.num_event_timers() == 1
        job.process_watermark(24)
        assert job.output() == [3.0]


class Weekdays(windows.WindowAssigner):
    """An author's: two named windows for each row, or none; it counts rows in a state."""

    ROWS = ValueStateDescriptor("rows", Types.LONG())

    def assign_windows(self, element, timestamp, context):
        rows = context.get_runtime_context().get_state(self.ROWS)
        rows.update((rows.value() or 0) + 1)
        return [] if element.value == 0 else [time_window(0, 10), time_window(100, rows.value())]

    def get_default_trigger(self, env):
        return windows.EventTimeTrigger.create()

    def is_event_time(self):
        return True


class Pairs(windows.MergingWindowAssigner):
    """An author's: windows of one number of ten merge, whether they touch or not."""

    def assign_windows(self, element, timestamp, context):
        return [windows.TimeWindow(timestamp, timestamp + 1)]

    def merge_windows(self, windows, callback):
        for ten in {window.start // 10 for window in windows}:
            these = [window for window in windows if window.start // 10 == ten]
            if len(these) > 1:
                start, end = min(w.start for w in these), max(w.end for w in these)
                callback.merge(these, type(these[0])(start, end))

    def get_default_trigger(self, env):
        return windows.EventTimeTrigger.create()

    def is_event_time(self):
        return True


class Values(windows.ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window(), [element.value for element in elements]


def test_an_authors_assigner_may_have_state_and_give_any_windows() -> None:
    with harness(windows.over(Weekdays()).process(Values(), element_type=ROW)) as job:
        for value in (1, 0, 3):
            job.process_element(row(value), 5)
        job.process_watermark(1000)
        assert sorted(job.output()) == [((0, 10), [1, 3]), ((100, 101), [1]), ((100, 103), [3])]


def test_an_authors_assigner_may_merge_by_a_rule_of_its_own() -> None:
    with harness(windows.over(Pairs()).process(Values(), element_type=ROW)) as job:
        for value, at in enumerate((1, 14, 9, 11, 5)):
            job.process_element(row(value), at)
        job.process_watermark(1000)
        assert job.output() == [((1, 10), [0, 2, 4]), ((11, 15), [1, 3])]
        assert sum(store.stats().rows for store in job._stores.values()) == 0


class Strange(Weekdays):
    def assign_windows(self, element, timestamp, context):
        return [(1, 2)]


class Shrinking(Pairs):
    def merge_windows(self, windows, callback):
        windows = list(windows)
        if len(windows) > 1:
            callback.merge(windows, type(windows[0])(-9, -8))


class Boundless(Pairs):
    def assign_windows(self, element, timestamp, context):
        return [windows.TimeWindow(timestamp, 2**63)]


class Fractions(Pairs):
    def assign_windows(self, element, timestamp, context):
        return [windows.TimeWindow(timestamp, timestamp + 0.5)]


@pytest.mark.parametrize(
    ("assigner", "told"),
    [
        (Boundless(), r"end=9223372036854775808\), which cannot be stored.*whole numbers from"),
        (Fractions(), r"end=6\.5\), which cannot be stored"),
        (Strange(), "return TimeWindow, CountWindow or GlobalWindow objects"),
        (Shrinking(), "has ended before 0"),
        (TUMBLING, "a row without event time has no place in Tumbling"),
        (windows.EventTimeSessionWindows.with_dynamic_gap(lambda row: -1), "the gap of a session is -1"),
    ],
    ids=["boundless", "fractions", "no window", "shrinking", "no time", "gap"],
)
def test_what_an_assigner_cannot_give_is_refused_at_the_row(assigner: Any, told: str) -> None:
    with harness(windows.over(assigner).process(Values(), element_type=ROW)) as job:
        job.process_watermark(0)
        rows = [(row(value), None if assigner is TUMBLING else 5 + value) for value in (1, 2)]
        with pytest.raises(errors.UserCodeError, match=told):
            job.process_elements(rows)


# --- in an operator, on Arrow batches


def make(operation: windows.WindowOperation, **options: Any) -> Any:
    class Sums(windows.ProcessWindowFunction):
        def process(self, key, context, elements):
            amounts = [each.amount for each in elements]
            if 13 in amounts:
                raise ValueError("thirteen")
            yield key, sum(amounts)

    kind = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.LONG()])
    return ops.make_operator(operation.process(Sums(), element_type=kind), **options)


def test_a_row_is_late_by_its_window_and_goes_to_the_side_output_by_its_columns() -> None:
    operation = windows.over(TUMBLING).allowed_lateness(3).side_output_late_data(LATE)
    sides = {"late": pa.schema([("amount", pa.int64())])}
    operator = make(operation, late_tag="late", side_schemas=sides)
    overlay = ops.run(operator, ("ann", 1, 9), ("ann", 2, 15), before=11, after=11)
    assert overlay.late_rows == 0
    overlay = ops.run(operator, ("ann", 3, 9), ("ann", 4, 10), before=12, after=40, epoch=2)
    assert overlay.late_rows == 1
    assert ops.rows_of(overlay, "late") == [(3,)]
    assert ops.rows_of(overlay) == [("ann", 6)]


def test_late_rows_are_counted_where_nothing_reads_them() -> None:
    operator = make(windows.over(TUMBLING))
    overlay = ops.run(operator, ("ann", 1, 9), ("ann", 2, 10), before=9, after=30)
    assert overlay.late_rows == 1
    assert ops.rows_of(overlay) == [("ann", 2)]


def test_rows_carry_the_last_moment_of_their_window_to_the_next_operator() -> None:
    operation = windows.over(windows.SlidingEventTimeWindows.of(10, 5)).trigger(windows.CountTrigger.of(1))
    operator = make(operation, emit_timestamps=True)
    overlay = ops.run(operator, ("ann", 1, 7), after=7)
    assert ops.rows_of(overlay) == [("ann", 1, 14), ("ann", 1, 9)]
    operator = make(
        windows.over(windows.GlobalWindows.create()).trigger(windows.CountTrigger.of(1)), emit_timestamps=True
    )
    assert ops.rows_of(ops.run(operator, ("ann", 1, 7), after=7)) == [("ann", 1, 7)]


def test_a_row_that_fails_is_undone_in_all_of_its_windows() -> None:
    sides = {"errors": pa.schema([("user", pa.string()), ("amount", pa.int64()), ("error", pa.string())])}
    operation = windows.over(windows.SlidingEventTimeWindows.of(10, 5)).trigger(windows.CountTrigger.of(2))
    operator = make(operation, on_error="side-output", side_schemas=sides)
    overlay = ops.run(operator, ("ann", 1, 7), ("ann", 13, 7), ("ann", 4, 7), after=7)
    assert ops.rows_of(overlay) == [("ann", 5), ("ann", 5)]
    ((user, amount, error),) = ops.rows_of(overlay, "errors")
    assert (user, amount) == ("ann", 13)
    assert "thirteen" in error


def test_a_first_row_that_fails_leaves_no_timer_and_the_next_one_sets_it() -> None:
    class Refusing(AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            if value.amount < 0:
                raise ValueError("negative")
            return accumulator + value.amount

        def get_result(self, accumulator):
            return "sum", accumulator

    sides = {"errors": pa.schema([("user", pa.string()), ("amount", pa.int64()), ("error", pa.string())])}
    function = windows.over(TUMBLING).aggregate(Refusing(), accumulator_type=Types.LONG())
    operator = ops.make_operator(function, on_error="side-output", side_schemas=sides)
    overlay = operator.begin(1, -(2**63), 0)
    operator.process_batch(overlay, ops.make_batch(("ann", -1, 1), ("bob", -1, 1), ("ann", 2, 2)))
    operator.finish(overlay, 9)
    commit_overlays([(operator, overlay)])
    assert ops.rows_of(overlay) == [("sum", 2)]
    assert (overlay.timers_fired, len(ops.rows_of(overlay, "errors"))) == (1, 2)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", ["elements", "reduced", "accumulator", "session"])
def test_the_contents_of_open_windows_are_migrated_to_the_type_of_now(kind: str, backend: Any) -> None:
    """A field more, with a default, and a longer number; the window fires with old rows and new ones."""
    old = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.INT()])
    new = Types.ROW_NAMED(
        ["unit", "key", "value"], [Types.STRING(), Types.STRING(), Types.BIG_INT()], defaults={"unit": "m"}
    )

    class Collected(AggregateFunction):
        def create_accumulator(self):
            return []

        def add(self, value, accumulator):
            return [*accumulator, value]

        def get_result(self, accumulator):
            return [tuple(each) for each in accumulator]

        def merge(self, acc_a, acc_b):
            return [*acc_a, *acc_b]

    class Rows(windows.ProcessWindowFunction):
        def process(self, key, ctx, elements):
            yield [tuple(each) for each in elements]

    def operation(declared):
        over = windows.over(windows.EventTimeSessionWindows.with_gap(5) if kind == "session" else TUMBLING)
        if kind == "reduced":
            return over.reduce(lambda a, b: a, Rows(), value_type=declared)
        if kind == "accumulator":
            return over.aggregate(Collected(), accumulator_type=Types.LIST(declared))
        return over.process(Rows(), element_type=declared)

    with (
        harness(operation(old), backend=backend) as before,
        harness(operation(new), backend=backend, parallelism=2) as after,
    ):
        before.process_element(row(1), 1)
        after.restore(before.snapshot())
        after.process_element({"unit": "l", "key": "a", "value": 2}, 2)
        after.process_watermark(100)
        wanted = [("m", "a", 1)] if kind == "reduced" else [("m", "a", 1), ("l", "a", 2)]
        assert after.output() == [wanted]
