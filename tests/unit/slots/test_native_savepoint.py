"""A savepoint in the native format has the backend's own files, and is as free to move as any other."""

from __future__ import annotations

import base64
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slots import slots

from sparkstate import errors
from sparkstate.handles import FileHandle
from sparkstate.slots import protocol

_DRAWN = random.Random(1)
KEYS = [f"{number:06d}" + base64.b64encode(_DRAWN.randbytes(3000)).decode() for number in range(600)]
"""More than 2 MiB in one shard that no compression makes smaller: its files are objects of their own."""


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[slots.Slot]:
    made = slots.Slot.of_rocksdb(tmp_path, 1)
    made.restore()
    yield made
    made.close()


def savepoint(slot: slots.Slot, folder: Path, checkpoint_id: int, *, native: bool) -> protocol.SnapshotState:
    folder.mkdir()  # by the driver
    request = protocol.Snapshot(
        incarnation=1, checkpoint_id=checkpoint_id, epoch=0, canonical=not native, target_url=folder.as_uri()
    )
    slot.client.call(request, protocol.Ok)
    state = slot.client.call(
        protocol.SnapshotPoll(checkpoint_id=checkpoint_id, wait_s=60.0), protocol.SnapshotState
    )
    assert state.done and not state.failure, state.failure
    slot.done(checkpoint_id)
    return state


def files_of(state: protocol.SnapshotState) -> list[FileHandle]:
    return [file for shard in state.shards for file in shard.files]


def tables_of(state: protocol.SnapshotState) -> list[FileHandle]:
    return [file for file in files_of(state) if file.name.endswith(".sst")]


def fill(slot: slots.Slot, epoch: int, keys: list[str]) -> None:
    slot.epoch(epoch, slots.rows(*[(key, 1) for key in keys]))


def test_it_restores_from_wherever_its_folder_was_moved_to(slot: slots.Slot, tmp_path: Path) -> None:
    fill(slot, 0, KEYS)
    slot.snapshot(1, 0)  # its files are in the lineage already; the savepoint has copies
    slot.done(1)
    state = savepoint(slot, tmp_path / "savepoint", 2, native=True)
    assert {shard.format for shard in state.shards if shard.files} == {"rocksdb"}
    assert sum(file.size for file in tables_of(state)) > (1 << 20)
    assert all("/" not in file.path and not file.shared for file in files_of(state))
    slot.close()
    shutil.rmtree(tmp_path / "storage" / slots.LINEAGE)
    (tmp_path / "savepoint").rename(tmp_path / "moved")

    other = slots.Slot(tmp_path / "other", slots.plan(tmp_path, backend="rocksdb"))
    other.restore(*state.shards, url=(tmp_path / "moved").as_uri())
    assert [other.value(key) for key in (KEYS[0], KEYS[-1])] == ["1", "1"]
    fill(other, 0, KEYS[:1])
    assert other.value(KEYS[0]) == "2"
    taken = other.snapshot(3, 0)  # the user may delete the savepoint: the checkpoint needs nothing of it
    other.close()
    shutil.rmtree(tmp_path / "moved")
    assert tables_of(taken) and all(file.path.startswith("shared/") for file in tables_of(taken))

    last = slots.Slot(tmp_path / "last", slots.plan(tmp_path, backend="rocksdb"))
    last.restore(*taken.shards, url=(tmp_path / "storage" / slots.LINEAGE).as_uri())
    assert [last.value(key) for key in (KEYS[0], KEYS[-1])] == ["2", "1"]
    last.close()


def test_checkpoints_go_on_with_the_files_that_they_had_before_it(slot: slots.Slot, tmp_path: Path) -> None:
    fill(slot, 0, KEYS)
    before = slot.snapshot(1, 0)
    slot.done(1)
    savepoint(slot, tmp_path / "savepoint", 2, native=True)
    fill(slot, 1, KEYS[:3])
    after = slot.snapshot(3, 1, base=1)
    known = {file.path for file in tables_of(before)}
    assert known and known < {file.path for file in tables_of(after)}


def test_only_its_own_backend_restores_it(slot: slots.Slot, tmp_path: Path) -> None:
    fill(slot, 0, KEYS)
    state = savepoint(slot, tmp_path / "savepoint", 2, native=True)
    other = slots.Slot(tmp_path / "other", slots.plan(tmp_path, backend="hashmap"))
    with pytest.raises(errors.SparkstateError, match="rocksdb"):
        other.restore(*state.shards, url=(tmp_path / "savepoint").as_uri())
    other.close()


def test_both_formats_have_the_same_state(slot: slots.Slot, tmp_path: Path) -> None:
    fill(slot, 0, KEYS)
    fill(slot, 1, KEYS[:100])
    for number, native in ((2, True), (3, False)):
        folder = tmp_path / f"savepoint-{number}"
        state = savepoint(slot, folder, number, native=native)
        restored = slots.Slot(tmp_path / f"other-{number}", slots.plan(tmp_path, backend="rocksdb"))
        restored.restore(*state.shards, url=folder.as_uri())
        assert [restored.value(key) for key in KEYS] == ["2"] * 100 + ["1"] * 500
        restored.close()
