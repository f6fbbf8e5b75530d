"""Tells what becomes of checkpoints and savepoints: the view, which shows it, and the people who asked for it."""

from __future__ import annotations

from collections.abc import Sequence

from sparkstate.clock import Clock
from sparkstate.control.documents import CheckpointKind, CheckpointStatus, SavepointPhase
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.pending_checkpoint import PendingCheckpoint, completed_info, info_of
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.handles import ShardHandle

_CHECKPOINT, _SAVEPOINT = CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT


class Notifier:
    """Thread-safe, as view and requests are."""

    def __init__(self, view: JobView, requests: Requests, job_storage: JobStorage, clock: Clock) -> None:
        self._view, self._requests, self._storage, self._clock = view, requests, job_storage, clock

    def began(self, pending: PendingCheckpoint) -> None:
        """The checkpoint has begun, and the savepoint that came with it."""
        self._view.note_checkpoint(info_of(pending, _CHECKPOINT, CheckpointStatus.IN_PROGRESS))
        if pending.savepoint is not None:
            self._update(pending, SavepointPhase.IN_PROGRESS, epoch=pending.epoch)
            self._view.note_checkpoint(info_of(pending, _SAVEPOINT, CheckpointStatus.IN_PROGRESS))

    def completed(self, pending: PendingCheckpoint, shards: Sequence[ShardHandle]) -> None:
        """The checkpoint has its record, and what it staged is published."""
        self._completed(pending, shards, _CHECKPOINT)

    def failed(self, pending: PendingCheckpoint, error: Exception) -> None:
        """The checkpoint has failed; nothing is said of its savepoint."""
        self._failed(pending, error, _CHECKPOINT)

    def savepoint_completed(self, pending: PendingCheckpoint, shards: Sequence[ShardHandle]) -> None:
        """The savepoint has its record."""
        self._completed(pending, shards, _SAVEPOINT)
        self._update(pending, SavepointPhase.COMPLETED, location=pending.savepoint_url)

    def savepoint_failed(self, pending: PendingCheckpoint, error: Exception) -> None:
        """The savepoint alone has failed."""
        self._update(pending, SavepointPhase.FAILED, failure=str(error))
        self._failed(pending, error, _SAVEPOINT)

    def _update(self, pending: PendingCheckpoint, phase: SavepointPhase, **changes: object) -> None:
        assert pending.savepoint is not None and pending.savepoint.trigger_id is not None
        self._requests.update(pending.savepoint.trigger_id, phase, **changes)

    def _completed(
        self, pending: PendingCheckpoint, shards: Sequence[ShardHandle], kind: CheckpointKind
    ) -> None:
        path = self._storage.url_of(pending.checkpoint_id)
        self._view.note_checkpoint(completed_info(pending, shards, kind, self._clock.now_ms(), path))

    def _failed(self, pending: PendingCheckpoint, error: Exception, kind: CheckpointKind) -> None:
        info = info_of(pending, kind, CheckpointStatus.FAILED)
        self._view.note_checkpoint(info.model_copy(update={"failure": str(error)}))
