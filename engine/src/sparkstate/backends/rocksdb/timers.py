"""Timers in RocksDB: rows in the order of time, with the earliest ones kept decoded in memory.

Most epochs ask whether anything is due, and nothing is. That, and the firing of a few timers, is answered
from the cache (``timer-service.cache-size``, 128 as in Flink); only what lies behind it is read from RocksDB.

The cache holds all rows below ``_complete_to`` and none at or above it. Deleted rows leave marks in RocksDB
until it compacts them, so a scan starts at ``_complete_to``, never at the beginning.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from sparkstate.backends.base import TableChanges, TableSpec, Timer
from sparkstate.backends.rocksdb import layout
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.serde import composite

_END: Final = b"\xff" * 9
"""Beyond every row: a row starts with 8 bytes of time, and no key group has its highest bit set."""


class RocksTimerTable:
    """A ``TimerTable``. Registering a timer twice writes the same row twice: it is one timer."""

    def __init__(self, spec: TableSpec, family: Family, row_limit: int, cache_size: int) -> None:
        self.spec = spec
        self.family = family
        self.codec = layout.RowCodec(spec)
        self._limit = row_limit
        self._cache_size = cache_size
        self._cache: list[bytes] = []
        self._complete_to = b""
        """Every stored row below this one is in the cache; empty = the cache was never filled."""

    def due(self, until: int) -> Iterator[Timer]:
        return map(self.codec.timer, self._due_rows(until))

    def due_columns(self, until: int, at_once: int) -> Iterator[TimerColumns | None]:
        """As the contract says."""
        rows = self._due_rows(until)
        while part := list(itertools.islice(rows, at_once)):
            yield layout.timers_of(part)

    def _due_rows(self, until: int) -> Iterator[bytes]:
        # Rows of `until` itself still belong to it, so the end is the first row after them.
        end = composite.encode_long(until) + b"\xff\xff"
        self._fill()
        for row in list(self._cache):
            if row >= end:
                return
            yield row
        if self._complete_to >= end:
            return
        for row, _ in self.family.iterate(self._complete_to):
            if row >= end:
                return
            yield row

    def contains(self, timer: Timer) -> bool:
        return self.family.get(self.codec.timer_row(timer)) is not None

    def next_timestamp(self) -> int | None:
        self._fill()
        return composite.decode_long(self._cache[0]) if self._cache else None

    def _fill(self) -> None:
        """Read the least rows if the cache has run empty and there may be some behind it."""
        if self._cache or self._complete_to == _END:
            return
        rows: list[bytes] = []
        for row, _ in self.family.iterate(self._complete_to):
            if len(rows) == self._cache_size:
                self._complete_to = row
                break
            rows.append(row)
        else:
            self._complete_to = _END
        self._cache = rows

    def writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        """The changes as rows. Call :meth:`applied` with the same object once they are written."""
        row = self.codec.timer_row
        result = FamilyWrites(self.family)
        for timer, registered in changes.timers.items():
            (result.keys if registered else result.deletes).append(row(timer))
        result.values = [b""] * len(result.keys)
        registered_cells = [timer.key for timer, registered in changes.timers.items() if registered]
        layout.check_lengths(self.spec, registered_cells, result.keys, result.values, self._limit)
        if (columns := changes.timer_columns) is not None:
            result.deletes += layout.timer_rows(columns.select(~columns.registered))
            result.keys += layout.timer_rows(columns.select(columns.registered))
            result.values = [b""] * len(result.keys)
        return result

    def applied(self, writes: FamilyWrites) -> None:
        """Bring the cache up to date with the last writes."""
        if self._complete_to:
            self._bring_up_to_date(writes.deletes, writes.keys)

    def applied_columns(self, columns: TimerColumns) -> None:
        """The same for columns that were written."""
        if not self._complete_to:
            return
        if self._complete_to != _END:
            # Later ones are behind the cache.
            columns = columns.select(columns.timestamps <= composite.decode_long(self._complete_to))
        # Mostly the cache has run empty: all that it had has fired.
        gone = layout.timer_rows(columns.select(~columns.registered)) if self._cache else []
        self._bring_up_to_date(gone, layout.timer_rows(columns.select(columns.registered)))

    def _bring_up_to_date(self, deletes: Collection[bytes], puts: Collection[bytes]) -> None:
        if self._cache and deletes:
            gone = set(deletes)
            self._cache = [row for row in self._cache if row not in gone]
        added = sorted(row for row in puts if row < self._complete_to)
        if added:
            self._cache = sorted({*self._cache, *added})
        if len(self._cache) > self._cache_size:
            self._complete_to = self._cache[self._cache_size]
            del self._cache[self._cache_size :]

    def reset(self) -> None:
        """Forget what is cached (rows were written behind it, by a restore)."""
        self._cache = []
        self._complete_to = b""
