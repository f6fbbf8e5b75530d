"""The savepoint that a checkpoint takes along, from its begin to its record.

The savepoint's record comes first, the checkpoint's second, so a restart always goes back to files of the lineage's
own, never to a folder that a user may move away. A savepoint that takes long goes on beside later checkpoints
(``driver.long_savepoint``), unless the job ends with it. Whatever goes wrong with one is the failure of its request
alone, unless the job has lost its state or a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sparkstate import clock
from sparkstate.checkpoint.metadata import Committable
from sparkstate.driver.answers import Answers, take_snapshot, tell_ended
from sparkstate.driver.fatal_failure import OF_THE_JOB, FatalFailure
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.long_savepoint import PATIENCE_S, LongSavepoint
from sparkstate.driver.notifier import Notifier
from sparkstate.driver.pending_checkpoint import PendingCheckpoint, parts_of
from sparkstate.driver.requests import Requests
from sparkstate.handles import ShardHandle
from sparkstate.log.records import SavepointCommitted
from sparkstate.settings import CheckpointSettings
from sparkstate.slots import protocol
from sparkstate.slots.group import SlotGroup

_T = TypeVar("_T")


class Companion:
    """Of one checkpoint after another. :meth:`begin` is called in the epochs' thread, the rest in the checkpoint's."""

    def __init__(
        self,
        group: SlotGroup,
        job_storage: JobStorage,
        settings: CheckpointSettings,
        requests: Requests,
        notifier: Notifier,
        fatal: FatalFailure,
        clock_: clock.Clock,
        abandoned: Callable[[], bool],
    ) -> None:
        self._group = group
        self._storage = job_storage
        self._settings = settings
        self._notifier = notifier
        self._fatal = fatal
        self._clock = clock_
        self._abandoned = abandoned
        self.long_savepoint = LongSavepoint(
            group, job_storage, settings, clock_, abandoned, requests, self._ended
        )
        self.closed_by: str | None = None

    def begin(self, pending: PendingCheckpoint) -> None:
        """Tell the slots, if a savepoint is asked for: of the epoch of its checkpoint, of which they know already."""
        request = pending.savepoint
        if request is None:
            return
        number = pending.savepoint_id
        begin = partial(self._storage.begin_savepoint, request, number, self._group.incarnation)
        url = self._of_the_request(pending, begin)
        if url is not None:
            pending.savepoint_url = url
            take_snapshot(self._group, number, pending.epoch, url=url)

    def make_folder(self, pending: PendingCheckpoint) -> None:
        """On a disk; for the checkpoint's thread, because a disk may hang."""
        self._of_the_request(pending, partial(self.long_savepoint.make_folder, pending))

    def replies(self, pending: PendingCheckpoint) -> list[protocol.SnapshotState] | None:
        """None: there is no savepoint, it has failed, or it goes on beside."""
        request = pending.savepoint
        if request is None or not pending.savepoint_url:
            return None
        answers = Answers(self._group, pending.savepoint_id, self._clock, self._abandoned)
        if request.stop or pending.drained:  # no later checkpoint follows, beside which it could be stored
            return self._of_the_request(pending, partial(answers.in_time, self._settings.timeout_s))
        within = self._of_the_request(pending, partial(answers.within, PATIENCE_S))
        if within is None and pending.savepoint_url:
            self.long_savepoint.begin(pending, answers)
        return within

    def record(
        self,
        pending: PendingCheckpoint,
        replies: list[protocol.SnapshotState],
        staged: tuple[Committable, ...],
    ) -> SavepointCommitted | None:
        """Write it into the storage that the request names, and its record into the log. None: it has failed."""
        parts = parts_of(pending, replies, staged, pending.savepoint_id, self._group)
        record = self._of_the_request(pending, partial(self.long_savepoint.write, pending, parts))
        return None if record is None else self.long_savepoint.recorded(pending, record)

    def finish(self, pending: PendingCheckpoint, shards: Sequence[ShardHandle]) -> None:
        """Its checkpoint is complete too."""
        request = pending.savepoint
        assert request is not None and request.trigger_id is not None
        if request.stop:
            self._storage.close_lineage(pending.savepoint_url, request.trigger_id, self._abandoned)
            self.closed_by = pending.savepoint_url
        self._ended(pending, shards)

    def fail(self, pending: PendingCheckpoint, error: Exception) -> None:
        """Tell who asked for it, if somebody did, and drop what is stored of it."""
        if pending.savepoint is None or pending.savepoint.trigger_id is None:
            return
        url, pending.savepoint_url = pending.savepoint_url, ""
        self._notifier.savepoint_failed(pending, error)
        tell_ended(self._group, pending.savepoint_id, self._fatal, completed=False)
        self._storage.leftovers.of_savepoint(url)

    def _ended(self, pending: PendingCheckpoint, outcome: Sequence[ShardHandle] | Exception) -> None:
        if not isinstance(outcome, Exception):
            tell_ended(self._group, pending.savepoint_id, self._fatal, completed=True)
            self._notifier.savepoint_completed(pending, outcome)
            return
        if isinstance(outcome, OF_THE_JOB):
            self._fatal.keep(outcome)
        self.fail(pending, outcome)

    def _of_the_request(self, pending: PendingCheckpoint, action: Callable[[], _T]) -> _T | None:
        """What ``action`` returns; None if it failed, which is the failure of the savepoint's request alone."""
        try:
            return action()
        except OF_THE_JOB:
            raise
        except Exception as error:  # whatever it is: a target of an unknown scheme once ended the job
            self.fail(pending, error)
            return None
