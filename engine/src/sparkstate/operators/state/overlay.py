"""The uncommitted changes of one epoch by one attempt, and what they read, wrote and put out.

An overlay belongs to one operator in one slot. Nothing in it is state until ``epoch.commit_overlays``; to give it up is
to drop it. It holds stored forms only (``serde.typeinfo``), so nothing in it is shared with the user's code.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from sparkstate.backends.base import ListChange, MapChange, Spill
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.functions import MIN_WATERMARK, TimeDomain
from sparkstate.operators.rows.files import EpochFiles
from sparkstate.operators.state.column_entries import ColumnEntries, PairEntries
from sparkstate.operators.state.known_keys import KnownKeys, ObjectKeys
from sparkstate.operators.state.operator_handles import Changes
from sparkstate.serde import composite

MISSING: Final = object()
"""In a journal: there was no entry."""

TimerKey = tuple[int, Any, Any]
"""Timestamp, key, namespace."""


class ListCell(ListChange):
    """One list: the change, and what is stored (None = not read yet). A cell is its change, not a holder of one: the
    cells of an epoch do not fit into the processor's cache, so each object on the way to an item costs a miss."""

    __slots__ = ("stored",)

    def __init__(self) -> None:
        self.replaced = False
        self.items = []
        self.stored: list[Any] | None = None

    def restore(self, replaced: bool, items: list[Any], length: int) -> None:
        """Undo: the change was this."""
        del items[length:]
        self.replaced = replaced
        self.items = items


class MapCell(MapChange):
    """One map: the change, single entries read, and all entries read (None = not yet)."""

    __slots__ = ("read", "stored")

    def __init__(self) -> None:
        self.cleared = False
        self.entries = {}
        self.read: dict[Any, Any] = {}
        self.stored: dict[Any, Any] | None = None

    def restore(self, cleared: bool, entries: dict[Any, Any]) -> None:
        """Undo: the change was this."""
        self.cleared = cleared
        self.entries = entries


class TableOverlay:
    """Entries of one state, by the numbers of their keys.

    Of a value state: the stored values (None = absent), in a list for the default namespace, which is read
    ahead for every key, and in a dict for each other one. ``read`` keeps the values read as well: an entry
    is changed when it is another object than the one read. So writing a value is one assignment, and finding
    the changed ones is left to the commit. Of a list or map state: its cells, in dicts.

    Where ``columns`` are given, the default namespace has its entries there, and namespaces that are whole numbers have
    theirs in ``pairs``.
    """

    __slots__ = ("columns", "elements", "entries", "pairs", "read", "rooms", "spilled")

    def __init__(self, of_values: bool, spilled: Any = None, columns: ColumnEntries | None = None) -> None:
        self.columns = columns
        self.pairs = None if columns is None else PairEntries(columns.dtype)
        self.elements = 0
        """How many list elements and map entries were read or written: what they weigh is guessed from it."""
        self.spilled = spilled
        """Where reads go that nothing here answers; None: to the committed tables."""
        self.entries: Any = [] if of_values else {}
        self.read: Any = [] if of_values else {}
        self.rooms: dict[Any, tuple[dict[int, Any], dict[int, Any]]] = {}
        """Entries and what was read of the other namespaces."""

    def grow(self, count: int) -> None:
        """Of a value state: there are so many keys now."""
        if self.columns is not None:
            self.columns.grow(count)
        else:
            self.entries += [None] * (count - len(self.entries))

    def room(self, namespace: Any) -> tuple[dict[int, Any], dict[int, Any]]:
        """Entries of a namespace other than the default one, and what was read of them. Raises ``SerializationError``
        for what cannot be stored: here and not at the commit, and once for each namespace, not for each record."""
        try:
            return self.rooms[namespace]
        except (KeyError, TypeError):
            composite.require_namespace(namespace)
        return self.rooms.setdefault(namespace, ({}, {}))

    def changed_numbers(self) -> list[int]:
        """Numbers of the changed entries of a value state in the default namespace, without columns."""
        if self.entries is self.read:  # all of them went elsewhere
            return []
        is_changed = map(operator.is_not, self.entries, self.read)
        return list(itertools.compress(itertools.count(), is_changed))

    def changed_in_rooms(self) -> Iterator[tuple[int, Any, Any]]:
        """Number, namespace and value of the changed entries of a value state in the other namespaces."""
        for namespace, (entries, known) in self.rooms.items():
            for number, value in entries.items():
                if known.get(number, MISSING) is not value:
                    yield number, namespace, value

    def cells(self) -> Iterator[tuple[int, Any, Any]]:
        """Number, namespace and cell of all cells of a list or map state."""
        for namespace, entries in [(None, self.entries), *((ns, room[0]) for ns, room in self.rooms.items())]:
            for number, cell in entries.items():
                yield number, namespace, cell


