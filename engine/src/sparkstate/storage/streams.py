"""Streams for small state: bytes that stay few become part of the handle, more become an object.

The rules are those of Flink's ``FsCheckpointStreamFactory`` without two of its faults: ``sync()`` before the
first flush is safe, and one large write that fits the threshold stays inline. An object store cannot append,
so what is flushed is spooled (in memory up to 1 MiB, then in a temporary file) and becomes an object when the
stream is closed.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from sparkstate import errors, local_disk
from sparkstate.handles import FileHandle
from sparkstate.storage import creating
from sparkstate.storage.objectstore import ObjectStore

MAX_FILE_STATE_THRESHOLD = 1024 * 1024
DEFAULT_FILE_STATE_THRESHOLD = 20 * 1024
DEFAULT_WRITE_BUFFER_SIZE = 4096
NAME_ATTEMPTS = 10

_log = logging.getLogger(__name__)


class StateScope(enum.Enum):
    """EXCLUSIVE files belong to one checkpoint, SHARED ones may be referenced by later ones."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class CheckpointStreamFactory:
    """Makes the streams of one checkpoint. Light and thread-safe: it holds configuration and does no I/O itself.

    ``exclusive`` and ``shared`` are folders in ``store``; ``new_name`` gives the last segment of an object's
    path, a new one at each call. ``threshold`` (bytes, default 20 KiB): up to this size the bytes stay inline.
    """

    def __init__(
        self,
        store: ObjectStore,
        exclusive: str,
        shared: str,
        new_name: Callable[[], str],
        *,
        threshold: int = DEFAULT_FILE_STATE_THRESHOLD,
        write_buffer_size: int = DEFAULT_WRITE_BUFFER_SIZE,
    ) -> None:
        if threshold < 0:
            raise errors.SpecInvalid(f"the inline threshold is {threshold} bytes; it must be zero or larger")
        if threshold > MAX_FILE_STATE_THRESHOLD:
            raise errors.SpecInvalid(
                f"the inline threshold is {threshold} bytes; it cannot be larger than "
                f"{MAX_FILE_STATE_THRESHOLD}"
            )
        if write_buffer_size < 0:
            raise errors.SpecInvalid(
                f"the write buffer is {write_buffer_size} bytes; it must be zero or larger"
            )
        self._store = store
        self._folders = {StateScope.EXCLUSIVE: exclusive, StateScope.SHARED: shared}
        self._new_name = new_name
        self._threshold = threshold
        self._buffer_size = max(write_buffer_size, DEFAULT_WRITE_BUFFER_SIZE, threshold)

    def create_checkpoint_state_output_stream(
        self, scope: StateScope, name: str = "state"
    ) -> CheckpointStateOutputStream:
        """A new stream; ``name`` becomes the handle's logical name."""
        folder = self._folders[scope]
        return CheckpointStateOutputStream(
            self._store,
            lambda: f"{folder}/{self._new_name()}" if folder else self._new_name(),
            name,
            shared=scope is StateScope.SHARED,
            threshold=self._threshold,
            buffer_size=self._buffer_size,
        )


