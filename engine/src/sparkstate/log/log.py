"""The lineage's numbered log: appending by create-if-absent, and who may.

Theory of operation. Entry *n* is the object ``log/%012d``. Numbers have no gaps, and an entry is never changed. To
append is to create the object of the next number; storage lets one writer win. The loser reads what won, folds it,
decides again from what it now knows, and tries the next number. A claim is an entry too: from its number on, an older
driver that wants to commit collides, reads the claim and raises ``Fenced``. So no lock,
lease or clock is needed for safety.

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
from collections.abc import Callable

import msgspec

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.log import compaction, records
from sparkstate.log.entries import AppendOutcome, LogEntries
from sparkstate.log.records import Record, Token
from sparkstate.log.state import LogState
from sparkstate.storage import naming
from sparkstate.storage.objectstore import ObjectStore

BASE_EVERY = 50

Decide = Callable[[LogState], Record | None]


class _Log:
    """The common part of a log with a claim and of one without. Thread-safe: both share one lock and the entries."""

    def __init__(self, entries: LogEntries, lock: threading.RLock) -> None:
        self._entries = entries
        self._lock = lock
        self.own_incarnation = 0
        """The newest that was begun by way of this log; 0: none. Once a driver is fenced, ``state`` has that of its
        successor, whose files it must not take for its own."""
        self.began_as_copy = False
        """Whether the storage was a copy of another one, or seemed to be, when that incarnation began."""

    @property
    def state(self) -> LogState:
        """The state as last read. Use :meth:`refresh` to read again."""
        return self._entries.state

    @property
    def is_copied(self) -> bool:
        """Whether the job ran in another storage last: this one is a copy of it, or has another name by now. Savepoints
        and sinks have whole URLs, which are those of the original: nothing there may be deleted from here."""
        before, here = self.state.storage, self._entries.store.url
        return bool(before) and before != here and not naming.is_same_folder(before, here)

    def refresh(self) -> LogState:
        """Read what is new. Raises ``StorageUnavailable``, ``CorruptData``; never ``Fenced``."""
        with self._lock:
            self._entries.read()
            return self.state

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
            self._entries.read_once()
            while True:
                self._require_ownership()
                record = decide(self.state)
                if record is None:
                    return None
                tried = self.state.last_number + 1
                outcome = self._entries.try_append(record)
                if outcome is AppendOutcome.APPENDED:
                    number = self.state.last_number
                    self._appended()
                    return number
                if outcome is AppendOutcome.VOID:
                    self._require_unowned(tried)

    def _require_ownership(self) -> None:
        """Called before each try: an owner raises ``Fenced`` once another driver has the lineage."""

    def _require_unowned(self, void: int) -> None:
        """Called when the entry ``void`` counted for nothing: an owner raises ``Fenced``."""

    def _appended(self) -> None:
        """Called after each entry of ours."""


class LineageLog(_Log):
    """One process's view of one lineage's log, without a claim. Thread-safe.

    ``store`` is rooted at the lineage. The log can be read, and tombstones can be appended by offline commands. A
    driver's right to commit is what :meth:`claim` returns. ``base_every``: entries between two bases.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        ids: Callable[[], str] = naming.random_id,
        base_every: int = BASE_EVERY,
    ) -> None:
        super().__init__(LogEntries(store, clock, ids()), threading.RLock())
        self._base_every = base_every

    def claim(self, attempt: int, driver: str) -> ClaimedLog:
        """Take the lineage for the next life of ``attempt``.

        Raises ``Fenced`` if a higher attempt has claimed it, or if this attempt was stopped with a savepoint.
        ``StorageUnavailable`` leaves the outcome open: call again on the same log.
        """

        def decide(state: LogState) -> Record:
            _require_claimable(state, attempt)
            same = state.claim is not None and state.claim.attempt == attempt
            life = state.claim.life + 1 if state.claim is not None and same else 1
            return records.Claim(attempt=attempt, life=life, driver=driver, knows_floor=True)

        with self._lock:
            self.append_if(decide)
            claim = self.state.claim
            if claim is None or self.state.claim_number != self.state.last_number:
                raise AssertionError("our claim is not the last entry. This is a bug. Please report.")
            return ClaimedLog(self._entries, self._lock, claim, self.state.claim_number, self._base_every)


