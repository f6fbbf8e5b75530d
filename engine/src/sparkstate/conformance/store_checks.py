"""Chapter "state": what a store holds, reads, snapshots and restores, table by table."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkstate import errors
from sparkstate.backends import canonical, long_index
from sparkstate.backends.base import (
    DELETED,
    ColumnarStore,
    ListChange,
    MapChange,
    NamespacedCell,
    ShardStore,
    StateKind,
    TableChanges,
    TableSpec,
    Timer,
)
from sparkstate.backends.timer_columns import TimerColumns, TimerColumnsStore
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.conformance.kit import (
    EVENT_TIMERS,
    FAR_FUTURE,
    KEYS,
    LISTS,
    MAPS,
    NUMBER_TIMERS,
    NUMBERS,
    TABLES,
    VALUES,
    Kit,
    changes,
    content,
    fill,
    table,
    timer,
)
from sparkstate.conformance.kit import equal as _equal
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types


def check_missing_state_reads_as_empty(kit: Kit) -> None:
    """None, [], DELETED, {} and no timers."""
    store = kit.store()
    _equal(table(store, VALUES).get(0, "a"), None, "a missing value")
    _equal(table(store, VALUES).get_many([0, 5], ["a", "b"]), [None, None], "missing values")
    _equal(table(store, LISTS).get(0, "a"), [], "a missing list")
    _equal(table(store, MAPS).get(0, "a", 1), DELETED, "a missing entry")
    _equal(table(store, MAPS).items(0, "a"), {}, "a missing map")
    _equal(list(table(store, EVENT_TIMERS).due(FAR_FUTURE)), [], "no timers")
    _equal(table(store, EVENT_TIMERS).next_timestamp(), None, "the first of no timers")


def check_commit_makes_all_kinds_of_changes(kit: Kit) -> None:
    """Set, replace, append, delete; of values, lists, maps and timers."""
    store = kit.store()
    fill(store)
    _equal(table(store, VALUES).get(0, "a"), 0, "a value")
    _equal(table(store, VALUES).get(0, NamespacedCell("a", "window")), 77, "a value in a namespace")
    _equal(table(store, MAPS).get(0, "a", -2), None, "a null in a map")
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
    _equal(table(store, VALUES).get_many([0, 5, 127], ["a", "b", "z"]), [None, -1, 5], "values")
    _equal(
        table(store, VALUES).get_many([127, 5, 0], ["z", "b", "a"]),
        [5, -1, None],
        "values as they were asked for",
    )
    _equal(table(store, LISTS).get(0, "a"), ["x", "y", "a", "more"], "an appended list")
    _equal(table(store, LISTS).get(5, "b"), ["new"], "a replaced list")
    _equal(table(store, LISTS).get(127, "z"), [], "a cleared list")
    _equal(table(store, MAPS).items(0, "a"), {-2: None, 3: 3.0}, "a changed map")
    _equal(table(store, MAPS).items(5, "b"), {9: 9.0}, "a replaced map")
    _equal(table(store, MAPS).items(127, "z"), {}, "a cleared map")
    at_zero = {t.key for t in table(store, EVENT_TIMERS).due(0) if t.timestamp == 0}
    _equal(at_zero, KEYS.keys() - {"a"}, "keys with a timer at 0")


def check_timers_come_in_order_and_stay_until_deleted(kit: Kit) -> None:
    """``due`` is sorted, bounded, deduplicated, and consumes nothing."""
    store = kit.store()
    stamps = [5, -3, 2**62, 0, 5, -(2**63)]
    store.commit(changes(timers={timer(stamp, "a"): True for stamp in stamps}), KEYS)
    store.commit(changes(timers={timer(5, "a"): True, timer(5, "b"): True}), KEYS)
    timers = table(store, EVENT_TIMERS)
    for _ in range(2):
        _equal([t.timestamp for t in timers.due(5)], [-(2**63), -3, 0, 5, 5], "due timers")
    _equal(timers.next_timestamp(), -(2**63), "the first timestamp")
    _equal(timers.contains(timer(5, "b")), True, "contains")
    _equal(timers.contains(timer(6, "b")), False, "contains")
    store.commit(changes(timers=dict.fromkeys(list(timers.due(5)), False)), KEYS)
    _equal(list(timers.due(FAR_FUTURE)), [timer(2**62, "a")], "the timers left")
    _equal(timers.next_timestamp(), 2**62, "the first timestamp left")


def check_what_is_read_can_be_changed_by_the_reader(kit: Kit) -> None:
    """Lists and dicts handed out are the reader's own."""
    store = kit.store()
    fill(store)
    table(store, LISTS).get(0, "a").append("mine")
    table(store, MAPS).items(0, "a")[5] = 5.0
    _equal(table(store, LISTS).get(0, "a"), ["x", "y", "a"], "a list after its copy was changed")
    _equal(table(store, MAPS).items(0, "a"), {1: 1.5, -2: None}, "a map after its copy was changed")


