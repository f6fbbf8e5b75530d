"""When the next checkpoint is due, and which of their failures the job does not tolerate."""

from __future__ import annotations

from dataclasses import replace

from sparkstate import errors
from sparkstate.checkpoint import coordinator
from sparkstate.clock import Clock
from sparkstate.settings import CheckpointSettings


class Due:
    """The coordinator's decisions over the life of one incarnation."""

    def __init__(self, settings: CheckpointSettings, clock: Clock, next_id: int) -> None:
        self._settings = settings
        self._clock = clock
        self._state = coordinator.initial(next_id, clock.monotonic())

    def is_now(self, held_bytes: int) -> bool:
        """Whether a checkpoint is due while a slot holds back so many bytes of output."""
        action = coordinator.decide(self._state, self._settings, self._clock.monotonic(), held_bytes)
        return isinstance(action, coordinator.Start)

    def began(self, checkpoint_id: int, slots: int) -> None:
        """A checkpoint has begun in so many slots."""
        state = replace(self._state, next_id=checkpoint_id)
        now_s = self._clock.monotonic()
        self._state = coordinator.start(state, coordinator.Start("checkpoint"), range(slots), now_s)

    def completed(self, checkpoint_id: int) -> None:
        """It is complete, and the count of failures begins anew."""
        self._state = coordinator.complete(self._state, checkpoint_id, self._clock.monotonic())

    def failed(self, checkpoint_id: int, error: errors.SparkstateError) -> errors.JobFailed | None:
        """It has failed. Returns the job's failure, if no more of them are tolerated."""
        if self._state.pending is None:
            return None
        away = isinstance(error, errors.StorageUnavailable)
        now_s = self._clock.monotonic()
        self._state = coordinator.fail(self._state, checkpoint_id, str(error), now_s, storage_away=away)
        try:
            coordinator.require_tolerable(self._state, self._settings)
        except errors.JobFailed as failed:
            return failed
        return None
