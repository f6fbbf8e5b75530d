"""The conformance kit: what every shard store must do, whatever it is made of.

A backend is done when :func:`check_shard_store` passes. Each check is also a function of its own in
``CHECKS``, so that a test suite can run and name them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sparkstate import errors
from sparkstate.backends import canonical
from sparkstate.backends.base import (
    DELETED,
    ListChange,
    MapChange,
    NamespacedCell,
    ShardSnapshot,
    ShardStore,
    StateKind,
    StoreFactory,
    TableChanges,
    TableSpec,
    Timer,
)
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types

MakeFactory = Callable[[Path], StoreFactory]
"""Makes the factory of one slot; the folder is its own."""

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

    def _make(self, factory: StoreFactory, shard: int, key_groups: KeyGroupRange) -> ShardStore:
        store = factory.create(shard, key_groups, self.folder())
        self._open.append((factory, [store]))
        return store

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
            target.restore({file.name: file.path for file in taken.files()}, taken.format)

    def close(self) -> None:
        """Close all stores and factories."""
        for factory, stores in self._open:
            for store in stores:
                store.close()
            factory.close()
        self._open.clear()


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
    values, lists, maps, timers, other = (_table(store, spec) for spec in TABLES)
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


def _table(store: ShardStore, spec: TableSpec) -> Any:
    return store.table(spec)


def _equal(found: Any, wanted: Any, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted!r}, found {found!r}")


def check_missing_state_reads_as_empty(kit: Kit) -> None:
    """None, [], DELETED, {} and no timers."""
    store = kit.store()
    _equal(_table(store, VALUES).get(0, "a"), None, "a missing value")
    _equal(_table(store, VALUES).get_many([0, 5], ["a", "b"]), [None, None], "missing values")
    _equal(_table(store, LISTS).get(0, "a"), [], "a missing list")
    _equal(_table(store, MAPS).get(0, "a", 1), DELETED, "a missing entry")
    _equal(_table(store, MAPS).items(0, "a"), {}, "a missing map")
    _equal(list(_table(store, EVENT_TIMERS).due(FAR_FUTURE)), [], "no timers")
    _equal(_table(store, EVENT_TIMERS).next_timestamp(), None, "the first of no timers")


def check_commit_makes_all_kinds_of_changes(kit: Kit) -> None:
    """Set, replace, append, delete; of values, lists, maps and timers."""
    store = kit.store()
    fill(store)
    _equal(_table(store, VALUES).get(0, "a"), 0, "a value")
    _equal(_table(store, VALUES).get(0, NamespacedCell("a", "window")), 77, "a value in a namespace")
    _equal(_table(store, MAPS).get(0, "a", -2), None, "a null in a map")
    store.commit(
        changes(
            values={"a": DELETED, "b": -1},
            lists={"a": ListChange(items=["more"]), "b": ListChange(True, ["new"]), "z": ListChange(True)},
            maps={
                "a": MapChange(entries={1: DELETED, 3: 3.0}),
                "b": MapChange(True, {9: 9.0}),
                "z": MapChange(True),
            },
            timers={timer(0, "a"): False, timer(0, "b"): True, timer(99, "b"): False},
        ),
        KEYS,
    )
    _equal(_table(store, VALUES).get_many([0, 5, 127], ["a", "b", "z"]), [None, -1, 5], "values")
    _equal(_table(store, LISTS).get(0, "a"), ["x", "y", "a", "more"], "an appended list")
    _equal(_table(store, LISTS).get(5, "b"), ["new"], "a replaced list")
    _equal(_table(store, LISTS).get(127, "z"), [], "a cleared list")
    _equal(_table(store, MAPS).items(0, "a"), {-2: None, 3: 3.0}, "a changed map")
    _equal(_table(store, MAPS).items(5, "b"), {9: 9.0}, "a replaced map")
    _equal(_table(store, MAPS).items(127, "z"), {}, "a cleared map")
    at_zero = {t.key for t in _table(store, EVENT_TIMERS).due(0) if t.timestamp == 0}
    _equal(at_zero, KEYS.keys() - {"a"}, "keys with a timer at 0")


def check_timers_come_in_order_and_stay_until_deleted(kit: Kit) -> None:
    """``due`` is sorted, bounded, deduplicated, and consumes nothing."""
    store = kit.store()
    stamps = [5, -3, 2**62, 0, 5, -(2**63)]
    store.commit(changes(timers={timer(stamp, "a"): True for stamp in stamps}), KEYS)
    store.commit(changes(timers={timer(5, "a"): True, timer(5, "b"): True}), KEYS)
    table = _table(store, EVENT_TIMERS)
    for _ in range(2):
        _equal([t.timestamp for t in table.due(5)], [-(2**63), -3, 0, 5, 5], "due timers")
    _equal(table.next_timestamp(), -(2**63), "the first timestamp")
    _equal(table.contains(timer(5, "b")), True, "contains")
    _equal(table.contains(timer(6, "b")), False, "contains")
    store.commit(changes(timers=dict.fromkeys(list(table.due(5)), False)), KEYS)
    _equal(list(table.due(FAR_FUTURE)), [timer(2**62, "a")], "the timers left")
    _equal(table.next_timestamp(), 2**62, "the first timestamp left")


def check_what_is_read_can_be_changed_by_the_reader(kit: Kit) -> None:
    """Lists and dicts handed out are the reader's own."""
    store = kit.store()
    fill(store)
    _table(store, LISTS).get(0, "a").append("mine")
    _table(store, MAPS).items(0, "a")[5] = 5.0
    _equal(_table(store, LISTS).get(0, "a"), ["x", "y", "a"], "a list after its copy was changed")
    _equal(_table(store, MAPS).items(0, "a"), {1: 1.5, -2: None}, "a map after its copy was changed")


