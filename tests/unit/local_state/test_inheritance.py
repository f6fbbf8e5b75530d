"""Local recovery: what a slot that is gone has left is used where it is right, and downloaded where it is not."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.slots import slots

from sparkstate import errors
from sparkstate.checkpoint import downloader
from sparkstate.handles import ShardHandle
from sparkstate.local_state import folders, inheritance, reuse, verified_files
from sparkstate.storage import arriving

STORAGE = "0123456789abcdef"


@dataclasses.dataclass
class Gone:
    """A slot that took a checkpoint and left; the next is to be filled from it."""

    folder: Path
    new_slot: Callable[..., slots.Slot]
    shards: tuple[ShardHandle, ...]

    @property
    def base(self) -> Path:
        return self.folder / "slots"

    @property
    def url(self) -> str:
        return str(self.folder / "storage" / STORAGE)

    @property
    def sst_bytes(self) -> int:
        return sum(f.size for shard in self.shards for f in shard.files if f.name.endswith(".sst"))

    def kept(self, shard: int) -> list[Path]:
        """RocksDB's files that were left of a shard."""
        return sorted(self.base.glob(f"*.left/db/shard-{shard:05d}/**/*.sst"))

    def lose_stored(self) -> None:
        """Take the files that a restore is to find on its disk away from the storage."""
        stored = [f.path for shard in self.shards for f in shard.files if f.name.endswith(".sst")]
        assert stored
        for path in stored:
            Path(self.url, path).unlink()

    def next(self, **backend: object) -> tuple[slots.Slot, int]:
        """Another slot with the state, and how many bytes of it were on the disk."""
        slot = self.new_slot(2, **backend)
        return slot, slot.restore(*self.shards, url=self.url, checkpoint_id=1).bytes_found


@pytest.fixture
def new_slot(tmp_path: Path) -> Iterator[Callable[..., slots.Slot]]:
    with contextlib.ExitStack() as stack:

        def make(incarnation: int, share: tuple[int, int] = (0, 1), **backend: object) -> slots.Slot:
            slot = slots.Slot.of_rocksdb(tmp_path, incarnation, share, **backend)
            stack.callback(slot.close)
            return slot

        yield make


@pytest.fixture
def gone(tmp_path: Path, new_slot: Callable[..., slots.Slot]) -> Gone:
    slot = new_slot(1)
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1), ("b", 2)), slots.rows(("c", 3), group=7))
    state = slot.snapshot(1, 0)
    slot.done(1)
    slot.epoch(1, slots.rows(("a", 100)))  # not in the checkpoint
    slot.server.close()
    inheritance.retire(tmp_path / "slots" / "1-0")
    return Gone(tmp_path, new_slot, state.shards)


def test_what_is_on_the_disk_is_not_downloaded(gone: Gone) -> None:
    gone.lose_stored()
    slot, found = gone.next()
    assert found == gone.sst_bytes
    assert [slot.value("a"), slot.value("b"), slot.value("c", 7)] == ["1", "2", "3"]
    slot.epoch(2, slots.rows(("a", 5)))
    assert slot.value("a") == "6"


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [flip_a_byte, cut, Path.unlink, make_folder])
def test_a_file_that_is_not_right_is_downloaded_and_the_others_are_not(
    gone: Gone, damage: Callable[[Path], object]
) -> None:
    victim = gone.kept(0)[0]
    size = victim.stat().st_size
    for other in gone.base.glob(f"*.left/kept/1/shard-00000/**/{victim.name}"):
        other.unlink()
    damage(victim)
    slot, found = gone.next()
    assert found == gone.sst_bytes - size
    assert [slot.value("a"), slot.value("b"), slot.value("c", 7)] == ["1", "2", "3"]


@pytest.mark.parametrize("where", ["db", "kept/1"])
def test_a_file_that_is_gone_from_one_place_is_found_in_the_other(gone: Gone, where: str) -> None:
    for path in gone.base.glob(f"*.left/{where}/shard-*/**/*.sst"):
        path.unlink()
    gone.lose_stored()
    slot, found = gone.next()
    assert found == gone.sst_bytes
    assert [slot.value("a"), slot.value("b"), slot.value("c", 7)] == ["1", "2", "3"]


def test_another_files_number_and_size_do_not_make_it_the_same(gone: Gone) -> None:
    """Two stores that go on from one snapshot give the same numbers to different files."""
    one, other = (gone.kept(shard)[0] for shard in (0, 3))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes()[: len(content)].ljust(len(content), b"x"))
    slot, found = gone.next()
    assert found < gone.sst_bytes
    assert [slot.value("a"), slot.value("c", 7)] == ["1", "3"]


