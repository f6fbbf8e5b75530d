"""Keyed state as PyFlink defines it, on both backends: each test scripts what one record does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas
import pytest

from sparkstate import errors
from sparkstate.functions import AggregateFunction, KeyedProcessFunction, ReduceFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.testing import KeyedProcessHarness


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


class Scripted(KeyedProcessFunction):
    """Does what each element (a function of this object) says; what that returns is yielded."""

    def open(self, ctx):
        self.ctx = ctx
        self.value = ctx.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.text = ctx.get_state(ValueStateDescriptor("text", Types.STRING()))
        self.data = ctx.get_state(ValueStateDescriptor("data", Types.PRIMITIVE_ARRAY(Types.BYTE())))
        self.tags = ctx.get_state(ValueStateDescriptor("tags", Types.LIST(Types.STRING())))
        self.share = ctx.get_state(ValueStateDescriptor("share", Types.DOUBLE()))
        self.pair = ctx.get_state(ValueStateDescriptor("pair", Types.TUPLE([Types.LONG(), Types.LONG()])))
        self.list = ctx.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = ctx.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.times = ctx.get_map_state(MapStateDescriptor("times", Types.INSTANT(), Types.LONG()))
        self.longest = ctx.get_reducing_state(ReducingStateDescriptor("longest", Longest(), Types.STRING()))
        self.mean = ctx.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value, ctx):
        yield value[1](self)


Do = Callable[[Callable[[Scripted], Any]], Any]


@pytest.fixture(params=["hashmap", "rocksdb"])
def harness(request):
    if request.param == "rocksdb":
        pytest.importorskip("rocksdict")
    with KeyedProcessHarness(
        Scripted(), key=lambda row: row[0], key_type=Types.STRING(), backend=request.param
    ) as made:
        yield made


@pytest.fixture
def do(harness: KeyedProcessHarness) -> Do:
    """Run a script under key "a", in an epoch of its own, and give its result."""

    def run(script: Callable[[Scripted], Any], key: str = "a") -> Any:
        harness.process_element((key, script))
        return harness.output()[-1]

    return run


def test_empty_state_reads_as_nothing(do):
    assert do(lambda f: (f.value.value(), f.longest.get(), f.mean.get())) == (None, None, None)
    assert do(lambda f: (list(f.list.get()), list(f.list), list(f.map.items()))) == ([], [], [])
    assert do(lambda f: (f.map.get("x"), f.map["x"], "x" in f.map, f.map.is_empty())) == (
        None,
        None,
        False,
        True,
    )


def test_a_value_is_kept_per_key_and_none_removes_it(do, harness):
    do(lambda f: f.value.update(1))
    do(lambda f: f.value.update(2), key="b")
    assert (do(lambda f: f.value.value()), do(lambda f: f.value.value(), key="b")) == (1, 2)
    do(lambda f: f.value.update(None))
    assert do(lambda f: f.value.value()) is None
    do(lambda f: f.value.clear(), key="b")
    assert harness.state("value", "b") is None


def test_times_of_pandas_that_differ_by_nanoseconds_are_one_map_key_within_an_epoch_and_over_a_restore(
    do, harness
):
    def count(nanosecond):
        time = pandas.Timestamp(nanosecond, unit="ns", tz="UTC")
        return lambda f: (f.times.put(time, (f.times.get(time) or 0) + 1), len(list(f.times.keys())))

    harness.process_elements([(("a", count(2000)), None), (("a", count(2001)), None)])
    do(count(2002))
    harness.restore(harness.snapshot())
    assert do(count(2003)) == (None, 1)
    assert list(harness.state("times", "a").values()) == [4]


def test_zero_and_the_empty_string_are_values(do, harness):
    do(lambda f: (f.value.update(0), f.text.update("")))
    assert do(lambda f: (f.value.value(), f.text.value())) == (0, "")
    assert harness.state("value", "a") == 0


def test_a_value_that_is_changed_without_update_stays_as_it_was(do):
    def change(f):
        mine = ["x"]
        f.tags.update(mine)
        mine.append("mine")
        f.tags.value().append("read")
        return f.tags.value()

    assert do(change) == ["x"]
    assert do(lambda f: (f.tags.value().append("lost"), f.tags.value())[1]) == ["x"]


def test_a_list_appends_replaces_and_clears(do, harness):
    do(lambda f: (f.list.add(1), f.list.add_all([2, 3])))
    assert do(lambda f: (f.list.add(4), f.list.get())[1]) == [1, 2, 3, 4]
    assert do(lambda f: (f.list.update([9]), f.list.add(10), list(f.list))[2]) == [9, 10]
    assert harness.state("list", "a") == [9, 10]
    do(lambda f: (f.list.clear(), f.list.add(5)))
    assert harness.state("list", "a") == [5]
    do(lambda f: f.list.update([]))
    assert harness.state("list", "a") is None


def test_a_list_refuses_none_as_flink_does(do):
    for script in (
        lambda f: f.list.add(None),
        lambda f: f.list.add_all([1, None]),
        lambda f: f.list.update([None]),
        lambda f: f.list.add_all(None),
        lambda f: f.list.update(None),
    ):
        with pytest.raises(errors.UserCodeError, match=r"state 'list' of operator 'harness', key 'a'.*None"):
            do(script)


def test_a_list_that_is_read_and_changed_stays_as_it_was(do):
    do(lambda f: f.list.add(1))
    assert do(lambda f: (f.list.get().append(2), f.list.get())[1]) == [1]


def test_a_map_puts_reads_and_removes_single_entries(do, harness):
    do(lambda f: (f.map.put("x", 1), f.map.put_all({"y": 2, "z": None})))
    assert do(lambda f: (f.map.get("x"), f.map["y"], f.map.get("z"), "z" in f.map)) == (1, 2, None, True)
    assert do(lambda f: f.map.is_empty()) is False

    def change(f):
        f.map["w"] = 0
        del f.map["x"]
        f.map.remove("never there")
        return sorted(f.map.keys()), sorted(f.map.values(), key=repr), sorted(f.map), dict(f.map.items())

    assert do(change) == (["w", "y", "z"], [0, 2, None], ["w", "y", "z"], {"w": 0, "y": 2, "z": None})
    assert harness.state("map", "a") == {"w": 0, "y": 2, "z": None}
    assert do(lambda f: (f.map.clear(), f.map.put("only", 1), dict(f.map.items()))[2]) == {"only": 1}
    do(lambda f: f.map.clear())
    assert harness.state("map", "a") is None


def test_a_map_may_be_changed_while_it_is_iterated(do):
    do(lambda f: f.map.put_all({"x": 1, "y": 2}))
    assert do(lambda f: [f.map.remove(key) for key in f.map] and f.map.is_empty()) is True


def test_reducing_and_aggregating_state_fold_what_is_added_and_none_clears(do, harness):
    do(lambda f: (f.longest.add("ab"), f.longest.add("c"), f.mean.add(1), f.mean.add(2)))
    assert do(lambda f: (f.longest.get(), f.mean.get())) == ("ab", 1.5)
    assert harness.state("mean", "a") == (3, 2)
    do(lambda f: (f.longest.add(None), f.mean.add(None)))
    assert do(lambda f: (f.longest.get(), f.mean.get())) == (None, None)
    do(lambda f: (f.longest.add("x"), f.longest.clear(), f.mean.clear()))
    assert harness.state("longest", "a") is None


def test_value_and_update_of_reducing_and_aggregating_state_show_and_set_what_is_stored(do):
    do(lambda f: (f.longest.add("ab"), f.mean.add(1), f.mean.add(2)))
    assert do(lambda f: (f.longest.value(), f.mean.value())) == ("ab", (3, 2))
    do(lambda f: (f.longest.update("abcd"), f.mean.update((10, 4))))
    assert do(lambda f: (f.longest.get(), f.mean.get())) == ("abcd", 2.5)
    do(lambda f: (f.longest.add("x"), f.mean.add(20)))
    assert do(lambda f: (f.longest.value(), f.mean.value())) == ("abcd", (30, 5))


def test_a_namespace_is_a_second_dimension_and_ends_with_the_record(do, harness):
    def write(f):
        for state in (f.value, f.list, f.map, f.longest):
            state.set_current_namespace(("w", 1))
        f.value.update(7)
        f.list.add(7)
        f.map.put("x", 7)
        f.longest.add("seven")
        f.value.set_current_namespace("other")
        f.value.update(8)
        return f.value.value()

    assert do(write) == 8
    assert do(lambda f: (f.value.value(), f.list.get(), f.map.is_empty(), f.longest.get())) == (
        None, [], True, None,
    )  # fmt: skip
    assert harness.state("value", "a", namespace=("w", 1)) == 7
    assert harness.state("value", "a", namespace="other") == 8
    assert harness.state("list", "a", namespace=("w", 1)) == [7]
    assert harness.state("map", "a", namespace=("w", 1)) == {"x": 7}

    def read(f):
        f.value.set_current_namespace(("w", 1))
        inside = f.value.value()
        f.value.clear()
        f.value.set_current_namespace(None)
        return inside, f.value.value()

    assert do(read) == (7, None)
    assert harness.state("value", "a", namespace=("w", 1)) is None


@pytest.mark.parametrize(
    ("script", "named"),
    [
        pytest.param(lambda f: f.value.update("x"), "state 'value'.*key 'a'.*'x'.*str.*LONG", id="value"),
        pytest.param(lambda f: f.value.update(2**63), "state 'value'.*9223372036854775808", id="too large"),
        pytest.param(lambda f: f.value.update(True), "state 'value'.*True.*bool", id="boolean"),
        pytest.param(lambda f: f.text.update(1), "state 'text'.*STRING", id="text"),
        pytest.param(lambda f: f.data.update("x"), "state 'data'.*ARRAY<BYTE>", id="bytes"),
        pytest.param(lambda f: f.list.add("x"), "state 'list'.*LONG", id="list"),
        pytest.param(lambda f: f.map.put("k", "v"), "state 'map'.*'v'", id="map value"),
        pytest.param(lambda f: f.map.put(1, 1), "state 'map'.*map key 1", id="map key"),
        pytest.param(lambda f: f.map.get(1), "state 'map'.*map key 1", id="map key read"),
        pytest.param(lambda f: f.longest.add(1), "state 'longest'.*STRING", id="reducing"),
        pytest.param(lambda f: f.mean.add("x"), "TypeError", id="aggregating: the user's own error"),
        pytest.param(lambda f: f.value.set_current_namespace([]), "cannot be a namespace", id="namespace"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_state_key_value_and_type(do, harness, script, named):
    with pytest.raises(errors.UserCodeError, match=named):
        do(script)
    assert harness.state("value", "a") is None


def test_none_is_no_key_of_a_map(do):
    for use in (lambda f: f.map.put(None, 1), lambda f: f.map.get(None), lambda f: f.map.contains(None)):
        with pytest.raises(errors.UserCodeError, match=r"state 'map'.*map key None"):
            do(use)


def test_values_become_what_their_type_says_before_they_are_stored(do, harness):
    def write(f):
        f.share.update(1)
        f.pair.update([1, 2])
        return f.share.value(), f.pair.value()

    before = do(write)
    after = do(lambda f: (f.share.value(), f.pair.value()))
    assert before == after == (1.0, (1, 2))
    assert [type(value) for value in before] == [type(value) for value in after] == [float, tuple]


def test_a_state_first_asked_for_after_open_is_refused_with_the_reason(do):
    with pytest.raises(errors.UserCodeError, match=r"after open.*are read before its first record"):
        do(lambda f: f.ctx.get_state(ValueStateDescriptor("late", Types.LONG())))


def test_a_state_that_open_asked_for_is_given_again_later(do):
    do(lambda f: f.value.update(7))
    again = lambda f: f.ctx.get_state(ValueStateDescriptor("value", Types.LONG()))  # noqa: E731
    assert do(lambda f: (again(f) is f.value, again(f).value())) == (True, 7)
    with pytest.raises(errors.UserCodeError, match="declared twice"):
        do(lambda f: f.ctx.get_state(ValueStateDescriptor("value", Types.STRING())))


class Declares(KeyedProcessFunction):
    def __init__(self, declare):
        self.declare = declare

    def open(self, ctx):
        self.declared = self.declare(ctx)

    def process_element(self, value, ctx):
        return None


def open_with(declare):
    harness = KeyedProcessHarness(Declares(declare), key=lambda row: row, key_type=Types.STRING())
    harness.close()
    return harness


TWICE = [
    pytest.param(
        lambda c: [c.get_state(ValueStateDescriptor("s", t)) for t in (Types.LONG(), Types.STRING())],
        id="other type",
    ),
    pytest.param(
        lambda c: [
            c.get_state(ValueStateDescriptor("s", Types.LONG())),
            c.get_list_state(ListStateDescriptor("s", Types.LONG())),
        ],
        id="other kind",
    ),
    pytest.param(
        lambda c: [
            c.get_map_state(MapStateDescriptor("s", t, Types.LONG())) for t in (Types.LONG(), Types.STRING())
        ],
        id="other map key",
    ),
]


@pytest.mark.parametrize("declare", TWICE)
def test_one_name_for_two_states_is_refused(declare):
    with pytest.raises(errors.DeclarationError, match="'s' is declared twice"):
        open_with(declare)


def test_the_same_descriptor_twice_gives_the_same_handle():
    function = Declares(
        lambda c: [c.get_state(ValueStateDescriptor("s", Types.LONG())) for _ in range(2)],
    )
    with KeyedProcessHarness(function, key=lambda row: row, key_type=Types.STRING()):
        assert function.declared[0] is function.declared[1]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        pytest.param(lambda: ValueStateDescriptor("", Types.LONG()), "cannot be the name", id="empty name"),
        pytest.param(lambda: ValueStateDescriptor("_timer_state/x", Types.LONG()), "reserved", id="reserved"),
        pytest.param(lambda: ValueStateDescriptor("s", "LONG"), "made by Types", id="no type"),
        pytest.param(
            lambda: MapStateDescriptor("s", Types.PICKLED_BYTE_ARRAY(), Types.LONG()),
            "keys",
            id="pickled key",
        ),
        pytest.param(
            lambda: ReducingStateDescriptor("s", 5, Types.LONG()), "ReduceFunction", id="no function"
        ),
        pytest.param(
            lambda: AggregatingStateDescriptor("s", max, Types.LONG()), "AggregateFunction", id="no aggregate"
        ),
        pytest.param(
            lambda: ValueStateDescriptor("s", Types.LONG()).enable_time_to_live(None),
            "StateTtlConfig.new_builder",
            id="ttl",
        ),
    ],
)
def test_a_descriptor_that_cannot_work_is_refused(make, complaint):
    with pytest.raises(errors.SparkstateError, match=complaint):
        make()


def test_restored_state_of_another_type_is_a_migration_error_that_names_both():
    with KeyedProcessHarness(
        Declares(lambda c: c.get_state(ValueStateDescriptor("s", Types.LONG()))),
        key=lambda row: row,
        key_type=Types.STRING(),
    ) as before:
        snapshot = before.snapshot()
    with KeyedProcessHarness(Declares(lambda c: None), key=lambda row: row, key_type=Types.STRING()) as after:
        after._spec.function.declare = lambda c: c.get_state(ValueStateDescriptor("s", Types.STRING()))
        with pytest.raises(errors.StateMigrationError, match=r"value type was LONG .* now STRING"):
            after.restore(snapshot)
