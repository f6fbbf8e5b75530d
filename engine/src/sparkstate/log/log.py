"""The lineage's numbered log: appending by create-if-absent, and who may.

Theory of operation. Entry *n* is the object ``log/%012d``. Numbers have no gaps, and an entry is never changed. To
append is to create the object of the next number; storage lets one writer win. The loser reads what won, folds it,
decides again from what it now knows, and tries the next number. A claim is an entry too: from its number on, an older
driver that wants to commit collides, reads the claim and raises ``Fenced``. So no lock, lease or clock is needed for
safety.

An append whose answer was lost is *open*: the caller gets ``StorageUnavailable`` and must call again. The
same number is tried again, so either the earlier write is found there (its bytes are ours: success) or it can
never happen any more.

The log does not grow for ever. Every ``BASE_EVERY`` entries the owner stores the folded state as a *base*
(``log.bases``), and deletes the entries up to the base before it, the *floor* (``log.compaction``). A writer that slept
meanwhile could create a deleted number anew. Such an entry is *void*, and nobody takes it for an entry:

1. Bases are created if absent, and only the two newest stay; so the floor, the second newest, only rises.
2. Nothing above the floor is ever deleted, and the floor rises before anything is.
3. So if a listing shows a floor below *k* after *k* was created or read, nothing had deleted *k* before: it is the
   first and only object of that name, an entry.
4. A writer lists the bases after each create, a reader after each reading. Where the floor is at or above the number,
   what was created or read counts for nothing: both go on from a base.
5. The base of a driver tells of no claim newer than its own, so it lies below the claim of the driver that took the
   lineage from it. If the floor is above an entry that a driver creates after its claim, a newer driver put it there:
   no commit is lost with the void entry, because its driver is fenced.

Besides create-if-absent, the storage must list every object that was created before the listing began.
``docs/rfcs/0014-the-log-is-compacted.md`` has the proof, and what holds for drivers of versions that know no floor.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.log import bases, compaction, records
from sparkstate.log.bases import Bases
from sparkstate.log.records import Record, Token, key_of
from sparkstate.log.state import LogState, fold
from sparkstate.storage import creating, naming
from sparkstate.storage.objectstore import ObjectStore

BASE_EVERY = 50
READ_AHEAD = 16

Decide = Callable[[LogState], Record | None]


class LineageLog:
    """One process's view of one lineage's log. Thread-safe.

    ``store`` is rooted at the lineage. Without a claim the log can be read, and tombstones can be appended by
    offline commands; after :meth:`claim` every append raises ``Fenced`` once a newer claim is in the log.
    ``base_every``: entries between two bases.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        ids: Callable[[], str] = naming.random_id,
        base_every: int = BASE_EVERY,
    ) -> None:
        self._store = store
        self._base_every = base_every
        self._bases = Bases()
        self._clock = clock
        self._writer = ids()
        self._lock = threading.RLock()
        self._state = LogState()
        self._loaded = False
        self._token: Token | None = None
        self._claim_number = 0

    @property
    def token(self) -> Token | None:
        """What this process claimed, or None."""
        return self._token

    @property
    def state(self) -> LogState:
        """The state as last read. Use :meth:`refresh` to read again."""
        return self._state

    def refresh(self) -> LogState:
        """Read what is new. Raises ``StorageUnavailable``, ``CorruptData``; never ``Fenced``."""
        with self._lock:
            self._read_tail()
            return self._state

    def check(self) -> LogState:
        """:meth:`refresh`, and ``Fenced`` if another driver has claimed the lineage since."""
        with self._lock:
            self._read_tail()
            self._require_ownership()
            return self._state

    def claim(self, attempt: int, driver: str) -> Token:
        """Take the lineage for the next life of ``attempt``.

        Raises ``Fenced`` if a higher attempt has claimed it, or if this attempt was stopped with a savepoint.
        """
        with self._lock:
            self._token = None

            def decide(state: LogState) -> Record:
                _require_claimable(state, attempt)
                same = state.claim is not None and state.claim.attempt == attempt
                life = state.claim.life + 1 if state.claim is not None and same else 1
                return records.Claim(attempt=attempt, life=life, driver=driver, knows_floor=True)

            self.append_if(decide)
            claim = self._state.claim
            if claim is None or self._state.claim_number != self._state.last_number:
                raise AssertionError("our claim is not the last entry. This is a bug. Please report.")
            self._token, self._claim_number = claim.token, self._state.claim_number
            return self._token

    def release(self) -> None:
        """Say that this process does nothing more, for those that wait for its end. Whatever it appends after that
        raises ``Fenced``."""

        def decide(state: LogState) -> Record:
            if self._token is None or state.claim is None:
                raise AssertionError(
                    "a lineage is released that was not claimed. This is a bug. Please report."
                )
            return msgspec.structs.replace(state.claim, released=True)

        self.append_if(decide)

    def begin_incarnation(self, restored_from: str, slots: int = 0) -> int:
        """The number of a new incarnation, one above the last."""
        with self._lock:
            self.append_if(
                lambda state: records.Incarnation(
                    number=state.incarnation + 1, restored_from=restored_from, slots=slots
                )
            )
            return self._state.incarnation

    def sweep(self) -> int:
        """Delete what compactions that were broken off left, right after :meth:`begin_incarnation`.

        Returns the number of entries. What the storage does not delete now the next incarnation's sweep does.
        """
        try:
            return compaction.sweep(self._store, self._state)
        except errors.StorageError:
            return 0

    def append(self, record: Record) -> int:
        """Append ``record`` whatever comes between; returns its number."""
        number = self.append_if(lambda _: record)
        if number is None:
            raise AssertionError("a record is always appended. This is a bug. Please report.")
        return number

    def append_if(self, decide: Decide) -> int | None:
        """Append what ``decide`` makes of the newest state, asking again after every collision.

        ``decide`` returns None to append nothing, or raises. Returns the entry's number, or None.
        """
        with self._lock:
            self._read_tail_once()
            while True:
                self._require_ownership()
                record = decide(self._state)
                if record is None:
                    return None
                if self._try_append(record):
                    number = self._state.last_number
                    self._maybe_compact()
                    return number

    def _try_append(self, record: Record) -> bool:
        number = self._state.last_number + 1
        entry = records.Entry(
            number=number, writer=self._writer, timestamp_ms=self._clock.now_ms(), record=record
        )
        data = records.encode(entry)
        stored = creating.create_or_read(self._store, key_of(number), data)
        if stored != data:
            if stored == records.COMPACTED or not self._is_ours(stored, entry):
                self._read_tail()
                return False
            entry = records.decode(stored, key_of(number))
        found = bases.listed(self._store)
        if number <= found.floor:
            self._read_tail()
            self._require_unowned(number)
            return False
        self._state, self._bases = fold(self._state, entry), found
        return True

    def _require_unowned(self, void: int) -> None:
        """An owner's entry is void only if a newer one is there; that one is named if the log still tells it."""
        self._require_ownership()
        if self._token is not None:
            raise errors.Fenced(
                f"{self._store.url}: the log was compacted beyond the entry {void}, which this driver (attempt "
                f"{self._token.attempt}, life {self._token.life}) wanted to append; it may commit nothing more and "
                "stops"
            )

    def _is_ours(self, stored: bytes, entry: records.Entry) -> bool:
        """Whether the stored entry is this very append, tried before and its answer lost.

        The time may differ between two tries; writer, number and record may not.
        """
        found = records.decode(stored, key_of(entry.number))
        return found.writer == entry.writer and found.record == entry.record

    def _require_ownership(self) -> None:
        if self._token is None or self._state.claim_number == self._claim_number:
            return
        claim = self._state.claim
        newer = f"{claim.driver} (attempt {claim.attempt}, life {claim.life})" if claim else "another driver"
        raise errors.Fenced(
            f"{self._store.url} was claimed by {newer}; this driver (attempt {self._token.attempt}, life "
            f"{self._token.life}) may commit nothing more and stops"
        )

    def _read_tail_once(self) -> None:
        if not self._loaded:
            self._read_tail()

    def _read_tail(self) -> None:
        """Fold what is new. What was read counts if the log still stands on what it was read from (see the head)."""
        if not self._loaded:
            self._go_to_a_base(bases.listed(self._store))
        ended = -1
        while True:
            state = self._state
            for entry in self._tail():
                state = fold(state, entry)
            found = bases.listed(self._store)
            if self._state.last_number < found.floor:
                self._go_to_a_base(found)
                continue
            self._state, self._bases = state, found
            if state.last_number >= found.newest and (state.last_number or self._is_empty()):
                break
            # Something came after our last reading: it is read now. If not, entries are missing.
            if state.last_number == ended and not self._go_to_a_base(found):
                raise errors.CorruptData(
                    f"{self._store.url}/{bases.FOLDER} holds objects, but no entry {ended + 1}, and no checkpoint of "
                    "the log (log/_checkpoint-…) to go on from: put back what was deleted"
                )
            ended = state.last_number
        self._loaded = True

    def _go_to_a_base(self, found: Bases) -> bool:
        """Whether there is a newer one than what is known. Raises ``CorruptData`` if one is needed."""
        known = self._state.last_number
        wanted = [number for number in (found.newest, found.floor) if number > known]
        state, problems = bases.newest_readable(self._store, wanted)
        if state is not None:
            self._state = state
        elif known < found.floor and bases.listed(self._store) == found:
            raise errors.CorruptData(
                f"the log of {self._store.url} cannot be read: {problems}. Put one of the two back from a copy"
            )
        return state is not None

    def _is_empty(self) -> bool:
        return next(iter(self._store.list(f"{bases.FOLDER}/")), None) is None

    def _tail(self) -> Iterator[records.Entry]:
        """Entries after the last one known. Most often there is none, or one; then READ_AHEAD are asked at a
        time.
        """
        number = self._state.last_number + 1
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
            data = self._store.get(key_of(number))
        except errors.NotFound:
            return None
        if data == records.COMPACTED:
            return None
        entry = records.decode(data, f"{self._store.url}/{key_of(number)}")
        if entry.number != number:
            raise errors.CorruptData(f"{self._store.url}/{key_of(number)} holds the entry {entry.number}")
        return entry

    def _maybe_compact(self) -> None:
        """Only by an owner: its base lies below the claim of whoever takes the lineage from it."""
        if self._token is None or self._state.last_number - self._bases.newest < self._base_every:
            return
        with contextlib.suppress(errors.StorageError):  # the next entry tries again
            self._bases = compaction.compact(self._store, self._state, self._bases)


def _require_claimable(state: LogState, attempt: int) -> None:
    if state.claim is not None and state.claim.attempt > attempt:
        raise errors.Fenced(
            f"attempt {attempt} may not run: attempt {state.claim.attempt} ({state.claim.driver}) has "
            "claimed the lineage"
        )
    if state.closed is not None and state.closed.attempt >= attempt:
        raise errors.Fenced(
            f"attempt {attempt} was stopped with the savepoint {state.closed.savepoint_url} and does not run "
            "again; "
            "a new attempt restores from that savepoint"
        )
