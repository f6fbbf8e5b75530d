"""What a slot keeps of its newest completed checkpoint, although its store has gone on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slots import slots

from sparkstate.handles import ShardHandle
from sparkstate.local_state import folders, inheritance
from sparkstate.local_state.local_copy import LocalCopy

URL = "storage/0123456789abcdef"


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[slots.Slot]:
    made = slots.Slot.of_rocksdb(tmp_path, 1)
    made.restore()
    yield made
    made.close()


def checkpoint(slot: slots.Slot, number: int, completed: bool = True) -> tuple[ShardHandle, ...]:
    """After an epoch that changes the state; the older checkpoint is its base."""
    slot.epoch(number, slots.rows(("a", 1), (f"key-{number}", number)))
    shards = slot.snapshot(number, number, number - 1 if completed else -1).shards
    slot.done(number, completed)
    return shards


def names(shards: tuple[ShardHandle, ...]) -> set[str]:
    return {file.name for file in shards[0].files if file.name.endswith(".sst")}


def in_folder(folder: Path) -> set[str]:
    return {path.name for path in (folder / "shard-00000").rglob("*.sst")}


def until_compacted(slot: slots.Slot, store: Path, taken: set[str]) -> int:
    """Epochs whose checkpoints fail, until the store has none of these files; the number of the last."""
    deadline, number = time.monotonic() + 60, 1
    while in_folder(store) & taken:
        assert time.monotonic() < deadline
        number += 1
        checkpoint(slot, number, completed=False)
    return number


@pytest.mark.parametrize("killed", [False, True], ids=["left", "killed"])
def test_a_restore_finds_what_compactions_have_removed_since_the_checkpoint(
    tmp_path: Path, slot: slots.Slot, killed: bool
) -> None:
    shards = checkpoint(slot, 1)
    until_compacted(slot, tmp_path / "slots/1-0/db", names(shards))
    slot.server.close()
    inheritance.retire_all(tmp_path / "slots") if killed else inheritance.retire(tmp_path / "slots/1-0")
    for file in (file for shard in shards for file in shard.files if file.name.endswith(".sst")):
        Path(tmp_path / URL, file.path).unlink()
    second = slots.Slot.of_rocksdb(tmp_path, 2)
    told = second.restore(*shards, url=str(tmp_path / URL), checkpoint_id=1)
    assert told.bytes_found == sum(f.size for s in shards for f in s.files if f.name.endswith(".sst"))
    assert [second.value("a"), second.value("key-1")] == ["1", "1"]
    second.close()


def test_of_two_completed_checkpoints_the_newer_is_kept_and_none_that_failed(
    tmp_path: Path, slot: slots.Slot
) -> None:
    folder = tmp_path / "slots/1-0" / folders.LOCAL_COPY
    for number in (1, 2):
        shards = checkpoint(slot, number)
        assert [path.name for path in folder.iterdir()] == [str(number)]
        assert in_folder(folder / str(number)) == names(shards)
    checkpoint(slot, 3, completed=False)
    assert [path.name for path in folder.iterdir()] == ["2"]
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".sst"}


def test_while_the_outcome_of_the_next_is_not_known_both_are_kept(tmp_path: Path, slot: slots.Slot) -> None:
    checkpoint(slot, 1)
    slot.epoch(2, slots.rows(("a", 1)))
    slot.snapshot(2, 2, 1)
    kept_now = (tmp_path / "slots/1-0" / folders.LOCAL_COPY).iterdir()
    assert sorted(path.name for path in kept_now) == ["1", "2"]


def test_without_local_recovery_nothing_is_kept(tmp_path: Path) -> None:
    slot = slots.Slot.of_rocksdb(tmp_path, 1, local_recovery=False)
    slot.restore()
    checkpoint(slot, 1)
    assert not (tmp_path / "slots/1-0" / folders.LOCAL_COPY).exists()
    slot.close()


def placed(folder: Path, sizes: dict[str, int], also_in: Path | None = None) -> None:
    for name, size in sizes.items():
        path = folder / "1" / "shard-00000" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
        if also_in:
            also_in.mkdir(exist_ok=True)
            os.link(path, also_in / name)


@pytest.mark.parametrize(
    ("in_use", "alone", "stays"),
    [
        ({"1.sst": 100}, {}, {"1.sst"}),
        ({"1.sst": 100}, {"2.sst": 100}, {"1.sst", "2.sst"}),
        ({"1.sst": 100}, {"2.sst": 60, "3.sst": 60}, {"1.sst", "2.sst"}),
        ({}, {"1.sst": 100, "2.sst": 100, "3.sst": 100, "4.sst": 100}, {"1.sst", "2.sst"}),
        ({}, {"1.sst": 400, "2.sst": 100}, {"2.sst"}),
    ],
    ids=["all in use", "as much", "too much", "all of it replaced", "a large one"],
)
def test_no_more_is_kept_for_its_own_sake_than_half_of_the_checkpoint(
    tmp_path: Path, in_use: dict[str, int], alone: dict[str, int], stays: set[str]
) -> None:
    here = tmp_path / folders.LOCAL_COPY
    placed(here, in_use, tmp_path / "db")
    placed(here, alone)
    LocalCopy(here).trim()
    assert in_folder(here / "1") == stays


def test_a_file_of_two_checkpoints_counts_once_and_goes_from_both(tmp_path: Path) -> None:
    here = tmp_path / folders.LOCAL_COPY
    placed(here, {"1.sst": 100}, tmp_path / "db")
    placed(here, {"2.sst": 60, "3.sst": 80})
    next_one = here / "2" / "shard-00000"
    next_one.mkdir(parents=True)
    for path in (here / "1" / "shard-00000").iterdir():
        os.link(path, next_one / path.name)
    LocalCopy(here).trim()
    assert [in_folder(here / number) for number in ("1", "2")] == [{"1.sst", "2.sst"}] * 2


def test_a_slot_gives_room_back_while_it_commits(
    tmp_path: Path, slot: slots.Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkstate.slots.snapshotting._TRIM_S", 0.0)
    shards = checkpoint(slot, 1)
    number = until_compacted(slot, tmp_path / "slots/1-0/db", names(shards))
    slot.epoch(number + 1, slots.rows(("a", 1)))
    of_first = tmp_path / "slots/1-0" / folders.LOCAL_COPY / "1"
    deadline = time.monotonic() + 30
    while in_folder(of_first) == names(shards):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_cannot_be_kept_fails_nothing(tmp_path: Path, slot: slots.Slot) -> None:
    (tmp_path / "slots/1-0" / folders.LOCAL_COPY).write_text("no folder")
    shards = checkpoint(slot, 1)
    assert names(shards)


def test_nothing_happens_where_nothing_is_kept(tmp_path: Path) -> None:
    none = LocalCopy(tmp_path / folders.LOCAL_COPY)
    none.trim()
    none.confirm(4)
    none.abort(4)
    assert not list(tmp_path.iterdir())
