"""Commits, reads, snapshots and restores of one store."""

from __future__ import annotations

import threading

import pytest
from support.backends import cells
from support.backends.cells import LISTS, MAPS, TIMERS, VALUES, commit, group_of

from sparkstate import errors
from sparkstate.backends.base import DELETED, NamespacedCell, StateKind, TableChanges, TableSpec
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types


def total(store: RocksDBShardStore, key: int) -> object:
    return store.table(VALUES).get(group_of(key), key)


def seen(store: RocksDBShardStore, key: int) -> list[str]:
    return store.table(LISTS).get(group_of(key), key)


def by_day(store: RocksDBShardStore, key: int) -> dict[str, int]:
    return store.table(MAPS).items(group_of(key), key)


def fill(store: RocksDBShardStore) -> None:
    commit(
        store,
        cells.values({key: key * 10 for key in range(300)}),
        cells.appended(7, "a", "b"),
        cells.mapped(7, {"mon": 1, "tue": 2}),
        cells.timers([cells.timer(1000 + key, key) for key in range(300)]),
    )


def check_filled(store: RocksDBShardStore) -> None:
    assert [total(store, key) for key in range(300)] == [key * 10 for key in range(300)]
    assert seen(store, 7) == ["a", "b"]
    assert by_day(store, 7) == {"mon": 1, "tue": 2}
    assert [timer.timestamp for timer in store.table(TIMERS).due(10**9)] == [1000 + key for key in range(300)]


def test_an_empty_store_has_no_values(slot):
    store = slot.store()
    assert total(store, 1) is None
    assert store.table(VALUES).get_many([1, 2], [1, 2]) == [None, None]
    assert store.table(VALUES).get_many([], []) == []
    assert seen(store, 1) == []
    assert by_day(store, 1) == {}
    assert store.table(MAPS).get(1, 1, "x") is DELETED
    assert store.table(TIMERS).next_timestamp() is None


def test_what_was_committed_is_read_again(slot):
    store = slot.store()
    fill(store)
    check_filled(store)


def test_many_values_come_in_the_order_of_their_keys(slot):
    store = slot.store()
    fill(store)
    keys = [250, 3, 999, 3, 0, 118]
    found = store.table(VALUES).get_many([group_of(key) for key in keys], keys)
    assert found == [2500, 30, None, 30, 0, 1180]


def test_more_keys_than_one_call_of_rocksdb_takes(slot):
    store = slot.store()
    commit(store, cells.values({key: key for key in range(2500)}))
    keys = list(range(2600))
    found = store.table(VALUES).get_many([group_of(key) for key in keys], keys)
    assert found == [*range(2500), *[None] * 100]


def test_a_deleted_value_is_gone_and_others_stay(slot):
    store = slot.store()
    fill(store)
    commit(store, cells.values({3: DELETED, 4: 44}))
    assert (total(store, 3), total(store, 4), total(store, 5)) == (None, 44, 50)


def test_a_namespace_is_another_cell(slot):
    store = slot.store()
    commit(store, cells.values({1: 10, NamespacedCell(1, "night"): 20}))
    table = store.table(VALUES)
    assert table.get(1, 1) == 10
    assert table.get(1, NamespacedCell(1, "night")) == 20
    assert table.get(1, NamespacedCell(1, "day")) is None


def test_a_list_grows_without_being_read(slot):
    store = slot.store()
    commit(store, cells.appended(1, "a"), cells.timers())
    commit(store, cells.appended(2, "x"))
    commit(store, cells.appended(1, "b", "c"))
    assert seen(store, 1) == ["a", "b", "c"]
    assert seen(store, 2) == ["x"]


def test_a_replaced_list_holds_only_what_came_after(slot):
    store = slot.store()
    commit(store, cells.appended(1, "a", "b"), cells.timers())
    commit(store, cells.replaced(1, "z"))
    commit(store, cells.appended(1, "y"))
    assert seen(store, 1) == ["z", "y"]
    commit(store, cells.replaced(1))
    assert seen(store, 1) == []


