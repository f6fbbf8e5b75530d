"""State, timers and the current key where there is no key: in ``open`` and in ``close``, on both backends."""

from __future__ import annotations

import pytest

from sparkstate import errors
from sparkstate.functions import AggregateFunction, KeyedProcessFunction, ReduceFunction
from sparkstate.operators.state.context import Cursor
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.testing import KeyedProcessHarness


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator


class Last(ReduceFunction):
    def reduce(self, value1, value2):
        return value2


USES = {
    "value": lambda f: f.value.value(),
    "value update": lambda f: f.value.update(1),
    "text update": lambda f: f.text.update("a"),
    "tags update": lambda f: f.tags.update(["a"]),
    "value clear": lambda f: f.value.clear(),
    "list get": lambda f: f.list.get(),
    "list add": lambda f: f.list.add(1),
    "list add_all": lambda f: f.list.add_all([1]),
    "list update": lambda f: f.list.update([1]),
    "list clear": lambda f: f.list.clear(),
    "map get": lambda f: f.map.get("a"),
    "map put": lambda f: f.map.put("a", 1),
    "map remove": lambda f: f.map.remove("a"),
    "map contains": lambda f: f.map.contains("a"),
    "map items": lambda f: f.map.items(),
    "map is_empty": lambda f: f.map.is_empty(),
    "map clear": lambda f: f.map.clear(),
    "reducing get": lambda f: f.longest.get(),
    "reducing add": lambda f: f.longest.add("a"),
    "reducing clear": lambda f: f.longest.clear(),
    "aggregating get": lambda f: f.mean.get(),
    "aggregating add": lambda f: f.mean.add(1),
    "namespace": lambda f: f.value.set_current_namespace("w"),
}


class Outside(KeyedProcessFunction):
    """Uses its state in ``open`` or in ``close``."""

    def __init__(self, use, place):
        self.use, self.place = use, place

    def open(self, ctx):
        self.value = ctx.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.text = ctx.get_state(ValueStateDescriptor("text", Types.STRING()))
        self.tags = ctx.get_state(ValueStateDescriptor("tags", Types.LIST(Types.STRING())))
        self.list = ctx.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = ctx.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.longest = ctx.get_reducing_state(ReducingStateDescriptor("longest", Last(), Types.STRING()))
        self.mean = ctx.get_aggregating_state(AggregatingStateDescriptor("mean", Count(), Types.LONG()))
        if self.place == "open":
            self.use(self)

    def process_element(self, value, ctx):
        self.value.update(1)

    def close(self):
        if self.place == "close":
            self.use(self)


@pytest.mark.parametrize("place", ["open", "close"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_is_refused_where_there_is_no_key(backend, use, place):
    """PyFlink: "No key set. This method should not be called outside of a keyed context." """
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")

    def live():
        function = Outside(use, place)
        options = {"key": lambda row: row[0], "key_type": Types.STRING()}
        with KeyedProcessHarness(function, backend=backend, **options) as made:
            made.process_element(("a",))

    with pytest.raises(
        (errors.StateError, errors.UserCodeError), match=r"of operator 'harness'.*no key is set"
    ):
        live()


@pytest.mark.parametrize("use", ["get_current_key", "register_event_time_timer"])
def test_a_context_that_was_kept_is_refused_where_there_is_no_key(use):
    class Keeps(KeyedProcessFunction):
        def process_element(self, value, ctx):
            self.ctx = ctx

        def close(self):
            service = self.ctx.timer_service()
            self.ctx.get_current_key() if use == "get_current_key" else getattr(service, use)(5)

    def live():
        with KeyedProcessHarness(Keeps(), key=lambda row: row[0], key_type=Types.STRING()) as made:
            made.process_element(("a",))

    with pytest.raises(errors.UserCodeError, match="no key is set"):
        live()


@pytest.mark.parametrize(
    "use",
    [
        "register_event_time_timer",
        "register_processing_time_timer",
        "delete_event_time_timer",
        "delete_processing_time_timer",
    ],
)
def test_a_timer_service_that_no_overlay_was_ever_given_to_refuses_timers(use):
    service = Cursor().timer_service()
    with pytest.raises(errors.StateError, match="no key is set"):
        getattr(service, use)(5)
