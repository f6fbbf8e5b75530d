"""A right backend of one's own in memory, and wrong ones, each by one fault that an author might make."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkstate.backend_api import (
    BackendContext,
    BackendFactory,
    CanonicalFile,
    KeyGroupRange,
    OrderedRows,
    Row,
    RowBackendFactory,
    RowStore,
    RowsView,
    ShardSnapshot,
    ShardStore,
    StateKind,
    TableChanges,
    TableSpec,
    Timer,
)
from sparkstate.backends.hashmap.store import HashMapStoreFactory


class MemoryView(RowsView):
    """A copy."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self._rows = rows

    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        return iter([(key, self._rows[key]) for key in sorted(self._rows) if start <= key < end])

    def release(self) -> None:
        self._rows = {}


class MemoryRows(OrderedRows):
    """A dict that is sorted for each scan."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        return [self.rows.get(key) for key in keys]

    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        return MemoryView(self.rows).scan(start, end)

    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def view(self) -> RowsView:
        return MemoryView(dict(self.rows))

    def close(self) -> None:
        self.rows = {}


class MemoryBackend(RowBackendFactory):
    """The right one. The wrong ones have other rows or another store."""

    def open_rows(self, directory: Path) -> OrderedRows:
        return MemoryRows()


# --- wrong rows


class _KeepsDeleted(MemoryRows):
    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        super().write({key: value for key, value in rows.items() if value is not None})


class _InOrderOfWriting(MemoryRows):
    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        return iter([(key, value) for key, value in self.rows.items() if start <= key < end])


class _OwnView(MemoryRows):
    def view(self) -> RowsView:
        view = MemoryView(self.rows)
        view.release = lambda: None  # type: ignore[method-assign]
        return view


class _AnyOrder(MemoryRows):
    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        return [self.rows.get(key) for key in sorted(keys)]


class _OneThread(MemoryRows):
    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        if threading.get_ident() != self._thread:
            raise RuntimeError("made in another thread")
        return super().get(keys)


class _Truncated(MemoryRows):
    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        super().write({key[:20]: value for key, value in rows.items()})

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        return super().get([key[:20] for key in keys])


class KeepsDeletedBackend(MemoryBackend):
    """Forgets a delete."""

    def open_rows(self, directory: Path) -> OrderedRows:
        return _KeepsDeleted()


class UnorderedBackend(MemoryBackend):
    """Scans rows in the order in which they were written, so timers too."""

    def open_rows(self, directory: Path) -> OrderedRows:
        return _InOrderOfWriting()


class UnisolatedBackend(MemoryBackend):
    """A view sees what is written later."""

    def open_rows(self, directory: Path) -> OrderedRows:
        return _OwnView()


class ShuffledBackend(MemoryBackend):
    """Answers for the keys in another order than it was asked."""

    def open_rows(self, directory: Path) -> OrderedRows:
        return _AnyOrder()


class OneThreadBackend(MemoryBackend):
    """Works in the thread alone that made the store."""

    def open_rows(self, directory: Path) -> OrderedRows:
        return _OneThread()


class ShortKeysBackend(MemoryBackend):
    """Keeps the beginning of a key only."""

    def open_rows(self, directory: Path) -> OrderedRows:
        return _Truncated()


class SharedRowsBackend(MemoryBackend):
    """All stores of a slot write into one map."""

    def __init__(self, context: BackendContext) -> None:
        super().__init__(context)
        self._rows = MemoryRows()

    def open_rows(self, directory: Path) -> OrderedRows:
        return self._rows


class CopyingRowsBackend(MemoryBackend):
    """Has metrics that are no numbers."""

    def metrics(self) -> Mapping[str, Any]:
        return {"version": "1.0"}


# --- wrong stores


class _Aliasing(RowStore):
    """Hands out one list for ever."""

    def table(self, spec: TableSpec) -> Any:
        found = super().table(spec)
        if spec.kind is StateKind.LIST and not hasattr(found, "kept"):
            found.kept, read = {}, found.get
            found.get = lambda kg, cell: found.kept.setdefault(cell, read(kg, cell))
        return found

    def commit(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        super().commit(changes, kgs)
        for change in changes:
            table = self.table(change.spec)
            for cell in change.lists:
                getattr(table, "kept", {}).pop(cell, None)


class _AllKeyGroups(RowStore):
    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        mine, self.key_groups = self.key_groups, KeyGroupRange(0, 2**15 - 1)
        super().restore(files, fmt)
        self.key_groups = mine


class _ForgetsNamespaces(RowStore):
    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        CanonicalFile(next(iter(files.values()))).rows()
        super().restore(files, fmt)
        for table in self._tables.values():
            for key, value in list(self.rows.scan(table.row_keys.first, table.row_keys.end)):
                row = table.row_keys.canonical(key, value)
                plain = table.row_keys.of_canonical(row._replace(namespace=b"\x00"))
                self.rows.write({key: None})
                self.rows.write({plain: value})


class _Forgetful(RowStore):
    """Lists the tables alone that somebody asked for."""

    def tables(self) -> Sequence[TableSpec]:
        return [spec for spec in super().tables() if (spec.uid, spec.name) in self.asked]

    asked: set[tuple[str, str]]

    def __init__(self, shard: int, key_groups: KeyGroupRange, rows: OrderedRows) -> None:
        super().__init__(shard, key_groups, rows)
        self.asked = set()

    def table(self, spec: TableSpec) -> Any:
        self.asked.add((spec.uid, spec.name))
        return super().table(spec)

    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        super().restore(files, fmt)
        self.asked.clear()


class _AnyType(RowStore):
    def table(self, spec: TableSpec) -> Any:
        found = self._tables.get((spec.uid, spec.name))
        return super().table(spec) if found is None else found


class _OneByOne(RowStore):
    """Commits table by table."""

    def commit(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        for change in changes:
            super().commit([change], kgs)


class _Consuming(RowStore):
    """Timers are gone when they were read."""

    def table(self, spec: TableSpec) -> Any:
        found = super().table(spec)
        if spec.kind is StateKind.EVENT_TIMERS and not hasattr(found, "read"):
            found.read = found.due
            found.due = lambda until: self._take(found, until)
        return found

    def _take(self, table: Any, until: int) -> Iterator[Timer]:
        for each in list(table.read(until)):
            self.rows.write({table.row_keys.timer(each): None})
            yield each


class _LateSnapshot(RowStore):
    """Looks at the rows when the files are asked for."""

    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> ShardSnapshot:
        taken = super().prepare_snapshot(checkpoint_id, directory, canonical)
        taken._view = MemoryView(self.rows.rows)  # type: ignore[attr-defined]
        taken._view.release = lambda: None  # type: ignore[attr-defined]
        return taken


class _KeepsDropped(RowStore):
    """Deletes the rows of tables that it drops, and keeps the tables."""

    def drop(self, uids: Collection[str]) -> None:
        for keys in [table.row_keys for name, table in self._tables.items() if name[0] in uids]:
            self.rows.write({key: None for key, _ in self.rows.scan(keys.first, keys.end)})


def _of(store: type[RowStore]) -> type[MemoryBackend]:
    class Backend(MemoryBackend):
        def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> RowStore:
            return store(shard, key_groups, MemoryRows())

    return Backend


AliasingBackend = _of(_Aliasing)
AllKeyGroupsBackend = _of(_AllKeyGroups)
ForgetsNamespacesBackend = _of(_ForgetsNamespaces)
ForgetfulBackend = _of(_Forgetful)
AnyTypeBackend = _of(_AnyType)
OneByOneBackend = _of(_OneByOne)
ConsumingBackend = _of(_Consuming)
LateSnapshotBackend = _of(_LateSnapshot)
KeepsDroppedBackend = _of(_KeepsDropped)


class MeasuringBackend(MemoryBackend):
    """Tells a figure of its own."""

    def metrics(self) -> Mapping[str, float]:
        return {"open-files": 3.0}


# --- those that are no backend


class NoBackend:
    """Does not derive from the base."""


class _PlainStore:
    """One of HashMap's, without the part of the contract that is about values that expire."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in ("adopt", "expire"):
            raise AttributeError(name)
        return getattr(self._store, name)


class PlainBackend(BackendFactory):
    """Keeps no time-to-live."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> ShardStore:
        store: Any = _PlainStore(HashMapStoreFactory().create(shard, key_groups, directory))
        return store  # type: ignore[no-any-return]


class UnfinishedBackend(BackendFactory):
    """Has no ``create``."""


class RaisingBackend(MemoryBackend):
    """Does not like its options."""

    def __init__(self, context: BackendContext) -> None:
        raise ValueError("unknown option")


class AwayBackend(MemoryBackend):
    """Needs a server that is away."""

    def __init__(self, context: BackendContext) -> None:
        raise ConnectionRefusedError("nobody listens at db:5432")


class CrashingBackend(MemoryBackend):
    """Ends the process."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> ShardStore:
        print("about to crash", flush=True)
        os.abort()


class LeavingBackend(MemoryBackend):
    """Ends the process in an orderly way, as a command would."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> ShardStore:
        raise SystemExit(3)


class HangingBackend(MemoryBackend):
    """Never comes back."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> ShardStore:
        for _ in itertools.repeat(None):
            time.sleep(1.0)
        raise AssertionError
