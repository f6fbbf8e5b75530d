"""Which files a snapshot shares with earlier ones, and by what name."""

from __future__ import annotations

import os

from support.backends import cells
from support.backends.cells import VALUES, commit, group_of

from sparkstate.backends.rocksdb.snapshots import Identity, greatest_number, identity_of


def shared(snapshot):
    return {file.identity for file in snapshot.files() if file.shared}


def snapshot_of(slot, store, number=1):
    return store.prepare_snapshot(number, slot.folder(), canonical=False)


def test_a_second_snapshot_adds_only_new_files(slot):
    store = slot.store()
    commit(store, cells.values({key: key for key in range(1000)}))
    first = shared(snapshot_of(slot, store))
    commit(store, cells.values({1: 2}))
    second = shared(snapshot_of(slot, store, 2))
    assert first
    assert first < second
    assert len(second - first) == 1


def test_the_log_of_a_store_does_not_grow_with_its_checkpoints(slot):
    store = slot.store()
    sizes = []
    for number in range(1, 121):
        commit(store, cells.values({1: number}))
        snapshot_of(slot, store, number).release()
        sizes.append(sum(path.stat().st_size for path in slot.directory.rglob("LOG*")))
    assert max(sizes) < 3 * 128 * 1024


def test_a_snapshot_without_changes_has_no_new_file(slot):
    store = slot.store()
    commit(store, cells.values({1: 1}))
    assert shared(snapshot_of(slot, store)) == shared(snapshot_of(slot, store, 2))


def test_shared_files_are_sst_files_and_the_rest_belongs_to_one_snapshot(slot):
    store = slot.store()
    commit(store, cells.values({1: 1}))
    files = snapshot_of(slot, store).files()
    assert {file.shared for file in files if file.name.endswith(".sst")} == {True}
    rest = {file.name.partition("-")[0] for file in files if not file.shared}
    assert rest == {"CURRENT", "MANIFEST", "sparkstate.json"}
    assert all(file.size == file.path.stat().st_size for file in files)


def test_without_incremental_nothing_is_shared(make_slot):
    slot = make_slot(incremental=False)
    store = slot.store()
    commit(store, cells.values({1: 1}))
    assert shared(snapshot_of(slot, store)) == set()


def test_a_snapshot_is_made_of_hard_links(slot):
    store = slot.store()
    commit(store, cells.values({1: 1}))
    ssts = [file for file in snapshot_of(slot, store).files() if file.shared]
    assert {os.stat(file.path).st_nlink for file in ssts} == {2}


def test_a_restored_store_goes_on_with_the_files_it_was_given(slot):
    store = slot.store()
    commit(store, cells.values({key: key for key in range(1000)}))
    first = snapshot_of(slot, store)
    restored = slot.restored(first)
    commit(restored, cells.values({1: 2}))
    assert shared(first) < shared(snapshot_of(slot, restored, 2))


def test_two_restores_of_one_snapshot_never_give_two_files_one_name(slot):
    store = slot.store()
    commit(store, cells.values({1: 1}))
    first = snapshot_of(slot, store)
    names = []
    for value in (2, 3):
        restored = slot.restored(first)
        commit(restored, cells.values({1: value}))
        names.append(shared(snapshot_of(slot, restored, 2)) - shared(first))
    assert len(names[0]) == len(names[1]) == 1
    assert not names[0] & names[1]


def test_the_abandoned_store_and_the_restored_one_do_not_share_new_names(slot):
    store = slot.store()
    commit(store, cells.values({1: 1}))
    first = snapshot_of(slot, store)
    restored = slot.restored(first)
    for owner in (store, restored):
        commit(owner, cells.values({1: 5}))
    assert shared(snapshot_of(slot, store, 2)) & shared(snapshot_of(slot, restored, 2)) == shared(first)


def test_a_chain_of_restores_keeps_every_origin(slot):
    store = slot.store()
    commit(store, cells.values({0: 0}))
    known = set()
    for number in range(1, 4):
        snapshot = snapshot_of(slot, store, number)
        assert known <= shared(snapshot)
        known = shared(snapshot)
        store = slot.restored(snapshot)
        commit(store, cells.values({number: number}))
    table = store.table(VALUES)
    assert [table.get(group_of(key), key) for key in range(4)] == [0, 1, 2, 3]


def test_snapshots_come_out_on_the_stores_own_device(make_slot, tmp_path):
    slot = make_slot()
    store = slot.store()
    commit(store, cells.values({1: 1}))
    # /dev/shm is another device than any disk.
    elsewhere = slot.folder() if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev else None
    folder = elsewhere or _shared_memory_folder(tmp_path)
    try:
        snapshot = store.prepare_snapshot(1, folder, canonical=False)
        assert {os.stat(file.path).st_nlink for file in snapshot.files() if file.shared} == {2}
        restored = slot.restored(snapshot)
        assert restored.table(VALUES).get(group_of(1), 1) == 1
        paths = [file.path for file in snapshot.files()]
        snapshot.release()
        assert not any(path.exists() for path in paths)
    finally:
        folder.rmdir()


def _shared_memory_folder(tmp_path):
    folder = type(tmp_path)("/dev/shm") / f"sparkstate-test-{os.getpid()}"
    folder.mkdir()
    return folder


def test_a_file_is_named_by_the_store_that_wrote_it():
    identities = [Identity(0, "first"), Identity(20, "second")]
    assert identity_of("000019.sst", 5, identities) == "first-000019-5"
    assert identity_of("000020.sst", 5, identities) == "second-000020-5"
    assert identity_of("000021.sst", 6, identities[:1]) == "first-000021-6"


def test_the_greatest_file_number_counts_all_kinds_of_files():
    assert (
        greatest_number(["000012.sst", "MANIFEST-000040", "CURRENT", "OPTIONS-000007", "sparkstate.json"])
        == 40
    )
    assert greatest_number(["CURRENT"]) == 0


def test_a_store_that_is_quiesced_writes_no_file_anew(slot):
    store = slot.store()
    commit(store, cells.values({1: 1}))
    store.quiesce()
    found = shared(snapshot_of(slot, store))
    for number in range(2, 14):
        commit(store, cells.values({number: number, 1: number}))
        before, found = found, shared(snapshot_of(slot, store, number))
        assert before < found, "a compaction would have replaced some"
    assert store.table(VALUES).get(group_of(1), 1) == 13
