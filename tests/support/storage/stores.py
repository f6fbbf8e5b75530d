"""Storages for tests: the real ones, and wrappers that make a real one fail on purpose."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from sparkstate import errors
from sparkstate.storage.objectstore import ObjectInfo, ObjectStore, Upload

WRITES = frozenset(
    {"put_if_absent", "put_file", "upload", "part", "complete", "begin_move", "move", "delete"}
)


class Crash(BaseException):
    """Stands for ``kill -9``: nothing in the code under test may catch it and go on."""


@pytest.fixture
def without_flushing(monkeypatch):
    """For tests that kill processes and not machines: what was written need not reach the disk, which is
    slow.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class HookedStore:
    """Passes every operation on to ``store``; ``before`` and ``after`` see (operation, key) and may raise."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self.after: Callable[[str, str], None] = lambda operation, key: None
        self.calls: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return self.store.url

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._around("put_if_absent", key, lambda: self.store.put_if_absent(key, data))

    def put_file(self, key: str, source: Path) -> None:
        self._around("put_file", key, lambda: self.store.put_file(key, source))

    def upload(self, key: str) -> Upload:
        return HookedUpload(self, key, self._around("upload", key, lambda: self.store.upload(key)))

    def get(self, key: str) -> bytes:
        return self._around("get", key, lambda: self.store.get(key))

    def get_file(self, key: str, target: Path) -> str:
        return self._around("get_file", key, lambda: self.store.get_file(key, target))

    def head(self, key: str) -> ObjectInfo:
        return self._around("head", key, lambda: self.store.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._around("list", prefix, lambda: iter(list(self.store.list(prefix))))

    def begin_move(self, source: str, target: str) -> str:
        return self._around("begin_move", target, lambda: self.store.begin_move(source, target))

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        return self._around("move", target, lambda: self.store.move(ticket, source, target, size))

    def drop_move(self, ticket: str, target: str) -> None:
        self._around("drop_move", target, lambda: self.store.drop_move(ticket, target))

    def delete(self, keys: Iterable[str]) -> None:
        # One at a time, so that a crash can come between two of them.
        for key in list(keys):
            self._around("delete", key, lambda key=key: self.store.delete([key]))

    def abort_uploads(self, prefix, is_dead, before_ms=None) -> int:
        return self._around(
            "abort_uploads", prefix, lambda: self.store.abort_uploads(prefix, is_dead, before_ms)
        )

    def _around(self, operation, key, act):
        self.calls.append((operation, key))
        self.before(operation, key)
        answer = act()
        self.after(operation, key)
        return answer

    def crash_at_write(self, number: int, *, after: bool) -> None:
        """Raise ``Crash`` at the ``number``-th write from now (0 = the next), before or after it took
        place.
        """
        left = [number]

        def hook(operation: str, key: str) -> None:
            if operation in WRITES:
                if left[0] == 0:
                    raise Crash(f"{operation} {key}")
                left[0] -= 1

        if after:
            self.after = hook
        else:
            self.before = hook

    def heal(self) -> None:
        self.before = self.after = lambda operation, key: None

    def unplug(self) -> None:
        """From now on every operation fails as in an outage."""

        def away(operation: str, key: str) -> None:
            raise errors.StorageUnavailable(f"{operation} {key}: the storage is away")

        self.before = away


class ManualClock:
    """Time that moves when told to; sleeping moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class HookedUpload:
    """An upload of a :class:`HookedStore`; its steps are ``part``, ``complete`` and ``abort``."""

    def __init__(self, store: HookedStore, key: str, upload: Upload) -> None:
        self._store, self._key, self._upload = store, key, upload

    def part(self, number: int, offset: int, data: bytes) -> None:
        self._store._around("part", self._key, lambda: self._upload.part(number, offset, data))

    def complete(self, parts: int, size: int) -> None:
        self._store._around("complete", self._key, lambda: self._upload.complete(parts, size))

    def abort(self) -> None:
        self._store._around("abort", self._key, self._upload.abort)
