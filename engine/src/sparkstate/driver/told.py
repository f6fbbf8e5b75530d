"""What becomes of checkpoints and savepoints, told to those who show it and to those who asked."""

from __future__ import annotations

from collections.abc import Sequence

from sparkstate.clock import Clock
from sparkstate.control.documents import CheckpointKind, CheckpointStatus, SavepointPhase
from sparkstate.driver.durable import Durable
from sparkstate.driver.requests import Requests
from sparkstate.driver.started import Started, completed_info, info_of
from sparkstate.driver.view import JobView
from sparkstate.handles import ShardHandle

_CHECKPOINT, _SAVEPOINT = CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT


class Told:
    """Thread-safe, as view and requests are."""

    def __init__(self, view: JobView, requests: Requests, durable: Durable, clock: Clock) -> None:
        self._view, self._requests, self._durable, self._clock = view, requests, durable, clock

    def began(self, started: Started) -> None:
        """The checkpoint has, and the savepoint that came with it."""
        self._view.note_checkpoint(info_of(started, _CHECKPOINT, CheckpointStatus.IN_PROGRESS))
        if started.savepoint is not None:
            self._update(started, SavepointPhase.IN_PROGRESS, epoch=started.epoch)
            self._view.note_checkpoint(info_of(started, _SAVEPOINT, CheckpointStatus.IN_PROGRESS))

    def completed(self, started: Started, shards: Sequence[ShardHandle]) -> None:
        """The checkpoint has its record, and what it staged is published."""
        self._completed(started, shards, _CHECKPOINT)

    def failed(self, started: Started, error: Exception) -> None:
        """The checkpoint has; of its savepoint nothing is said."""
        self._failed(started, error, _CHECKPOINT)

    def savepoint_completed(self, started: Started, shards: Sequence[ShardHandle]) -> None:
        """The savepoint has its record."""
        self._completed(started, shards, _SAVEPOINT)
        self._update(started, SavepointPhase.COMPLETED, location=started.savepoint_url)

    def savepoint_failed(self, started: Started, error: Exception) -> None:
        """The savepoint alone has."""
        self._update(started, SavepointPhase.FAILED, failure=str(error))
        self._failed(started, error, _SAVEPOINT)

    def _update(self, started: Started, phase: SavepointPhase, **changes: object) -> None:
        assert started.savepoint is not None and started.savepoint.trigger_id is not None
        self._requests.update(started.savepoint.trigger_id, phase, **changes)

    def _completed(self, started: Started, shards: Sequence[ShardHandle], kind: CheckpointKind) -> None:
        path = self._durable.url_of(started.checkpoint_id)
        self._view.note_checkpoint(completed_info(started, shards, kind, self._clock.now_ms(), path))

    def _failed(self, started: Started, error: Exception, kind: CheckpointKind) -> None:
        info = info_of(started, kind, CheckpointStatus.FAILED)
        self._view.note_checkpoint(info.model_copy(update={"failure": str(error)}))
