"""What a restore of many shards reads from the storage, and what it has on the disk meanwhile."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from support.slots import slots
from support.storage.checkpoints import FolderSnapshot
from support.storage.stores import HookedStore

from sparkstate import errors, storage
from sparkstate.checkpoint import Uploader, UploadTarget
from sparkstate.checkpoint.transfer import Transfer
from sparkstate.handles import ShardHandle
from sparkstate.slots import protocol, restoring
from sparkstate.storage.local import LocalStore

SHARDS = 16
CONTENTS = {shard: {"canonical": os.urandom(30_000), "CURRENT": b"few"} for shard in range(SHARDS)}


class Filled:
    """A store that reads what it is restored from."""

    def __init__(self, look: Callable[[], object]) -> None:
        self.got: dict[str, bytes] = {}
        self._look = look

    def restore(self, files: Mapping[str, Path], _: str) -> None:
        self._look()
        self.got = {name: path.read_bytes() for name, path in files.items()}

    def tables(self) -> Sequence[object]:
        return ()


class Restore:
    """Of all shards into one slot. Each of ``slots_before`` has stored its small files in an object."""

    def __init__(self, folder: Path, slots_before: int) -> None:
        self.folder = folder
        self.stored = HookedStore(LocalStore(str(folder / "stored")))
        self.handles: list[ShardHandle] = []
        self.transfer = Transfer()
        self.directory = folder / "slots" / "0" / "download"
        self.most_copies = 0
        self.stores = {shard: Filled(self._look) for shard in range(SHARDS)}
        for slot in range(slots_before):
            mine = range(slot * SHARDS // slots_before, (slot + 1) * SHARDS // slots_before)
            uploader = Uploader(self.stored, inline_threshold_bytes=100)
            snapshots = {shard: FolderSnapshot(folder, CONTENTS[shard]) for shard in mine}
            self.handles += uploader.upload(UploadTarget.checkpoint(1, 1), snapshots)
            uploader.close()

    @property
    def objects(self) -> list[str]:
        return sorted({file.path for handle in self.handles for file in handle.files if file.path})

    @property
    def downloaded(self) -> list[str]:
        return sorted(key for operation, key in self.stored.calls if operation == "get_file")

    def copies(self) -> list[str]:
        return [path.name for path in self.directory.iterdir() if path.is_file()]

    def run(self, monkeypatch: pytest.MonkeyPatch) -> protocol.Restored:
        monkeypatch.setattr(storage, "open_made", lambda *_: self.stored)
        plan = slots.plan(self.folder)
        plan = dataclasses.replace(plan, backend=dataclasses.replace(plan.backend, local_recovery=False))
        request = protocol.RestoreShards(
            shards=tuple(self.handles), base_url=self.stored.url, checkpoint_id=1
        )
        return restoring.restore_shards(
            plan, self.stores, request, self.directory, self.transfer, lambda shard: self.stores[shard]
        )

    def _look(self) -> None:
        self.most_copies = max(self.most_copies, len(self.copies()))


@pytest.fixture(params=[1, 4])
def restore(request, tmp_path) -> Restore:
    return Restore(tmp_path, request.param)


def test_an_object_with_files_of_many_shards_is_downloaded_once(restore, monkeypatch):
    told = restore.run(monkeypatch)
    assert restore.downloaded == restore.objects
    assert {shard: store.got for shard, store in restore.stores.items()} == CONTENTS
    assert (
        told.bytes_read
        == restore.transfer.done_bytes
        == sum(len(data) for files in CONTENTS.values() for data in files.values())
    )


def test_it_is_on_the_disk_until_the_last_shard_has_its_files(restore, monkeypatch):
    restore.run(monkeypatch)
    assert restore.most_copies <= 2, "two shards are downloaded at once"
    assert restore.copies() == []


def test_a_damaged_object_is_refused_by_the_shard_whose_bytes_are_damaged(restore, monkeypatch):
    handle = restore.handles[SHARDS - 1].files[1]
    path = restore.folder / "stored" / handle.path
    data = bytearray(path.read_bytes())
    data[handle.offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(errors.CorruptData, match=r"\(canonical\) has the checksum"):
        restore.run(monkeypatch)
    assert restore.copies() == []


def test_an_object_that_cannot_be_read_fails_the_restore_and_leaves_nothing(restore, monkeypatch):
    def away(operation: str, _: str) -> None:
        if operation == "get_file":
            raise errors.StorageUnavailable("away")

    restore.stored.before = away
    with pytest.raises(errors.StorageUnavailable, match="away"):
        restore.run(monkeypatch)
    assert restore.copies() == []