class CheckpointStateOutputStream:
    """Write, then either :meth:`close_and_get_handle` (keep) or :meth:`close` (discard). Not thread-safe.

    ``buffer_size`` must not be less than ``threshold``, or small state could not stay inline.
    """

    def __init__(
        self,
        store: ObjectStore,
        new_path: Callable[[], str],
        name: str,
        *,
        shared: bool,
        threshold: int,
        buffer_size: int,
    ) -> None:
        if buffer_size < threshold:
            raise errors.SpecInvalid(
                f"the write buffer ({buffer_size} bytes) must not be smaller than the inline threshold "
                f"({threshold})"
            )
        self._store = store
        self._new_path = new_path
        self._name = name
        self._shared = shared
        self._threshold = threshold
        self._buffer_size = buffer_size
        self._buffer = bytearray()
        self._spool: IO[bytes] | None = None
        self._position = 0
        self._digest = hashlib.sha256()
        self._path = ""
        self._closed = False

    def write(self, data: bytes) -> None:
        """Append ``data``. Writes of half the buffer and more are not copied into it, unless all still fits inline."""
        self._require_open()
        self._digest.update(data)
        self._position += len(data)
        if len(data) < self._buffer_size // 2 or self._position <= self._threshold:
            self._buffer += data
            if len(self._buffer) >= self._buffer_size and self._position > self._threshold:
                self.flush()
        else:
            self.flush()
            self._spool_on(data)

    def get_pos(self) -> int:
        """Bytes written so far."""
        return self._position

    def flush(self) -> None:
        """Move the buffer to the file, which is begun with the first flush. ``StorageError("closed")`` after close."""
        self._require_open()
        if self._buffer:
            self._spool_on(self._buffer)
            self._buffer.clear()

    def sync(self) -> None:
        """As :meth:`flush`; an object is durable when :meth:`close_and_get_handle` returns. Safe before any write."""
        if self._spool is not None:
            self.flush()

    def close_and_get_handle(self) -> FileHandle | None:
        """The handle of the written data, None if there is none. A second call, or one after close, is an error."""
        if self._closed:
            raise errors.StorageError("Stream has already been closed and discarded.")
        try:
            if self._position == 0:
                return None
            if self._spool is None and self._position <= self._threshold:
                return self._handle(inline=bytes(self._buffer))
            self.flush()
            self._store_object()
            return self._handle(path=self._path)
        finally:
            self._release()

    def close(self) -> None:
        """Discard what was written. No error if it was closed before."""
        self._release()

    def _handle(self, *, path: str = "", inline: bytes | None = None) -> FileHandle:
        return FileHandle(
            name=self._name,
            size=self._position,
            checksum="sha256:" + self._digest.hexdigest(),
            path=path,
            inline=inline,
            shared=self._shared,
        )

    def _spool_on(self, data: bytes | bytearray) -> None:
        with _spooling():
            self._file().write(data)

    def _file(self) -> IO[bytes]:
        if self._spool is None:
            self._spool = tempfile.SpooledTemporaryFile(MAX_FILE_STATE_THRESHOLD)  # noqa: SIM115
        return self._spool

    def _store_object(self) -> None:
        spool = self._file()
        last: errors.StorageError | None = None
        for _ in range(NAME_ATTEMPTS):
            self._path = self._new_path()
            with _spooling():
                spool.seek(0)  # it writes what the file still has in a buffer
            try:
                if self._position > MAX_FILE_STATE_THRESHOLD:
                    self._put_large(spool)
                elif creating.create_or_read(self._store, self._path, data := spool.read()) != data:
                    last = errors.AlreadyExists(f"{self._store.url}/{self._path} is there already")
                    continue
            except errors.AlreadyExists as error:
                last = error
            except errors.StorageError as error:
                self._delete_object()
                raise type(error)(
                    "Could not flush and close the file system output stream to "
                    f"{self._store.url}/{self._path}: {error}"
                ) from error
            else:
                return
        raise errors.StorageError("Could not open output stream for state backend") from last

    def _put_large(self, spool: IO[bytes]) -> None:
        with tempfile.NamedTemporaryFile() as file:
            with _spooling():
                while data := spool.read(MAX_FILE_STATE_THRESHOLD):
                    file.write(data)
                file.flush()
            self._store.put_file(self._path, Path(file.name))

    def _delete_object(self) -> None:
        try:
            self._store.delete([self._path])
        except errors.StorageError as error:
            _log.warning("Could not delete %s/%s: %s", self._store.url, self._path, error)

    def _release(self) -> None:
        self._closed = True
        self._buffer.clear()
        spool, self._spool = self._spool, None
        if spool is not None:
            with contextlib.suppress(
                OSError
            ):  # it flushes what it holds, which is stored by now or of no use
                spool.close()

    def _require_open(self) -> None:
        if self._closed:
            raise errors.StorageError("closed")


def _spooling() -> contextlib.AbstractContextManager[None]:
    folder = tempfile.gettempdir()
    return local_disk.used_for(
        f"spooling small files in {folder}",
        f"Free some space there, or set TMPDIR to a larger volume than {folder}",
    )
