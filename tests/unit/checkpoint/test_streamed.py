"""Snapshots that are made while they are sent: what arrives, what it takes, and what a failure leaves."""

from __future__ import annotations

import hashlib
import random
import threading
import time
import tracemalloc
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest
from support.storage.stores import Crash, HookedStore, ManualClock

from sparkstate import errors
from sparkstate.backends.base import SnapshotStream
from sparkstate.checkpoint import Downloader, Uploader, UploadTarget
from sparkstate.settings import MIB
from sparkstate.storage import sending
from sparkstate.storage.memory import MemoryStore
from sparkstate.storage.retrying import RetryingStore, RetryPolicy

TARGET = UploadTarget.checkpoint(2, 7)
THREADS = 2
BLOCK = 64 * 1024
LARGE = 3 * sending.PART_BYTES + 5_000


class Streamed:
    """A shard whose only file is made of ``size`` bytes. ``at``: called with the bytes made so far."""

    format = "canonical"

    def __init__(self, size: int, at: Callable[[int], object] = lambda made: None) -> None:
        self.size, self.at = size, at

    def bytes(self) -> bytes:
        return b"".join(self._chunks())

    def streams(self) -> Sequence[SnapshotStream]:
        return [SnapshotStream("canonical", self._chunks)]

    def _chunks(self) -> Generator[bytes, None, None]:
        pattern = random.Random(self.size).randbytes(BLOCK)
        for start in range(0, self.size, BLOCK):
            self.at(start)
            yield pattern[: min(BLOCK, self.size - start)]

    def files(self) -> Sequence[object]:
        raise AssertionError("written to the disk")

    def release(self) -> None:
        """Nothing is held."""


@pytest.fixture
def hooked(root) -> HookedStore:
    return HookedStore(root)


@pytest.fixture
def uploader(hooked) -> Iterator[Uploader]:
    made = Uploader(hooked, threads=THREADS, inline_threshold_bytes=100)
    yield made
    made.close()


def test_every_size_arrives_byte_for_byte(uploader, root, tmp_path):
    sizes = (70, 5_000, 700_000, MIB + 1, sending.PART_BYTES, sending.PART_BYTES + 1, LARGE)
    shards = {shard: Streamed(size) for shard, size in enumerate(sizes)}
    handles = uploader.upload(TARGET, shards)
    downloader = Downloader(root)
    got = downloader.fetch_all([(handle, tmp_path / str(handle.shard)) for handle in handles])
    downloader.close()
    assert [files["canonical"].read_bytes() == shards[i].bytes() for i, files in enumerate(got)] == [True] * 7
    first = [handle.files[0] for handle in handles]
    assert [file.size for file in first] == list(sizes)
    assert first[0].inline is not None
    assert first[1].path == first[2].path != "", "small ones share an object"
    assert len({file.path for file in first[3:]}) == 4
    assert first[6].checksum == "sha256:" + hashlib.sha256(shards[6].bytes()).hexdigest()


@pytest.mark.parametrize("root", ["local"], indirect=True)
def test_a_shard_that_is_larger_than_memory_takes_the_parts_that_are_on_their_way(uploader):
    size = 12 * sending.PART_BYTES
    tracemalloc.start()
    try:
        uploader.upload(TARGET, {0: Streamed(size)})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (THREADS + 1) * sending.PART_BYTES + 4 * MIB < size / 3


@pytest.mark.parametrize("chunk", [BLOCK + 7, 20_000_003])
def test_all_parts_but_the_last_have_their_size_whatever_the_chunks_have(monkeypatch, chunk):
    monkeypatch.setattr(sending, "LARGE_FROM", 4)
    monkeypatch.setattr(sending, "LARGE_PART_BYTES", 2 * sending.PART_BYTES)
    sizes, store = {}, MemoryStore(lambda: 0)

    class Noting:
        def __init__(self, upload):
            self.upload, self.complete, self.abort = upload, upload.complete, upload.abort

        def part(self, number, offset, data):
            sizes[number] = len(data)
            self.upload.part(number, offset, data)

    made = store.upload
    monkeypatch.setattr(store, "upload", lambda key: Noting(made(key)))
    whole = random.Random(1).randbytes(7 * sending.PART_BYTES + 5)
    sender = sending.Sender(THREADS)
    sender.send(store, "key", (whole[at : at + chunk] for at in range(0, len(whole), chunk)))
    sender.close()
    assert [sizes[number] for number in sorted(sizes)] == [
        *(sending.part_bytes(number) for number in range(1, 6)),
        5,
    ]
    assert store.get("key") == whole


