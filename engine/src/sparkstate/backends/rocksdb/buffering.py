"""Which changes of a commit wait in column buffers, and when they are written.

A change is written at once where waiting would gain nothing: it would fill the buffers by itself, or the entries of its
table hardly ever come a second time before the buffers are full.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from sparkstate.backends.base import TableChanges
from sparkstate.backends.rocksdb.column_buffer import ColumnBuffer
from sparkstate.backends.rocksdb.family import Family, FamilyWrites

Field = Literal["columns", "pairs", "timer_columns"]
"""Of ``TableChanges``: those that may wait."""

_ROWS_AT_ONCE: Final = 4000
"""So many entries of columns become rows at once. As rows they take five times the memory (150 bytes an entry), which
no budget has weighed."""
_LARGEST_SHARE: Final = 0.5
"""Of the buffers: a larger change is written at once."""
_ROOMY: Final = 0.75
"""Of the buffers: where more is in use without what nobody needs, the table's entries are written."""
_WORTH_COMPACTING: Final = 0.25
"""Of the buffers: compacting them takes as long as it did to write what is left, so it must free much."""


class BufferedTable(ABC):
    """A table with buffers."""

    family: Family
    buffers: Mapping[Field, ColumnBuffer]
    """By the changes that they take."""

    @property
    def has_buffered(self) -> bool:
        """Whether the buffers have any entry."""
        return any(buffer.count for buffer in self.buffers.values())

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the buffers."""
        return sum(buffer.nbytes for buffer in self.buffers.values())

    @abstractmethod
    def collides(self, change: TableChanges) -> bool:
        """Whether single entries of the change may be in the buffers as well."""

    @abstractmethod
    def absorb(self, change: TableChanges) -> None:
        """Take its columns into the buffers."""

    @abstractmethod
    def unwritten(self) -> TableChanges:
        """The entries that RocksDB lacks, as columns."""

    @abstractmethod
    def writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        """Changes as rows."""

    def written(self) -> None:
        """RocksDB has all of it."""
        for buffer in self.buffers.values():
            buffer.written()

    @abstractmethod
    def forget(self) -> None:
        """Empty the buffers; all of it is written."""


_Change: TypeAlias = tuple[Any, TableChanges]
"""A table and a change of it."""


class BufferMemory:
    """The memory of the buffers of all stores of a slot, in bytes. Commits of a slot come one after another."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.promised = 0
        """To changes of the commit at work, which are not in the buffers yet."""
        self._buffers: list[ColumnBuffer] = []
        """Those that are in use."""
        self._tables: dict[int, tuple[BufferedTable, Callable[[], None]]] = {}
        """Their tables, each with a way to empty its buffers."""
        self._least = 0
        """Bytes in use after the last time that they were compacted."""

    def weigh(self, buffer: ColumnBuffer) -> None:
        """Its size has changed."""
        before, now = buffer.weighed, buffer.nbytes
        self.used += now - before
        buffer.weighed = now
        self._least = min(self._least, self.used)
        if before and not now:
            self._buffers = [each for each in self._buffers if each is not buffer]
        elif now and not before:
            self._buffers.append(buffer)

    def keep(self, table: BufferedTable, settle: Callable[[], None]) -> None:
        """The table has entries; ``settle`` writes them and empties its buffers."""
        self._tables[id(table)] = table, settle

    def forget(self, table: BufferedTable) -> None:
        """Its buffers are empty."""
        self._tables.pop(id(table), None)

    def settle_largest(self) -> None:
        """Empty the buffers of the table that has most. Else a table that nothing is written to any more would keep its
        memory for ever."""
        if self._tables:
            _, settle = max(self._tables.values(), key=lambda each: each[0].nbytes)
            settle()

    def left(self, share: float = 1.0) -> float:
        """How many bytes are free of this share of the limit."""
        return self.limit * share - self.used - self.promised

    def compact(self) -> None:
        """Drop what nobody needs, of all buffers, unless that was done a moment ago."""
        if self.used - self._least < self.limit * _WORTH_COMPACTING:
            return
        for buffer in list(self._buffers):
            buffer.compact()
            self.weigh(buffer)
        self._least = self.used