def check_changes_can_be_reused_by_the_writer(kit: Kit) -> None:
    """What was committed is the store's own."""
    store = kit.store()
    items, entries = ["x"], {1: 1.0}
    store.commit(changes(lists={"a": ListChange(items=items)}, maps={"a": MapChange(entries=entries)}), KEYS)
    items.append("later")
    entries[2] = 2.0
    _equal(_table(store, LISTS).get(0, "a"), ["x"], "a list after its change was reused")
    _equal(_table(store, MAPS).items(0, "a"), {1: 1.0}, "a map after its change was reused")


def check_commit_is_atomic(kit: Kit) -> None:
    """A commit that fails (here: a key without key group) changes nothing, whatever stands before it."""
    store = kit.store()
    fill(store)
    before = content(store)
    broken = changes(values={"a": 1000}, lists={"unknown": ListChange(items=["x"])})
    try:
        store.commit(broken, {"a": 0})
    except Exception:
        _equal(content(store), before, "the content after a failed commit")
    else:
        raise AssertionError("a commit with a key of unknown key group was accepted")


def check_tables_are_the_same_object_for_the_same_name(kit: Kit) -> None:
    """And another type is ``StateMigrationError``."""
    store = kit.store()
    if store.table(VALUES) is not store.table(VALUES):
        raise AssertionError("two calls of table() with one spec gave two objects")
    for changed in (
        TableSpec("op", "values", StateKind.VALUE, Types.STRING(), Types.STRING()),
        TableSpec("op", "values", StateKind.VALUE, Types.LONG(), Types.LONG()),
        TableSpec("op", "values", StateKind.LIST, Types.STRING(), Types.LONG()),
    ):
        _refused(store, changed)
    _equal([(spec.uid, spec.name) for spec in store.tables()], [("op", "values")], "tables()")


def _refused(store: ShardStore, changed: TableSpec) -> None:
    try:
        store.table(changed)
    except errors.StateMigrationError:
        return
    raise AssertionError(f"table() accepted {changed} in place of what is stored")


def _check_snapshot_is_isolated(kit: Kit, in_canonical: bool) -> None:
    store = kit.store()
    fill(store)
    before = content(store)
    with kit.snapshot(store, in_canonical=in_canonical) as taken:
        store.commit(
            changes(
                values={"a": 999, "b": DELETED},
                lists={"a": ListChange(items=["after"]), "b": ListChange(True)},
                maps={"a": MapChange(entries={1: DELETED}), "b": MapChange(True)},
                timers={timer(10, "a"): False, timer(11, "a"): True},
            ),
            KEYS,
        )
        after = content(store)
        restored = kit.store()
        restored.restore({file.name: file.path for file in taken.files()}, taken.format)
    _equal(content(restored), before, "the snapshot")
    _equal(content(store), after, "the store after its snapshot was released")
    store.commit(changes(values={"a": 1}, lists={"a": ListChange(items=["last"])}), KEYS)
    _equal(_table(store, LISTS).get(0, "a"), ["x", "y", "a", "after", "last"], "a list after the snapshot")


def check_native_snapshot_is_isolated_from_later_commits(kit: Kit) -> None:
    """The backend's own format holds what was committed when the snapshot was prepared."""
    _check_snapshot_is_isolated(kit, in_canonical=False)


def check_canonical_snapshot_is_isolated_from_later_commits(kit: Kit) -> None:
    """So does the canonical one."""
    _check_snapshot_is_isolated(kit, in_canonical=True)


