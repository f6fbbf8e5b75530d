"""A function that keeps values of a given type in states of every kind, and changes nothing about them."""

from __future__ import annotations

from typing import Any

from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import TypeInformation, Types
from sparkstate.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.state.folding import AggregateFunction
from sparkstate.state.ttl import StateTtlConfig

STATES = ("value", "list", "map", "last", "folded", "number")
HOLDS_MANY = ("list", "map")


def latest(_: Any, added: Any) -> Any:
    """Reduces to what was added last."""
    return added


class Latest(AggregateFunction):
    """The accumulator is what was added last, in a row of its own, with the number of values in front."""

    def create_accumulator(self) -> Any:
        return (0, None)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + 1, value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[1]


class Keeper(KeyedProcessFunction):
    """An element is (key, namespace, state, method, arguments)."""

    def __init__(
        self,
        value_type: TypeInformation,
        number_type: TypeInformation,
        ttl: StateTtlConfig | None = None,
    ) -> None:
        self.value_type = value_type
        self.number_type = number_type
        self.ttl = ttl

    def open(self, ctx):
        kind = self.value_type
        folded = Types.ROW_NAMED(["count", "value"], [Types.LONG(), kind])
        self.states = {
            "value": ctx.get_state(self.living(ValueStateDescriptor("value", kind))),
            "list": ctx.get_list_state(self.living(ListStateDescriptor("list", kind))),
            "map": ctx.get_map_state(self.living(MapStateDescriptor("map", Types.STRING(), kind))),
            "last": ctx.get_reducing_state(self.living(ReducingStateDescriptor("last", latest, kind))),
            "folded": ctx.get_aggregating_state(
                self.living(AggregatingStateDescriptor("folded", Latest(), folded))
            ),
            "number": ctx.get_state(self.living(ValueStateDescriptor("number", self.number_type))),
        }

    def living(self, descriptor: Any) -> Any:
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        return descriptor

    def process_element(self, value, ctx):
        _, namespace, name, method, arguments = value
        state = self.states[name]
        state.set_current_namespace(namespace)
        getattr(state, method)(*arguments)
        yield value


def write(name: str, value: Any) -> tuple[str, str, tuple[Any, ...]]:
    """What puts a value into a state."""
    if name == "map":
        return name, "put", ("entry", value)
    return name, "update" if name in ("value", "number") else "add", (value,)
