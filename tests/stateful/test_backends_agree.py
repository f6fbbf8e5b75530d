"""HashMap, RocksDB and plain dicts live the same random life, and must agree on every output and all state.

A life: epochs of random changes to every kind of state and to timers, committed or given up; snapshots in either
format, uploaded and described as those of a job; restores of any of the last ones, into one, two or three slots, and
from one backend's savepoint into the other.
"""

from __future__ import annotations

import copy
import functools
import itertools
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.backends.life import BACKENDS, DEFAULT_ROOM, KEYS, SPECS, Engine, Model, Taken
from support.faults import in_full

from sparkstate.functions import MIN_WATERMARK
from sparkstate_tools import memory

pytestmark = pytest.mark.fault_on("hashmap, rocksdb, dicts")

LIVES = itertools.count()
"""Each machine takes a number, so that the page of faults can say how many lived."""


@pytest.fixture(autouse=True)
def counted(record_property):
    before = next(LIVES)
    yield
    record_property("runs", next(LIVES) - before - 1)


def by_key(outputs: list[Any]) -> dict[str, list[Any]]:
    """Outputs of each key: in order for elements; timers by time, with equal times in any order."""
    found = defaultdict(list)
    for output in outputs:
        element = len(output) == 2
        key = output[0][0] if element else output[0]
        found[key].append((0, output) if element else (1, output[1], output[2]))
    return {
        key: [o for o in rows if o[0] == 0] + sorted(o for o in rows if o[0] == 1)
        for key, rows in found.items()
    }


LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=3)
CHANGES = st.one_of(
    st.tuples(st.just("value"), st.just("update"), st.tuples(LONGS)),
    st.tuples(st.just("tags"), st.just("update"), st.tuples(st.lists(TEXTS, max_size=3))),
    st.tuples(st.just("list"), st.just("add"), st.tuples(TEXTS)),
    st.tuples(st.just("list"), st.just("update"), st.tuples(st.lists(TEXTS, max_size=3))),
    st.tuples(
        st.just("map"), st.just("put"), st.tuples(st.integers(-2, 2), st.none() | st.floats(allow_nan=False))
    ),
    st.tuples(st.just("map"), st.just("remove"), st.tuples(st.integers(-2, 2))),
    st.tuples(st.just("max"), st.just("add"), st.tuples(LONGS)),
    st.tuples(st.sampled_from(list(SPECS)), st.just("clear"), st.just(())),
    st.tuples(
        st.just("timer"), st.sampled_from(["register", "register", "delete"]), st.tuples(st.integers(0, 60))
    ),
)
ELEMENTS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(DEFAULT_ROOM), CHANGES).map(
        lambda drawn: (drawn[0], drawn[1], *drawn[2])
    ),
    max_size=20,
)


KEPT = 3