def check_changes_can_be_reused_by_the_writer(kit: Kit) -> None:
    """Committed changes are the store's own."""
    store = kit.store()
    items, entries = ["x"], {1: 1.0}
    store.commit(changes(lists={"a": ListChange(items=items)}, maps={"a": MapChange(entries=entries)}), KEYS)
    items.append("later")
    entries[2] = 2.0
    _equal(table(store, LISTS).get(0, "a"), ["x"], "a list after its change was reused")
    _equal(table(store, MAPS).items(0, "a"), {1: 1.0}, "a map after its change was reused")


def check_whole_number_keys_of_numbers(kit: Kit) -> None:
    """Values by whole-number keys, null among them, one by one, and as columns where the store takes them."""
    store = kit.store()
    keys = [0, -(2**63), 2**63 - 1, 7, None]
    groups = dict(zip(keys, range(5), strict=True))
    values = dict(zip(keys, [1.5, -0.0, float("inf"), 2.5, 9.0], strict=True))
    cells: dict[Any, Any] = {**values, NamespacedCell(7, "window"): 77.0}
    store.commit([TableChanges(NUMBERS, cells)], groups)
    found = table(store, NUMBERS)
    _equal(found.get_many(list(range(5)), keys), list(values.values()), "values of whole numbers")
    _equal(found.get(3, NamespacedCell(7, "window")), 77.0, "a value in a namespace")
    if isinstance(store, ColumnarStore) and store.takes_columns:
        _check_columns(store, found)
    store.commit([TableChanges(NUMBERS, {0: DELETED, None: DELETED, 5: 5.0})], {**groups, 5: 9})
    wanted = [None, -0.0, float("inf"), 2.5, None]
    _equal(found.get_many(list(range(5)), keys), wanted, "values after deletions")
    for in_canonical, target in ((True, kit.store()), (False, kit.store()), (True, kit.reference())):
        kit.copy(store, target, in_canonical=in_canonical)
        _equal(table(target, NUMBERS).get_many([*range(5), 9], [*keys, 5]), [*wanted, 5.0], "restored values")


def _check_columns(store: ShardStore, found: Any) -> None:
    """Values written as columns are read singly, and the other way round; all is as before in the end."""
    keys, groups = np.array([7, 8, 0]), np.array([3, 8, 0], np.int32)
    written = ValueColumns(keys, groups, np.array([7.5, 8.5, 0.0]), np.array([True, True, False]))
    store.commit([TableChanges(NUMBERS, columns=written)], {})
    _equal(found.get_many([3, 8, 0], [7, 8, 0]), [7.5, 8.5, None], "values written as columns")
    read, present = found.get_columns(groups, keys)
    _equal(read[present].tolist(), [7.5, 8.5], "columns")
    _equal(present.tolist(), [True, True, False], "whether there is a value")
    before = ValueColumns(keys, groups, np.array([2.5, 0.0, 1.5]), np.array([True, False, True]))
    store.commit([TableChanges(NUMBERS, columns=before)], {})
    _check_pairs(store, found)


def _check_pairs(store: ShardStore, found: Any) -> None:
    """The same for values in namespaces that are whole numbers, beside those that are not."""
    cells = {NamespacedCell(7, -1): 1.0, NamespacedCell(7, 2): 2.0, NamespacedCell(None, 2): 3.0}
    store.commit([TableChanges(NUMBERS, dict(cells))], {7: 3, None: 1})
    asked = long_index.pairs(np.array([7, 7, 8, 7]), np.array([-1, 2, 2, 2**62]))
    groups = np.array([3, 3, 8, 3], np.int32)
    read, present = found.get_columns(groups, asked)
    _equal(present.tolist(), [True, True, False, False], "whether there is a value in a namespace")
    _equal(read[present].tolist(), [1.0, 2.0], "values in namespaces, written singly")
    flags = np.array([False, True, True, True])
    store.commit(
        [TableChanges(NUMBERS, pairs=ValueColumns(asked, groups, np.array([0.0, 5.0, 6.0, 7.0]), flags))], {}
    )
    read, present = found.get_columns(groups, asked)
    _equal(read[present].tolist(), [5.0, 6.0, 7.0], "values in namespaces, written as columns")
    singles = [NamespacedCell(*pair) for pair in asked.tolist()]
    _equal(found.get_many(groups.tolist(), singles), [None, 5.0, 6.0, 7.0], "the same, read singly")
    others = [NamespacedCell(None, 2), NamespacedCell(7, "window"), 7]
    _equal(found.get_many([1, 3, 3], others), [3.0, 77.0, 2.5], "values beside them")
    store.commit(
        [TableChanges(NUMBERS, dict.fromkeys((*singles, others[0]), DELETED))], {7: 3, 8: 8, None: 1}
    )
    _equal(found.get_many(groups.tolist(), singles), [None] * 4, "values in namespaces, deleted singly")


