"""From the slots' answers to a complete checkpoint: the part in the checkpoint's own thread, beside the epochs.

Wait for the slots, write ``_metadata``, append the log record (the commit), publish the sinks' files, tell the slots,
drop what is subsumed. Up to the record a failure costs the checkpoint, whose files go; after it the checkpoint is what
a restart goes back to, and a failure ends the incarnation: the next one publishes what this one could not.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkstate import clock, errors, phases
from sparkstate.driver.answers import Answers, tell_ended
from sparkstate.driver.checkpoint_coordinator import CheckpointCoordinator
from sparkstate.driver.companion import Companion
from sparkstate.driver.fatal_failure import OF_THE_JOB, FatalFailure
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.notifier import Notifier
from sparkstate.driver.pending_checkpoint import PendingCheckpoint, parts_of
from sparkstate.driver.unsaved_work import UnsavedWork
from sparkstate.settings import CheckpointSettings
from sparkstate.slots.group import SlotGroup


class _WithoutSavepoint(errors.StorageUnavailable):
    """The checkpoint's savepoint has failed, and the checkpoint must not exist without it. No storage need be away: the
    kind only says that nothing counts this failure as one of the job's."""


class Completion:
    """Of one checkpoint after another: :meth:`run`."""

    def __init__(
        self,
        group: SlotGroup,
        job_storage: JobStorage,
        settings: CheckpointSettings,
        coordinator: CheckpointCoordinator,
        notifier: Notifier,
        fatal: FatalFailure,
        unsaved: UnsavedWork,
        companion: Companion,
        clock_: clock.Clock,
        phases_: phases.Phases,
        base: int,
        abandoned: Callable[[], bool],
    ) -> None:
        self._group = group
        self._storage = job_storage
        self._settings = settings
        self._coordinator = coordinator
        self._notifier = notifier
        self._fatal = fatal
        self._unsaved = unsaved
        self._companion = companion
        self._clock = clock_
        self._phases = phases_
        self._abandoned = abandoned
        self.base = base
        """The newest checkpoint that is complete, whose files the next one may name again; -1: there is none."""
        self.usual_s: float | None = None

    def run(self, pending: PendingCheckpoint) -> None:
        """Complete it, or say everywhere that it failed; raises nothing."""
        try:
            self._complete(pending)
        except errors.SparkstateError as error:
            self._failed(pending, error)
        except Exception as error:
            self._failed(pending, errors.SparkstateError(f"{type(error).__name__}: {error}"))

    def _complete(self, pending: PendingCheckpoint) -> None:
        alone = pending.savepoint is None
        self._companion.make_folder(pending)
        answers = Answers(self._group, pending.checkpoint_id, self._clock, self._abandoned)
        replies = answers.in_time(self._settings.timeout_s)
        state_bytes = sum(shard.state_size for reply in replies for shard in reply.shards)
        answered = self._companion.answered(pending, state_bytes)
        self._enter(phases.ProcessPhase.CHECKPOINT_METADATA, pending)
        committables = tuple(staged for reply in replies for staged in reply.committables)
        recorded = None if answered is None else self._companion.record(pending, answered, committables)
        if recorded is None and pending.only_with_savepoint:
            # Its timers have fired up to the end of time, and a job that goes on must not go on from there.
            raise _WithoutSavepoint(
                f"checkpoint {pending.checkpoint_id} is given up: the savepoint that drained the job has failed, and "
                "the job goes back to the checkpoint before"
            )
        metadata = self._storage.commit_checkpoint(
            parts_of(pending, replies, committables, pending.checkpoint_id, self._group),
            self._abandoned,
            lambda: self._before_record(pending),
        )
        pending.committed = True
        self.base = pending.checkpoint_id
        self._unsaved.committed(pending.mark)
        self._enter(phases.ProcessPhase.CHECKPOINT_PUBLISH, pending)
        self._storage.publish(metadata, self._abandoned)
        self._enter(phases.ProcessPhase.CHECKPOINT_COMPLETE, pending)
        tell_ended(self._group, pending.checkpoint_id, self._fatal, completed=True)
        self._notifier.completed(pending, metadata.shards)
        self._coordinator.completed(pending.checkpoint_id)
        self._storage.outages.clear()
        self._unsaved.completed(pending.mark)
        if alone:
            self.usual_s = self._clock.monotonic() - pending.began
        if recorded is not None:
            self._companion.finish(pending, recorded, metadata.shards)
        self._storage.subsume()

    def _before_record(self, pending: PendingCheckpoint) -> None:
        self._enter(phases.ProcessPhase.CHECKPOINT_COMMIT, pending)
        self._companion.long_savepoint.record()

    def _failed(self, pending: PendingCheckpoint, error: errors.SparkstateError) -> None:
        # First: whatever the rest of this raises, nobody who waits takes the checkpoint for complete.
        pending.failure = error
        if pending.committed:
            # A restart goes back to it, but its output is not all visible, or a slot does not know of its end:
            # a new incarnation publishes.
            self._fatal.error = error
        else:
            if isinstance(error, errors.StorageUnavailable) and not isinstance(error, _WithoutSavepoint):
                self._storage.note_away(f"store checkpoint {pending.checkpoint_id}", error)
            lost = error if isinstance(error, OF_THE_JOB) else None
            self._fatal.error = (
                lost or self._coordinator.failed(pending.checkpoint_id, error) or self._fatal.error
            )
            tell_ended(self._group, pending.checkpoint_id, self._fatal, completed=False)
            self._storage.discard(pending.checkpoint_id)
        self._notifier.failed(pending, error)
        self._companion.fail(pending, error)

    def _enter(self, phase: phases.ProcessPhase, pending: PendingCheckpoint) -> None:
        self._phases.enter(
            phase, epoch=pending.epoch, checkpoint=pending.checkpoint_id, incarnation=self._group.incarnation
        )
