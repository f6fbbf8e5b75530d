"""HashMap, RocksDB and plain dicts live the same random life, and must agree on every output and all state.

A life: epochs of random changes to every kind of state and to timers, committed or given up; snapshots in
either format; restores of any snapshot taken, into one, two or three slots, and from one backend's savepoint
into the other.
"""

from __future__ import annotations

import copy
import importlib.util
import shutil
import tempfile
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sparkstate.backends import loader
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction, TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators.runtime import KeyedOperator
from sparkstate.operators.spec import OperatorSpec
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.testing import ManualClock

KEY_SPACE = KeySpace(16, 4)
KEYS = ("", "a", "b", "zero\0", "zero\0\0", "ü", "long key " * 20)
BACKENDS = ["hashmap"] + (["rocksdb"] if importlib.util.find_spec("rocksdict") else [])
SPECS = {
    "value": ValueStateDescriptor("value", Types.LONG()),
    "tags": ValueStateDescriptor("tags", Types.LIST(Types.STRING())),
    "list": ListStateDescriptor("list", Types.STRING()),
    "map": MapStateDescriptor("map", Types.LONG(), Types.DOUBLE()),
    "max": ReducingStateDescriptor("max", max, Types.LONG()),
}
DEFAULT_ROOM = (None, "window", ("w", 1))


def key_group(key: str) -> int:
    return zlib.crc32(key.encode()) % KEY_SPACE.max_parallelism


class Scripted(KeyedProcessFunction):
    """An element is (key, namespace, state, method, arguments); what the state reads like afterwards is
    yielded."""

    def open(self, ctx):
        self.states = {
            "value": ctx.get_state(SPECS["value"]),
            "tags": ctx.get_state(SPECS["tags"]),
            "list": ctx.get_list_state(SPECS["list"]),
            "map": ctx.get_map_state(SPECS["map"]),
            "max": ctx.get_reducing_state(SPECS["max"]),
        }

    def process_element(self, value, ctx):
        _, namespace, name, method, arguments = value
        if name == "timer":
            getattr(ctx.timer_service(), f"{method}_event_time_timer")(*arguments, namespace)
            return
        state = self.states[name]
        state.set_current_namespace(namespace)
        getattr(state, method)(*arguments)
        yield value, read(name, state)

    def on_timer(self, timestamp, ctx):
        fired = self.states["list"]
        fired.add(f"fired {timestamp}")
        if timestamp % 5 == 0:
            ctx.timer_service().register_event_time_timer(timestamp + 7, ctx.namespace())
        yield (ctx.get_current_key(), timestamp, str(ctx.namespace()))


def read(name: str, state: Any) -> Any:
    if name in ("value", "tags"):
        return state.value()
    return dict(state.items()) if name == "map" else state.get()


@dataclass
class Model:
    """The same in plain dicts: state by (name, key, namespace), timers as a set of (timestamp, key,
    namespace)."""

    state: dict[Any, Any] = field(default_factory=dict)
    timers: set[Any] = field(default_factory=set)
    watermark: int = MIN_WATERMARK

    def epoch(self, elements, watermark):
        outputs = [output for element in elements if (output := self.element(*element)) is not None]
        self.watermark = watermark
        while due := [timer for timer in self.timers if timer[0] <= watermark]:
            timer = min(due, key=lambda timer: (timer[0], repr(timer)))
            self.timers.remove(timer)
            timestamp, key, namespace = timer
            self.state.setdefault(("list", key, None), []).append(f"fired {timestamp}")
            if timestamp % 5 == 0:
                self.timers.add((timestamp + 7, key, namespace))
            outputs.append((key, timestamp, str(namespace)))
        return outputs

    def element(self, key, namespace, name, method, arguments):
        if name == "timer":
            change = self.timers.add if method == "register" else self.timers.discard
            change((*arguments, key, namespace))
            return None
        place = (name, key, namespace)
        self.change(place, name, method, arguments)
        empty = {"list": [], "map": {}}.get(name)
        return (key, namespace, name, method, arguments), copy.deepcopy(self.state.get(place, empty))

    def change(self, place, name, method, arguments):
        if method == "clear":
            self.state.pop(place, None)
        elif name == "max":
            self.state[place] = max(self.state.get(place, arguments[0]), arguments[0])
        elif method == "add":
            self.state.setdefault(place, []).append(arguments[0])
        elif method == "update":
            self.state[place] = copy.deepcopy(arguments[0])
        elif method == "put":
            self.state.setdefault(place, {})[arguments[0]] = arguments[1]
        elif method == "remove":
            self.state.get(place, {}).pop(arguments[0], None)
        if self.state.get(place, 0) in ([], {}) and name in ("list", "map"):
            del self.state[place]


