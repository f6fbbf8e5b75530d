"""From bytes that are made as they are sent to an object, within a bound of memory and without a copy on the disk."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from sparkstate import errors
from sparkstate.settings import MIB
from sparkstate.storage import creating
from sparkstate.storage.objectstore import ObjectStore, Upload

PART_BYTES: Final = 8 * MIB
LARGE_PART_BYTES: Final = 64 * MIB
LARGE_FROM: Final = 5001
MOST_PARTS: Final = 10_000
"""S3 takes 10,000 parts, and some of its kind want them all of one size. So the first 5,000 are, 39 GiB in all; a slot
that stores more has the memory for larger ones, up to 351 GiB an object."""
_LOOK_BACK: Final = 16
"""Parts among which is looked for one that has failed, before the next is made."""


def part_bytes(number: int) -> int:
    """The size of part ``number`` (from 1), unless it is the last."""
    return PART_BYTES if number < LARGE_FROM else LARGE_PART_BYTES


class Sender:
    """Sends objects with ``threads`` parts at once, over all objects: as many are in memory,
    and one more for each object. Thread-safe."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="part")
        self._room = threading.BoundedSemaphore(threads)

    def send(self, store: ObjectStore, key: str, chunks: Iterable[bytes | bytearray]) -> tuple[int, str]:
        """Store ``chunks`` under a name never used before; their size in bytes, and ``sha256:`` with the hex digest.

        Whatever the storage or the maker of the chunks raises: no part goes on, and there is no object.
        """
        sending = _Sending(store, key, self._submit)
        digest, size = hashlib.sha256(), 0
        part = bytearray()
        try:
            for data in chunks:
                digest.update(data)
                size += len(data)
                part = _fill(sending, part, data)
            sending.end(part)
        except BaseException:
            sending.give_up()
            raise
        return size, "sha256:" + digest.hexdigest()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, action: Callable[[], None]) -> Future[None]:
        self._room.acquire()
        future = self._pool.submit(action)
        future.add_done_callback(lambda _: self._room.release())
        return future


def _fill(sending: _Sending, part: bytearray, data: bytes | bytearray) -> bytearray:
    """Add ``data`` to the next part, hand on each that is full, and return what is left. A part never takes more than
    its size: some storages want all parts equal, whatever the sizes of the chunks."""
    left = memoryview(data)
    while left:
        full = part_bytes(sending.parts + 1)
        room = full - len(part)
        part += left[:room]
        left = left[room:]
        if len(part) == full:
            sending.part(part)
            part = bytearray()  # a new one: the other is on its way
    return part


class _Sending:
    """One object: created at once if it fits into one part; otherwise an upload, which begins with the first part."""

    def __init__(
        self, store: ObjectStore, key: str, submit: Callable[[Callable[[], None]], Future[None]]
    ) -> None:
        self._store, self._key, self._submit = store, key, submit
        self._upload: Upload | None = None
        self._sent: list[Future[None]] = []
        self._size = 0

    @property
    def parts(self) -> int:
        """Those that were handed on."""
        return len(self._sent)

    def part(self, data: bytearray) -> None:
        """Hand on the next part; waits while as many as may be are on their way."""
        number, offset = self.parts + 1, self._size
        if number > MOST_PARTS:
            raise errors.StorageError(
                f"{self._store.url}/{self._key} has more than {offset} bytes, which is the most that goes into one "
                "object; give the job more shards"
            )
        for each in self._sent[-_LOOK_BACK:]:
            if each.done():
                each.result()  # nothing more is made for an object that cannot be stored
        upload = self._upload = self._upload or self._store.upload(self._key)
        self._sent.append(self._submit(lambda: upload.part(number, offset, data)))
        self._size += len(data)

    def end(self, data: bytearray) -> None:
        """The last part, which may be empty; the object is there when this returns."""
        if self._upload is None:
            self._create(bytes(data))
            return
        if data:
            self.part(data)
        for each in self._sent:
            each.result()
        self._upload.complete(self.parts, self._size)

    def _create(self, data: bytes) -> None:
        if creating.create_or_read(self._store, self._key, data) != data:
            raise errors.AlreadyExists(f"{self._store.url}/{self._key} is there already")

    def give_up(self) -> None:
        """Nothing is under way when this returns."""
        for each in self._sent:
            each.cancel()
        wait(self._sent)
        if self._upload is not None:
            self._upload.abort()
