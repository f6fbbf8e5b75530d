"""Uploader and downloader together: what a slot stores is what another slot gets, or an error."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace
from support.storage.checkpoints import FolderSnapshot
from support.storage.stores import HookedStore

from sparkstate import errors
from sparkstate.checkpoint import Downloader, KnownFiles, Uploader, UploadTarget
from sparkstate.handles import FileHandle

TARGET = UploadTarget.checkpoint(2, 7)


@pytest.fixture
def uploader(root):
    made = Uploader(root, threads=3, inline_threshold_bytes=100)
    yield made
    made.close()


@pytest.fixture
def downloader(root):
    made = Downloader(root, threads=3)
    yield made
    made.close()


CONTENTS = {
    0: {"1.sst": os.urandom(5000), "MANIFEST": os.urandom(500), "CURRENT": b"MANIFEST\n", "empty": b""},
    3: {"1.sst": os.urandom(70), "MANIFEST": os.urandom(300), "big": os.urandom(2**20 + 1)},
}


def snapshots(folder, contents=CONTENTS):
    return {shard: FolderSnapshot(folder, files) for shard, files in contents.items()}


def test_what_was_uploaded_is_downloaded_byte_for_byte(uploader, downloader, tmp_path):
    handles = uploader.upload(TARGET, snapshots(tmp_path))
    assert [handle.shard for handle in handles] == [0, 3]
    got = downloader.fetch_all([(handle, tmp_path / f"restored-{handle.shard}") for handle in handles])
    for handle, files in zip(handles, got, strict=True):
        assert {name: path.read_bytes() for name, path in files.items()} == CONTENTS[handle.shard]
        assert sorted(path.name for path in (tmp_path / f"restored-{handle.shard}").iterdir()) == sorted(
            files
        )


def test_small_files_are_inline_middling_ones_merged_and_shared_ones_apart(uploader, root, tmp_path):
    first, second = uploader.upload(TARGET, snapshots(tmp_path))
    files = {(handle.shard, file.name): file for handle in (first, second) for file in handle.files}
    assert files[0, "CURRENT"].inline == b"MANIFEST\n"
    assert files[0, "empty"].inline == b""
    merged = files[0, "MANIFEST"].path
    assert files[3, "MANIFEST"].path == merged
    assert {files[0, "MANIFEST"].offset, files[3, "MANIFEST"].offset} == {0, 500}
    assert root.head(merged).size == 800
    stored = [info.key for info in root.list("")]
    assert len(stored) == 4
    assert all(key.startswith(("chk-7/2-7-", "shared/2-7-")) for key in stored)
    assert files[0, "1.sst"].path.startswith("shared/")
    assert files[3, "1.sst"].inline is None


def test_known_files_are_referred_to_and_not_stored_again(uploader, downloader, root, tmp_path):
    old = uploader.upload(TARGET, snapshots(tmp_path))
    known = KnownFiles()
    known.uploaded(7, old)
    known.complete(7)
    later = {0: {**CONTENTS[0], "2.sst": b"n" * 10}}
    before = {info.key for info in root.list("shared/")}
    (new,) = uploader.upload(UploadTarget.checkpoint(2, 8), snapshots(tmp_path, later), known.base(7))
    after = {info.key for info in root.list("shared/")}
    assert len(after - before) == 1
    assert new.uploaded == 10 + 500 + len(b"MANIFEST\n")
    assert new.state_size == 5000 + 10 + 500 + len(b"MANIFEST\n")
    files = downloader.fetch(new, tmp_path / "restored")
    assert files["1.sst"].read_bytes() == CONTENTS[0]["1.sst"]


def test_a_merged_object_is_downloaded_once_for_all_shards(uploader, root, tmp_path):
    handles = uploader.upload(TARGET, snapshots(tmp_path))
    store = HookedStore(root)
    downloader = Downloader(store)
    downloader.fetch_all([(handle, tmp_path / f"restored-{handle.shard}") for handle in handles])
    downloader.close()
    assert len(store.calls) == len({file.path for handle in handles for file in handle.files if file.path})


def test_only_the_base_that_the_driver_names_and_this_slot_was_told_complete_is_used():
    known = KnownFiles()
    handle = FileHandle(name="1.sst", size=1, checksum="", path="shared/x", shared=True, identity="a")
    from sparkstate.handles import ShardHandle

    for number in (1, 2, 3):
        known.uploaded(number, [ShardHandle(shard=0, format="rocksdb", files=(handle,))])
    assert known.base(1) == {}
    known.complete(1)
    assert known.base(1) == {"a": handle}
    assert known.base(2) == {}
    assert known.base(None) == {}
    known.complete(2)
    assert known.base(1) == {}, "1 may be subsumed by now"
    known.abort(3)
    known.complete(3)
    assert known.base(3) == {}


def test_a_savepoint_holds_all_files_in_its_own_folder(root, tmp_path):
    from sparkstate.storage import PrefixedStore

    folder = PrefixedStore(root, "savepoint-012345-1")
    uploader = Uploader(folder, inline_threshold_bytes=0)
    handles = uploader.upload(UploadTarget.savepoint(2, 7), snapshots(tmp_path))
    position = uploader.put_bytes(UploadTarget.savepoint(2, 7), "position", b"x")
    uploader.close()
    paths = {file.path for handle in handles for file in handle.files} | {position.path}
    assert all("/" not in path for path in paths)
    assert {info.key for info in root.list("")} == {f"savepoint-012345-1/{path}" for path in paths if path}


def test_a_few_bytes_are_inline_or_an_object(uploader, downloader):
    for data in (b"", b"x", b"x" * 101, os.urandom(2**21)):
        handle = uploader.put_bytes(TARGET, "position", data)
        assert (handle.inline is not None) == (len(data) <= 100)
        assert downloader.read(handle) == data


def stored_file(uploader, tmp_path):
    (handle,) = uploader.upload(TARGET, {0: FolderSnapshot(tmp_path, {"1.sst": b"0123456789" * 100})})
    return handle, handle.files[0]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(lambda data: data[:-1], "has 999 bytes, 1000 were written", id="cut"),
        pytest.param(lambda data: b"X" + data[1:], "has the checksum sha256:", id="changed"),
        pytest.param(None, "is missing", id="gone"),
    ],
)
def test_a_damaged_file_is_never_handed_on(uploader, downloader, root, tmp_path, damage, words):
    handle, file = stored_file(uploader, tmp_path)
    data = root.get(file.path)
    root.delete([file.path])
    if damage:
        root.put_if_absent(file.path, damage(data))
    with pytest.raises(errors.CorruptData, match=rf"{file.path} \(1\.sst.*{words}.*restoreFrom"):
        downloader.fetch(handle, tmp_path / "target")


def test_an_object_too_short_for_a_file_within_it_is_found(uploader, downloader, root, tmp_path):
    _, file = stored_file(uploader, tmp_path)
    part = replace(file, offset=990, size=20)
    with pytest.raises(errors.CorruptData, match="has 10 bytes, 20 were written"):
        downloader.read(part)


def test_changed_inline_bytes_are_found(downloader):
    handle = FileHandle(name="s", size=1, checksum="sha256:" + "0" * 64, inline=b"x")
    with pytest.raises(errors.CorruptData, match="inline file s"):
        downloader.read(handle)


def test_an_upload_that_storage_cut_is_found_at_once(root, tmp_path):
    store = HookedStore(root)

    def cut(operation, key):
        if operation == "put_file":
            root.delete([key])
            root.put_if_absent(key, b"half")

    store.after = cut
    uploader = Uploader(store)
    with pytest.raises(errors.CorruptData, match="has 4 bytes after the upload of 1000"):
        stored_file(uploader, tmp_path)
    uploader.close()


def test_after_a_failed_upload_no_transfer_goes_on(root, tmp_path):
    store = HookedStore(root)
    failed = []

    def fail_once(operation, key):
        if operation == "put_file" and not failed:
            failed.append(key)
            raise errors.StorageUnavailable("away")

    store.before = fail_once
    uploader = Uploader(store, threads=2)
    many = {f"{number}.sst": b"x" * 1000 for number in range(40)}
    with pytest.raises(errors.StorageUnavailable):
        uploader.upload(TARGET, {0: FolderSnapshot(tmp_path, many)})
    count = len(store.calls)
    uploader.close()
    assert len(store.calls) == count


def test_closing_ends_a_download_under_way_with_an_error(uploader, root, tmp_path):
    handle = uploader.upload(TARGET, {0: FolderSnapshot(tmp_path, {f"{n}.sst": b"x" for n in range(9)})})[0]
    store = HookedStore(root)
    downloader = Downloader(store, threads=1)
    store.before = lambda operation, key: downloader._closed.set()  # what close() does first
    with pytest.raises(errors.StorageError, match="closed"):
        downloader.fetch(handle, tmp_path / "target")
    assert len(store.calls) == 1
    downloader.close()
    downloader.close()
    with pytest.raises(errors.StorageError, match="closed"):
        downloader.fetch(handle, tmp_path / "target")


def test_closing_ends_a_download_whose_files_wait_for_a_thread(uploader, root, tmp_path):
    handle = uploader.upload(TARGET, {0: FolderSnapshot(tmp_path, {f"{n}.sst": b"x" for n in range(9)})})[0]
    store, begun = HookedStore(root), threading.Event()
    downloader = Downloader(store, threads=1)

    def until_closed(operation: str, _: str) -> None:
        if operation == "get_file":
            begun.set()
            while not downloader._pool._shutdown:
                time.sleep(0.01)
            with downloader._pool._shutdown_lock:
                """The queue is empty now."""

    store.before = until_closed
    with ThreadPoolExecutor(1) as other:
        fetched = other.submit(downloader.fetch, handle, tmp_path / "target")
        assert begun.wait(60)
        downloader.close()
        with pytest.raises(errors.StorageError, match="closed"):
            fetched.result(timeout=60)


def test_what_a_restore_cannot_read_is_said_as_flink_says_it(uploader, downloader, root, tmp_path):
    handle, file = stored_file(uploader, tmp_path)
    root.delete([file.path])
    with pytest.raises(errors.CorruptData, match=r"^Failed to restore state from file system: .*is missing"):
        downloader.fetch(handle, tmp_path / "target")


def test_shards_that_are_fetched_one_by_one_share_the_object_that_holds_files_of_both(
    uploader, root, tmp_path
):
    handles = uploader.upload(TARGET, snapshots(tmp_path))
    store = HookedStore(root)
    downloader = Downloader(store)
    downloader.expect([(handle, ()) for handle in handles], tmp_path / "kept")
    for handle, kept in zip(handles, (1, 0), strict=True):
        files = downloader.fetch(handle, tmp_path / f"restored-{handle.shard}")
        assert {name: path.read_bytes() for name, path in files.items()} == CONTENTS[handle.shard]
        assert len(list((tmp_path / "kept").iterdir())) == kept
    downloader.close()
    fetched = [key for operation, key in store.calls if operation == "get_file"]
    assert len(fetched) == len({file.path for handle in handles for file in handle.files if file.path})


def test_an_object_that_one_shard_alone_still_needs_is_kept_for_nobody(uploader, downloader, tmp_path):
    first, second = uploader.upload(TARGET, snapshots(tmp_path))
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "MANIFEST").write_bytes(CONTENTS[0]["MANIFEST"])
    downloader.expect([(first, {"MANIFEST"}), (second, ())], tmp_path / "kept")
    for handle, right in ((second, set()), (first, {"MANIFEST"})):
        files = downloader.fetch(handle, tmp_path / str(handle.shard), right)
        assert {name: path.read_bytes() for name, path in files.items()} == CONTENTS[handle.shard]
        assert list((tmp_path / "kept").iterdir()) == []
