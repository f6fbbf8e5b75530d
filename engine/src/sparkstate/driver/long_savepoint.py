"""A savepoint that takes long is stored beside the job's next checkpoints.

A checkpoint waits for the savepoint that came with it for a moment. The savepoint of a terabyte takes minutes, and a
restart would go back ever further meanwhile. So the rest of it happens here: wait for the slots, write its
``_metadata``, ask for a checkpoint. The log takes the savepoint's record directly before that of a checkpoint, and only
if a checkpoint of its epoch or a later one is complete: what a restart goes back to is never the savepoint, which its
user may move away. Output that was staged for its epoch is published with that checkpoint, so the savepoint names none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sparkstate import clock, errors
from sparkstate.checkpoint.savepoint import is_left_to_a_newer
from sparkstate.control.documents import SavepointPhase
from sparkstate.driver.answers import Answers
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.pending_checkpoint import BegunSavepoint, PendingCheckpoint, parts_of
from sparkstate.driver.requests import Requests
from sparkstate.driver.snapshot_parts import SnapshotParts
from sparkstate.driver.storage_outages import SLOW_S
from sparkstate.handles import ShardHandle
from sparkstate.log.records import SavepointCommitted
from sparkstate.settings import CheckpointSettings
from sparkstate.slots.group import SlotGroup

PATIENCE_S = 3.0
"""How long a checkpoint waits for its savepoint. One that is stored by then costs no second checkpoint."""
_KEEP_S = 0.0
"""A slot answers at once: its connection for snapshots is the checkpoints' in the first place."""


@dataclass(frozen=True)
class _TakenSavepoint:
    """With a copy of the checkpoint that it came with."""

    pending: PendingCheckpoint
    savepoint: BegunSavepoint


@dataclass(frozen=True)
class _StoredSavepoint:
    parts: SnapshotParts
    record: SavepointCommitted


class LongSavepoint:
    """One at a time. :meth:`begin`, :meth:`record` and :meth:`recorded` are called by checkpoints' threads,
    the rest by the epochs'.

    ``ended`` hears of the savepoint's end: its shards, or why it failed.
    """

    def __init__(
        self,
        group: SlotGroup,
        job_storage: JobStorage,
        settings: CheckpointSettings,
        clock_: clock.Clock,
        abandoned: Callable[[], bool],
        requests: Requests,
        ended: Callable[[PendingCheckpoint, BegunSavepoint, Sequence[ShardHandle] | Exception], None],
    ) -> None:
        self._group = group
        self._storage = job_storage
        self._settings = settings
        self._clock = clock_
        self._abandoned = abandoned
        self._requests = requests
        self._ended = ended
        self._taken: _TakenSavepoint | None = None
        self._stored: _StoredSavepoint | None = None

    @property
    def trigger_id(self) -> str | None:
        """Of the savepoint that is under way, or stored and without its record; None: there is none."""
        taken = self._taken
        return None if taken is None else taken.savepoint.trigger.trigger_id

    @property
    def waits_for_record(self) -> bool:
        """Whether it is stored, and gets its record with the next checkpoint."""
        return self._stored is not None

    def begin(self, pending: PendingCheckpoint, savepoint: BegunSavepoint, answers: Answers) -> None:
        """Take the savepoint over from the checkpoint that it came with, which keeps it if this raises."""
        # Loaded: the checkpoint releases its own position when it ends, long before the savepoint does.
        mine = replace(pending, ended=threading.Event(), position=pending.position.loaded())
        self._taken = taken = _TakenSavepoint(mine, savepoint)
        try:
            threading.Thread(target=self._run, args=(taken, answers), name="savepoint", daemon=True).start()
        except RuntimeError:  # no thread is left: nobody would end it, and the job's end would wait for that
            self._taken = None
            raise
        pending.savepoint = None

    def wait(self, given_up: Callable[[], bool]) -> None:
        """Until it is stored, or has failed. Raises ``Ending`` once given up,
        and if its storage fails at the job's end."""
        taken = self._taken
        outages, ending = self._storage.outages, self._requests.ending
        if taken is not None:
            taken.pending.wait(lambda: given_up() or (ending() and bool(outages.failing(savepoints=True))))

    def record(self) -> None:
        """Called directly before a checkpoint's record: that of the savepoint, if it may have it now."""
        taken, stored = self._taken, self._stored
        if taken is None or stored is None:
            return
        point = self._storage.log.state.restore_point
        if point is None or point.epoch < stored.record.epoch:
            self._requests.ask_checkpoint()  # the one at hand is the first of its epoch or a later one
            return
        try:
            self._storage.record_savepoint(stored.record, self._abandoned)
        except (errors.StorageUnavailable, errors.Fenced):
            raise
        except errors.SparkstateError as error:
            self._failed(taken, error)
            return
        self._taken = self._stored = None
        self._ended(taken.pending, taken.savepoint, stored.parts.shards)

    def _run(self, taken: _TakenSavepoint, answers: Answers) -> None:
        try:
            self._stored = self._store(taken.pending, taken.savepoint, answers)
            self._requests.ask_checkpoint()  # which takes the record along
        except Exception as error:
            self._failed(taken, error)
        finally:
            taken.pending.ended.set()

    def _store(
        self, pending: PendingCheckpoint, savepoint: BegunSavepoint, answers: Answers
    ) -> _StoredSavepoint:
        replies = answers.in_time(self._settings.timeout_s, _KEEP_S)
        parts = parts_of(pending, replies, (), savepoint.savepoint_id, self._group)
        return _StoredSavepoint(parts, self.write(pending, savepoint, parts))

    def make_folder(self, savepoint: BegunSavepoint) -> None:
        """On a disk; the checkpoint waits no longer than for a call that is slow."""
        within_s = min(SLOW_S, self._settings.timeout_s)
        self._storage.make_savepoint_folder(savepoint.url, within_s, self._abandoned)

    def write(
        self, pending: PendingCheckpoint, savepoint: BegunSavepoint, parts: SnapshotParts
    ) -> SavepointCommitted:
        """Its ``_metadata``, into the storage that the request names; also of one that the checkpoint waited for."""
        until = pending.began + self._settings.timeout_s

        def given_up() -> bool:
            return self._abandoned() or self._clock.monotonic() > until

        return self._storage.write_savepoint(parts, savepoint.url, given_up)

    def recorded(
        self, pending: PendingCheckpoint, savepoint: BegunSavepoint, record: SavepointCommitted
    ) -> bool:
        """Whether the log has taken ``record``, of a savepoint that its checkpoint waited for. False: the savepoint was
        given up before, and that is the failure of its request alone.

        With the record a restart goes back to this epoch, and the output up to it must become visible. So nothing that
        was staged may go while the outcome is open either: the next incarnation publishes it, or sweeps it.
        """
        # Before the call, whose answer may be lost: the checkpoint was then discarded with output that the savepoint's
        # metadata names, and every restore ended in ``CorruptData``.
        pending.committed = True
        try:
            self._storage.record_savepoint(record, self._abandoned)
        except errors.StateError as error:
            pending.committed = False
            self._ended(pending, savepoint, error)
            return False
        return True

    def _failed(self, taken: _TakenSavepoint, error: Exception) -> None:
        left = is_left_to_a_newer(self._storage.log.state, taken.savepoint.url, self._group.incarnation)
        if self.trigger_id is not None and not left:
            # First: a request that is open while nothing is pending is served again, in the folder that is deleted now.
            self._requests.update(self.trigger_id, SavepointPhase.FAILED, failure=str(error))
        self._taken = self._stored = None
        self._ended(taken.pending, taken.savepoint, error)
