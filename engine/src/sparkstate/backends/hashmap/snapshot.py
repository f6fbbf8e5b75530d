"""The asynchronous part of a snapshot: frozen views, written as one canonical file.

The views were taken while commits were held, which costs the same however many rows there are. Everything here may run
in another thread beside commits.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkstate.backends import base, canonical, heap_timers
from sparkstate.backends.base import (
    TIMER_KINDS,
    CanonicalRow,
    SnapshotFile,
    SnapshotStream,
    TableSpec,
)
from sparkstate.backends.hashmap import column_table, tables
from sparkstate.backends.hashmap.layered_columns import ColumnView
from sparkstate.backends.layered_dict import View
from sparkstate.serde import expiring


@dataclass(frozen=True)
class FrozenTable:
    """A table as it was; ``key_groups`` is the operator's key → key group (it may have grown since)."""

    spec: TableSpec
    view: Any
    key_groups: Mapping[Any, int]
    cutoff: int = expiring.NO_STAMP
    """Values with this stamp or an older one have expired, and are left out."""


class HashMapSnapshot:
    """A ``ShardSnapshot`` of frozen tables."""

    format = canonical.FORMAT

    def __init__(self, frozen: Sequence[FrozenTable], directory: Path) -> None:
        self._frozen = frozen
        self._path = directory / canonical.FORMAT

    def files(self) -> Sequence[SnapshotFile]:
        """Write the file."""
        with self._path.open("wb") as file:
            for data in self._chunks():
                file.write(data)
        size = self._path.stat().st_size
        return [SnapshotFile(name=canonical.FORMAT, path=self._path, size=size, shared=False)]

    def streams(self) -> Sequence[SnapshotStream]:
        """The same, without the file."""
        return [SnapshotStream(canonical.FORMAT, self._chunks)]

    def _chunks(self) -> Generator[bytes, None, None]:
        found = (row for number, table in enumerate(self._frozen) for row in rows(number, table))
        return canonical.stream([table.spec for table in self._frozen], found)

    def release(self) -> None:
        """Let the tables fold their layers, and delete the file."""
        for table in self._frozen:
            table.view.release()
        self._path.unlink(missing_ok=True)


def rows(number: int, table: FrozenTable) -> Iterator[CanonicalRow | canonical.RowBlock]:
    """All rows of a table, as those of table ``number``, in their order in the file."""
    if table.spec.kind in TIMER_KINDS:
        yield from heap_timers.rows(table.view, table.spec, number)
        return
    codec = canonical.TableCodec(table.spec)
    if isinstance(table.view, column_table.ColumnTableView):
        others = table.view.others.merged()
        columns = [view for view in (table.view.columns, table.view.pairs) if not view.is_empty]
        if len(columns) == 1 and not others:
            yield from _blocks(number, columns[0])
        else:
            singles = [_rows_of_blocks(number, view) for view in columns]
            yield from heapq.merge(*singles, _rows_of_cells(codec, number, table, table.view.others))
    else:
        yield from _rows_of_cells(codec, number, table, table.view)


def single_rows(number: int, table: FrozenTable) -> Iterator[CanonicalRow]:
    """The rows of a table that is not of timers, none of them in a block."""
    for each in rows(number, table):
        if isinstance(each, canonical.RowBlock):
            yield from (CanonicalRow(number, *row) for row in each.rows)
        else:
            yield each


def _blocks(number: int, view: ColumnView) -> Iterator[canonical.RowBlock]:
    return (block for part in view.live() for block in column_table.blocks_of(number, part))


def _rows_of_blocks(number: int, view: ColumnView) -> Iterator[CanonicalRow]:
    return (CanonicalRow(number, *row) for block in _blocks(number, view) for row in block.rows)


def _rows_of_cells(
    codec: canonical.TableCodec, number: int, table: FrozenTable, view: View
) -> Iterator[CanonicalRow]:
    cells = view.merged()
    by_group: defaultdict[int, list[base.Cell]] = defaultdict(list)
    for cell in cells:
        by_group[table.key_groups[base.key_of(cell)]].append(cell)
    has_expired = expiring.expired_bytes(table.cutoff)
    expires = expiring.ttl_of(table.spec.value_type) is not None
    for key_group in sorted(by_group):
        # Sorted, so that equal state gives equal files. One key group at a time bounds the memory that this takes.
        rows = [
            row
            for cell in by_group[key_group]
            for row in tables.rows_of_cell(codec, number, key_group, cell, cells[cell])
        ]
        if expires:
            rows = [row for row in rows if not has_expired(row.value)]
        yield from sorted(rows)
