"""Files that come from a store, or lie here already: hashed on their way, past the page cache.

A restore writes as much as the state is large, and reads little of it soon. Through the page cache each page is taken
from the machine, filled, and, in a pod whose memory is counted, pushed out again before it is of use; and the first
fsync of any file then waits until all of them are on the disk. ``docs/rfcs/0009-direct-writes.md`` has the figures.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from sparkstate.settings import MIB

CHUNK: Final = 60 * 1024
"""Bytes to read from a store at once: just less than what a slot's allocator maps anew for each block
(``backends.allocation``), which with 256 KiB was a quarter of the processors' time of a download."""
DIRECT_FROM: Final = 4 * MIB
"""A smaller file, in bytes, goes through the page cache: it is read again at once, or does not matter."""
_BUFFER: Final = MIB
"""Bytes of a direct write; a multiple of any disk's block."""
_DIRECT: Final = getattr(os, "O_DIRECT", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class ArrivingFile:
    """A new file at ``path`` for ``size`` bytes, which :meth:`write` takes in order. Not thread-safe.

    ``size`` only decides how the file is written: whether all bytes came is the caller's to compare.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.written = 0
        """Bytes taken so far."""
        self._digest = hashlib.sha256()
        self._used = 0
        self._file = _open_direct(path) if size >= DIRECT_FROM else -1
        # Pages of its own, because the disk fetches them from where they are.
        self._buffer = mmap.mmap(-1, _BUFFER) if self._file >= 0 else None
        if self._file < 0:
            self._file = os.open(path, _NEW, 0o666)

    def write(self, data: bytes) -> None:
        """Append ``data``."""
        self._digest.update(data)
        self.written += len(data)
        left = memoryview(data)
        while left and self._buffer is not None:
            taken = left[: _BUFFER - self._used]
            self._buffer[self._used : self._used + len(taken)] = taken
            self._used += len(taken)
            left = left[len(taken) :]
            if self._used == _BUFFER:
                self._flush(self._buffer)
        self._write_all(left)

    def finish(self) -> str:
        """Write what is left; ``sha256:`` and the hex digest of all bytes taken."""
        if self._buffer is not None:
            self._through_the_cache()  # what does not fill the buffer need not fill a block either
            self._flush(self._buffer)
        return "sha256:" + self._digest.hexdigest()

    def close(self) -> None:
        """Close the file, finished or not. May be repeated."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._buffer is not None:
            self._buffer.close()
            self._buffer = None

    def _flush(self, buffer: mmap.mmap) -> None:
        with memoryview(buffer) as whole, whole[: self._used] as part:
            self._write_all(part)
        self._used = 0

    def _write_all(self, data: memoryview) -> None:
        written = 0
        while written < len(data):
            with data[written:] as left:
                try:
                    written += os.write(self._file, left)
                except OSError as error:
                    if error.errno != errno.EINVAL or not self._is_direct():
                        raise
                    self._through_the_cache()

    def _is_direct(self) -> bool:
        return bool(fcntl.fcntl(self._file, fcntl.F_GETFL) & _DIRECT)

    def _through_the_cache(self) -> None:
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
        fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~_DIRECT)


def data_checksum(data: bytes) -> str:
    """``sha256:`` and the hex digest of a few bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def file_checksum(path: Path) -> str:
    """``sha256:`` and the hex digest of a local file."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def checksum_of_old(path: Path) -> str:
    """:func:`file_checksum` of a file that was written a while ago. A large one is read past the page cache, too; one
    whose pages are still to be written would have to wait for the disk."""
    file = _open_direct(path, os.O_RDONLY | os.O_CLOEXEC) if path.stat().st_size >= DIRECT_FROM else -1
    if file < 0:
        return file_checksum(path)
    digest = hashlib.sha256()
    try:
        with mmap.mmap(-1, _BUFFER) as buffer, memoryview(buffer) as whole:
            while (taken := os.readv(file, [whole])) == _BUFFER:
                digest.update(whole)
            with whole[:taken] as rest:
                digest.update(rest)
    finally:
        os.close(file)
    return "sha256:" + digest.hexdigest()


def _open_direct(path: Path, how: int = _NEW) -> int:
    """The file, opened to pass the page cache by; -1 where the system or the file system knows no such."""
    if not _DIRECT:
        return -1
    try:
        return os.open(path, how | _DIRECT, 0o666)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return -1


@contextlib.contextmanager
def arriving(target: Path, size: int, ids: Callable[[], str]) -> Iterator[ArrivingFile]:
    """A file that becomes ``target`` when the block ends well, and goes when it does not."""
    beside = target.with_name(f".{target.name}.{ids()}")
    try:
        with contextlib.closing(ArrivingFile(beside, size)) as file:
            yield file
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