def check_timers_of_whole_number_keys(kit: Kit) -> None:
    """Timers of whole-number keys, null among them, one by one, and as columns where the store takes them."""
    store = kit.store()
    singles = [Timer(5, 0, 3), Timer(5, None, 4), Timer(7, 2**63 - 1, 5), Timer(5, 0, 3, "window")]
    store.commit([TableChanges(NUMBER_TIMERS, timers=dict.fromkeys(singles, True))], {})
    found = table(store, NUMBER_TIMERS)
    _equal(sorted(found.due(FAR_FUTURE), key=repr), sorted(singles, key=repr), "timers")
    if isinstance(store, TimerColumnsStore) and store.takes_timer_columns:
        _check_timer_columns(store, found)
    store.commit([TableChanges(NUMBER_TIMERS, timers=dict.fromkeys(singles[1:], False))], {})
    for in_canonical, target in ((True, kit.store()), (False, kit.store()), (True, kit.reference())):
        kit.copy(store, target, in_canonical=in_canonical)
        _equal(list(table(target, NUMBER_TIMERS).due(FAR_FUTURE)), singles[:1], "restored timers")


def _check_timer_columns(store: ShardStore, found: Any) -> None:
    """Timers that come and go as columns, beside those that do not; all is as before in the end."""
    _equal(list(found.due_columns(7, 100)), [None], "due timers, not all of which have a place in columns")
    stamps, keys = np.array([-5, -5, 7, -(2**63)]), np.array([-(2**63), 8, 2**63 - 1, 0])
    groups, flags = np.array([9, 8, 5, 3], np.int32), np.array([True, True, False, True])
    store.commit([TableChanges(NUMBER_TIMERS, timer_columns=TimerColumns(stamps, keys, groups, flags))], {})
    wanted = [Timer(-(2**63), 0, 3), Timer(-5, -(2**63), 9), Timer(-5, 8, 8)]
    for each in wanted:
        _equal(found.contains(each), True, f"contains {each}")
    _equal(sorted(found.due(0)), wanted, "timers written as columns")
    _equal(found.next_timestamp(), -(2**63), "the first timestamp")
    for at_once in (1, 100):
        parts = list(found.due_columns(0, at_once))
        rows = [
            zip(p.timestamps.tolist(), p.keys.tolist(), p.key_groups.tolist(), strict=True) for p in parts
        ]
        _equal(sorted(Timer(*row) for part in rows for row in part), wanted, "due timers as columns")
        times = [stamp for part in parts for stamp in part.timestamps.tolist()]
        _equal(times, sorted(times), "the times of due timers")
    store.commit([TableChanges(NUMBER_TIMERS, timer_columns=TimerColumns(stamps, keys, groups, ~flags))], {})
    _equal(list(found.due(0)), [], "timers deleted as columns")
    _equal(found.next_timestamp(), 5, "the first timestamp left")


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
    raise AssertionError(f"table() accepted {changed} in place of the stored table")


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
        restored.restore(kit.written(taken), taken.format)
    _equal(content(restored), before, "the snapshot")
    _equal(content(store), after, "the store after its snapshot was released")
    store.commit(changes(values={"a": 1}, lists={"a": ListChange(items=["last"])}), KEYS)
    _equal(table(store, LISTS).get(0, "a"), ["x", "y", "a", "after", "last"], "a list after the snapshot")


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
                restored.restore(kit.written(taken), taken.format)
                _equal(content(restored), wanted, "one of two overlapping snapshots")
    _equal(table(store, VALUES).get(0, "a"), 2, "a value after both")


def check_canonical_format_goes_to_and_from_the_hash_map_backend(kit: Kit) -> None:
    """And back, without losing anything."""
    store, reference, back = kit.store(), kit.reference(), kit.store()
    fill(store)
    kit.copy(store, reference, in_canonical=True)
    _equal(content(reference), content(store), "the hash map store")
    kit.copy(reference, back, in_canonical=True)
    _equal(content(back), content(store), "the store restored from it")
    back.commit(changes(lists={"a": ListChange(items=["more"])}), KEYS)
    _equal(table(back, LISTS).get(0, "a"), ["x", "y", "a", "more"], "a list after a restore")


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