class Buffers:
    """The buffers of one store. ``write`` brings rows to RocksDB."""

    def __init__(self, memory: BufferMemory, write: Callable[[Iterable[FamilyWrites]], None]) -> None:
        self._memory = memory
        self._write_rows = write
        self._lock = threading.Lock()
        """Readers of all keys write buffers out, and so does a snapshot beside them."""

    # --- commits

    def divided(self, changes: Iterable[_Change]) -> tuple[list[_Change], list[_Change]]:
        """The changes of a commit that are written now, and those that wait. None of it has been done yet."""
        # A commit before it may have ended before it took the memory that it was promised.
        self._memory.promised = 0
        now, waiting = [], []
        for table, change in changes:
            direct, later = self._divided(table, change)
            now.append((table, direct))
            if later is not None:
                waiting.append((table, later))
        return now, waiting

    def _divided(self, table: Any, change: TableChanges) -> tuple[TableChanges, TableChanges | None]:
        if not isinstance(table, BufferedTable):
            return change, None
        if table.collides(change):
            # It is emptied before it is full.
            for buffer in table.buffers.values():
                buffer.rests()
            self.settle(table)
        now, waiting = change, None
        for name in table.buffers:
            columns = self._takes(table, name, change)
            if columns is not None:
                if waiting is None:
                    now, waiting = dataclasses.replace(change), TableChanges(change.spec)
                setattr(waiting, name, columns)
                setattr(now, name, None)
        return now, waiting

    def _takes(self, table: BufferedTable, name: Field, change: TableChanges) -> Any:
        columns = getattr(change, name)
        if columns is None or not len(columns):
            return None
        buffer = table.buffers[name]
        if self._has_room(table, buffer, len(columns)):
            self._memory.promised += len(columns) * buffer.entry_bytes
            return columns
        if buffer.count:
            self.settle(table)
        return None

    def _has_room(self, table: BufferedTable, buffer: ColumnBuffer, entries: int) -> bool:
        memory, needed = self._memory, entries * buffer.entry_bytes
        if buffer.waits:
            buffer.waits -= 1
            return False
        if needed > memory.limit * _LARGEST_SHARE:
            return False
        if needed <= memory.left():
            return True
        memory.compact()
        if needed <= memory.left(_ROOMY):
            return True
        if buffer.rests():
            return False
        self.settle(table)
        if needed > memory.left():
            memory.settle_largest()
        return needed <= memory.left()

    def absorb(self, table: BufferedTable, change: TableChanges) -> None:
        """A change waits."""
        self._memory.keep(table, functools.partial(self.settle, table))
        table.absorb(change)
        for buffer in table.buffers.values():
            self._memory.weigh(buffer)

    # --- writing

    def write(self, table: Any) -> None:
        """Bring to RocksDB what it lacks of the table. Reads may go on meanwhile: they find it in the buffers."""
        if isinstance(table, BufferedTable) and table.has_buffered:
            with self._lock:
                self._write_rows(row_parts(table, table.unwritten(), FamilyWrites(table.family)))
                table.written()

    def settle(self, table: Any) -> None:
        """The same, and empty its buffers. Nobody reads meanwhile."""
        if isinstance(table, BufferedTable):
            self.write(table)
            self.drop(table)

    def drop(self, table: Any) -> None:
        """Empty its buffers; what was not written is lost."""
        if isinstance(table, BufferedTable):
            table.forget()
            self._memory.forget(table)
            for buffer in table.buffers.values():
                self._memory.weigh(buffer)


def row_parts(table: Any, change: TableChanges, singles: FamilyWrites) -> Iterator[FamilyWrites]:
    """The rows of a change: of its single entries, and then of its columns, a part at a time."""
    yield singles
    for part in change.column_parts(_ROWS_AT_ONCE):
        yield table.writes(part, {})
