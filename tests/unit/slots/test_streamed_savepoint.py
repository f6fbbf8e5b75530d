"""A savepoint of a slot goes to storage as it is made: the disk of the slot has no copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.slots import slots

from sparkstate.settings import MIB
from sparkstate.slots import protocol
from sparkstate.storage import local, naming

KEYS = [f"{number:06d}" + "x" * 4000 for number in range(3000)]
"""About 12 MiB in one shard, more than a part."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Bytes of the slot's snapshots on its disk, RocksDB's own files apart, whenever its storage gets something."""
    found: list[int] = []

    def look() -> None:
        folder = tmp_path / "slots"
        copies = [path for path in folder.rglob("canonical*") if path.is_file()]
        found.append(sum(path.stat().st_size for path in copies))

    for owner, name in ((local.LocalStore, "put_file"), (local._LocalUpload, "part")):
        plain = getattr(owner, name)

        def noted(self: Any, *arguments: Any, plain: Any = plain) -> Any:
            look()
            return plain(self, *arguments)

        monkeypatch.setattr(owner, name, noted)
    return found


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[slots.Slot]:
    made = slots.Slot.of_rocksdb(tmp_path, 1)
    made.restore()
    yield made
    made.close()


def savepoint(slot: slots.Slot, url: str) -> protocol.SnapshotState:
    naming.local_path(url).mkdir()  # by the driver
    request = protocol.Snapshot(incarnation=1, checkpoint_id=7, epoch=0, canonical=True, target_url=url)
    slot.client.call(request, protocol.Ok)
    poll = protocol.SnapshotPoll(checkpoint_id=7, wait_s=60.0)
    state = slot.client.call(poll, protocol.SnapshotState)
    assert state.done and not state.failure, state.failure
    return state


def test_the_disk_of_a_slot_never_has_a_copy_of_its_savepoint(
    slot: slots.Slot, seen: list[int], tmp_path: Path
) -> None:
    slot.epoch(0, slots.rows(*[(key, 1) for key in KEYS]))
    url = (tmp_path / "savepoint").as_uri()
    state = savepoint(slot, url)
    assert sum(file.size for shard in state.shards for file in shard.files) > 11 * MIB
    assert len(seen) >= 2, "more than a part went to the storage"
    assert max(seen) == 0
    other = slots.Slot(tmp_path / "other", slots.plan(tmp_path, backend="hashmap"))
    other.restore(*state.shards, url=url)
    assert [other.value(key) for key in (KEYS[0], KEYS[-1])] == ["1", "1"]
    other.close()


def test_a_savepoint_that_its_driver_gives_up_ends_and_leaves_nothing(
    slot: slots.Slot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot.epoch(0, slots.rows(*[(key, 1) for key in KEYS]))
    plain = local._LocalUpload.part

    def part(self: Any, *arguments: Any) -> None:
        slot.done(7, completed=False)
        plain(self, *arguments)

    monkeypatch.setattr(local._LocalUpload, "part", part)
    (tmp_path / "savepoint").mkdir()
    runtime: Any = slot.server.slot.runtime
    request = protocol.Snapshot(
        incarnation=1, checkpoint_id=7, epoch=0, canonical=True, target_url=(tmp_path / "savepoint").as_uri()
    )
    slot.client.call(request, protocol.Ok)
    job = runtime._snapshots._jobs.find(7)
    assert job.ended.wait(60.0)
    assert "given up" in str(job.failure)
    assert not [path for path in (tmp_path / "savepoint").rglob("*") if path.is_file()]
