"""Timers in RocksDB: rows in the order of time, with the earliest ones kept decoded in memory.

Most epochs ask whether anything is due, and nothing is. That, and the firing of a few timers, is answered
from the cache (``timer-service.cache-size``, 128 as in Flink); only what lies behind it is read from RocksDB.

The cache holds all rows below ``_complete_to`` and none at or above it. Deleted rows leave marks in RocksDB
until it compacts them, so a scan starts at ``_complete_to``, never at the beginning.

Timers that travel as columns wait in a buffer (``buffering``), by key and time. Its word counts, whatever
RocksDB has; the cache has no row that the buffer knows.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np

from sparkstate.backends import long_index, value_columns
from sparkstate.backends.base import TableChanges, TableSpec, Timer
from sparkstate.backends.long_index import PairIndex
from sparkstate.backends.rocksdb import layout, waiting_timers
from sparkstate.backends.rocksdb.buffering import BufferedTable
from sparkstate.backends.rocksdb.column_buffer import ColumnBuffer
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.waiting_timers import WaitingTimers
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.serde import composite

_END: Final = b"\xff" * 9
"""Beyond every row: a row starts with 8 bytes of time, and no key group has its highest bit set."""
_AT_ONCE: Final = 4096
"""Rows that are looked up in the buffer together."""


class RocksTimerTable(BufferedTable):
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
        self._buffer = ColumnBuffer(np.bool_, PairIndex)
        self.buffers = {"timer_columns": self._buffer}
        self._waiting = WaitingTimers(self._buffer)
        self._stored_to: int | None = None
        """No row of RocksDB has a later time; None: nobody has looked."""

    # --- reads

    def due(self, until: int) -> Iterator[Timer]:
        own = self._waiting.due(until)
        if own is None:
            return map(self.codec.timer, self._due_rows(until))
        return map(self.codec.timer, heapq.merge(self._due_rows(until), layout.timer_rows(own)))

    def due_columns(self, until: int, at_once: int) -> Iterator[TimerColumns | None]:
        """As the contract says."""
        stored, own = self._stored_due(until, at_once), self._waiting.due(until)
        return stored if own is None else waiting_timers.merged(stored, own, at_once)

    def _stored_due(self, until: int, at_once: int) -> Iterator[TimerColumns | None]:
        rows = self._due_rows(until)
        while part := list(itertools.islice(rows, at_once)):
            yield layout.timers_of(part)

    def _due_rows(self, until: int) -> Iterator[bytes]:
        """Those of RocksDB that the buffer does not know."""
        # Rows of `until` itself still belong to it, so the end is the first row after them.
        end = composite.encode_long(until) + b"\xff\xff"
        self._fill()
        for row in list(self._cache):
            if row >= end:
                return
            yield row
        if self._complete_to < end:
            yield from self._rows(self._complete_to, end, _AT_ONCE)

    def _rows(self, start: bytes, end: bytes, at_once: int) -> Iterator[bytes]:
        """Rows of RocksDB from ``start`` up to ``end`` that the buffer does not know; so many are looked up at once."""
        rows = itertools.takewhile(end.__gt__, map(operator.itemgetter(0), self.family.iterate(start)))
        return self._without_known(rows, at_once) if self._buffer.count else rows

    def _without_known(self, rows: Iterator[bytes], at_once: int) -> Iterator[bytes]:
        while part := list(itertools.islice(rows, at_once)):
            yield from self._unknown(part)

    def _unknown(self, rows: list[bytes]) -> list[bytes]:
        """Those that the buffer does not know."""
        width = layout.TIMER_ROW_BYTES
        plain = [place for place, row in enumerate(rows) if len(row) == width]
        timers = layout.timers_of([rows[place] for place in plain])
        if timers is None:
            return [row for row in rows if not self._is_known(row)]
        known = self._buffer.read(waiting_timers.pairs_of(timers))[2]
        gone = {plain[place] for place in np.flatnonzero(known).tolist()}
        return [row for place, row in enumerate(rows) if place not in gone]

    def _is_known(self, row: bytes) -> bool:
        return self._own(self.codec.timer(row)) is not None

    def _own(self, timer: Timer) -> bool | None:
        """Whether it is registered, as the buffer knows; None: it does not."""
        if not self._buffer.count or timer.namespace is not None or type(timer.key) is not int:
            return None
        pair = long_index.pairs(np.array([timer.key]), np.array([timer.timestamp]))
        _, present, known = self._buffer.read(pair)
        return bool(present[0]) if known[0] else None

    def contains(self, timer: Timer) -> bool:
        own = self._own(timer)
        return self.family.get(self.codec.timer_row(timer)) is not None if own is None else own

    def next_timestamp(self) -> int | None:
        self._fill()
        stored = composite.decode_long(self._cache[0]) if self._cache else None
        return min((each for each in (stored, self._waiting.least()) if each is not None), default=None)

    def _fill(self) -> None:
        """Read the least rows if the cache has run empty and there may be some behind it."""
        if self._cache or self._complete_to == _END:
            return
        rows: list[bytes] = []
        for row in self._rows(self._complete_to, _END, self._cache_size + 1):
            if len(rows) == self._cache_size:
                self._complete_to = row
                break
            rows.append(row)
        else:
            self._complete_to = _END
        self._cache = rows

    # --- changes

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
        if writes.keys:
            self._stored_to = None
        if self._complete_to:
            self._bring_up_to_date(writes.deletes, writes.keys)

    def applied_columns(self, columns: TimerColumns) -> None:
        """The same for columns that were written."""
        if columns.registered.any():
            self._stored_to = None
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
        self._stored_to = None

    # --- what RocksDB does not have yet

    def collides(self, change: TableChanges) -> bool:
        """Whether single timers of the change may be in the buffer as well."""
        return self._buffer.count > 0 and len(change.timers) > 0

    def absorb(self, change: TableChanges) -> None:
        """Take its columns into the buffer."""
        columns = change.timer_columns
        if columns is None:
            return
        if self._cache:
            self._bring_up_to_date(layout.timer_rows(columns), [])
        may_be_stored = columns.timestamps <= self._last_stored()
        flags = columns.registered
        pairs = waiting_timers.pairs_of(columns)
        self._buffer.write(ValueColumns(pairs, columns.key_groups, flags, flags, may_be_stored))
        self._waiting.changed(columns)

    def _last_stored(self) -> int:
        """No row of RocksDB has a later time. Not looked for at each commit: where the last rows were deleted, it takes
        as long as to go past their marks."""
        if self._stored_to is None:
            last = self.family.last()
            self._stored_to = value_columns.LEAST_LONG if last is None else composite.decode_long(last)
        return self._stored_to

    def unwritten(self) -> TableChanges:
        """The timers that RocksDB lacks, as columns."""
        return TableChanges(self.spec, timer_columns=waiting_timers.timers_of(self._buffer.unwritten()))

    def written(self) -> None:
        """RocksDB has all of it."""
        super().written()
        self._stored_to = None

    def forget(self) -> None:
        """Empty the buffer; all of it is written."""
        known = waiting_timers.timers_of(self._buffer.all())
        self._buffer.clear()
        self._waiting.cleared()
        try:
            self.applied_columns(known)
        except Exception:  # out of memory: a cache without them would hide the timers
            self.reset()
            raise
