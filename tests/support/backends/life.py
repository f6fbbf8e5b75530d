"""One backend in a random life: slots with real stores and operators, and snapshots that go through a real storage.

Snapshots are uploaded with the real uploader (increments upon the newest complete one), described by a ``_metadata``,
and restored from that alone: read, verified, downloaded, handed to however many slots there are then.
"""

from __future__ import annotations

import copy
import importlib.util
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.storage.checkpoints import metadata

from sparkstate.backends import loader
from sparkstate.checkpoint import Downloader, KnownFiles, Uploader, UploadTarget
from sparkstate.checkpoint import metadata as codec
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction, TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.keyed.keyed_operator import KeyedOperator
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.spec import OperatorSpec
from sparkstate.operators.state.overlay import Overlay
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.slots.restoring import shards_needed, state_metas
from sparkstate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from sparkstate.storage.local import LocalStore
from sparkstate.testing import ManualClock

KEY_SPACE = KeySpace(16, 4)
KEYS: dict[str, tuple[Any, ...]] = {
    "text": ("", "a", "b", "zero\0", "zero\0\0", "ü", "long key " * 20),
    "numbers": (0, 7, -1, 2**63 - 1, -(2**63), 8, None),
}
KEY_TYPES = {"text": Types.STRING(), "numbers": Types.LONG()}
BACKENDS = ["hashmap"] + (["rocksdb"] if importlib.util.find_spec("rocksdict") else [])
SPECS = {
    "value": ValueStateDescriptor("value", Types.LONG()),
    "tags": ValueStateDescriptor("tags", Types.LIST(Types.STRING())),
    "list": ListStateDescriptor("list", Types.STRING()),
    "map": MapStateDescriptor("map", Types.LONG(), Types.DOUBLE()),
    "max": ReducingStateDescriptor("max", max, Types.LONG()),
}
DEFAULT_ROOM = (None, "window", ("w", 1))


def key_group(key: Any) -> int:
    return zlib.crc32(repr(key).encode()) % KEY_SPACE.max_parallelism


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
        # A timer behind the watermark waits for its next advance.
        advances, self.watermark = watermark > self.watermark, watermark
        while advances and (due := [timer for timer in self.timers if timer[0] <= watermark]):
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
    """A completed snapshot: what ``_metadata`` says, the storage it lies in, and the model as it was."""

    checkpoint_id: int
    data: bytes
    store: LocalStore
    model: Model


class Slot:
    """The stores of a run of shards with their operator, and the slot's end of the transfers."""

    def __init__(self, engine: Engine, number: int, slots: int, taken: Taken | None) -> None:
        memory = StateBackendSettings(type=engine.backend, managed_memory_bytes=8 * MIB)  # type: ignore[arg-type]
        self.factory = loader.create_store_factory(memory, engine.new_folder())
        self.stores = {
            shard: self.factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), engine.new_folder())
            for shard in KEY_SPACE.shards_of_slot(number, slots)
        }
        self.known = KnownFiles()
        if taken is not None:
            self._restore(engine, number, slots, taken)
        spec = OperatorSpec(
            uid="op",
            function=engine.make_function(),
            row_columns=(),
            key_columns=("k",),
            key_type=KEY_TYPES[engine.keys],
        )
        self.budget = EpochBudget(engine.new_folder(), self.factory, 0 if engine.spills else None)
        self.operator = KeyedOperator(
            spec, self.stores, KEY_SPACE, ManualClock(engine.now), number, slots, self.budget
        )
        self.operator.open()

    def _restore(self, engine: Engine, number: int, slots: int, taken: Taken) -> None:
        handles = shards_needed(KEY_SPACE, number, slots, codec.decode(taken.data, "_metadata").shards)
        downloader = Downloader(taken.store, threads=2)
        try:
            for handle in handles:
                files = downloader.fetch(handle, engine.new_folder())
                self.stores[handle.shard].restore(files, handle.format)
        finally:
            downloader.close()
        if taken.store is engine.store:
            self.known.uploaded(taken.checkpoint_id, handles)
            self.known.complete(taken.checkpoint_id)

    def close(self) -> None:
        self.operator.close()
        for store in self.stores.values():
            store.close()
        self.factory.close()