class BackendsAgree(RuleBasedStateMachine):
    """The life."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = memory.folder("sparkstate-agree-")  # thousands of small files
        self.unflushed = mock.patch.object(os, "fsync")
        self.unflushed.start()
        self.engines = {backend: Engine(backend, self.folder / backend) for backend in BACKENDS}
        self.model = Model()
        self.number = 0
        self.taken: list[dict[str, Taken]] = []
        """The last snapshots, newest last, by backend."""
        self.uploads: dict[str, Callable[[], Taken]] = {}
        self.canonical: list[bool] = []
        self.next_is_canonical = False

    @initialize(slots=st.integers(1, 3), keys=st.sampled_from(list(KEYS)), spills=st.booleans())
    def start(self, slots, keys="text", spills=False):
        self.keys = KEYS[keys]
        for engine in self.engines.values():
            engine.keys, engine.spills = keys, spills
            engine.start(slots, None)

    @rule(elements=ELEMENTS, step=st.integers(0, 15), committed=st.sampled_from([True, True, True, False]))
    def epoch(self, elements, step, committed):
        self.number += 1
        elements = [(self.keys[number], *rest) for number, *rest in elements]
        after = copy.deepcopy(self.model)
        before = self.model.watermark
        watermark = step if before == MIN_WATERMARK else before + step
        wanted = by_key(after.epoch(elements, watermark))
        for engine in self.engines.values():
            look = functools.partial(self.check, engine) if not committed else (lambda: None)
            found = engine.epoch(self.number, elements, before, watermark, committed, look=look)
            assert by_key(found) == wanted
        if committed:
            self.model = after

    @rule(in_canonical=st.booleans())
    def prepare_snapshot(self, in_canonical):
        self.upload_snapshot()
        self.next_is_canonical = in_canonical
        for backend, engine in self.engines.items():
            self.uploads[backend] = engine.snapshot(in_canonical, self.model)

    @rule()
    def quiesce(self):
        """The stores begin no work of their own any more, until the next restore."""
        for engine in self.engines.values():
            for slot in engine.slots:
                for store in slot.stores.values():
                    store.quiesce()

    @precondition(lambda self: self.uploads)
    @rule()
    def upload_snapshot(self):
        """Now, after whatever was committed since it was prepared."""
        if self.uploads:
            self.taken = [*self.taken, {name: upload() for name, upload in self.uploads.items()}][-KEPT:]
            self.canonical = [*self.canonical, self.next_is_canonical][-KEPT:]
        self.uploads = {}

    @precondition(lambda self: self.taken or self.uploads)
    @rule(slots=st.integers(1, 3), swapped=st.booleans(), age=st.integers(0, 2))
    def restore(self, slots, swapped, age):
        """A snapshot, not always the newest, into that many slots; the other backend's if it is a canonical one."""
        self.upload_snapshot()
        place = max(0, len(self.taken) - 1 - age)
        backends = list(self.engines)
        sources = backends[::-1] if swapped and self.canonical[place] else backends
        for backend, source in zip(backends, sources, strict=True):
            self.engines[backend].start(slots, self.taken[place][source])
        self.model = copy.deepcopy(self.taken[place][backends[0]].model)
        self.check_content()

    @rule()
    def check_content(self):
        for engine in self.engines.values():
            self.check(engine)

    def check(self, engine):
        """The committed state, also while an epoch is at work."""
        assert engine.content() == self.model.state
        assert engine.timers() == self.model.timers

    def teardown(self) -> None:
        next(LIVES)
        try:
            self.check_content()
        finally:
            for engine in self.engines.values():
                engine.close()
            self.unflushed.stop()
            shutil.rmtree(self.folder)


BackendsAgree.TestCase.settings = settings(
    max_examples=in_full(150, else_=12),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestBackendsAgree = pytest.mark.fault(
    broken="restores of any snapshot, also of the other backend's; epochs given up; rescaling between 1, 2 and 3 slots",
    when="anywhere in a random life of puts, deletes, lists, maps, timers and incremental snapshots",
    expected="HashMap, RocksDB and plain dicts agree on every output, all state and all timers",
)(BackendsAgree.TestCase)


@pytest.mark.fault(
    broken="the job is rescaled from 2 slots to 3 and to 1",
    when="from native and canonical snapshots, with epochs in between",
    expected="HashMap, RocksDB and plain dicts agree; increments go on: files that are known are not stored again",
)
def test_rescaling_from_two_slots_to_three_to_one_keeps_everything():
    """The fixed path through the machine, so that it is walked every time."""
    machine = BackendsAgree()
    elements = [(key, None, *change) for key in range(7) for change in [
        ("value", "update", (key,)), ("list", "add", ("x",)), ("map", "put", (1, 1.5)),
        ("timer", "register", (30,)),
    ]]  # fmt: skip
    try:
        machine.start(2)
        machine.epoch(elements, 10, True)
        for slots, in_canonical in ((3, False), (1, False), (2, True)):
            machine.prepare_snapshot(in_canonical)
            machine.epoch(elements, 0, True)
            machine.restore(slots, in_canonical, 0)
            machine.epoch(elements, 5, True)
        machine.epoch([], 10, True)  # watermark 35: the timers at 30 fire, and register themselves for 37
        assert machine.model.timers == {(37, key, None) for key in KEYS["text"]}
    finally:
        machine.teardown()


@pytest.mark.skipif("rocksdb" not in BACKENDS, reason="rocksdict is not installed")
def test_after_a_rescale_a_snapshot_stores_only_what_is_new():
    machine = BackendsAgree()
    elements = [(key, None, "value", "update", (1,)) for key in range(7)]
    engine = machine.engines["rocksdb"]
    try:
        machine.start(2)
        machine.epoch(elements, 10, True)
        machine.prepare_snapshot(False)
        machine.restore(3, False, 0)
        before = {info.key for info in engine.store.list("shared/")}
        assert before
        machine.prepare_snapshot(False)
        machine.restore(1, False, 0)
        assert {info.key for info in engine.store.list("shared/")} == before
    finally:
        machine.teardown()
