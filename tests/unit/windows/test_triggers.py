"""Each trigger by itself: when it fires, what it forgets, and what becomes of it when windows merge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparkstate import errors, windows
from sparkstate.functions import MAX_WATERMARK
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness
from sparkstate.windows import Time, TriggerResult

ROW = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
TUMBLING = windows.TumblingEventTimeWindows.of(10)
PROCESSING = windows.TumblingProcessingTimeWindows.of(10)
SESSIONS = windows.EventTimeSessionWindows.with_gap(10)
GLOBAL = windows.GlobalWindows.create()


class Values(windows.ProcessWindowFunction):
    """Puts out the values of the rows."""

    def process(self, key, context, elements):
        yield [element.value for element in elements]


class Driven:
    """A window operation in a harness, whose rows are values of the key ``a``."""

    def __init__(self, operation: windows.WindowOperation) -> None:
        self.harness = KeyedProcessHarness(
            operation.process(Values(), element_type=ROW),
            key=lambda row: row.key,
            key_type=Types.STRING(),
            max_parallelism=2,
        )

    def add(self, value: int, at: int | None) -> list[Any]:
        return self._new(lambda: self.harness.process_element({"key": "a", "value": value}, at))

    def watermark(self, watermark: int) -> list[Any]:
        return self._new(lambda: self.harness.process_watermark(watermark))

    def now(self, milliseconds: int) -> list[Any]:
        return self._new(lambda: self.harness.set_processing_time(milliseconds))

    def _new(self, act: Any) -> list[Any]:
        self.harness.clear_output()
        act()
        return self.harness.output()

    def left(self) -> int:
        """Rows in the stores: state and timers."""
        return sum(store.stats().rows for store in self.harness._stores.values())


@pytest.fixture
def drive() -> Iterator[Any]:
    made: list[Driven] = []

    def start(
        assigner: windows.WindowAssigner, trigger: windows.Trigger | None = None, **lateness: int
    ) -> Driven:
        operation = windows.over(assigner)
        if trigger is not None:
            operation = operation.trigger(trigger)
        if lateness:
            operation = operation.allowed_lateness(lateness["lateness"])
        made.append(Driven(operation))
        return made[-1]

    yield start
    for each in made:
        each.harness.close()


def test_event_time_fires_at_the_last_moment_of_the_window_and_again_for_allowed_late_rows(drive):
    job = drive(TUMBLING, lateness=5)
    assert job.add(1, 3) == job.watermark(8) == []
    assert job.watermark(9) == [[1]]
    assert job.add(2, 4) == [[1, 2]]
    assert job.watermark(13) == []
    assert job.add(3, 9) == [[1, 2, 3]]
    assert job.watermark(14) == []
    assert job.left() == 0
    assert job.add(4, 9) == []


def test_processing_time_fires_at_the_last_moment_by_the_wall_clock(drive):
    job = drive(PROCESSING)
    assert job.add(1, None) == job.now(8) == []
    assert job.add(2, None) == []
    assert job.now(9) == [[1, 2]]
    assert job.left() == 0


def test_a_count_fires_for_every_so_many_rows_and_keeps_the_contents(drive):
    job = drive(TUMBLING, windows.CountTrigger.of(2))
    assert [job.add(value, 1) for value in range(1, 5)] == [[], [[1, 2]], [], [[1, 2, 3, 4]]]
    assert job.add(5, 1) == job.watermark(9) == []
    assert job.left() == 0


def test_purging_forgets_the_contents_where_the_nested_trigger_fires(drive):
    job = drive(GLOBAL, windows.PurgingTrigger.of(windows.CountTrigger.of(2)))
    assert [job.add(value, None) for value in range(1, 5)] == [[], [[1, 2]], [], [[3, 4]]]
    assert job.left() == 0


def test_a_count_goes_on_where_windows_merge(drive):
    job = drive(SESSIONS, windows.CountTrigger.of(3))
    assert job.add(1, 0) == job.add(2, 15) == []
    assert job.add(3, 8) == [[1, 2, 3]]
    job.watermark(MAX_WATERMARK)
    assert job.left() == 0


def test_never_is_the_trigger_of_global_windows(drive):
    job = drive(GLOBAL)
    assert job.add(1, 1) == job.watermark(MAX_WATERMARK) == job.now(10**15) == []
    assert job.left() == 1


def test_continuous_event_time_fires_at_whole_intervals_and_at_the_end(drive):
    job = drive(TUMBLING, windows.ContinuousEventTimeTrigger.of(Time.milliseconds(4)))
    job.add(1, 1)
    assert job.watermark(3) == []
    assert job.watermark(4) == [[1]]
    assert job.add(2, 5) == []
    assert job.watermark(9) == [[1, 2], [1, 2]]
    assert job.left() == 0


def test_continuous_event_time_of_a_window_without_an_end_fires_once_more_at_the_end_of_all_time(drive):
    job = drive(GLOBAL, windows.ContinuousEventTimeTrigger.of(4))
    job.add(1, 1)
    assert job.watermark(9) == [[1], [1]]
    assert job.watermark(MAX_WATERMARK) == [[1], [1]]
    assert job.harness.num_event_timers() == 0


def test_continuous_processing_time_fires_at_whole_intervals_and_at_the_end(drive):
    job = drive(PROCESSING, windows.ContinuousProcessingTimeTrigger.of(4))
    job.add(1, None)
    assert job.now(3) == []
    assert job.now(4) == [[1]]
    assert job.now(8) == [[1]]
    assert job.now(9) == [[1]]
    assert job.left() == 0


def test_continuous_processing_time_does_not_fire_for_ever_in_a_window_that_ended_long_ago(drive):
    job = drive(TUMBLING, windows.ContinuousProcessingTimeTrigger.of(4))
    job.now(1_000)
    assert job.add(1, 1) == [[1]]
    assert job.now(1_010) == job.now(1_020) == []
    assert job.add(2, 1) == [[1, 2]]


def test_the_next_time_to_fire_is_the_least_where_windows_merge(drive):
    job = drive(SESSIONS, windows.ContinuousEventTimeTrigger.of(6))
    job.add(1, 1)
    job.add(2, 13)
    job.add(3, 8)
    assert job.watermark(6) == [[1, 2, 3]]
    assert job.watermark(11) == []
    assert job.watermark(12) == job.watermark(18) == [[1, 2, 3]]
    assert job.watermark(22) == [[1, 2, 3]]
    assert job.left() == 0


class Third(windows.Trigger):
    """An author's: fires for the third row and at the end, and remembers values; its states merge."""

    SEEN = ListStateDescriptor("seen", Types.LONG())

    def __init__(self) -> None:
        self.rows = ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        assert ctx.get_current_watermark() < window.max_timestamp()
        ctx.get_metric_group().counter("rows").inc()
        ctx.register_event_time_timer(window.max_timestamp())
        ctx.get_partitioned_state(self.SEEN).add(element.value)
        count = ctx.get_partitioned_state(self.rows)
        count.add(1)
        return TriggerResult.FIRE if count.get() == 3 else TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        assert sorted(ctx.get_partitioned_state(self.SEEN).get()) == [1, 2, 3]
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.rows)
        ctx.merge_partitioned_state(self.SEEN)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.rows).clear()
        ctx.get_partitioned_state(self.SEEN).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