def test_a_slot_that_was_killed_before_it_left_is_found_by_the_next_driver(
    tmp_path: Path, gone: Gone
) -> None:
    (tmp_path / "slots" / "1-0.left").rename(tmp_path / "slots" / "1-0")
    for name in ("slot-0.log", "places-1/0", "executor-7/1-1/s"):
        (gone.base / name).parent.mkdir(parents=True, exist_ok=True)
        (gone.base / name).touch()
    inheritance.retire_all(gone.base)
    assert [path.name for path in gone.base.iterdir()] == ["1-0.left"]
    assert sorted(path.name for path in (gone.base / "1-0.left").iterdir()) == ["db", "kept"]
    gone.lose_stored()
    assert gone.next()[1] == gone.sst_bytes


@pytest.mark.parametrize("its_slot", ["1-0", "1-0.left"])
def test_what_the_driver_of_another_attempt_left_on_a_disk_that_outlived_its_pod_is_found(
    tmp_path: Path, gone: Gone, its_slot: str
) -> None:
    (tmp_path / "sparkstate-job/3").mkdir(parents=True)
    gone.base.rename(tmp_path / "sparkstate-job/3/slots")
    (tmp_path / "sparkstate-job/3/slots/1-0.left").rename(tmp_path / "sparkstate-job/3/slots" / its_slot)
    for folder in ("lost+found", "12/spark", "10/slots"):
        (tmp_path / "sparkstate-job" / folder).mkdir(parents=True)
    mine = tmp_path / "sparkstate-job/10"
    inheritance.inherit(mine)
    inheritance.inherit(mine)
    assert sorted(path.name for path in mine.parent.iterdir()) == ["10", "lost+found"]
    assert [path.name for path in (mine / "slots").iterdir()] == ["3-1-0.left"]
    inheritance.retire_all(mine / "slots")  # this attempt's next life
    gone.lose_stored()
    (mine / "slots").rename(gone.base)
    slot, found = gone.next()
    assert found == gone.sst_bytes
    assert [slot.value("a"), slot.value("b"), slot.value("c", 7)] == ["1", "2", "3"]


@pytest.mark.parametrize("work_dir", ["flights/2026", "sparkstate-job/work"])
def test_a_working_directory_that_is_no_attempts_leaves_its_neighbours_alone(
    tmp_path: Path, work_dir: str
) -> None:
    beside = (tmp_path / work_dir).with_name("2025") / "slots/1-0.left/db/shard-00000/000001.sst"
    for path in (tmp_path / work_dir, beside):
        path.mkdir(parents=True)
    inheritance.inherit(tmp_path / work_dir)
    assert beside.exists()


def test_a_restore_that_is_interrupted_leaves_what_it_had_for_the_next(gone: Gone) -> None:
    gone.lose_stored()
    half = gone.base / "2-0"
    for shard in gone.shards:
        reuse.link_files(gone.base, shard, folders.shard_folder(half / "download", shard.shard))
    inheritance.retire(half)
    slot = gone.new_slot(3)
    told = slot.restore(*gone.shards, url=gone.url, checkpoint_id=1)
    assert told.bytes_found == gone.sst_bytes


def test_a_restore_needs_no_more_room_than_the_state(tmp_path: Path, gone: Gone) -> None:
    shard = gone.shards[0]
    (gone.kept(0)[0].parent / "999999.sst").write_bytes(b"of a later epoch")
    right = reuse.link_files(gone.base, shard, tmp_path / "there")
    assert gone.kept(0) == []
    assert gone.kept(3) != []
    assert {path.name for path in (tmp_path / "there").iterdir()} == right
    assert right == {f.name for f in shard.files if f.name.endswith(".sst")}


