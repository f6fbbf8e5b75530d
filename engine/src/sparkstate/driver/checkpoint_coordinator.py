"""The coordinator's decisions over the life of one incarnation."""

from __future__ import annotations

from sparkstate import errors
from sparkstate.checkpoint import coordinator
from sparkstate.checkpoint.coordinator import Backlog, OpenRequests, PauseStep
from sparkstate.clock import Clock
from sparkstate.control.port import SavepointTrigger
from sparkstate.settings import CheckpointSettings


def open_requests(savepoint: SavepointTrigger | None, *, checkpoint: bool) -> OpenRequests:
    """The requests that people wait for: the next savepoint, and whether they have asked for a checkpoint."""
    stop = savepoint is not None and savepoint.stop
    return OpenRequests(savepoint=savepoint is not None, stop=stop, checkpoint=checkpoint)


class CheckpointCoordinator:
    """Keeps the coordinator's state and reads the clock; ``checkpoint.coordinator`` holds the rules."""

    def __init__(self, settings: CheckpointSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._state = coordinator.initial(clock.monotonic())

    def pause_step(self, backlog: Backlog, *, under_way: bool) -> PauseStep:
        """The step towards a checkpoint while nothing is taken in."""
        now_s = self._clock.monotonic()
        return coordinator.pause_step(self._state, self._settings, now_s, backlog, under_way=under_way)

    def begins(self, wanted: OpenRequests, held_bytes: int, *, under_way: bool, changed: bool) -> bool:
        """Whether one begins at the end of an epoch."""
        now_s = self._clock.monotonic()
        return coordinator.begins(
            self._state, self._settings, now_s, wanted, held_bytes, under_way=under_way, changed=changed
        )

    def wants_epoch(self, wanted: OpenRequests, backlog: Backlog, *, under_way: bool) -> bool:
        """Whether something may have to be done at the end of the epoch at hand."""
        now_s = self._clock.monotonic()
        return coordinator.wants_epoch(
            self._state, self._settings, now_s, wanted, backlog, under_way=under_way
        )

    def began(self, checkpoint_id: int) -> None:
        """A checkpoint has begun."""
        self._state = coordinator.start(self._state, checkpoint_id, self._clock.monotonic())

    def completed(self, checkpoint_id: int) -> None:
        """It is complete, and the count of failures begins again at 0."""
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