def nothing_is_left(root: RetryingStore) -> bool:
    if root.url.startswith("file:"):
        return not [path for path in Path(root.url.removeprefix("file://")).rglob("*") if path.is_file()]
    s3 = root._store
    uploads = s3._client.list_multipart_uploads(Bucket=s3._bucket).get("Uploads", [])
    return not list(root.list("")) and not uploads


@pytest.mark.parametrize("step", ["upload", "part", "complete", "the maker"])
def test_what_fails_on_the_way_leaves_no_object_and_no_part(uploader, hooked, root, step):
    def refuse(operation: str, key: str) -> None:
        del key
        if operation == step:
            raise errors.StorageError("refused")

    def fail(made: int) -> None:
        if step == "the maker" and made > 2 * sending.PART_BYTES:
            raise errors.StorageError("refused")

    hooked.before = refuse
    with pytest.raises(errors.StorageError, match="refused"):
        uploader.upload(TARGET, {0: Streamed(LARGE, fail), 1: Streamed(LARGE)})
    hooked.before = lambda operation, key: None
    for info in list(root.list("")):  # of the shard that was complete
        root.delete([info.key])
    assert nothing_is_left(root)


@pytest.mark.parametrize("root", ["local"], indirect=True)
@pytest.mark.parametrize("why", ["another shard fails", "nobody wants it"])
def test_of_what_was_given_up_the_rest_is_not_sent(uploader, root, why):
    """A savepoint of terabytes that had failed went on filling its user's bucket, before the next could begin."""
    given_up, going = threading.Event(), threading.Event()
    most: list[int] = []

    def at(made: int) -> None:
        most.append(made)
        if made >= sending.PART_BYTES:
            going.set()
            if why == "nobody wants it":
                given_up.set()
            time.sleep(0.001)

    def fail(made: int) -> None:
        if made and why == "another shard fails":
            going.wait(30)
            raise errors.StorageError("this one has failed")

    shards = {0: Streamed(100 * sending.PART_BYTES, at), 1: Streamed(5_000_000, fail)}
    with pytest.raises(errors.StorageError, match=r"given up|this one"):
        uploader.upload(TARGET, shards, given_up=given_up)
    assert max(most) < 50 * sending.PART_BYTES
    for info in list(root.list("")):
        root.delete([info.key])
    assert nothing_is_left(root)


@pytest.mark.fault(
    broken="the process, at every write of a snapshot that is sent while it is made",
    when="a part is stored, the object is completed",
    expected="no object without a record is complete, and a whole one is right",
)
def test_a_process_that_dies_at_any_write_leaves_a_whole_object_or_none(root):
    whole = Streamed(LARGE)
    for number in range(6):
        for after in (False, True):
            hooked = HookedStore(root)
            hooked.crash_at_write(number, after=after)
            uploader = Uploader(hooked, threads=1, inline_threshold_bytes=100)
            try:
                uploader.upload(UploadTarget.checkpoint(1, number * 2 + after), {0: whole})
            except Crash:
                pass
            else:
                assert number >= 5, "upload, four parts, complete"
            finally:
                uploader.close()
            for info in root.list(""):
                assert root.get(info.key) == whole.bytes()
                root.delete([info.key])


def test_a_part_whose_answer_was_lost_is_sent_again_and_its_maker_is_not_asked_twice(root, hooked):
    failed: list[str] = []

    def lose(operation: str, key: str) -> None:
        del key
        if operation in ("part", "complete") and failed.count(operation) < 2:
            failed.append(operation)
            raise errors.StorageUnavailable("the answer was lost")

    hooked.after = lose
    store = RetryingStore(hooked, RetryPolicy(), random.Random(1), ManualClock())
    uploader = Uploader(store, threads=THREADS, inline_threshold_bytes=100)
    made: list[int] = []
    shard = Streamed(LARGE, made.append)
    (handle,) = uploader.upload(TARGET, {0: shard})
    uploader.close()
    assert sorted(failed) == ["complete", "complete", "part", "part"]
    assert made == list(range(0, LARGE, BLOCK))
    assert root.get(handle.files[0].path) == Streamed(LARGE).bytes()