class TimerOverlay:
    """Timers of one domain: registered (True) or deleted (False) in this epoch, and those that fire in it."""

    def __init__(self) -> None:
        self.changes: dict[TimerKey, bool] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._sequence = itertools.count()
        self._until: int | None = None
        self._new_ones_too = False
        self._later: dict[TimerKey, bool] = {}
        """Due timers registered anew while others fire: they wait for the next epoch. A dict, for the journal."""

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.changes)

    @property
    def column_count(self) -> int:
        """How many timers lie in columns (``column_timers``)."""
        return 0

    @property
    def column_bytes(self) -> int:
        """Bytes of memory of those."""
        return 0

    def changed_columns(self) -> TimerColumns | None:
        """The changes that lie in columns; None: nothing does."""
        return None

    @property
    def waiting(self) -> int:
        """How many due timers of this epoch wait to fire."""
        return len(self._heap)

    def least_waiting(self) -> int | None:
        """The least timestamp of those, even if it was deleted since."""
        return self._heap[0][0] if self._heap else None

    def put(self, timer: TimerKey, registered: bool, journal: list[Any] | None) -> None:
        """Register or delete. While firing, a new timer that is due joins those that fire, or waits for the next epoch.
        One that has fired or was deleted is new."""
        before = self.changes.get(timer, MISSING)
        if journal is not None:
            journal.append((self.changes, timer, before))
        self.changes[timer] = registered
        if not registered or self._until is None or timer[0] > self._until:
            return
        if self._new_ones_too:
            heapq.heappush(self._heap, (timer[0], next(self._sequence), timer))
        elif before is False:  # it may still lie among those that fire, whose entries are not looked for
            if journal is not None:
                journal.append((self._later, timer, self._later.get(timer, MISSING)))
            self._later[timer] = True

    def may_fire(self, timer: TimerKey) -> bool:
        """Whether a due timer, committed or on disk, was neither deleted in this epoch nor has to wait."""
        return self.changes.get(timer) is not False and timer not in self._later

    def start_firing(self, until: int, new_ones_too: bool) -> None:
        """Collect this epoch's own due timers; with ``new_ones_too``, timers registered while others fire as well."""
        for timer, registered in self.changes.items():
            if registered and timer[0] <= until:
                heapq.heappush(self._heap, (timer[0], next(self._sequence), timer))
        self._until, self._new_ones_too = until, new_ones_too

    def stop_firing(self) -> None:
        """Nothing fires any more."""
        self._until = None
        self._heap.clear()
        self._later.clear()

    def peek(self) -> int | None:
        """The least timestamp among this epoch's own due timers that still stand."""
        while self._heap and not ((timer := self._heap[0][2]) in self.changes and self.may_fire(timer)):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> TimerKey:
        """The timer that ``peek`` saw."""
        return heapq.heappop(self._heap)[2]

    def put_back(self, timer: TimerKey) -> None:
        """One that was taken to fire has to wait for others: it is due again in this pass."""
        self.changes[timer] = True
        heapq.heappush(self._heap, (timer[0], next(self._sequence), timer))

    def take(self) -> dict[TimerKey, bool]:
        """Hand over the changes, to be spilled; a pass that fires timers finds them there.

        Timers that must not fire in this pass stay: those that were registered in it,
        where new ones wait for the next epoch.
        """
        taken, self.changes = self.changes, {}
        if self._until is not None and not self._new_ones_too:
            firing = {timer for _, _, timer in self._heap if timer not in self._later}
            self.changes = {
                timer: True
                for timer, registered in taken.items()
                if registered and timer[0] <= self._until and timer not in firing
            }
            for timer in self.changes:
                del taken[timer]
        self._heap.clear()
        return taken


