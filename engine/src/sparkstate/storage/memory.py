"""A store in this process's memory: checkpoints of a job whose storage is its coordinator (RFC 0045).

All that it holds ends with the process. Within it, creation-if-absent and listings are exact, so that the log of a
lineage works as on a disk; no other process ever sees the store, and so none can be fenced off by it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sparkstate import clock, errors
from sparkstate.storage import naming
from sparkstate.storage.arriving import data_checksum
from sparkstate.storage.objectstore import ObjectInfo, Upload


class MemoryStore:
    """Objects by name. Safe to call from several threads. ``now_ms`` is its clock."""

    def __init__(self, now_ms: Callable[[], int], url: str = naming.MEMORY) -> None:
        self._url = url
        self._now_ms = now_ms
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._moved: set[str] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._url

    def put_if_absent(self, key: str, data: bytes) -> None:
        with self._lock:
            if naming.check_key(key) in self._objects:
                raise errors.AlreadyExists(f"{self._url}/{key} is there already")
            self._objects[key] = (bytes(data), self._now_ms())

    def put_file(self, key: str, source: Path) -> None:
        self.put_if_absent(key, source.read_bytes())

    def upload(self, key: str) -> Upload:
        return _MemoryUpload(self, naming.check_key(key))

    def get(self, key: str) -> bytes:
        return self._find(key)[0]

    def get_file(self, key: str, target: Path) -> str:
        data = self.get(key)
        target.write_bytes(data)
        return data_checksum(data)

    def head(self, key: str) -> ObjectInfo:
        data, modified_ms = self._find(key)
        return ObjectInfo(key, len(data), modified_ms)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        with self._lock:
            found = sorted((key, *entry) for key, entry in self._objects.items() if key.startswith(prefix))
        return iter([ObjectInfo(key, len(data), modified_ms) for key, data, modified_ms in found])

    def begin_move(self, source: str, target: str) -> str:
        self._find(source)
        naming.check_key(target)
        return naming.random_id()

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        del size
        with self._lock:
            if ticket in self._moved:
                return False
            if source not in self._objects:
                raise errors.NotFound(f"{self._url}/{source} is not there")
            self._objects[target] = self._objects.pop(source)
            self._moved.add(ticket)
            return True

    def drop_move(self, ticket: str, target: str) -> None:
        """Nothing is kept for it."""

    def delete(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                self._objects.pop(key, None)

    def abort_uploads(self, prefix: str, is_dead: Callable[[str], bool], before_ms: int | None = None) -> int:
        """Nothing: an upload that never ends is its writer's memory."""
        return 0

    def _find(self, key: str) -> tuple[bytes, int]:
        with self._lock:
            if key not in self._objects:
                raise errors.NotFound(f"{self._url}/{key} is not there")
            return self._objects[key]


class _MemoryUpload:
    """Parts of an object, joined at its end."""

    def __init__(self, store: MemoryStore, key: str) -> None:
        self._store = store
        self._key = key
        self._parts: dict[int, bytes] = {}
        self._done = False

    def part(self, number: int, offset: int, data: bytes | bytearray) -> None:
        del offset
        self._parts[number] = bytes(data)

    def complete(self, parts: int, size: int) -> None:
        if self._done:
            return
        data = b"".join(self._parts[number] for number in range(1, parts + 1))
        if len(data) != size:
            raise errors.StorageError(f"{self._key} has {len(data)} bytes of {size}")
        self._store.put_if_absent(self._key, data)
        self._done = True

    def abort(self) -> None:
        self._parts.clear()


@functools.cache
def of_process() -> MemoryStore:
    """The one store of this process."""
    return MemoryStore(clock.SystemClock().now_ms)
