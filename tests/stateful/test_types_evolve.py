"""State lives on while its types change, again and again: HashMap, RocksDB and a plain model agree.

A life: epochs that write values of the type of that time into states of every kind; snapshots in either format; starts
of new code with another type from any of the last snapshots, in one, two or three slots, also from the other backend's
savepoint. The model converts every value at each change. So RocksDB, which leaves values as they were written until it
reads them, must give the same as if all had been migrated each time. The time-to-live of all states changes with the
types. It is so long that nothing expires, but stored values get a stamp, lose it, or get that of another time.
"""

from __future__ import annotations

import copy
import itertools
import os
import shutil
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.backends import evolving, keeper
from support.backends.life import BACKENDS, KEYS, Engine, Model, Taken, key_group
from support.faults import in_full

from sparkstate.durations import Time
from sparkstate.state.ttl import StateTtlConfig
from sparkstate_tools import memory

pytestmark = pytest.mark.fault_on("hashmap, rocksdb, plain values")

LIVES = itertools.count()
SPACES = (None, "window", 5)
KEPT = 3
LONG_LIVES = [
    None,
    StateTtlConfig.new_builder(Time.hours(1)).build(),
    StateTtlConfig.new_builder(Time.hours(2)).build(),
    StateTtlConfig.new_builder(Time.hours(1)).use_event_time().build(),
]
LIFE = st.sampled_from(LONG_LIVES)


@pytest.fixture(autouse=True)
def counted(record_property):
    before = next(LIVES)
    yield
    record_property("runs", next(LIVES) - before - 1)


@dataclass
class World:
    """What the job's state is, and the types of its code."""

    value: evolving.Version
    number: evolving.Version
    state: dict[Any, Any]
    """By (state, key, namespace): a value, list or dict."""


class TypesEvolve(RuleBasedStateMachine):
    """The life."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = memory.folder("sparkstate-evolve-")
        self.unflushed = mock.patch.object(os, "fsync")
        self.unflushed.start()
        self.engines = {backend: Engine(backend, self.folder / backend) for backend in BACKENDS}
        self.epochs = 0
        self.taken: list[tuple[dict[str, Taken], bool, World]] = []

    @initialize(
        slots=st.integers(1, 3),
        keys=st.sampled_from(list(KEYS)),
        value=evolving.VERSIONS,
        number=evolving.NUMBERS,
        ttl=LIFE,
    )
    def start(self, slots, keys, value, number, ttl):
        self.keys = KEYS[keys]
        self.world = World(value, number, {})
        for engine in self.engines.values():
            engine.keys = keys
            self.begin(engine, (value.type(), number.type(), ttl), slots, None)

    def begin(self, engine: Engine, code: tuple[Any, ...], slots: int, taken: Taken | None) -> None:
        engine.make_function = lambda: keeper.Keeper(*code)
        engine.start(slots, taken)

    @rule(data=st.data())
    def epoch(self, data):
        self.epochs += 1
        elements = []
        for _ in range(data.draw(st.integers(1, 6))):
            key = data.draw(st.sampled_from(self.keys))
            space = data.draw(st.sampled_from(SPACES))
            name = data.draw(st.sampled_from(keeper.STATES))
            version = self.world.number if name == "number" else self.world.value
            value = data.draw(version.values())
            if name == "map":
                entry = data.draw(st.sampled_from("xy"))
                elements.append((key, space, name, "put", (entry, value)))
                self.world.state.setdefault((name, key, space), {})[entry] = value
                continue
            elements.append((key, space, *keeper.write(name, value)))
            if name == "list":
                self.world.state.setdefault((name, key, space), []).append(value)
            else:
                self.world.state[name, key, space] = value
        for engine in self.engines.values():
            engine.epoch(self.epochs, elements, 0, 0, True)

    @rule(in_canonical=st.booleans())
    def snapshot(self, in_canonical):
        taken = {name: engine.snapshot(in_canonical, Model())() for name, engine in self.engines.items()}
        self.taken = [*self.taken, (taken, in_canonical, copy.deepcopy(self.world))][-KEPT:]

    @precondition(lambda self: self.taken)
    @rule(
        data=st.data(), slots=st.integers(1, 3), swapped=st.booleans(), age=st.integers(0, KEPT - 1), ttl=LIFE
    )
    def upgrade(self, data, slots, swapped, age, ttl):
        """Other code takes a snapshot up, not always the newest; the other backend's if it is a canonical one."""
        taken, in_canonical, world = self.taken[max(0, len(self.taken) - 1 - age)]
        value, kind, convert = world.value.step(data.draw)
        number, number_kind, convert_number = world.number.step(data.draw)
        backends = list(self.engines)
        sources = backends[::-1] if swapped and in_canonical else backends
        for backend, source in zip(backends, sources, strict=True):
            self.begin(self.engines[backend], (kind, number_kind, ttl), slots, taken[source])
        state = {}
        for (name, *place), held in copy.deepcopy(world.state).items():
            change = convert_number if name == "number" else convert
            many = name in keeper.HOLDS_MANY
            state[(name, *place)] = evolving.held(held, change) if many else change(held)
        self.world = World(value, number, state)
        self.check()

    @rule()
    def check(self):
        wanted = {place: evolving.shown(held) for place, held in self.world.state.items()}
        for engine in self.engines.values():
            found = {}
            for name, key, space in itertools.product(keeper.STATES, self.keys, SPACES):
                held = engine.slot_of(key).operator.read_value(name, key, space, key_group(key))
                if held is not None:
                    found[name, key, space] = evolving.shown(held[1] if name == "folded" else held)
            assert found == wanted

    def teardown(self) -> None:
        next(LIVES)
        try:
            if self.epochs:
                self.check()
        finally:
            for engine in self.engines.values():
                engine.close()
            self.unflushed.stop()
            shutil.rmtree(self.folder)


TypesEvolve.TestCase.settings = settings(
    max_examples=in_full(200, else_=15),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestTypesEvolve = pytest.mark.fault(
    broken="the types of all states change, again and again: fields come, go, move and get other names and types",
    when="at starts from any snapshot, half migrated or not, with other slots or the other backend",
    expected="HashMap, RocksDB and plain values agree; values that nobody has read since go through every change",
)(TypesEvolve.TestCase)