def test_lists_of_namespaces_do_not_mix(slot):
    store = slot.store()
    commit(store, cells.appended(1, "a"))
    commit(store, cells.appended(NamespacedCell(1, "n"), "b"))
    commit(store, cells.replaced(1))
    assert store.table(LISTS).get(group_of(1), NamespacedCell(1, "n")) == ["b"]


def test_a_map_changes_entry_by_entry(slot):
    store = slot.store()
    commit(store, cells.mapped(1, {"mon": 1, "tue": 2, "wed": 3}))
    commit(store, cells.mapped(1, {"tue": DELETED, "wed": 33, "": 4}))
    assert by_day(store, 1) == {"": 4, "mon": 1, "wed": 33}
    assert store.table(MAPS).get(1, 1, "wed") == 33
    assert store.table(MAPS).get(1, 1, "tue") is DELETED


def test_a_cleared_map_holds_only_what_came_after(slot):
    store = slot.store()
    commit(store, cells.mapped(1, {"mon": 1, "tue": 2}), cells.mapped(2, {"mon": 9}))
    commit(store, cells.mapped(1, {"tue": 5}, cleared=True))
    assert by_day(store, 1) == {"tue": 5}
    assert by_day(store, 2) == {"mon": 9}


def test_a_stored_null_is_not_a_missing_entry(slot):
    spec = TableSpec("op", "maybe", StateKind.MAP, Types.LONG(), Types.PICKLED_BYTE_ARRAY(), Types.STRING())
    stored = Types.PICKLED_BYTE_ARRAY().freeze(None)
    store = slot.store()
    change = TableChanges(spec)
    change.maps[1] = cells.MapChange(entries={"x": stored})
    store.commit([change], {1: 1})
    assert Types.PICKLED_BYTE_ARRAY().thaw(store.table(spec).get(1, 1, "x")) is None
    assert store.table(spec).get(1, 1, "y") is DELETED


def test_the_same_name_gives_the_same_table(slot):
    store = slot.store()
    assert store.table(VALUES) is store.table(VALUES)


def test_names_with_any_character_are_different_tables(slot):
    store = slot.store()
    specs = [
        TableSpec(uid, name, StateKind.VALUE, Types.LONG(), Types.LONG())
        for uid, name in [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("", "a/b/c"), ("ä ö", "\u20ac")]
    ]
    store.commit([cells.values({1: number}, spec) for number, spec in enumerate(specs)], {1: 1})
    assert [store.table(spec).get(1, 1) for spec in specs] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("kind", TableSpec("op", "total", StateKind.LIST, Types.LONG(), Types.LONG())),
        ("key type", TableSpec("op", "total", StateKind.VALUE, Types.STRING(), Types.LONG())),
        ("value type", TableSpec("op", "total", StateKind.VALUE, Types.LONG(), Types.STRING())),
    ],
)
@pytest.mark.parametrize("restored", [False, True])
def test_a_changed_declaration_is_refused_by_name(slot, field, changed, restored):
    store = slot.store()
    fill(store)
    if restored:
        store = slot.restored(store.prepare_snapshot(1, slot.folder(), canonical=False))
    with pytest.raises(errors.StateMigrationError, match=f"'total' of operator 'op': its {field} was"):
        store.table(changed)


@pytest.mark.parametrize("canonical", [False, True])
def test_a_snapshot_restores_everything(slot, canonical):
    store = slot.store()
    fill(store)
    restored = slot.restored(store.prepare_snapshot(1, slot.folder(), canonical))
    assert [spec.name for spec in restored.tables()] == ["total", "seen", "by day", "event timers"]
    check_filled(restored)


@pytest.mark.parametrize("canonical", [False, True])
def test_a_snapshot_does_not_see_later_commits(slot, canonical):
    store = slot.store()
    fill(store)
    snapshot = store.prepare_snapshot(1, slot.folder(), canonical)
    commit(store, cells.values({1: 0, 2: DELETED, 1000: 5}), cells.appended(7, "late"))
    commit(store, cells.mapped(7, {"mon": DELETED}), cells.timers(deleted=[cells.timer(1000, 0)]))
    check_filled(slot.restored(snapshot))


