"""Bounded retries around a store: only for ``StorageUnavailable``, with jitter so that slots do not come back in step.

A repeated ``put_if_absent`` may find its own first try, whose answer was lost, and raise ``AlreadyExists``. Callers
that care (the log, ``_metadata``) compare the stored bytes with theirs; see ``storage.creating``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.storage.objectstore import ObjectInfo, ObjectStore, Upload

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """``attempts`` in all; pauses grow from ``first_pause_s`` two-fold up to ``max_pause_s``, each cut to 50-100 %."""

    attempts: int = 5
    first_pause_s: float = 0.1
    max_pause_s: float = 3.0

    def pause_s(self, failures: int, rng: random.Random) -> float:
        """How long to wait after that many failures (1 or more)."""
        longest = min(self.max_pause_s, self.first_pause_s * 2.0 ** (failures - 1))
        return longest * (0.5 + rng.random() / 2)


class RetryingStore:
    """An :class:`ObjectStore` that tries each operation of another up to ``policy.attempts`` times."""

    def __init__(self, store: ObjectStore, policy: RetryPolicy, rng: random.Random, clock: Clock) -> None:
        self._store = store
        self._policy = policy
        self._rng = rng
        self._clock = clock

    @property
    def url(self) -> str:
        return self._store.url

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._retried(lambda: self._store.put_if_absent(key, data))

    def put_file(self, key: str, source: Path) -> None:
        self._retried(lambda: self._store.put_file(key, source))

    def upload(self, key: str) -> Upload:
        return _RetryingUpload(self._retried(lambda: self._store.upload(key)), self._retried)

    def get(self, key: str) -> bytes:
        return self._retried(lambda: self._store.get(key))

    def get_file(self, key: str, target: Path) -> str:
        return self._retried(lambda: self._store.get_file(key, target))

    def head(self, key: str) -> ObjectInfo:
        return self._retried(lambda: self._store.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # Collected, because a listing that fails half-way must begin anew.
        return iter(self._retried(lambda: list(self._store.list(prefix))))

    def begin_move(self, source: str, target: str) -> str:
        return self._retried(lambda: self._store.begin_move(source, target))

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        return self._retried(lambda: self._store.move(ticket, source, target, size))

    def drop_move(self, ticket: str, target: str) -> None:
        self._store.drop_move(ticket, target)

    def delete(self, keys: Iterable[str]) -> None:
        wanted = list(keys)
        self._retried(lambda: self._store.delete(wanted))

    def abort_uploads(self, prefix: str, is_dead: Callable[[str], bool], before_ms: int | None = None) -> int:
        return self._retried(lambda: self._store.abort_uploads(prefix, is_dead, before_ms))

    def _retried(self, operation: Callable[[], T]) -> T:
        failures = 0
        while True:
            try:
                return operation()
            except errors.StorageUnavailable:
                failures += 1
                if failures >= self._policy.attempts:
                    raise
                self._clock.sleep(self._policy.pause_s(failures, self._rng))


class _RetryingUpload:
    """An :class:`Upload` whose parts and whose end are tried again; what made the bytes is asked for them once."""

    def __init__(self, upload: Upload, retried: Callable[[Callable[[], None]], None]) -> None:
        self._upload = upload
        self._retried = retried

    def part(self, number: int, offset: int, data: bytes | bytearray) -> None:
        self._retried(lambda: self._upload.part(number, offset, data))

    def complete(self, parts: int, size: int) -> None:
        self._retried(lambda: self._upload.complete(parts, size))

    def abort(self) -> None:
        self._upload.abort()
