"""Snapshots that travel inside their handles: what arrives, and what is too large."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.backends import cells

from sparkstate import errors
from sparkstate.backends.base import ShardStore
from sparkstate.backends.loader import create_store_factory
from sparkstate.checkpoint import Downloader, UploadTarget
from sparkstate.checkpoint.inline_uploader import InlineUploader
from sparkstate.keygroups import KeyGroupRange
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.storage.memory import MemoryStore

TARGET = UploadTarget.checkpoint(1, 1)
ROWS = {key: key * 7 for key in range(500)}
Make = Callable[[int], ShardStore]


@pytest.fixture(params=["hashmap", "rocksdb"])
def make(request: Any, tmp_path: Path) -> Iterator[Make]:
    """Makes stores of one backend."""
    factory = create_store_factory(StateBackendSettings(type=request.param), tmp_path / "factory")
    made: list[ShardStore] = []

    def store(shard: int) -> ShardStore:
        made.append(factory.create(shard, KeyGroupRange(0, 127), tmp_path / f"{shard}-{len(made)}"))
        return made[-1]

    yield store
    for each in made:
        each.close()
    factory.close()


def snapshot(store: ShardStore, folder: Path) -> Any:
    folder.mkdir()
    return store.prepare_snapshot(1, folder, True)


def test_a_snapshot_of_either_backend_travels_in_its_handles_and_restores(make: Make, tmp_path: Path) -> None:
    store = make(0)
    cells.commit(store, cells.values(ROWS), cells.appended(3, "a", "b"))
    taken = snapshot(store, tmp_path / "taken")
    (handle,) = InlineUploader(5 * MIB).upload(TARGET, {0: taken})
    taken.release()
    assert handle.format == "canonical"
    assert [file.path for file in handle.files] == [""]
    nowhere = MemoryStore(lambda: 0)
    downloader = Downloader(nowhere)
    again = make(1)
    again.restore(downloader.fetch(handle, tmp_path / "fetched"), handle.format)
    downloader.close()
    assert [again.table(cells.VALUES).get(cells.group_of(key), key) for key in ROWS] == list(ROWS.values())
    assert list(nowhere.list("")) == []


def test_a_state_beyond_the_limit_is_refused_by_its_name(make: Make, tmp_path: Path) -> None:
    store = make(0)
    cells.commit(store, cells.values(ROWS), cells.appended(3, "a" * 20_000))
    taken = snapshot(store, tmp_path / "taken")
    said = r"the state op/seen of this slot has at least \d+ bytes, .* at most 15000 of a state .*\.storage"
    with pytest.raises(errors.StorageError, match=said):
        InlineUploader(15_000).upload(TARGET, {0: taken})
    taken.release()


def test_the_limit_counts_a_state_over_all_shards_of_a_slot(make: Make, tmp_path: Path) -> None:
    snapshots = {}
    for shard in range(4):
        store = make(shard)
        cells.commit(store, cells.values(ROWS))
        snapshots[shard] = snapshot(store, tmp_path / f"taken-{shard}")
    (one,) = InlineUploader(MIB).upload(TARGET, {0: snapshots[0]})
    snapshots[0] = snapshot(make(9), tmp_path / "empty")
    limit = 2 * one.state_size
    with pytest.raises(errors.StorageError, match=r"the state op/total of this slot"):
        InlineUploader(limit).upload(TARGET, snapshots)
    for taken in snapshots.values():
        taken.release()


def test_operator_state_has_the_same_limit() -> None:
    uploader = InlineUploader(10)
    assert uploader.put_bytes(TARGET, "operator-state-0", b"x" * 10).inline == b"x" * 10
    with pytest.raises(
        errors.StorageError, match="the state operator-state-0 of this slot has at least 11 bytes"
    ):
        uploader.put_bytes(TARGET, "operator-state-0", b"x" * 11)


def test_a_snapshot_that_nobody_wants_any_more_ends(make: Make, tmp_path: Path) -> None:
    store = make(0)
    cells.commit(store, cells.values(ROWS))
    taken, over = snapshot(store, tmp_path / "taken"), threading.Event()
    over.set()
    with pytest.raises(errors.StorageError, match="given up"):
        InlineUploader(MIB).upload(TARGET, {0: taken}, given_up=over)
    taken.release()
