"""Namespaces that are equal in Python and stored apart (1, True, 1.0) are apart in an epoch too, on both backends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkstate.functions import Context, KeyedProcessFunction, OnTimerContext, RuntimeContext
from sparkstate.serde import composite
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness

ALIKE: list[Any] = [None, 1, True, 1.0, 0, False, 0.0, -0.0, 1.5, "1", b"1"]
ALIKE += [(1,), (True,), (1.0,), ((1, "w"),), ((True, "w"),), (), (None,)]
BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])


def stored(namespace: Any) -> str:
    """What tells namespaces apart."""
    return composite.NAMESPACES.encode(namespace).hex()


class Spaces(KeyedProcessFunction):
    """Rows say what to do in which namespace: add a number to a value, a list and a map, read them, set a timer."""

    def open(self, ctx: RuntimeContext) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.items = ctx.get_list_state(ListStateDescriptor("items", Types.LONG()))
        self.entries = ctx.get_map_state(MapStateDescriptor("entries", Types.LONG(), Types.LONG()))

    def process_element(self, row: Any, ctx: Context) -> Iterator[Any]:
        for state in (self.value, self.items, self.entries):
            state.set_current_namespace(row.space)
        if row.does == "add":
            self.value.update((self.value.value() or 0) + row.number)
            self.items.add(row.number)
            self.entries.put(row.number, row.number)
        elif row.does == "read":
            yield (
                stored(row.space),
                self.value.value(),
                list(self.items.get() or ()),
                sorted(self.entries.keys()),
            )
        elif row.does == "wait":
            ctx.timer_service().register_event_time_timer(row.number, row.space)
        else:
            ctx.timer_service().delete_event_time_timer(row.number, row.space)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        self.value.set_current_namespace(ctx.namespace())
        yield timestamp, stored(ctx.namespace()), self.value.value()


def harness(backend: str) -> KeyedProcessHarness:
    return KeyedProcessHarness(Spaces(), key=lambda row: "k", key_type=Types.STRING(), backend=backend)


class Model:
    """The same, by what is stored."""

    def __init__(self) -> None:
        self.added: dict[str, list[int]] = {}
        self.timers: set[tuple[int, str]] = set()
        self.read: list[Any] = []

    def take(self, does: str, space: Any, number: int) -> None:
        name = stored(space)
        if does == "add":
            self.added.setdefault(name, []).append(number)
        elif does == "read":
            items = self.added.get(name, [])
            self.read.append((name, sum(items) if items else None, list(items), sorted(set(items))))
        elif does == "wait":
            self.timers.add((number, name))
        else:
            self.timers.discard((number, name))

    def fired(self) -> list[Any]:
        sums = {name: sum(items) for name, items in self.added.items()}
        return sorted(((at, name, sums.get(name)) for at, name in self.timers), key=repr)


STEPS = st.tuples(st.sampled_from(["add", "read", "wait", "drop"]), st.sampled_from(ALIKE), st.integers(1, 3))
EPOCHS = st.lists(st.tuples(st.lists(STEPS, max_size=12), st.booleans()), min_size=1, max_size=4)


@BACKENDS
@settings(max_examples=25)
@given(EPOCHS)
def test_what_is_stored_apart_is_apart_within_an_epoch_and_after_a_restore(backend: str, epochs: Any) -> None:
    model = Model()
    with harness(backend) as made:
        for steps, restores in epochs:
            rows = [({"does": does, "space": space, "number": number}, 0) for does, space, number in steps]
            made.process_elements(rows)
            for step in steps:
                model.take(*step)
            if restores:
                made.restore(made.snapshot())
        assert made.output() == model.read
        made.clear_output()
        made.process_watermark(10)
        assert sorted(made.output(), key=repr) == model.fired()
        for space in ALIKE:
            items = model.added.get(stored(space), [])
            assert made.state("value", "k", space) == (sum(items) if items else None), space


@BACKENDS
def test_a_timer_gives_its_namespace_back_as_it_was(backend: str) -> None:
    seen: list[Any] = []

    class Waits(Spaces):
        def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
            seen.append(ctx.namespace())
            yield from ()

    spaces: list[Any] = [1, True, 1.0, ((True, 1), 1.0)]
    with KeyedProcessHarness(Waits(), key=lambda row: "k", key_type=Types.STRING(), backend=backend) as made:
        made.process_elements([({"does": "wait", "space": each, "number": 5}, 0) for each in spaces])
        made.restore(made.snapshot())
        made.process_watermark(10)
    assert sorted(map(repr, seen)) == sorted(map(repr, spaces))