@dataclass(frozen=True)
class Taken:
    """A snapshot of all shards, with the model as it was: shard → (format, logical name → file)."""

    shards: dict[int, tuple[str, dict[str, Path]]]
    model: Model


class Engine:
    """One backend: slots, each with the stores of its shards and one operator."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.backend = backend
        self.folder = folder
        self.count = 0
        self.slots: list[tuple[Any, dict[int, Any], KeyedOperator]] = []

    def new_folder(self) -> Path:
        self.count += 1
        path = self.folder / str(self.count)
        path.mkdir(parents=True)
        return path

    def start(self, slots: int, taken: Taken | None) -> None:
        self.stop()
        memory = StateBackendSettings(type=self.backend, managed_memory_bytes=8 * MIB)
        for slot in range(slots):
            factory = loader.create_store_factory(memory, self.new_folder())
            stores = {}
            for shard in KEY_SPACE.shards_of_slot(slot, slots):
                stores[shard] = factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), self.new_folder())
                if taken is not None:
                    fmt, files = taken.shards[shard]
                    stores[shard].restore(files, fmt)
            spec = OperatorSpec(
                uid="op", function=Scripted(), row_columns=(), key_columns=("k",), key_type=Types.STRING()
            )
            operator = KeyedOperator(spec, stores, KEY_SPACE, ManualClock(), slot, slots)
            operator.open()
            self.slots.append((factory, stores, operator))

    def stop(self) -> None:
        for factory, stores, operator in self.slots:
            operator.close()
            for store in stores.values():
                store.close()
            factory.close()
        self.slots = []

    def operator_of(self, key: str) -> KeyedOperator:
        shard = KEY_SPACE.shard_of_key_group(key_group(key))
        return next(operator for _, stores, operator in self.slots if shard in stores)

    def epoch(self, number, elements, before, watermark, committed):
        outputs = []
        for _, _, operator in self.slots:
            mine = [element for element in elements if self.operator_of(element[0]) is operator]
            overlay = operator.begin(number, before, 0)
            keys = [element[0] for element in mine]
            half = len(mine) // 2
            for part in (slice(0, half), slice(half, None)):
                kgs = [key_group(key) for key in keys[part]]
                operator.process_rows(overlay, keys[part], kgs, [None] * len(kgs), mine[part])
            operator.finish(overlay, watermark)
            outputs += overlay.rows()
            if committed:
                operator.commit(overlay)
        return outputs

    def snapshot(self, in_canonical: bool, model: Model) -> tuple[Taken, Any]:
        """The snapshot, prepared; call the second to write its files, which may be after later commits."""
        shards: dict[int, tuple[str, dict[str, Path]]] = {}
        prepared = {
            shard: store.prepare_snapshot(1, self.new_folder(), in_canonical)
            for _, stores, _ in self.slots
            for shard, store in stores.items()
        }

        def write() -> None:
            kept = self.new_folder()
            for shard, snapshot in prepared.items():
                files = {}
                for file in snapshot.files():
                    files[file.name] = kept / f"{shard}-{file.name}"
                    shutil.copy(file.path, files[file.name])
                shards[shard] = (snapshot.format, files)
                snapshot.release()

        return Taken(shards, copy.deepcopy(model)), write

    def content(self) -> dict[Any, Any]:
        found = {}
        for name in SPECS:
            for key in KEYS:
                for namespace in DEFAULT_ROOM:
                    value = self.operator_of(key).read_value(name, key, namespace, key_group(key))
                    if value is not None:
                        found[name, key, namespace] = value
        return found

    def timers(self) -> set[Any]:
        return {
            (timer.timestamp, timer.key, timer.namespace)
            for _, _, operator in self.slots
            for table in operator.timer_tables(TimeDomain.EVENT_TIME)
            for timer in table.due(2**63 - 1)
        }


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
    st.tuples(st.sampled_from(KEYS), st.sampled_from(DEFAULT_ROOM), CHANGES).map(
        lambda drawn: (drawn[0], drawn[1], *drawn[2])
    ),
    max_size=20,
)


class BackendsAgree(RuleBasedStateMachine):
    """The life."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="sparkstate-agree-"))
        self.engines = {backend: Engine(backend, self.folder / backend) for backend in BACKENDS}
        self.model = Model()
        self.number = 0
        self.taken: dict[str, Taken] = {}
        self.writes: list[Any] = []
        self.in_canonical = False

    @initialize(slots=st.integers(1, 3))
    def start(self, slots):
        for engine in self.engines.values():
            engine.start(slots, None)

    @rule(elements=ELEMENTS, step=st.integers(0, 15), committed=st.sampled_from([True, True, True, False]))
    def epoch(self, elements, step, committed):
        self.number += 1
        after = copy.deepcopy(self.model)
        before = self.model.watermark
        watermark = step if before == MIN_WATERMARK else before + step
        wanted = by_key(after.epoch(elements, watermark))
        for engine in self.engines.values():
            found = engine.epoch(self.number, elements, before, watermark, committed)
            assert by_key(found) == wanted
        if committed:
            self.model = after

    @rule(in_canonical=st.booleans())
    def prepare_snapshot(self, in_canonical):
        self.write_snapshot()
        self.in_canonical = in_canonical
        for backend, engine in self.engines.items():
            self.taken[backend], write = engine.snapshot(in_canonical, self.model)
            self.writes.append(write)

    @precondition(lambda self: self.writes)
    @rule()
    def write_snapshot(self):
        for write in self.writes:
            write()
        self.writes = []

    @precondition(lambda self: self.taken)
    @rule(slots=st.integers(1, 3), swapped=st.booleans())
    def restore(self, slots, swapped):
        self.write_snapshot()
        backends = list(self.engines)
        sources = backends[::-1] if swapped and self.in_canonical else backends
        for backend, source in zip(backends, sources, strict=True):
            self.engines[backend].start(slots, self.taken[source])
        self.model = copy.deepcopy(self.taken[backends[0]].model)
        self.check_content()

    @rule()
    def check_content(self):
        for engine in self.engines.values():
            assert engine.content() == self.model.state
            assert engine.timers() == self.model.timers

    def teardown(self) -> None:
        try:
            self.check_content()
        finally:
            for engine in self.engines.values():
                engine.stop()
            shutil.rmtree(self.folder)


BackendsAgree.TestCase.settings = settings(
    max_examples=15, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
TestBackendsAgree = BackendsAgree.TestCase


def test_rescaling_from_two_slots_to_three_to_one_keeps_everything():
    """The fixed path through the machine, so that it is walked every time."""
    machine = BackendsAgree()
    elements = [(key, None, *change) for key in KEYS for change in [
        ("value", "update", (len(key),)), ("list", "add", ("x",)), ("map", "put", (1, 1.5)),
        ("timer", "register", (30,)),
    ]]  # fmt: skip
    try:
        machine.start(2)
        machine.epoch(elements, 10, True)
        for slots, in_canonical in ((3, True), (1, False), (2, True)):
            machine.prepare_snapshot(in_canonical)
            machine.epoch(elements, 0, True)
            machine.restore(slots, in_canonical)
            machine.epoch(elements, 5, True)
        machine.epoch([], 10, True)  # watermark 35: the timers at 30 fire, and register themselves for 37
        assert machine.model.timers == {(37, key, None) for key in KEYS}
    finally:
        machine.teardown()