def check_snapshots_may_overlap(kit: Kit) -> None:
    """A savepoint beside a checkpoint: each holds its own moment."""
    store = kit.store()
    fill(store)
    first_content = content(store)
    with kit.snapshot(store, in_canonical=False) as first:
        store.commit(changes(values={"a": 1}, lists={"a": ListChange(items=["1"])}), KEYS)
        second_content = content(store)
        with kit.snapshot(store, in_canonical=True) as second:
            store.commit(changes(values={"a": 2}, lists={"a": ListChange(items=["2"])}), KEYS)
            for taken, wanted in ((first, first_content), (second, second_content)):
                restored = kit.store()
                restored.restore({file.name: file.path for file in taken.files()}, taken.format)
                _equal(content(restored), wanted, "one of two overlapping snapshots")
    _equal(_table(store, VALUES).get(0, "a"), 2, "a value after both")


def check_canonical_format_goes_to_and_from_the_hash_map_backend(kit: Kit) -> None:
    """And back, without losing anything."""
    store, reference, back = kit.store(), kit.reference(), kit.store()
    fill(store)
    kit.copy(store, reference, in_canonical=True)
    _equal(content(reference), content(store), "the hash map store")
    kit.copy(reference, back, in_canonical=True)
    _equal(content(back), content(store), "the store restored from it")
    back.commit(changes(lists={"a": ListChange(items=["more"])}), KEYS)
    _equal(_table(back, LISTS).get(0, "a"), ["x", "y", "a", "more"], "a list after a restore")


def check_canonical_file_feeds_stores_of_smaller_ranges(kit: Kit) -> None:
    """Rows outside a store's key groups are skipped, none is lost."""
    store = kit.store()
    fill(store)
    whole = content(store)
    parts = [kit.store(n, KeyGroupRange(n * 64, n * 64 + 63)) for n in range(2)]
    for part in parts:
        kit.copy(store, part, in_canonical=True)
    found = [content(part) for part in parts]
    for name in ("values", "lists", "maps"):
        _equal(found[0][name] | found[1][name], whole[name], name)
        _equal(found[0][name].keys() & found[1][name].keys(), set(), f"keys in both stores, {name}")
    _equal(sorted(found[0]["timers"] + found[1]["timers"], key=repr), whole["timers"], "timers")


def check_restored_tables_are_there_before_they_are_asked_for(kit: Kit) -> None:
    """``tables()`` lists them, a snapshot keeps them, and another type is refused."""
    for in_canonical in (True, False):
        store, restored, again = kit.store(), kit.store(), kit.store()
        fill(store)
        kit.copy(store, restored, in_canonical=in_canonical)
        names = {(spec.uid, spec.name) for spec in TABLES}
        _equal({(spec.uid, spec.name) for spec in restored.tables()}, names, "restored tables")
        _refused(restored, TableSpec("op", "values", StateKind.VALUE, Types.STRING(), Types.BOOLEAN()))
        kit.copy(restored, again, in_canonical=in_canonical)
        _equal(content(again), content(store), "a snapshot of tables that were never asked for")


def check_damaged_canonical_files_are_refused(kit: Kit) -> None:
    """Cut short or with one bit turned: ``CorruptData``, never a part of the state."""
    store = kit.store()
    fill(store)
    with kit.snapshot(store, in_canonical=True) as taken:
        data = taken.files()[0].path.read_bytes()
    turned = bytearray(data)
    turned[len(data) // 2] ^= 1
    for damaged in (data[:-1], data[: len(data) // 2], bytes(turned), b""):
        path = kit.folder() / canonical.FORMAT
        path.write_bytes(damaged)
        try:
            kit.store().restore({canonical.FORMAT: path}, canonical.FORMAT)
        except errors.CorruptData:
            continue
        raise AssertionError("a damaged canonical file was restored")


def check_stats_grow_with_the_state(kit: Kit) -> None:
    """Rows and bytes are above zero once there is state."""
    store = kit.store()
    fill(store)
    stats = store.stats()
    if stats.rows <= 0 or stats.bytes <= 0:
        raise AssertionError(f"a store with state says {stats}")


CHECKS: Final[Mapping[str, Callable[[Kit], None]]] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}
"""All checks, by name."""


def check_shard_store(make_factory: MakeFactory, directory: Path) -> None:
    """Run every check against stores of the factories that ``make_factory`` makes; ``directory`` is empty.

    Raises ``AssertionError`` with the first check that fails.
    """
    for number, (name, check) in enumerate(CHECKS.items()):
        kit = Kit(make_factory, directory / f"{number:02d}")
        try:
            check(kit)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        finally:
            kit.close()
