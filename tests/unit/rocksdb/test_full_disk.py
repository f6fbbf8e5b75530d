"""A disk that takes no further byte, folder or file, at the calls that are not RocksDB's own. A small tmpfs is full for
each of them, so these tests need root."""

from __future__ import annotations

import contextlib
import os
import resource

import pytest
from support.backends import cells
from support.backends.cells import commit
from support.machine import volumes

from sparkstate import errors
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.keygroups import KeyGroupRange
from sparkstate.settings import StateBackendSettings

PAGE = 4096


@pytest.fixture
def volume(tmp_path):
    with volumes.mounted(tmp_path / "volume", size="2m") as mounted:
        yield mounted


@pytest.fixture
def on_volume(volume, clock):
    """A factory whose stores lie on the volume."""
    factory = RocksDBStoreFactory(StateBackendSettings(type="rocksdb"), volume.path, clock)
    yield lambda name: factory.create(0, KeyGroupRange(0, 127), volume.path / name)
    factory.close()


def test_a_snapshot_names_the_disk_and_the_remedy_whatever_it_had_no_room_for(volume, on_volume):
    store = on_volume("store")
    commit(store, cells.values({1: 1}))
    failures: list[errors.StorageError] = []
    for pages in range(12):
        folder = volume.path / f"snapshot-{pages}"
        folder.mkdir()
        store.database().flush()
        volume.fill(leave=pages * PAGE)
        try:
            store.prepare_snapshot(pages, folder, canonical=False)
        except errors.StorageError as error:
            failures.append(error)
        volume.free()
    assert {type(failure) for failure in failures} == {errors.StorageError}
    for told in map(str, failures):
        assert "is full" in told and str(volume.path) in told and "localStorage" in told
    assert any(isinstance(failure.__cause__, OSError) for failure in failures)


def test_a_restore_that_has_no_room_for_the_files_says_so(slot, volume, on_volume):
    source = slot.store()
    commit(source, cells.values({key: key * 7919 for key in range(20_000)}))
    snapshot = source.prepare_snapshot(1, slot.folder(), canonical=False)
    files = {file.name: file.path for file in snapshot.files()}
    store = on_volume("restored")
    volume.fill(leave=2 * PAGE)
    with pytest.raises(
        errors.StorageError, match=r"restoring the state in .*is full.*localStorage"
    ) as caught:
        store.restore(files, snapshot.format)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("broken", ["a file", "a dangling link", "a read-only volume"])
def test_a_storage_path_that_takes_no_folder_is_named(make_slot, tmp_path, broken):
    path = tmp_path / "disk"
    if broken == "a file":
        path.write_text("in the way")
    elif broken == "a dangling link":
        path.symlink_to(tmp_path / "nowhere")
    with contextlib.ExitStack() as stack:
        if broken == "a read-only volume":
            stack.enter_context(volumes.mounted(path)).remount("ro")
        words = (
            rf"making a folder for shard 0 in {path} \(storagePaths\) failed.*Check that the directory exists"
        )
        with pytest.raises(errors.StorageError, match=words):
            make_slot(storage_paths=(str(path),)).store()


def test_a_process_that_may_open_no_further_file_is_told_which_limit_to_raise(slot):
    store = slot.store()
    commit(store, cells.values({1: 1}))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit is one of numbers, and what other tests have closed leaves gaps between those in use.
    highest, filled = max(map(int, os.listdir("/proc/self/fd"))), [os.open(os.devnull, os.O_RDONLY)]
    while filled[-1] < highest:
        filled.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (filled[-1] + 1, hard))
    try:
        with pytest.raises(errors.StorageError, match=r"ulimit -n.*state\.backend\.rocksdb\.files\.open"):
            store.prepare_snapshot(1, slot.directory, canonical=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in filled:
            os.close(descriptor)
