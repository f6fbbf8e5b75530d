"""The entries of one lineage's log, as far as one process knows them: reading on, and creating the next one.

``log.log`` has the theory, and says which process may append.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.log import bases, compaction, records
from sparkstate.log.bases import Bases
from sparkstate.log.records import Record, key_of
from sparkstate.log.state import LogState, fold
from sparkstate.storage import creating
from sparkstate.storage.objectstore import ObjectStore

READ_AHEAD = 16


class AppendOutcome(enum.Enum):
    """The outcome of one try to append a record."""

    APPENDED = enum.auto()
    TAKEN = enum.auto()
    """Another entry has the number. It is read now."""
    VOID = enum.auto()
    """The floor is at or above the number: what was created counts for nothing."""


class LogEntries:
    """Of the log in ``store``, which is rooted at the lineage. ``writer`` names this process in the entries that it
    creates. Not thread-safe; any thread may read ``state``."""

    def __init__(self, store: ObjectStore, clock: Clock, writer: str) -> None:
        self.store = store
        self.state = LogState()
        """The entries read so far, folded."""
        self._bases = Bases()
        self._clock = clock
        self._writer = writer
        self._loaded = False

    def read_once(self) -> None:
        """:meth:`read`, unless something was read before."""
        if not self._loaded:
            self.read()

    def try_append(self, record: Record) -> AppendOutcome:
        """Create the entry after the last one known, with ``record`` in it.

        ``StorageUnavailable`` leaves open whether it was created; the next try finds out.
        """
        number = self.state.last_number + 1
        entry = records.Entry(
            number=number, writer=self._writer, timestamp_ms=self._clock.now_ms(), record=record
        )
        data = records.encode(entry)
        stored = creating.create_or_read(self.store, key_of(number), data)
        if stored != data:
            if stored == records.COMPACTED or not self._is_ours(stored, entry):
                self.read()
                return AppendOutcome.TAKEN
            entry = records.decode(stored, key_of(number))
        try:
            found = bases.listed(self.store)
        except errors.StorageRefused as error:
            # No failure of the append: whoever took it for one would tell others of a checkpoint that failed, and a
            # restart would go back to it.
            raise errors.StorageUnavailable(
                f"entry {number} of the log is written, and the storage refuses to say whether it counts: {error}"
            ) from error
        if number <= found.floor:
            self.read()
            return AppendOutcome.VOID
        self.state, self._bases = fold(self.state, entry), found
        return AppendOutcome.APPENDED

    def compact(self, every: int) -> None:
        """Write a base and delete what lies below the floor, if the newest base is ``every`` entries old."""
        if self.state.last_number - self._bases.newest >= every:
            self._bases = compaction.compact(self.store, self.state, self._bases)

    def _is_ours(self, stored: bytes, entry: records.Entry) -> bool:
        """Whether the stored entry is this same append, tried before and its answer lost.

        The time may differ between two tries; writer, number and record may not.
        """
        found = records.decode(stored, key_of(entry.number))
        return found.writer == entry.writer and found.record == entry.record

    def read(self) -> None:
        """Fold the new entries. They count if the log still has the base from which they were read (``log.log``)."""
        if not self._loaded:
            self._go_to_a_base(bases.listed(self.store))
        ended = -1
        while True:
            state = self.state
            for entry in self._tail():
                state = fold(state, entry)
            found = bases.listed(self.store)
            if self.state.last_number < found.floor:
                self._go_to_a_base(found)
                continue
            self.state, self._bases = state, found
            if state.last_number >= found.newest and (state.last_number or self._is_empty()):
                break
            # Something came after our last reading: it is read now. If not, entries are missing.
            if state.last_number == ended and not self._go_to_a_base(found):
                raise errors.CorruptData(
                    f"{self.store.url}/{bases.FOLDER} holds objects, but no entry {ended + 1}, and no checkpoint of "
                    "the log (log/_checkpoint-…) to go on from: put back what was deleted"
                )
            ended = state.last_number
        self._loaded = True

    def _go_to_a_base(self, found: Bases) -> bool:
        """Whether there is a newer one than what is known. Raises ``CorruptData`` if one is needed."""
        known = self.state.last_number
        wanted = [number for number in (found.newest, found.floor) if number > known]
        state, problems = bases.newest_readable(self.store, wanted)
        if state is not None:
            self.state = state
        elif known < found.floor and bases.listed(self.store) == found:
            raise errors.CorruptData(
                f"the log of {self.store.url} cannot be read: {problems}. Put one of the two back from a copy"
            )
        return state is not None

    def _is_empty(self) -> bool:
        return next(iter(self.store.list(f"{bases.FOLDER}/")), None) is None

    def _tail(self) -> Iterator[records.Entry]:
        """Entries after the last one known. Most often there is none, or one; then READ_AHEAD are asked at a time."""
        number = self.state.last_number + 1
        first = self._read(number)
        if first is None:
            return
        yield first
        number += 1
        with ThreadPoolExecutor(READ_AHEAD, thread_name_prefix="log-read") as pool:
            while True:
                # Numbers have no gaps, so the first missing one is the end, whatever a later get may have
                # seen.
                for found in pool.map(self._read, range(number, number + READ_AHEAD)):
                    if found is None:
                        return
                    yield found
                number += READ_AHEAD

    def _read(self, number: int) -> records.Entry | None:
        try:
            data = self.store.get(key_of(number))
        except errors.NotFound:
            return None
        if data == records.COMPACTED:
            return None
        entry = records.decode(data, f"{self.store.url}/{key_of(number)}")
        if entry.number != number:
            raise errors.CorruptData(f"{self.store.url}/{key_of(number)} holds the entry {entry.number}")
        return entry