def test_nothing_is_left_after_the_first_commit(gone: Gone) -> None:
    """Not even of shards that are another slot's now."""
    slot = gone.new_slot(2, (0, 2))
    slot.restore(*gone.shards[:2], url=gone.url, checkpoint_id=1)
    assert gone.kept(3) != []
    slot.epoch(1, slots.rows(("a", 1)))
    deadline = time.monotonic() + 30
    while list(gone.base.glob("*.left")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert slot.value("a") == "2"


@pytest.mark.parametrize("empty", [False, True], ids=["off", "a start without state"])
def test_what_is_not_wanted_is_removed(gone: Gone, empty: bool) -> None:
    if empty:
        slot = gone.new_slot(2)
        slot.restore()
    else:
        slot, found = gone.next(local_recovery=False)
        assert found == 0
        assert slot.value("a") == "1"
    assert list(gone.base.glob("*.left")) == []


def test_a_leaving_slot_s_folder_is_away_although_files_are_still_made_in_it(tmp_path: Path) -> None:
    folder, made, stop = tmp_path / "1-0", itertools.count(), threading.Event()
    (folder / "db").mkdir(parents=True)
    for number in range(3000):
        (folder / f"old-{number}").touch()

    def keep_making() -> None:
        while not stop.is_set():
            with contextlib.suppress(FileNotFoundError):
                (folder / f"new-{next(made)}").touch()

    making = threading.Thread(target=keep_making)
    making.start()
    while next(made) < 100:
        time.sleep(0.01)
    inheritance.retire(folder)
    stop.set()
    making.join()
    assert [path.name for path in tmp_path.iterdir()] == ["1-0.left"]
    assert [path.name for path in (tmp_path / "1-0.left").iterdir()] == ["db"]


def spoil(path: Path) -> None:
    """Damage that the file system does not tell of."""
    times = path.stat()
    flip_a_byte(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture
def read_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The local files that restores hash."""
    hashed: list[str] = []

    def note(path: Path) -> str:
        hashed.append(path.name)
        return arriving.checksum_of_old(path)

    monkeypatch.setattr(downloader, "checksum_of_old", note)
    return hashed


def test_a_file_that_nobody_has_written_to_is_not_read_again(gone: Gone, read_again: list[str]) -> None:
    gone.lose_stored()
    slot, found = gone.next()
    assert (found, read_again) == (gone.sst_bytes, [])
    assert [slot.value("a"), slot.value("b"), slot.value("c", 7)] == ["1", "2", "3"]


def test_a_file_that_was_written_to_is_read_again(gone: Gone, read_again: list[str]) -> None:
    victim = gone.kept(0)[0]
    victim.write_bytes(victim.read_bytes())
    _, found = gone.next()
    assert found == gone.sst_bytes
    assert len(read_again) == 1


def test_files_from_before_the_machine_s_last_start_are_read_again(
    tmp_path: Path, gone: Gone, read_again: list[str]
) -> None:
    (tmp_path / "boot_id").write_text("another\n")
    for shard in gone.shards:
        folder = next(gone.base.glob("*.left")) / "db" / f"shard-{shard.shard:05d}"
        verified_files.record(folder, shard, tmp_path / "none", tmp_path / "boot_id")
    _, found = gone.next()
    assert found == gone.sst_bytes
    assert len(read_again) == len([f for s in gone.shards for f in s.files if f.name.endswith(".sst")])


def test_what_cannot_be_read_as_a_record_proves_nothing(gone: Gone, read_again: list[str]) -> None:
    for record in gone.base.glob("*.left/db/*.proven"):
        record.write_bytes(b"{")
    assert gone.next()[1] == gone.sst_bytes
    assert read_again


def test_a_damaged_block_is_believed_once_and_then_downloaded(gone: Gone, read_again: list[str]) -> None:
    """It is RocksDB that finds it, when it reads the block; the slot fails, and the next one looks at every byte."""
    for path in gone.kept(0):
        spoil(path)
    folder = gone.base / "2-0"
    with pytest.raises(errors.SparkstateError, match=r"(?i)corrupt|checksum"):
        gone.next()[0].value("a")
    assert read_again == []
    inheritance.retire(folder)
    slot = gone.new_slot(3)
    told = slot.restore(*gone.shards, url=gone.url, checkpoint_id=1)
    assert 0 < told.bytes_found < gone.sst_bytes
    assert [slot.value("a"), slot.value("b"), slot.value("c", 7)] == ["1", "2", "3"]


def test_every_completed_checkpoint_proves_anew(gone: Gone, read_again: list[str]) -> None:
    slot, _ = gone.next()
    slot.epoch(2, slots.rows(("a", 5)))
    state = slot.snapshot(2, 2)
    assert not list(gone.base.glob("2-0/db/*.proven"))
    slot.done(2)
    slot.server.close()
    inheritance.retire(gone.base / "2-0")
    read_again.clear()
    third = gone.new_slot(3)
    told = third.restore(*state.shards, url=gone.url, checkpoint_id=2)
    assert told.bytes_found == sum(f.size for s in state.shards for f in s.files if f.name.endswith(".sst"))
    assert read_again == []
    assert third.value("a") == "6"
