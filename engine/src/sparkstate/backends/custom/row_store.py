"""A whole shard store over an ``OrderedRows``: tables, atomic commits, canonical snapshots, restores and sizes."""

from __future__ import annotations

import abc
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from sparkstate import errors
from sparkstate.backends import canonical
from sparkstate.backends.base import (
    CanonicalRow,
    ShardSnapshot,
    ShardStats,
    SnapshotFile,
    SnapshotStream,
    StateKind,
    TableChanges,
    TableSpec,
)
from sparkstate.backends.custom import row_tables
from sparkstate.backends.custom.factory import BackendFactory
from sparkstate.backends.custom.ordered_rows import OrderedRows, RowsView, left_early
from sparkstate.backends.custom.row_count import RowCount
from sparkstate.backends.custom.row_keys import RowKeys
from sparkstate.backends.custom.row_sweep import RowSweep
from sparkstate.backends.expiring import SweepPace, ttl_change
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde import composite, expiring
from sparkstate.serde.migration import Migration
from sparkstate.settings import MIB

_MOST_TABLES: Final = 2**16 - 1
_BATCH_ROWS: Final = 5_000
_BATCH_BYTES: Final = 4 * MIB
"""Bounds on rows that a restore or a migration has read and not yet written, whichever comes first. Without the second
one, 5,000 rows could be gigabytes."""
_FEW_ROWS: Final = 10_000
"""So many rows are counted anew at each question after a write. More are counted when half as many were written, so
that the counting costs each write about the same, however large the state is, and by parts (``row_count``)."""


