"""A disk of the machine that is full while files of a snapshot arrive on it, or are spooled for their upload."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from support.machine import volumes

from sparkstate import errors
from sparkstate.checkpoint.downloader import Downloader
from sparkstate.handles import FileHandle, ShardHandle
from sparkstate.storage.arriving import data_checksum
from sparkstate.storage.local import LocalStore
from sparkstate.storage.streams import (
    MAX_FILE_STATE_THRESHOLD,
    CheckpointStateOutputStream,
    CheckpointStreamFactory,
    StateScope,
)

DATA = bytes(100_000)


def handle(name: str, **where: object) -> FileHandle:
    return FileHandle(name=name, size=len(DATA), checksum=data_checksum(DATA), **where)


@pytest.mark.parametrize("inline", [True, False])
def test_a_download_says_which_disk_is_full(tmp_path: Path, inline: bool) -> None:
    store = LocalStore(str(tmp_path / "store"))
    store.put_if_absent("a", DATA)
    file = handle("a", inline=DATA) if inline else handle("a", path="a")
    shard = ShardHandle(shard=0, format="rocksdb", files=(file,))
    with volumes.mounted(tmp_path / "volume") as volume:
        target = volume.path / "shard"
        target.mkdir()
        volume.fill(leave=8192)
        downloader = Downloader(store)
        with pytest.raises(
            errors.StorageError, match=rf"{target} failed, its disk or quota is full.*localStorage"
        ):
            downloader.fetch(shard, target)
        volume.free()
        assert downloader.fetch(shard, target)["a"].read_bytes() == DATA
        downloader.close()


def stored(stream: CheckpointStateOutputStream, size: int) -> FileHandle | None:
    for _ in range(0, size, len(DATA)):
        stream.write(DATA)
    return stream.close_and_get_handle()


@pytest.mark.parametrize("size", [1_500_000, 3_000_000])
def test_a_stream_says_that_the_temporary_folder_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The larger one is full by the spool, the smaller one by the copy of it that is sent."""
    store = LocalStore(str(tmp_path / "store"))
    factory = CheckpointStreamFactory(store, "chk-1", "shared", lambda: "1-1-0")
    with volumes.mounted(tmp_path / "volume", size="2m") as volume:
        monkeypatch.setattr(tempfile, "tempdir", str(volume.path))
        stream = factory.create_checkpoint_state_output_stream(StateScope.EXCLUSIVE)
        words = rf"in {volume.path} failed, its disk .* is full.*TMPDIR"
        with pytest.raises(errors.StorageError, match=words):
            stored(stream, size)
        stream.close()
    assert [info.key for info in store.list("")] == []


def test_a_stream_whose_last_bytes_reach_the_disk_when_it_is_closed_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in a buffer of the spool's file until then."""
    store = LocalStore(str(tmp_path / "store"))
    factory = CheckpointStreamFactory(store, "chk-1", "shared", lambda: "1-1-0")
    with volumes.mounted(tmp_path / "volume", size="2m") as volume:
        monkeypatch.setattr(tempfile, "tempdir", str(volume.path))
        stream = factory.create_checkpoint_state_output_stream(StateScope.EXCLUSIVE)
        stream.write(bytes(MAX_FILE_STATE_THRESHOLD + 1))
        volume.fill()
        stream.write(bytes(5000))
        with pytest.raises(
            errors.StorageError, match=rf"in {volume.path} failed, its disk .* is full.*TMPDIR"
        ):
            stream.close_and_get_handle()
    assert [info.key for info in store.list("")] == []