@pytest.mark.parametrize(
    "assigner", [windows.TumblingEventTimeWindows.of(100), SESSIONS], ids=["tumbling", "session"]
)
def test_an_authors_trigger_has_state_of_its_own_that_merges_and_goes(drive, assigner):
    job = drive(assigner, windows.PurgingTrigger.of(Third()) if assigner is SESSIONS else Third())
    assert job.add(1, 1) == job.add(2, 15) == []
    fired = job.add(3, 8)
    assert fired == [[1, 2, 3]]
    assert job.watermark(200) == ([] if assigner is SESSIONS else [[1, 2, 3]])
    assert job.left() == 0
    assert job.harness.metrics()["rows"].count == 3


class DeletesTheEnd(windows.EventTimeTrigger):
    """An author's: it deletes a timer that is the window's end, too."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE


def test_a_window_ends_even_if_the_trigger_deletes_a_timer_of_the_same_time(drive):
    job = drive(TUMBLING, DeletesTheEnd())
    job.add(1, 1)
    job.add(2, 1)
    assert job.watermark(9) == [[1, 2]]
    assert job.left() == 0


class OldestPairs(windows.MergingWindowAssigner):
    """An author's: of three windows it merges the two oldest ones, so the window of the row stays as it is."""

    def __init__(self, by_event_time=True):
        self.by_event_time = by_event_time

    def assign_windows(self, element, timestamp, context):
        return [windows.TimeWindow(timestamp, timestamp + 10)]

    def merge_windows(self, windows, callback):
        first, second, *others = sorted(windows) if len(windows) > 1 else (None, None)
        if others:
            callback.merge([first, second], first.cover(second))

    def get_default_trigger(self, env):
        return windows.EventTimeTrigger.create()

    def is_event_time(self):
        return self.by_event_time


