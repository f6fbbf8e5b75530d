"""State that expires in other kinds of functions: in windows, with two inputs; and its refusals."""

from __future__ import annotations

from typing import Any

import pytest
from support.backends.own_backends import MemoryBackend
from support.expiring.scripted import Scripted, ttl
from support.operators import driven as ops

from sparkstate import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
    errors,
    windows,
)
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.testing import KeyedCoProcessHarness, KeyedProcessHarness

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])


# --- what is refused


class Operators(KeyedProcessFunction, CheckpointedFunction):
    def initialize_state(self, context):
        descriptor = ListStateDescriptor("mine", Types.LONG())
        descriptor.enable_time_to_live(ttl().build())
        context.get_operator_state_store().get_list_state(descriptor)

    def snapshot_state(self, context):
        pass

    def process_element(self, value, ctx):
        pass


def test_operator_state_cannot_expire():
    with pytest.raises(errors.SparkstateError, match="operator state 'mine' cannot expire"):
        KeyedProcessHarness(Operators(), key=lambda row: row["key"], key_type=Types.LONG())


class Twice(KeyedProcessFunction):
    def open(self, ctx):
        for config in (ttl().build(), ttl().update_ttl_on_read_and_write().build()):
            descriptor = ValueStateDescriptor("value", Types.LONG())
            descriptor.enable_time_to_live(config)
            ctx.get_state(descriptor)

    def process_element(self, value, ctx):
        pass


def test_a_state_has_one_time_to_live():
    with pytest.raises(errors.StateError, match="state 'value' is declared twice"):
        KeyedProcessHarness(Twice(), key=lambda row: row["key"], key_type=Types.LONG())


class Plain:
    """The store of a backend that does not know of values that expire."""

    def __init__(self, store: Any) -> None:
        self._store, self.key_groups, self.table = store, store.key_groups, store.table

    def tables(self) -> Any:
        return self._store.tables()


def test_a_store_that_cannot_let_values_expire_refuses_them_at_the_declaration():
    stores: Any = {shard: Plain(store) for shard, store in ops.make_stores().items()}
    with pytest.raises(
        errors.StateError, match=r"'value' has a time-to-live, which the state backend .* RowStore"
    ):
        ops.make_operator(Scripted(ttl().build()), stores)
    disabled = ttl().set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    ops.make_operator(Scripted(disabled), stores).close()


# --- windows and two inputs


class Firings(windows.ProcessWindowFunction):
    """Counts the firings of a window's key, and of the window, since they were last looked at."""

    def __init__(self) -> None:
        self.of_key = ValueStateDescriptor("of key", Types.LONG())
        self.of_window = ValueStateDescriptor("of window", Types.LONG())
        for descriptor in (self.of_key, self.of_window):
            descriptor.enable_time_to_live(ttl().build())

    def process(self, key, context, elements):
        counts = []
        for store, descriptor in (
            (context.global_state(), self.of_key),
            (context.window_state(), self.of_window),
        ):
            state = store.get_state(descriptor)
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield tuple(counts)

    def clear(self, context):
        context.window_state().get_state(self.of_window).clear()


def test_the_states_of_a_window_function_expire():
    operation = windows.over(windows.GlobalWindows.create()).trigger(windows.CountTrigger.of(1))
    element = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
    function = operation.process(Firings(), element_type=element)
    with KeyedProcessHarness(function, key=lambda row: row.key, key_type=Types.STRING()) as harness:
        for time in (0, 99, 198, 298):
            harness.set_processing_time(time)
            harness.process_element({"key": "k", "value": 1}, 1)
        assert harness.output() == [(1, 1), (2, 2), (3, 3), (1, 1)]


class Seldom(windows.Trigger):
    """Fires at the third row that came within the time-to-live, in all windows that were merged."""

    def __init__(self, config: StateTtlConfig | None) -> None:
        self.recent = ListStateDescriptor("recent", Types.LONG())
        if config is not None:
            self.recent.enable_time_to_live(config)

    def on_element(self, element, timestamp, window, ctx):
        recent = ctx.get_partitioned_state(self.recent)
        recent.add(element.value)
        return windows.TriggerResult.FIRE if len(list(recent.get())) >= 3 else windows.TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return windows.TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return windows.TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.recent)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.recent).clear()


