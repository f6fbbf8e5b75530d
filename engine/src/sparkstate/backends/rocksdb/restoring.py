"""Filling an empty store from the files of a snapshot."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sparkstate import local_disk
from sparkstate.backends import canonical
from sparkstate.backends.base import TIMER_KINDS, StateKind, TableSpec
from sparkstate.backends.heap_timers import HeapTimerTable
from sparkstate.backends.rocksdb import layout, snapshots
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.tables import PositionCounter
from sparkstate.backends.rocksdb.timers import RocksTimerTable
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde import composite
from sparkstate.settings import MIB

_ROWS_AT_ONCE = 20_000
_BYTES_AT_ONCE = 4 * MIB
"""Bounds on rows that are read and not yet written, whichever comes first: 20,000 rows can be gigabytes (RFC 0016)."""

LIVE_SHARE = 0.5
"""Where less than this share of a restored column family's bytes is live, the restore merges its files. RocksDB does
that by itself beside the epochs, but begins again after every loss: where a job was lost more often than a merge takes,
its state grew for ever."""
SPARE_BYTES = 32 * MIB
"""So many bytes that are not live are never worth a wait."""


def place(source: Path, target: Path) -> None:
    """Link where that is possible. Files that RocksDB may write to are copied,
    because the source belongs to someone else."""
    if source.suffix == ".sst":
        local_disk.link_or_copy(source, target)
    else:
        shutil.copyfile(source, target)


def move_timers(spec: TableSpec, family: Family, table: HeapTimerTable) -> FamilyWrites:
    """Register the timers of a column family on the heap; returns the writes that delete them there."""
    codec = layout.RowCodec(spec)
    keys = [key for key, _ in family.scan(b"")]
    for key in keys:
        table.add(codec.timer(key))
    return FamilyWrites(family, deletes=keys)


def load_rows(
    file: canonical.CanonicalFile,
    key_groups: KeyGroupRange,
    tables: Sequence[Any],
    positions: PositionCounter,
    write: Callable[[Sequence[FamilyWrites]], None],
    row_limit: int,
) -> None:
    """Write the rows of ``file`` within ``key_groups`` into ``tables``, which are those of its header, in order. Raises
    ``StateError`` for a value that another backend holds, and that RocksDB could not read again."""
    codecs = [canonical.TableCodec(spec) for spec in file.tables]
    pending = [None if isinstance(table, HeapTimerTable) else FamilyWrites(table.family) for table in tables]
    waiting = waiting_bytes = 0
    for row in file.rows(key_groups):
        target = pending[row.table]
        if target is None:
            tables[row.table].add(codecs[row.table].timer(row))
            continue
        kind = file.tables[row.table].kind
        key = snapshots.stored_row(row, kind in TIMER_KINDS)
        if len(row.value) > row_limit:
            layout.check_lengths(file.tables[row.table], [key], [key], [row.value], row_limit)
        target.keys.append(key)
        target.values.append(row.value)
        if kind is StateKind.LIST:
            positions.following = max(positions.following, composite.decode_long(row.sub) + 1)
        waiting += 1
        waiting_bytes += len(row.value)
        if waiting >= _ROWS_AT_ONCE or waiting_bytes >= _BYTES_AT_ONCE:
            _flush(pending, write)
            waiting = waiting_bytes = 0
    _flush(pending, write)
    for table in tables:
        if isinstance(table, RocksTimerTable):
            table.reset()


def _flush(pending: Sequence[FamilyWrites | None], write: Callable[[Sequence[FamilyWrites]], None]) -> None:
    writes = [each for each in pending if each is not None]
    write(writes)
    for each in writes:
        each.keys, each.values = [], []