class Engine:
    """One backend: its slots, and the storage of its snapshots."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.backend = backend
        self.folder = folder
        self.store = LocalStore(str(folder / "storage"))
        self.uploader = Uploader(self.store, threads=2, inline_threshold_bytes=40)
        self.now = 0
        """The wall clock of the slots that are started from now on, in ms."""
        self.count = self.checkpoint_id = self.base = 0
        self.uploaded = 0
        self.slots: list[Slot] = []
        self.keys = "text"
        self.spills = False
        """Whether overlays of the slots that are started from now on go to disk at every occasion, where they can."""
        self.make_function: Callable[[], KeyedProcessFunction] = Scripted
        """The job's code, for the slots that are started from now on."""

    def new_folder(self) -> Path:
        self.count += 1
        path = self.folder / str(self.count)
        path.mkdir(parents=True)
        return path

    def start(self, slots: int, taken: Taken | None) -> None:
        """Begin with that many slots, empty or from a snapshot of any number of slots."""
        self.stop()
        self.slots = [Slot(self, number, slots, taken) for number in range(slots)]
        self.base = taken.checkpoint_id if taken is not None and taken.store is self.store else 0

    def stop(self) -> None:
        for slot in self.slots:
            slot.close()
        self.slots = []

    def slot_of(self, key: Any) -> Slot:
        shard = KEY_SPACE.shard_of_key_group(key_group(key))
        return next(slot for slot in self.slots if shard in slot.stores)

    def epoch(
        self,
        number: int,
        elements: list[Any],
        before: int,
        watermark: int,
        committed: bool,
        now: int = 0,
        look: Callable[[], object] = lambda: None,
    ) -> list[Any]:
        """What was put out. ``look`` is called before an epoch that is not committed is given up."""
        outputs: list[Any] = []
        given_up: list[Overlay] = []
        for slot in self.slots:
            operator = slot.operator
            mine = [element for element in elements if self.slot_of(element[0]) is slot]
            overlay = operator.begin(number, before, now)
            keys = [element[0] for element in mine]
            half = len(mine) // 2
            for part in (slice(0, half), slice(half, None)):
                kgs = [key_group(key) for key in keys[part]]
                operator.process_rows(overlay, keys[part], kgs, [None] * len(kgs), mine[part])
                operator._make_room(overlay)
            operator.finish(overlay, watermark)
            outputs += overlay.rows()
            assert overlay.spill is not None or not (self.spills and self.backend == "rocksdb" and mine)
            if committed:
                commit_overlays([(operator, overlay)])
            else:
                given_up.append(overlay)
        look()
        for overlay in given_up:
            overlay.close()
        return outputs

    def snapshot(self, in_canonical: bool, model: Model) -> Callable[[], Taken]:
        """Prepare a snapshot; call the result to upload it, which may be after later commits."""
        self.checkpoint_id += 1
        number, base, frozen, slots = self.checkpoint_id, self.base, copy.deepcopy(model), list(self.slots)
        prepared = [
            {
                shard: store.prepare_snapshot(number, self.new_folder(), in_canonical)
                for shard, store in slot.stores.items()
            }
            for slot in slots
        ]
        states = state_metas({shard: store for slot in slots for shard, store in slot.stores.items()})

        def upload() -> Taken:
            handles = []
            target = UploadTarget.checkpoint(1, number)
            for slot, snapshots in zip(slots, prepared, strict=True):
                shards = self.uploader.upload(target, snapshots, slot.known.base(base or None))
                slot.known.uploaded(number, shards)
                slot.known.complete(number)
                handles += shards
                for snapshot in snapshots.values():
                    snapshot.release()
            self.base = number
            self.uploaded += sum(handle.uploaded for handle in handles)
            described = metadata(
                sorted(handles, key=lambda handle: handle.shard),
                checkpoint_id=number,
                key_space=KEY_SPACE,
                slots=len(slots),
                backend=self.backend,
                states=tuple(states),
            )
            return Taken(number, codec.encode(described), self.store, frozen)

        return upload

    def content(self) -> dict[Any, Any]:
        found = {}
        for name in SPECS:
            for key in KEYS[self.keys]:
                for namespace in DEFAULT_ROOM:
                    value = self.slot_of(key).operator.read_value(name, key, namespace, key_group(key))
                    if value is not None:
                        found[name, key, namespace] = value
        return found

    def timers(self) -> set[Any]:
        return {
            (timer.timestamp, timer.key, timer.namespace)
            for slot in self.slots
            for table in slot.operator.timer_tables(TimeDomain.EVENT_TIME)
            for timer in table.due(2**63 - 1)
        }

    def close(self) -> None:
        self.stop()
        self.uploader.close()
