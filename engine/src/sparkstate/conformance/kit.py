"""The tools of the conformance checks: stores to try, state of every kind to fill them with,
and a look at all of their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sparkstate.backends.base import (
    ListChange,
    MapChange,
    NamespacedCell,
    ShardSnapshot,
    ShardStore,
    StateKind,
    StoreFactory,
    StreamedSnapshot,
    TableChanges,
    TableSpec,
    Timer,
)
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types

MakeFactory = Callable[[Path], StoreFactory]
"""Makes the factory of one slot; the folder is its own."""

_LONGEST: Final = 400
"""Characters of a value in a message."""
ALL_GROUPS: Final = KeyGroupRange(0, 127)
FAR_FUTURE: Final = 2**63 - 1

VALUES: Final = TableSpec("op", "values", StateKind.VALUE, Types.STRING(), Types.LONG())
LISTS: Final = TableSpec("op", "lists", StateKind.LIST, Types.STRING(), Types.STRING())
MAPS: Final = TableSpec("op", "maps", StateKind.MAP, Types.STRING(), Types.DOUBLE(), Types.LONG())
EVENT_TIMERS: Final = TableSpec("op", "event timers", StateKind.EVENT_TIMERS, Types.STRING())
OTHER: Final = TableSpec(
    "other",
    "values",
    StateKind.AGGREGATING,
    Types.TUPLE([Types.LONG(), Types.STRING()]),
    Types.LIST(Types.LONG()),
)
NUMBERS: Final = TableSpec("numbers", "values", StateKind.VALUE, Types.LONG(), Types.DOUBLE())
"""A columnar table. No part of ``fill`` and ``content``."""
NUMBER_TIMERS: Final = TableSpec("numbers", "event timers", StateKind.EVENT_TIMERS, Types.LONG())
"""Timers of whole-number keys. No part of them either."""
TABLES: Final = (VALUES, LISTS, MAPS, EVENT_TIMERS, OTHER)

KEYS: Final[dict[Any, int]] = {"a": 0, "b": 5, "": 5, "zero\0inside": 63, "ü": 64, "z": 127, None: 100}
"""Keys of the operator ``op``, with the key groups that Spark might have given them."""


@dataclass
class Kit:
    """Makes stores of the backend under test, and of the hash map backend to compare with."""

    make_factory: MakeFactory
    directory: Path
    _open: list[tuple[StoreFactory, list[ShardStore]]] = field(default_factory=list)
    _folders: int = 0

    def folder(self) -> Path:
        """A new empty folder."""
        self._folders += 1
        path = self.directory / f"{self._folders:03d}"
        path.mkdir(parents=True)
        return path

    def store(self, shard: int = 0, key_groups: KeyGroupRange = ALL_GROUPS) -> ShardStore:
        """An empty store of the backend under test."""
        return self._make(self.make_factory(self.folder()), shard, key_groups)

    def reference(self, key_groups: KeyGroupRange = ALL_GROUPS) -> ShardStore:
        """An empty store of the hash map backend."""
        return self._make(HashMapStoreFactory(), 0, key_groups)

    def stores(self, *ranges: KeyGroupRange) -> list[ShardStore]:
        """Empty stores of one factory of the backend under test, one for each range of key groups."""
        factory = self.make_factory(self.folder())
        made: list[ShardStore] = []
        self._open.append((factory, made))
        for shard, key_groups in enumerate(ranges):
            made.append(factory.create(shard, key_groups, self.folder()))
        return made

    def _make(self, factory: StoreFactory, shard: int, key_groups: KeyGroupRange) -> ShardStore:
        made: list[ShardStore] = []
        self._open.append((factory, made))
        made.append(factory.create(shard, key_groups, self.folder()))
        return made[0]

    @contextmanager
    def snapshot(self, store: ShardStore, *, in_canonical: bool) -> Iterator[ShardSnapshot]:
        """A prepared snapshot, released at the end."""
        taken = store.prepare_snapshot(1, self.folder(), in_canonical)
        try:
            yield taken
        finally:
            taken.release()

    def copy(self, store: ShardStore, target: ShardStore, *, in_canonical: bool) -> None:
        """Snapshot one store and restore another from it."""
        with self.snapshot(store, in_canonical=in_canonical) as taken:
            target.restore(self.written(taken), taken.format)

    def written(self, taken: ShardSnapshot) -> dict[str, Path]:
        """Its files by name: as it streams them, where it does, else as it writes them."""
        if not isinstance(taken, StreamedSnapshot):
            return {file.name: file.path for file in taken.files()}
        folder, found = self.folder(), dict[str, Path]()
        for stream in taken.streams():
            found[stream.name] = folder / stream.name
            found[stream.name].write_bytes(b"".join(stream.chunks()))
        return found

    def close_store(self, store: ShardStore) -> None:
        """Close one store now; the kit does not close it again."""
        for _, stores in self._open:
            if any(each is store for each in stores):
                stores[:] = [each for each in stores if each is not store]
        store.close()

    def close(self) -> None:
        """Close all stores and factories. Raises the first error of theirs, after all were tried."""
        failures: list[Exception] = []
        for factory, stores in self._open:
            for close in (*(store.close for store in stores), factory.close):
                try:
                    close()
                except Exception as error:
                    failures.append(error)
        self._open.clear()
        if failures:
            raise failures[0]


def changes(
    values: Mapping[Any, Any] | None = None,
    lists: Mapping[Any, ListChange] | None = None,
    maps: Mapping[Any, MapChange] | None = None,
    timers: Mapping[Timer, bool] | None = None,
    other: Mapping[Any, Any] | None = None,
) -> list[TableChanges]:
    """One epoch's changes to the kit's tables."""
    return [
        TableChanges(VALUES, values=dict(values or {})),
        TableChanges(LISTS, lists=dict(lists or {})),
        TableChanges(MAPS, maps=dict(maps or {})),
        TableChanges(EVENT_TIMERS, timers=dict(timers or {})),
        TableChanges(OTHER, values=dict(other or {})),
    ]


def timer(timestamp: int, key: Any, namespace: Any = None) -> Timer:
    """A timer of the operator ``op``."""
    return Timer(timestamp, key, KEYS[key], namespace)


OTHER_KEY: Final = (7, "x")
KGS: Final[dict[Any, int]] = {**KEYS, OTHER_KEY: 90}
ENCODED: Final = OTHER.value_type.freeze([1, 2]) if OTHER.value_type else b""


def fill(store: ShardStore) -> None:
    """State of every kind, under every key and in a namespace."""
    store.commit(
        changes(
            values={key: number for number, key in enumerate(KEYS)} | {NamespacedCell("a", "window"): 77},
            lists={key: ListChange(items=["x", "y", str(key)]) for key in KEYS},
            maps={key: MapChange(entries={1: 1.5, -2: None}) for key in KEYS},
            timers={timer(t, key): True for key in KEYS for t in (-5, 0, 10)}
            | {timer(10, "a", ("w", 1)): True},
            other={OTHER_KEY: ENCODED},
        ),
        KGS,
    )


def content(store: ShardStore) -> dict[str, Any]:
    """All that the kit's tables hold for its keys, read through the tables."""
    values, lists, maps, timers, other = (table(store, spec) for spec in TABLES)
    keys = [key for key, kg in KEYS.items() if kg in store.key_groups]
    kgs = [KEYS[key] for key in keys]
    window = NamespacedCell("a", "window")
    return {
        "values": dict(zip(keys, values.get_many(kgs, keys), strict=True)),
        "single": {key: values.get(KEYS[key], key) for key in keys},
        "window": values.get(KEYS["a"], window) if KEYS["a"] in store.key_groups else None,
        "lists": {key: lists.get(KEYS[key], key) for key in keys},
        "maps": {key: maps.items(KEYS[key], key) for key in keys},
        "timers": sorted(timers.due(FAR_FUTURE), key=repr),
        "other": other.get(90, OTHER_KEY) if 90 in store.key_groups else None,
    }


def equal(found: Any, wanted: Any, what: str) -> None:
    """Raise ``AssertionError`` unless both are equal, with the first part of a mapping that differs."""
    if found == wanted:
        return
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            if key not in found or key not in wanted or found[key] != wanted[key]:
                equal(found.get(key, _NOTHING), wanted.get(key, _NOTHING), f"{what}, {key!r}")
    raise AssertionError(f"{what}: expected {_shown(wanted)}, found {_shown(found)}")


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING: Final = _Missing()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def table(store: ShardStore, spec: TableSpec) -> Any:
    """The table of a spec, of whatever kind."""
    return store.table(spec)