class RowStore:
    """A ``ShardStore``. Override ``prepare_snapshot`` and ``restore`` for a format of your own beside the canonical."""

    def __init__(self, shard: int, key_groups: KeyGroupRange, rows: OrderedRows) -> None:
        self.shard = shard
        self.key_groups = key_groups
        self.rows = rows
        self._tables: dict[tuple[str, str], Any] = {}
        self._sweeps: dict[tuple[str, str], RowSweep] = {}
        self._positions = row_tables.Positions()
        self._stats = ShardStats(0, 0, estimated=True)
        self._count = RowCount()
        self._written_since = 0

    def table(self, spec: TableSpec) -> Any:
        found = self._tables.get((spec.uid, spec.name))
        if found is None:
            number = len(self._tables)
            if number >= _MOST_TABLES:
                raise errors.StateError(
                    f"state {spec.name!r} of operator {spec.uid!r} is one of more than {_MOST_TABLES} states in a "
                    "shard; use fewer"
                )
            found = row_tables.make_table(spec, number, self.rows, self._positions)
            self._tables[spec.uid, spec.name] = found
        elif found.spec is not spec:
            verdict = canonical.check_same_table(found.spec, spec)
            if verdict.before != verdict.now:
                plans = () if verdict.plan is None else (verdict.plan,)
                found = self._retyped(found, spec, Migration(found.spec.value_type, plans))
            found.spec = spec  # so that the next look is by identity
        return found

    def _retyped(self, table: Any, spec: TableSpec, convert: Callable[[bytes], bytes | None] | None) -> Any:
        """The table of ``spec`` in the place of another, after each value went through ``convert`` (None: it is gone),
        some at a time. No scan goes on beside a write."""
        start = table.row_keys.first
        while convert is not None and (rows := self._some_rows(start, table.row_keys.end)):
            self._write({key: convert(value) for key, value in rows})
            start = rows[-1][0] + b"\0"
        made = row_tables.make_table(spec, table.row_keys.number, self.rows, self._positions)
        made.written = table.written
        self._tables[spec.uid, spec.name] = made
        return made

    def _some_rows(self, start: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
        rows, size = [], 0
        with left_early(self.rows.scan(start, end)) as found:
            for key, value in found:
                rows.append((key, value))
                size += len(key) + len(value)
                if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                    break
        return rows

    def tables(self) -> Sequence[TableSpec]:
        return [table.spec for table in self._tables.values()]

    def commit(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        written: row_tables.Written = {}
        for change in changes:
            table, before = self.table(change.spec), len(written)
            table.collect(change, kgs, written)
            table.written += len(written) - before
        self._write(written)

    def _write(self, written: row_tables.Written) -> None:
        if written:
            self.rows.write(written)
            self._written_since += len(written)

    # ---- values that expire

    def adopt(self, spec: TableSpec, times: expiring.Times) -> None:
        found = self._tables.get((spec.uid, spec.name))
        wanted = ttl_change(None if found is None else found.spec, spec, times)
        if wanted is not None:
            self._retyped(found, wanted.spec, wanted.convert)
            self._sweeps.pop((spec.uid, spec.name), None)

    def expire(self, spec: TableSpec, cutoff: int, pace: SweepPace) -> int:
        table, sweep = self.table(spec), self._sweeps.setdefault((spec.uid, spec.name), RowSweep())
        sweep.cutoff = cutoff  # it may go back, when a clock that was ahead is set
        deletions = sweep.look(table, self.rows, pace)
        self._write(deletions)
        return len(deletions)

    # ---- snapshots

    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> ShardSnapshot:
        sources = []
        for name, table in self._tables.items():
            sweep = self._sweeps.get(name)
            cutoff = expiring.NO_STAMP if sweep is None else sweep.cutoff
            sources.append(TableSource(table.spec, table.row_keys, cutoff))
        return RowSnapshot(self.rows.view(), sources, directory)

    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        if fmt != canonical.FORMAT:
            raise errors.RestoreBlocked(
                f"shard {self.shard}: the snapshot has the format {fmt!r}; this backend restores "
                f"{canonical.FORMAT!r} only. Take a canonical savepoint with the backend that wrote it and restore "
                "from that"
            )
        for path in files.values():
            self._load(canonical.CanonicalFile(path))

    def _load(self, file: canonical.CanonicalFile) -> None:
        targets = [self.table(spec) for spec in file.tables]
        written: row_tables.Written = {}
        size = 0
        for block in file.blocks(self.key_groups):
            table = targets[block.table]
            table.written += len(block.rows)
            of_lists = table.spec.kind is StateKind.LIST
            for row in block.rows:
                found = CanonicalRow(block.table, *row)
                key = table.row_keys.of_canonical(found)
                written[key] = found.value
                size += len(key) + len(found.value)
                if of_lists:
                    taken = composite.decode_long(found.sub) + 1
                    self._positions.following = max(self._positions.following, taken)
            if len(written) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                self._write(written)
                written, size = {}, 0
        self._write(written)

    # ---- the rest

    def quiesce(self) -> None:
        """Rows that do work in the background override this, and stop."""

    def stats(self) -> ShardStats:
        few = self._stats.rows < _FEW_ROWS
        if not self._count.is_under_way and self._written_since > (0 if few else self._stats.rows // 2):
            self._written_since = 0
            self._count.begin(list(self._tables.values()))
        if self._count.is_under_way:
            self._count.go_on(self.rows)
            counted = self._count.so_far
            if not self._count.is_under_way or counted.rows > self._stats.rows:
                self._stats = counted
        return self._stats

    def close(self) -> None:
        self.rows.close()


class TableSource(NamedTuple):
    """A table in a snapshot."""

    spec: TableSpec
    keys: RowKeys
    cutoff: int
    """Values with this stamp or an older one are left out, where values expire."""


class RowSnapshot:
    """A ``ShardSnapshot`` of a view: one canonical file, made in another thread beside commits."""

    format = canonical.FORMAT

    def __init__(self, view: RowsView, sources: Sequence[TableSource], directory: Path) -> None:
        self._view = view
        self._sources = sources
        self._path = directory / canonical.FORMAT

    def files(self) -> Sequence[SnapshotFile]:
        with self._path.open("wb") as file:
            for data in self._chunks():
                file.write(data)
        return [SnapshotFile(canonical.FORMAT, self._path, self._path.stat().st_size, shared=False)]

    def streams(self) -> Sequence[SnapshotStream]:
        return [SnapshotStream(canonical.FORMAT, self._chunks)]

    def _chunks(self) -> Generator[bytes, None, None]:
        return canonical.stream([source.spec for source in self._sources], self._canonical_rows())

    def _canonical_rows(self) -> Iterator[CanonicalRow]:
        for spec, keys, cutoff in self._sources:
            found = self._view.scan(keys.first, keys.end)
            if expiring.ttl_of(spec.value_type) is not None:
                has_expired = expiring.expired_bytes(cutoff)
                found = (row for row in found if not has_expired(row[1]))
            for key, value in found:
                yield keys.canonical(key, value)

    def release(self) -> None:
        self._view.release()
        self._path.unlink(missing_ok=True)


class RowBackendFactory(BackendFactory):
    """The shortest way to a backend: bring the ordered rows of a shard, and all else is done."""

    @abc.abstractmethod
    def open_rows(self, directory: Path) -> OrderedRows:
        """The rows of a new shard, of which there are none. ``directory`` is empty, and its own."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> RowStore:
        directory.mkdir(parents=True, exist_ok=True)
        return RowStore(shard, key_groups, self.open_rows(directory))