@dataclass(eq=False)
class Overlay:
    """One epoch's work of one operator in one slot. Read ``output``, the counters and ``max_timestamp``.

    Where memory is bounded (``budget``) a part of it is on disk: entries and timers in ``spill``, batches in ``files``.
    """

    epoch: int
    watermark: int
    """Watermark before the epoch: rows at it or before it are late."""
    processing_time: int
    new_watermark: int = field(default=MIN_WATERMARK, init=False)
    """That of the end of the epoch, once it is finished."""
    tables: list[TableOverlay]
    """By the number of the state handle."""
    known: KnownKeys
    """The keys seen, with their numbers and key groups."""
    timers: dict[TimeDomain, TimerOverlay] = field(
        default_factory=lambda: {domain: TimerOverlay() for domain in TimeDomain}
    )
    operator_changes: Changes = field(default_factory=dict)
    """The changes to operator state."""
    rows_in: int = 0
    """Rows that count in this slot: each broadcast row counts in one slot alone."""
    row_bytes: int = 0
    """Bytes of the rows that came."""
    moved_bytes: int = 0
    """Bytes of entries and timers that went to disk to make room, as estimated in memory."""
    has_rows: bool = False
    """Whether any row came, counted or not."""
    late_rows: int = 0
    dropped_rows: int = 0
    """Rows for side outputs that nothing in the job reads."""
    timers_fired: int = 0
    max_timestamp: int | None = None
    """Largest event time seen, ms; None if none."""
    batches: dict[str | None, list[pa.RecordBatch]] = field(default_factory=dict)
    unconverted: dict[str | None, list[Any]] = field(default_factory=dict)
    held: list[pa.RecordBatch] = field(default_factory=list)
    """Batches that wait to be sorted."""
    sort_column: str | None = None
    """Their column of event time, or of key groups; None: the operator has neither, and nothing is held."""
    by_key: bool = False
    """Rows wait to be processed in the order of their keys."""
    finished: bool = False
    committed: bool = False
    dropped: bool = False
    """Given up, or committed and forgotten: what still comes for it goes nowhere."""
    spill: Spill | None = None
    files: EpochFiles | None = None
    weight: int = 0
    """Bytes of memory, as last estimated."""
    measured: dict[Any, tuple[int, int]] = field(default_factory=dict)
    """Number and bytes of the batches in each list that were counted already."""

    def output(self, tag: str | None = None) -> Iterable[pa.RecordBatch]:
        """Batches of the main output (``None``) or of a side output; complete after ``finish``. Each call begins
        anew, and after ``finish`` several threads may read at the same time."""
        written = () if self.files is None else self.files.read(tag)
        return itertools.chain(written, self.batches.get(tag, ()))

    def row_count(self, tag: str | None = None) -> int:
        """Rows of that output."""
        written = 0 if self.files is None else self.files.rows(tag)
        for batch in self.batches.get(tag, ()):
            written += batch.num_rows
        return written

    def forget_state(self) -> None:
        """After the commit: keep the output alone."""
        self.known, self.tables = ObjectKeys(), []
        self.operator_changes = {}
        self.timers = {domain: TimerOverlay() for domain in TimeDomain}
        if self.spill is not None:
            self.spill.close()
            self.spill = None
        self.weight = sum(size for _, size in self.measured.values())

    def close(self) -> None:
        """Give up what is on disk. Closing twice is allowed."""
        self.dropped = True
        if self.spill is not None:
            self.spill.close()
        if self.files is not None:
            self.files.close()

    def rows(self, tag: str | None = None) -> list[Any]:
        """Rows of outputs that have no schema, as they were yielded."""
        return self.unconverted.get(tag, [])


def undo(journal: list[Any]) -> None:
    """Put everything back that the journal names, newest first, and empty it."""
    for entry in reversed(journal):
        if type(entry[0]) in (dict, list):
            entries, place, old = entry
            if old is MISSING:
                entries.pop(place, None)
            else:
                entries[place] = old
        else:
            entry[0](*entry[1:])
    journal.clear()
