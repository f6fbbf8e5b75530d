"""A function that does what its rows bring along, on states of all kinds that expire, and a driver for it."""

from __future__ import annotations

from typing import Any

from sparkstate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from sparkstate.testing import KeyedProcessHarness


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