class OwnEventTime(windows.EventTimeTrigger):
    """An author's, which does as ours does."""


@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize("trigger", [None, OwnEventTime()], ids=["ours", "an author's"])
def test_windows_that_merge_without_the_window_of_the_row_fire_and_go(drive, trigger, lateness):
    job = drive(OldestPairs(), trigger, lateness=lateness)
    assert job.add(1, 0) == job.add(2, 100) == job.add(3, 200) == []
    assert job.watermark(108) == []
    assert job.watermark(109) == [[1, 2]]
    assert job.watermark(209 + lateness) == [[3]]
    assert job.left() == 0


@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "processing time"])
def test_such_windows_go_even_if_the_trigger_sets_no_timer(drive, by_event_time):
    job = drive(OldestPairs(by_event_time), windows.CountTrigger.of(9))
    for value, at in enumerate((0, 100, 200)):
        job.add(value, at)
    (job.watermark if by_event_time else job.now)(209)
    assert job.left() == 0


@pytest.mark.parametrize("trigger", [windows.EventTimeTrigger(), OwnEventTime()], ids=["ours", "an author's"])
@pytest.mark.parametrize(
    "assigner",
    [PROCESSING, windows.ProcessingTimeSessionWindows.with_gap(10)],
    ids=["tumbling", "session"],
)
def test_windows_of_processing_time_end_by_the_wall_clock_if_their_trigger_waits_for_event_time(
    drive, assigner, trigger
):
    job = drive(assigner, trigger)
    assert job.add(1, 5) == []
    assert job.watermark(9 if assigner is PROCESSING else 10) == [[1]]
    assert job.left() > 0
    job.now(20)
    assert job.left() == 0
    assert job.add(2, 50) == job.now(40) == job.watermark(100) == []
    assert job.left() == 0


class Forgetful(windows.CountTrigger):
    """Asks for a state that nothing declares."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.get_partitioned_state(ValueStateDescriptor("secret", Types.LONG()))
        return TriggerResult.CONTINUE


def test_a_state_that_is_no_attribute_of_the_trigger_is_refused_with_the_remedy(drive):
    job = drive(TUMBLING, Forgetful(2))
    with pytest.raises(
        errors.UserCodeError,
        match=r"Forgetful asks for the state 'secret', .*keep each descriptor in an attribute",
    ):
        job.add(1, 1)


def test_results_of_triggers_say_what_they_do():
    told = {result.name: (result.is_fire(), result.is_purge()) for result in TriggerResult}
    assert told == {
        "CONTINUE": (False, False),
        "FIRE_AND_PURGE": (True, True),
        "FIRE": (True, False),
        "PURGE": (False, True),
    }
