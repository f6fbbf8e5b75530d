"""State that expires, as a function sees it: update types, visibility, both times, namespaces, batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops

from sparkstate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedBatchFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    TimeDomain,
    Types,
    ValueStateDescriptor,
    errors,
    windows,
)
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.testing import KeyedCoProcessHarness, KeyedProcessHarness

BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])


def ttl(length: int = 100) -> Any:
    return StateTtlConfig.new_builder(length)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]


class Scripted(KeyedProcessFunction):
    """Calls what each row brings with itself: the states' methods are at hand."""

    def __init__(self, config: StateTtlConfig) -> None:
        self.config = config

    def open(self, ctx):
        def living(descriptor):
            descriptor.enable_time_to_live(self.config)
            return descriptor

        self.value = ctx.get_state(living(ValueStateDescriptor("value", Types.LONG())))
        self.list = ctx.get_list_state(living(ListStateDescriptor("list", Types.LONG())))
        self.map = ctx.get_map_state(living(MapStateDescriptor("map", Types.STRING(), Types.LONG())))
        self.sum = ctx.get_reducing_state(
            living(ReducingStateDescriptor("sum", lambda one, two: one + two, Types.LONG()))
        )
        self.mean = ctx.get_aggregating_state(
            living(AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])))
        )

    def process_element(self, value, ctx):
        found = value["do"](self, ctx)
        if found is not None:
            yield found

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain(), timestamp, self.value.value()


def done(*_: Any) -> None:
    """A step that yields nothing, whatever its calls returned."""


class Driven:
    def __init__(self, config: StateTtlConfig, backend: Any = "hashmap", **options: Any) -> None:
        self.harness = KeyedProcessHarness(
            Scripted(config), key=lambda row: row["key"], key_type=Types.STRING(), backend=backend, **options
        )

    def do(self, step: Any, key: str = "k", timestamp: int | None = None) -> Any:
        before = len(self.harness.output())
        self.harness.process_element({"key": key, "do": step}, timestamp)
        return next(iter(self.harness.output()[before:]), None)

    def at(self, time: int) -> None:
        self.harness.set_processing_time(time)


