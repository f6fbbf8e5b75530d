"""From settings to stores, with and without rocksdict installed."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from support.backends import cells
from support.backends.cells import VALUES, commit, group_of

from sparkstate import errors
from sparkstate.backends.loader import create_store_factory
from sparkstate.backends.rocksdb import folders
from sparkstate.keygroups import KeyGroupRange
from sparkstate.settings import StateBackendSettings

WITHOUT_ROCKSDICT = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "rocksdict":
            raise ModuleNotFoundError("No module named 'rocksdict'", name="rocksdict")
sys.meta_path.insert(0, Absent())
from pathlib import Path
from sparkstate import errors, state_backend
from sparkstate.backends.loader import create_store_factory
from sparkstate.settings import StateBackendSettings
factory = create_store_factory(StateBackendSettings(type="hashmap"), Path(sys.argv[1]))
print(type(factory).__name__)
backend = state_backend.EmbeddedRocksDBStateBackend()
try:
    create_store_factory(backend.effective_settings(StateBackendSettings()), Path(sys.argv[1]))
except errors.SpecInvalid as error:
    print(error)
"""

A_STORE = """
import sys
from pathlib import Path
from sparkstate.backends.loader import create_store_factory
from sparkstate.keygroups import KeyGroupRange
from sparkstate.settings import StateBackendSettings
disk, folder = sys.argv[1:]
factory = create_store_factory(StateBackendSettings(type="rocksdb", storage_paths=(disk,)), Path(folder))
factory.create(1, KeyGroupRange(0, 127), Path(folder))
print("made", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_type_decides_who_makes_the_stores(tmp_path, backend):
    factory = create_store_factory(StateBackendSettings(type=backend), tmp_path)
    store = factory.create(0, KeyGroupRange(0, 127), tmp_path / "0")
    commit(store, cells.values({1: 10}))
    assert store.table(VALUES).get(group_of(1), 1) == 10
    factory.close()


def test_an_unknown_type_is_refused(tmp_path):
    with pytest.raises(errors.SpecInvalid, match="hashmap, rocksdb or custom"):
        create_store_factory(StateBackendSettings(type="paper"), tmp_path)


def test_hashmap_needs_no_rocksdict_and_rocksdb_says_what_to_install(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ROCKSDICT, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().splitlines()
    assert first == "HashMapStoreFactory"
    assert "pip install 'sparkstate[rocksdb]'" in second


def test_describing_a_backend_imports_no_rocksdict():
    script = (
        "import sys, sparkstate.state_backend, sparkstate.backends.loader; print('rocksdict' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"


def test_only_the_rocksdb_package_imports_rocksdict():
    source = Path(create_store_factory.__code__.co_filename).parents[1]
    importers = {
        path.relative_to(source).parts[:2]
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.strip().startswith(("import rocksdict", "from rocksdict"))
    }
    assert importers == {("backends", "rocksdb")}


def test_storage_paths_take_the_files_shard_by_shard_and_are_left_clean(make_slot, tmp_path):
    paths = [tmp_path / "disk-a", tmp_path / "disk-b"]
    for path in paths:
        path.mkdir()
    slot = make_slot(storage_paths=tuple(map(str, paths)))
    stores = [slot.store(shard) for shard in range(4)]
    for store in stores:
        commit(store, cells.values({1: 1}))
    assert [len(list(path.iterdir())) for path in paths] == [2, 2]
    snapshot = stores[0].prepare_snapshot(1, slot.folder(), canonical=False)
    restored = slot.restored(snapshot)
    assert restored.table(VALUES).get(group_of(1), 1) == 1
    snapshot.release()
    slot.factory.close()
    assert [list(path.iterdir()) for path in paths] == [[], []]


def test_what_a_process_that_was_killed_left_in_a_storage_path_is_removed_and_a_living_ones_is_not(
    make_slot, tmp_path
):
    path = tmp_path / "disk"
    path.mkdir()
    (path / "not-ours").mkdir()
    living = make_slot(storage_paths=(str(path),))
    store = living.store(0)
    commit(store, cells.values({1: 1}))
    program = [sys.executable, "-c", A_STORE, str(path), str(tmp_path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dead:
        assert dead.stdout.readline() == b"made\n"
        with_both = {each.name for each in path.iterdir()}
        make_slot(storage_paths=(str(path),)).store(2)
        assert with_both < {each.name for each in path.iterdir()}, "one that is held by another process stays"
        dead.kill()
    make_slot(storage_paths=(str(path),)).store(3)
    shards = sorted(each.name.split("-")[2] for each in path.iterdir() if each.name != "not-ours")
    assert shards == ["0", "2", "3"]
    assert store.table(VALUES).get(group_of(1), 1) == 1


def test_a_file_system_without_locks_holds_stores_too(make_slot, tmp_path, monkeypatch):
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(folders.fcntl, "flock", refuse)
    (tmp_path / "sparkstate-shard-9-of-nobody-knows-whom").mkdir()
    slot = make_slot(storage_paths=(str(tmp_path),))
    commit(slot.store(0), cells.values({1: 1}))
    slot.factory.close()
    assert len(list(tmp_path.glob("sparkstate-shard-*"))) == 1


def test_a_folder_that_another_process_swept_before_it_was_held_is_made_again(tmp_path, monkeypatch):
    real, swept = folders._hold, []

    def hold(path: Path) -> int | None:
        if not swept:
            swept.append(path)
            path.rmdir()
        return real(path)

    monkeypatch.setattr(folders, "_hold", hold)
    folder = folders.make(tmp_path, 0, iter(["one", "two"]).__next__)
    assert [path.name for path in tmp_path.iterdir()] == ["sparkstate-shard-0-two"] == [folder.path.name]
    folder.remove()


def test_a_relative_storage_path_is_refused(make_slot):
    with pytest.raises(errors.SpecInvalid, match="absolute"):
        make_slot(storage_paths=("here",)).store()


def test_several_threads_make_stores_of_one_factory(slot):
    import concurrent.futures

    def use(shard: int) -> int:
        store = slot.factory.create(shard, KeyGroupRange(0, 127), slot.directory / f"shard-{shard}")
        commit(store, cells.values({1: shard}))
        return store.table(VALUES).get(group_of(1), 1)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert list(threads.map(use, range(8))) == list(range(8))
