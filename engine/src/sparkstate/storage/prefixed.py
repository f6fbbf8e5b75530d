"""A store seen from one of its folders, so that stored paths can be relative to a lineage or a savepoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sparkstate.storage import naming
from sparkstate.storage.objectstore import ObjectInfo, ObjectStore, Upload


class PrefixedStore:
    """The objects of ``store`` under ``prefix``, by their names without it. Shares the store's connections."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._prefix = naming.check_key(prefix.rstrip("/")) + "/"

    @property
    def url(self) -> str:
        return naming.join_url(self._store.url, self._prefix)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._store.put_if_absent(self._full(key), data)

    def put_file(self, key: str, source: Path) -> None:
        self._store.put_file(self._full(key), source)

    def upload(self, key: str) -> Upload:
        return self._store.upload(self._full(key))

    def get(self, key: str) -> bytes:
        return self._store.get(self._full(key))

    def get_file(self, key: str, target: Path) -> str:
        return self._store.get_file(self._full(key), target)

    def head(self, key: str) -> ObjectInfo:
        return self._strip(self._store.head(self._full(key)))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (self._strip(info) for info in self._store.list(self._prefix + prefix))

    def begin_move(self, source: str, target: str) -> str:
        return self._store.begin_move(self._full(source), self._full(target))

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        return self._store.move(ticket, self._full(source), self._full(target), size)

    def drop_move(self, ticket: str, target: str) -> None:
        self._store.drop_move(ticket, self._full(target))

    def delete(self, keys: Iterable[str]) -> None:
        self._store.delete([self._full(key) for key in keys])

    def abort_uploads(self, prefix: str, is_dead: Callable[[str], bool], before_ms: int | None = None) -> int:
        def dead(key: str) -> bool:
            return is_dead(key[len(self._prefix) :])

        return self._store.abort_uploads(self._prefix + prefix, dead, before_ms)

    def _full(self, key: str) -> str:
        return self._prefix + naming.check_key(key)

    def _strip(self, info: ObjectInfo) -> ObjectInfo:
        return dataclasses.replace(info, key=info.key[len(self._prefix) :])