@pytest.fixture
def drive():
    made = []

    def make(*args: Any, **kwargs: Any) -> Driven:
        made.append(Driven(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.harness.close()


@BACKENDS
def test_a_value_lives_for_its_time_after_it_was_written(drive, backend):
    driven = drive(ttl().build(), backend)
    driven.do(lambda f, ctx: f.value.update(1))
    driven.at(99)
    assert driven.do(lambda f, ctx: f.value.value()) == 1  # a read does not let it live on
    driven.at(100)
    assert driven.do(lambda f, ctx: f.value.value()) is None
    assert driven.harness.state("value", "k") is None


@BACKENDS
def test_a_read_lets_a_value_live_on_where_reading_counts(drive, backend):
    driven = drive(ttl().update_ttl_on_read_and_write().build(), backend)
    driven.do(lambda f, ctx: done(f.value.update(1), f.list.add_all([1, 2]), f.map.put("a", 1)))
    for time in (90, 180, 270):
        driven.at(time)
        assert driven.do(lambda f, ctx: (f.value.value(), list(f.list), f.map.get("a"))) == (1, [1, 2], 1)
    driven.at(370)
    assert driven.do(lambda f, ctx: (f.value.value(), list(f.list), f.map.get("a"))) == (None, [], None)


@BACKENDS
def test_elements_and_entries_expire_one_by_one(drive, backend):
    driven = drive(ttl().build(), backend)
    for time in (0, 50, 90):
        driven.at(time)
        driven.do(lambda f, ctx, time=time: done(f.list.add(time), f.map.put(str(time), time)))
    driven.at(120)
    assert driven.do(lambda f, ctx: (list(f.list), dict(f.map.items()))) == ([50, 90], {"50": 50, "90": 90})
    assert driven.do(lambda f, ctx: (f.map.contains("0"), f.map.contains("50"))) == (False, True)
    driven.at(160)
    assert driven.do(lambda f, ctx: (list(f.list), list(f.map.keys()), f.map.is_empty())) == (
        [90],
        ["90"],
        False,
    )
    assert driven.harness.state("list", "k") == [90]
    assert driven.harness.state("map", "k") == {"90": 90}
    driven.at(190)
    assert driven.do(lambda f, ctx: (list(f.list), f.map.is_empty())) == ([], True)


@BACKENDS
def test_folded_state_begins_anew_after_it_has_expired(drive, backend):
    driven = drive(ttl().build(), backend)

    def add(f, ctx):
        f.sum.add(4)
        f.mean.add(4)
        return f.sum.get(), f.mean.get()

    assert driven.do(add) == (4, 4.0)
    driven.at(60)
    assert driven.do(add) == (8, 4.0)
    driven.at(159)  # written at 60
    assert driven.do(lambda f, ctx: (f.sum.get(), f.mean.get())) == (8, 4.0)
    driven.at(160)
    assert driven.do(add) == (4, 4.0)


def test_an_expired_value_may_be_shown_once_where_it_was_asked_for(drive):
    config = ttl().return_expired_if_not_cleaned_up().disable_cleanup_in_background().build()
    driven = drive(config)
    driven.do(lambda f, ctx: done(f.value.update(1), f.list.add(1), f.map.put("a", 1)))
    driven.at(500)
    assert driven.do(lambda f, ctx: (f.value.value(), list(f.list), f.map.get("a"))) == (1, [1], 1)
    assert driven.do(lambda f, ctx: (f.value.value(), f.map.get("a"))) == (None, None)


def test_without_cleanup_expired_entries_stay_until_they_are_read(drive):
    driven = drive(ttl().disable_cleanup_in_background().build())
    driven.do(lambda f, ctx: f.value.update(1))
    for time in range(200, 2000, 100):
        driven.at(time)
    stores = driven.harness._stores.values()
    assert sum(store.stats().rows for store in stores) == 1
    driven.do(lambda f, ctx: f.value.value())
    assert sum(store.stats().rows for store in stores) == 0


@BACKENDS
def test_with_cleanup_expired_entries_leave_though_nobody_reads_them(drive, backend):
    driven = drive(ttl().build(), backend)
    driven.do(lambda f, ctx: done(f.value.update(1), f.list.add(1), f.map.put("a", 1), f.sum.add(1)))
    stores = driven.harness._stores.values()
    assert sum(store.stats().rows for store in stores) == 4
    driven.at(100)
    driven.at(150)
    assert sum(store.stats().rows for store in stores) == 0


def test_an_explicit_cleanup_looks_at_so_many_entries_for_each_key(drive):
    driven = drive(ttl().cleanup_incrementally(2, False).build(), shards=1, max_parallelism=1)
    for number in range(10):
        driven.do(lambda f, ctx: f.value.update(1), key=str(number))
    driven.at(1000)  # an epoch without rows looks at nothing
    [store] = driven.harness._stores.values()
    rows = [store.stats().rows]
    for number in range(5):
        driven.do(lambda f, ctx: None, key=f"other {number}")
        rows.append(store.stats().rows)
    assert rows == [10, 8, 6, 4, 2, 0]


def test_a_namespace_expires_by_itself(drive):
    driven = drive(ttl().build())

    def write(f, ctx):
        f.value.set_current_namespace("n")
        f.value.update(7)

    def read(f, ctx):
        plain = f.value.value()
        f.value.set_current_namespace("n")
        return plain, f.value.value()

    driven.do(lambda f, ctx: f.value.update(1))
    driven.at(50)
    driven.do(write)
    assert driven.do(read) == (1, 7)
    driven.at(100)
    assert driven.do(read) == (None, 7)
    driven.at(150)
    assert driven.do(read) == (None, None)


def test_a_rejected_record_undoes_its_reads_too():
    class Failing(Scripted):
        def process_element(self, value, ctx):
            found = self.value.value(), list(self.list), dict(self.map.items())
            if value["do"] == "fail":
                raise ValueError("rejected")
            if value["do"] == "write":
                self.value.update(1)
                self.list.add_all([1, 2])
                self.map.put("a", 1)
            yield found

    config = ttl().update_ttl_on_read_and_write().build()
    with KeyedProcessHarness(
        Failing(config), key=lambda row: row["key"], key_type=Types.STRING(), on_error="side-output"
    ) as harness:
        harness.process_element({"key": "k", "do": "write"})
        harness.set_processing_time(90)
        harness.process_element({"key": "k", "do": "fail"})
        harness.set_processing_time(110)
        harness.process_element({"key": "k", "do": "look"})
        assert harness.output() == [(None, [], {}), (None, [], {})]


# --- event time


def test_in_event_time_a_row_is_judged_by_the_watermark_and_stamped_by_its_own_time(drive):
    driven = drive(ttl().use_event_time().build())
    driven.do(lambda f, ctx: f.value.update(1), timestamp=40)
    driven.at(10_000)  # wall time does not count
    driven.harness.process_watermark(139)
    assert driven.do(lambda f, ctx: f.value.value(), timestamp=1000) == 1
    driven.harness.process_watermark(140)
    assert driven.do(lambda f, ctx: f.value.value(), timestamp=1000) is None
    driven.do(lambda f, ctx: f.value.update(2), timestamp=20)  # late: stamped by the watermark
    driven.harness.process_watermark(239)
    assert driven.do(lambda f, ctx: f.value.value()) == 2


def test_an_event_time_timer_sees_the_state_of_its_own_time(drive):
    driven = drive(ttl().use_event_time().build())

    def arm(f, ctx):
        f.value.update(1)
        for time in (139, 140):
            ctx.timer_service().register_event_time_timer(time)

    driven.do(arm, timestamp=40)
    driven.harness.process_watermark(100_000)
    assert driven.harness.output() == [(TimeDomain.EVENT_TIME, 139, 1), (TimeDomain.EVENT_TIME, 140, None)]


def test_a_processing_time_timer_judges_event_time_by_the_watermark(drive):
    driven = drive(ttl().use_event_time().build())

    def arm(f, ctx):
        f.value.update(1)
        ctx.timer_service().register_processing_time_timer(5_000)

    driven.do(arm, timestamp=40)
    driven.at(5_000)
    assert driven.harness.output() == [(TimeDomain.PROCESSING_TIME, 5_000, 1)]


def test_the_end_of_the_input_lets_nothing_expire(drive):
    driven = drive(ttl().use_event_time().build())

    def arm(f, ctx):
        f.value.update(1)
        ctx.timer_service().register_event_time_timer(2**63 - 1)

    driven.do(arm, timestamp=40)
    driven.harness.end_input()
    assert driven.harness.output() == [(TimeDomain.EVENT_TIME, 2**63 - 1, 1)]
    assert driven.harness.state("value", "k") == 1


def test_a_value_written_at_no_known_time_lives_until_it_is_written_at_one(drive):
    driven = drive(ttl().use_event_time().build())
    driven.do(lambda f, ctx: f.value.update(1))
    driven.harness.process_watermark(1_000_000)
    assert driven.do(lambda f, ctx: f.value.value()) == 1
    driven.do(lambda f, ctx: f.value.update(2))
    driven.harness.process_watermark(1_000_100)
    assert driven.do(lambda f, ctx: f.value.value()) is None


# --- functions on batches


class Batched(KeyedBatchFunction):
    def __init__(self, config: StateTtlConfig) -> None:
        self.config = config

    def open(self, ctx):
        def living(descriptor):
            descriptor.enable_time_to_live(self.config)
            return descriptor

        self.value = ctx.get_state(living(ValueStateDescriptor("value", Types.LONG())))
        self.spaced = ctx.get_state(living(ValueStateDescriptor("spaced", Types.LONG())), in_namespaces=True)
        self.list = ctx.get_list_state(living(ListStateDescriptor("list", Types.STRING())))
        self.sum = ctx.get_reducing_state(
            living(ReducingStateDescriptor("sum", lambda one, two: one + two, Types.LONG()))
        )

    def process_batch(self, batch, keys, ctx):
        spaces = pa.array([3] * len(keys))
        before = self.value.get(keys), self.spaced.get(keys, namespaces=spaces), self.list.get(keys)
        self.sum.add(keys, "n")
        if batch["write"][0].as_py():
            latest = keys.last("n")
            self.value.update(keys, latest)
            self.spaced.update(keys, latest, namespaces=spaces)
            self.list.add(keys, pa.array([str(n) for n in batch["n"].to_pylist()]))
        yield pa.table(
            {
                "key": keys.values,
                "value": before[0],
                "spaced": before[1],
                "list": before[2],
                "sum": self.sum.get(keys),
            }
        )


@BACKENDS
@pytest.mark.parametrize("key_type", [Types.LONG(), Types.STRING()], ids=["whole numbers", "text"])
def test_a_function_on_batches_sees_the_same(backend, key_type):
    key = 1 if key_type == Types.LONG() else "k"
    with KeyedProcessHarness(
        Batched(ttl().build()), key=lambda row: row["key"], key_type=key_type, backend=backend
    ) as harness:
        for time, n, write in ((0, 1, True), (50, 2, False), (90, 3, True), (100, 4, False), (190, 5, False)):
            harness.set_processing_time(time)
            harness.process_element({"key": key, "n": n, "write": write})
        found = [
            tuple(row.asDict().values() if hasattr(row, "asDict") else row)[1:] for row in harness.output()
        ]
    assert found == [
        (None, None, [], 1),
        (1, 1, ["1"], 3),
        (1, 1, ["1"], 6),
        (3, 3, ["3"], 10),
        (None, None, [], 15),
    ]


def test_a_function_on_batches_cannot_have_event_time():
    with pytest.raises(errors.StateError, match="state 'value' expires in event time"):
        KeyedProcessHarness(
            Batched(ttl().use_event_time().build()), key=lambda row: row["key"], key_type=Types.LONG()
        )


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
    with pytest.raises(errors.StateError, match="state 'value' has a time-to-live, which the state backend"):
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