class Values(windows.ProcessWindowFunction):
    def process(self, key, context, elements):
        yield [element.value for element in elements]


@pytest.mark.parametrize("second", ["hashmap", "rocksdb", MemoryBackend])
@pytest.mark.parametrize("first", ["hashmap", "rocksdb", MemoryBackend])
def test_the_state_of_a_trigger_expires_and_is_merged_and_may_lose_its_time_to_live(first, second):
    """What the windows themselves hold does not expire with it."""

    def made(config, backend):
        operation = windows.over(windows.EventTimeSessionWindows.with_gap(10)).trigger(Seldom(config))
        element = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
        return KeyedProcessHarness(
            operation.process(Values(), element_type=element),
            key=lambda row: row.key,
            key_type=Types.STRING(),
            backend=backend,
        )

    def add(harness, now, at, value):
        harness.set_processing_time(now)
        harness.clear_output()
        harness.process_element({"key": "k", "value": value}, at)
        return harness.output()

    config = ttl().build()
    with made(config, first) as harness:
        assert add(harness, 0, 0, 1) == []
        assert add(harness, 50, 15, 2) == []  # a session of its own
        assert add(harness, 120, 8, 3) == []  # merges both; the first row has expired
        taken = harness.snapshot()
    with made(config, second) as harness:
        harness.restore(taken)
        assert sorted(add(harness, 130, 9, 4)[0]) == [1, 2, 3, 4]
    with made(config, second) as harness:
        harness.restore(taken)
        assert add(harness, 155, 9, 4) == []  # the merge was no access: the second row was of 50
    with made(config, second) as harness:
        harness.restore(taken)
        assert add(harness, 250, 9, 4) == []  # all of before have expired
    with made(None, second) as harness:
        harness.restore(taken)
        assert sorted(add(harness, 5_000, 9, 4)[0]) == [1, 2, 3, 4]


class Counted(Seldom):
    """Fires when a count that expires reaches three, in all windows that were merged."""

    def __init__(self, config: StateTtlConfig | None) -> None:
        self.count = ReducingStateDescriptor("count", lambda one, two: one + two, Types.LONG())
        if config is not None:
            self.count.enable_time_to_live(config)

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(self.count)
        if element.value:
            count.add(1)
        return windows.TriggerResult.FIRE if (count.get() or 0) >= 3 else windows.TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.count)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.count).clear()


@BACKENDS
@pytest.mark.parametrize(
    ("last", "fires"), [(149, True), (150, False)], ids=["in its life", "after its life"]
)
def test_a_merged_count_is_as_old_as_its_younger_part(backend, last, fires):
    operation = windows.over(windows.EventTimeSessionWindows.with_gap(10)).trigger(Counted(ttl().build()))
    element = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.LONG()])
    with KeyedProcessHarness(
        operation.process(Values(), element_type=element),
        key=lambda row: row.key,
        key_type=Types.STRING(),
        backend=backend,
    ) as harness:
        # The third row merges the sessions of the others, and is not counted: their counts of 20 and 50 are.
        for now, at, value in ((20, 0, 1), (50, 15, 1), (110, 8, 0), (last, 9, 0)):
            harness.set_processing_time(now)
            harness.process_element({"key": "k", "value": value}, at)
        harness.process_element({"key": "k", "value": 1}, 9)
        assert bool(harness.output()) is fires


class Both(KeyedCoProcessFunction):
    def open(self, ctx):
        descriptor = ValueStateDescriptor("last", Types.STRING())
        descriptor.enable_time_to_live(ttl().use_event_time().build())
        self.last = ctx.get_state(descriptor)

    def process_element1(self, value, ctx):
        yield "first", self.last.value()
        self.last.update("first")

    def process_element2(self, value, ctx):
        yield "second", self.last.value()
        self.last.update("second")


def test_both_inputs_see_a_state_that_expires():
    with KeyedCoProcessHarness(Both(), key=lambda row: row.key, key_type=Types.STRING()) as harness:
        harness.process_element1({"key": "k"}, timestamp=10)
        harness.process_watermark(109)
        harness.process_element2({"key": "k"}, timestamp=110)
        harness.process_watermark(210)
        harness.process_element1({"key": "k"}, timestamp=211)
        assert harness.output() == [("first", None), ("second", "first"), ("first", None)]
