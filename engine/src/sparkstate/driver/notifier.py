"""Tells what becomes of checkpoints and savepoints: the view, those who asked for it, and the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sparkstate.clock import Clock
from sparkstate.control.documents import CheckpointInfo, CheckpointStatus, LongWorkKind, SavepointPhase
from sparkstate.cut_text import FAILURE, cut
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.pending_checkpoint import (
    BegunSavepoint,
    PendingCheckpoint,
    PendingSavepoint,
    info_of,
    measured,
    savepoint_info,
)
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.handles import ShardHandle

_log = logging.getLogger("sparkstate.driver")


class Notifier:
    """Thread-safe, as view and requests are."""

    def __init__(self, view: JobView, requests: Requests, job_storage: JobStorage, clock: Clock) -> None:
        self._view, self._requests, self._storage, self._clock = view, requests, job_storage, clock
        self._has_failed = False
        """The checkpoint before has failed."""

    def began(self, pending: PendingCheckpoint) -> None:
        """The checkpoint has begun, and the savepoint that came with it."""
        self._view.note_checkpoint(info_of(pending, CheckpointStatus.IN_PROGRESS))
        savepoint = pending.savepoint
        if savepoint is not None:
            self._update(savepoint, SavepointPhase.IN_PROGRESS, epoch=pending.epoch)
            self._view.note_checkpoint(savepoint_info(pending, savepoint, CheckpointStatus.IN_PROGRESS))

    def completed(self, pending: PendingCheckpoint, shards: Sequence[ShardHandle]) -> None:
        """The checkpoint has its record, and what it staged is published."""
        self._has_failed = False
        info = info_of(pending, CheckpointStatus.COMPLETED)
        path = self._storage.url_of(pending.checkpoint_id)
        self._view.note_checkpoint(measured(info, pending, shards, self._clock.monotonic(), path))

    def failed(self, pending: PendingCheckpoint, error: Exception) -> None:
        """The checkpoint has failed; nothing is said of its savepoint. The log has the first failure in a row: an
        outage may fail thousands."""
        if not self._has_failed:
            _log.warning("checkpoint %d has failed: %s", pending.checkpoint_id, error)
        self._has_failed = True
        self._failed(info_of(pending, CheckpointStatus.FAILED), error)

    def savepoint_completed(
        self, pending: PendingCheckpoint, savepoint: BegunSavepoint, shards: Sequence[ShardHandle]
    ) -> None:
        """The savepoint has its record."""
        info = savepoint_info(pending, savepoint, CheckpointStatus.COMPLETED)
        self._view.note_checkpoint(measured(info, pending, shards, self._clock.monotonic(), savepoint.url))
        self._update(savepoint, SavepointPhase.COMPLETED, location=savepoint.url)

    def savepoint_failed(
        self, pending: PendingCheckpoint, savepoint: PendingSavepoint, error: Exception
    ) -> None:
        """The savepoint alone has failed."""
        self._update(savepoint, SavepointPhase.FAILED, failure=str(error))
        self._failed(savepoint_info(pending, savepoint, CheckpointStatus.FAILED), error)

    def savepoint_progress(self, savepoint: PendingSavepoint, done_bytes: int, total_bytes: int) -> None:
        """So much of it is stored."""
        name = savepoint.trigger.trigger_id
        self._view.long_work.note(LongWorkKind.SAVEPOINT, done_bytes, total_bytes, name)

    def _update(self, savepoint: PendingSavepoint, phase: SavepointPhase, **changes: object) -> None:
        if phase in (SavepointPhase.COMPLETED, SavepointPhase.FAILED):
            self._view.long_work.end(LongWorkKind.SAVEPOINT, savepoint.trigger.trigger_id)
        self._requests.update(savepoint.trigger.trigger_id, phase, **changes)

    def _failed(self, info: CheckpointInfo, error: Exception) -> None:
        self._view.note_checkpoint(info.model_copy(update={"failure": cut(str(error), FAILURE)}))