class ClaimedLog(_Log):
    """The log in the hands of the driver that claimed it; :meth:`LineageLog.claim` makes it. Thread-safe.

    Every append raises ``Fenced`` once a newer claim is in the log.
    """

    def __init__(
        self,
        entries: LogEntries,
        lock: threading.RLock,
        claim: records.Claim,
        claim_number: int,
        base_every: int,
    ) -> None:
        super().__init__(entries, lock)
        self._claim = claim
        self._claim_number = claim_number
        self._base_every = base_every

    @property
    def token(self) -> Token:
        """The claim of this driver."""
        return self._claim.token

    def check(self) -> LogState:
        """:meth:`refresh`, and ``Fenced`` if another driver has claimed the lineage since."""
        with self._lock:
            self._entries.read()
            self._require_ownership()
            return self.state

    def release(self) -> None:
        """Say that this process does nothing more, for those that wait for its end.
        Whatever it appends after that raises ``Fenced``."""
        self.append(msgspec.structs.replace(self._claim, released=True))

    def begin_incarnation(
        self,
        restored_from: str,
        slots: int = 0,
        require: Callable[[LogState], object] = lambda state: None,
    ) -> int:
        """The number of a new incarnation, one above the last. ``require`` is called with the newest state before each
        try, and raises if no incarnation may begin after it: from its record on, no older one commits."""

        def decide(state: LogState) -> Record:
            _require_open(state, self.token.attempt)
            require(state)
            self.began_as_copy = self.is_copied
            return records.Incarnation(
                number=state.incarnation + 1,
                restored_from=restored_from,
                slots=slots,
                storage=self._entries.store.url,
                left=state.all_savepoints if self.began_as_copy else (),
            )

        with self._lock:
            self.append_if(decide)
            self.own_incarnation = self.state.incarnation
            return self.own_incarnation

    def close_lineage(self, saved: records.SavepointCommitted) -> None:
        """Stop with savepoint: after this nothing commits and no life of this attempt runs again. Idempotent.

        Raises ``StateError`` if a newer incarnation has begun, which goes on: it could complete no checkpoint.
        """
        closed = records.Closed(
            savepoint_url=saved.url, trigger_id=saved.trigger_id, attempt=self.token.attempt
        )

        def decide(state: LogState) -> Record | None:
            if state.closed == closed:
                return None
            if state.incarnation != saved.incarnation:
                raise errors.StateError(
                    f"the savepoint {saved.url} belongs to incarnation {saved.incarnation} and cannot stop the job, "
                    f"which goes on as incarnation {state.incarnation}"
                )
            return closed

        self.append_if(decide)

    def sweep(self) -> int:
        """Delete what compactions that were broken off left, right after :meth:`begin_incarnation`.

        Returns the number of entries. The next incarnation's sweep deletes what the storage does not delete now.
        """
        try:
            return compaction.sweep(self._entries.store, self.state)
        except errors.StorageError:
            return 0

    def _require_ownership(self) -> None:
        if self.state.claim_number == self._claim_number:
            return
        claim = self.state.claim
        newer = f"{claim.driver} (attempt {claim.attempt}, life {claim.life})" if claim else "another driver"
        raise errors.Fenced(
            f"{self._entries.store.url} was claimed by {newer}; this driver (attempt {self.token.attempt}, life "
            f"{self.token.life}) may commit nothing more and stops"
        )

    def _require_unowned(self, void: int) -> None:
        """An owner's entry is void only if a newer one is there; that one is named if the log still tells it."""
        self._require_ownership()
        raise errors.Fenced(
            f"{self._entries.store.url}: the log was compacted beyond the entry {void}, which this driver (attempt "
            f"{self.token.attempt}, life {self.token.life}) wanted to append; it may commit nothing more and "
            "stops"
        )

    def _appended(self) -> None:
        """Only an owner compacts: its base lies below the claim of whoever takes the lineage from it."""
        with contextlib.suppress(errors.StorageError):  # the next entry tries again
            self._entries.compact(self._base_every)


def _require_claimable(state: LogState, attempt: int) -> None:
    if state.claim is not None and state.claim.attempt > attempt:
        raise errors.Fenced(
            f"attempt {attempt} may not run: attempt {state.claim.attempt} ({state.claim.driver}) has "
            "claimed the lineage"
        )
    _require_open(state, attempt)


def _require_open(state: LogState, attempt: int) -> None:
    if state.closed is not None and state.closed.attempt >= attempt:
        raise errors.Fenced(
            f"attempt {attempt} was stopped with the savepoint {state.closed.savepoint_url} and does not run "
            "again; "
            "a new attempt restores from that savepoint"
        )