@pytest.mark.parametrize("canonical", [False, True])
def test_lists_grow_on_after_a_restore(slot, canonical):
    store = slot.store()
    commit(store, cells.appended(7, "a", "b"))
    restored = slot.restored(store.prepare_snapshot(1, slot.folder(), canonical))
    commit(restored, cells.appended(7, "c"))
    assert seen(restored, 7) == ["a", "b", "c"]


@pytest.mark.parametrize("canonical", [False, True])
def test_a_snapshot_is_written_in_another_thread_beside_commits(slot, canonical):
    store = slot.store()
    fill(store)
    snapshot = store.prepare_snapshot(1, slot.folder(), canonical)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(slot.restored(snapshot)))
    thread.start()
    for number in range(20):
        commit(store, cells.values(dict.fromkeys(range(300), number)))
    thread.join(30)
    check_filled(found[0])


def test_a_released_snapshot_leaves_nothing_behind(slot):
    store = slot.store()
    fill(store)
    for canonical in (False, True):
        folder = slot.folder()
        snapshot = store.prepare_snapshot(1, folder, canonical)
        snapshot.files()
        snapshot.release()
        assert list(folder.iterdir()) == []


def test_rows_of_other_key_groups_are_skipped(slot):
    store = slot.store()
    fill(store)
    snapshot = store.prepare_snapshot(1, slot.folder(), canonical=True)
    halves = [slot.restored(snapshot, KeyGroupRange(0, 63)), slot.restored(snapshot, KeyGroupRange(64, 127))]
    for key in range(300):
        holder, other = halves if group_of(key) < 64 else reversed(halves)
        assert (total(holder, key), total(other, key)) == (key * 10, None)
    assert [len(list(half.table(TIMERS).due(10**9))) for half in halves] == [
        sum(1 for key in range(300) if group_of(key) in half.key_groups) for half in halves
    ]


def test_state_that_no_code_asks_for_is_kept(slot):
    store = slot.store()
    fill(store)
    once = slot.restored(store.prepare_snapshot(1, slot.folder(), canonical=False))
    for canonical in (False, True):
        check_filled(slot.restored(once.prepare_snapshot(2, slot.folder(), canonical)))


def test_what_an_earlier_process_left_is_not_read(slot):
    folder = slot.folder()
    first = slot.factory.create(0, KeyGroupRange(0, 127), folder)
    fill(first)
    first.close()
    second = slot.factory.create(0, KeyGroupRange(0, 127), folder)
    assert total(second, 1) is None


def test_a_snapshot_of_another_format_is_refused(slot):
    with pytest.raises(errors.CorruptData, match="'hologram'"):
        slot.store().restore({}, "hologram")


def test_a_native_snapshot_without_its_description_is_refused(slot):
    store = slot.store()
    fill(store)
    snapshot = store.prepare_snapshot(1, slot.folder(), canonical=False)
    files = {file.name: file.path for file in snapshot.files() if file.name != "sparkstate.json"}
    with pytest.raises(errors.CorruptData, match=r"sparkstate\.json"):
        slot.store().restore(files, snapshot.format)


def test_a_value_that_does_not_fit_changes_nothing(slot):
    store = slot.store()
    fill(store)
    bad = TableChanges(VALUES, values={1: 5, 2: object()})
    with pytest.raises(Exception, match="object"):
        commit(store, cells.appended(7, "c"), bad)
    check_filled(store)
    commit(store, cells.appended(7, "c"))
    assert seen(store, 7) == ["a", "b", "c"]


def test_sizes_are_told_as_estimates(slot):
    store = slot.store()
    fill(store)
    stats = store.stats()
    assert stats.estimated
    assert stats.rows == 300 + 2 + 2 + 300
    assert stats.bytes > 0
