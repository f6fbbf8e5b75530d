"""The savepoint that a checkpoint takes along, from its begin to its record.

The savepoint's record comes first, the checkpoint's second, so a restart always goes back to files of the lineage's
own, never to a folder that a user may move away. A savepoint that takes long goes on beside later checkpoints
(``driver.long_savepoint``), unless the job ends with it. Whatever goes wrong with one is the failure of its request
alone, unless the job has lost its state or a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sparkstate import clock
from sparkstate.checkpoint.metadata import Committable
from sparkstate.checkpoint.savepoint import is_left_to_a_newer
from sparkstate.driver.answers import Answers, take_snapshot, tell_ended
from sparkstate.driver.fatal_failure import OF_THE_JOB, FatalFailure
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.long_savepoint import PATIENCE_S, LongSavepoint
from sparkstate.driver.notifier import Notifier
from sparkstate.driver.pending_checkpoint import BegunSavepoint, PendingCheckpoint, parts_of
from sparkstate.driver.requests import Requests
from sparkstate.handles import ShardHandle
from sparkstate.settings import CheckpointSettings
from sparkstate.slots import protocol
from sparkstate.slots.group import SlotGroup

_T = TypeVar("_T")


@dataclass(frozen=True)
class AnsweredSavepoint:
    """One that every slot has stored its part of."""

    savepoint: BegunSavepoint
    replies: list[protocol.SnapshotState]


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
        asked = pending.savepoint
        if asked is None:
            return
        trigger, number = asked.trigger, asked.savepoint_id
        begin = partial(self._storage.begin_savepoint, trigger, number, self._group.incarnation)
        url = self._of_the_request(pending, begin)
        if url is not None:
            pending.savepoint = BegunSavepoint(trigger, number, url)
            canonical = trigger.format_type == "canonical"
            take_snapshot(
                self._group, number, pending.epoch, pending.trigger_ms, url=url, canonical=canonical
            )

    def make_folder(self, pending: PendingCheckpoint) -> None:
        """On a disk; for the checkpoint's thread, because a disk may hang."""
        begun = pending.savepoint
        if isinstance(begun, BegunSavepoint):
            self._of_the_request(pending, partial(self.long_savepoint.make_folder, begun))

    def answered(self, pending: PendingCheckpoint, state_bytes: int) -> AnsweredSavepoint | None:
        """None: there is no savepoint, it has failed, or it goes on beside. ``state_bytes``: the size of the state in
        its checkpoint. A canonical savepoint has another format, but seldom a smaller one."""
        begun = pending.savepoint
        if not isinstance(begun, BegunSavepoint):
            return None

        def progress(done_bytes: int, total_bytes: int) -> None:
            self._notifier.savepoint_progress(begun, done_bytes, max(total_bytes, state_bytes))

        answers = Answers(self._group, begun.savepoint_id, self._clock, self._abandoned, progress)
        # After a stop or a drain no later checkpoint follows, beside which it could be stored.
        if begun.trigger.stop or pending.drained:
            replies = self._of_the_request(pending, partial(answers.in_time, self._settings.timeout_s))
        else:
            replies = self._of_the_request(pending, partial(answers.within, PATIENCE_S))
            if replies is None and pending.savepoint is begun:  # else it has failed
                self.long_savepoint.begin(pending, begun, answers)
        return None if replies is None else AnsweredSavepoint(begun, replies)

    def record(
        self, pending: PendingCheckpoint, answered: AnsweredSavepoint, staged: tuple[Committable, ...]
    ) -> BegunSavepoint | None:
        """Write it into the storage that the request names, and its record into the log. None: it has failed."""
        begun = answered.savepoint
        parts = parts_of(pending, answered.replies, staged, begun.savepoint_id, self._group)
        pending.savepoint_shards = parts.shards
        record = self._of_the_request(pending, partial(self.long_savepoint.write, pending, begun, parts))
        if record is None or not self.long_savepoint.recorded(pending, begun, record):
            return None
        return begun

    def finish(
        self, pending: PendingCheckpoint, recorded: BegunSavepoint, shards: Sequence[ShardHandle]
    ) -> None:
        """Its checkpoint is complete too."""
        if recorded.trigger.stop:
            self._storage.close_lineage(recorded.url, recorded.trigger.trigger_id, self._abandoned)
            self.closed_by = recorded.url
        self._ended(pending, recorded, shards)

    def fail(self, pending: PendingCheckpoint, error: Exception) -> None:
        """Tell who asked for it, if somebody did, and drop what is stored of it. Once: the failure of its checkpoint
        that may follow is not why the savepoint failed. Nor does it fail a savepoint that has its record: that one is
        complete, unless it was to stop the job."""
        failed, pending.savepoint = pending.savepoint, None
        if failed is None:
            return
        if isinstance(failed, BegunSavepoint) and self._is_complete(failed):
            self._ended(pending, failed, pending.savepoint_shards)
            return
        url = failed.url if isinstance(failed, BegunSavepoint) else ""
        # Its record was sent, and the answer is lost: the next incarnation sees whether it is in the log.
        is_open = pending.committed and not failed.trigger.stop
        # Else the request stays open: the newer incarnation serves it.
        if not is_open and not is_left_to_a_newer(self._storage.log.state, url, self._group.incarnation):
            self._notifier.savepoint_failed(pending, failed, error)
        tell_ended(self._group, failed.savepoint_id, self._fatal, completed=False)
        if url:
            self._storage.leftovers.of_savepoint(url)

    def _is_complete(self, savepoint: BegunSavepoint) -> bool:
        recorded = any(one.url == savepoint.url for one in self._storage.log.state.savepoints)
        return recorded and not savepoint.trigger.stop

    def _ended(
        self,
        pending: PendingCheckpoint,
        savepoint: BegunSavepoint,
        outcome: Sequence[ShardHandle] | Exception,
    ) -> None:
        if not isinstance(outcome, Exception):
            tell_ended(self._group, savepoint.savepoint_id, self._fatal, completed=True)
            self._notifier.savepoint_completed(pending, savepoint, outcome)
            return
        if isinstance(outcome, OF_THE_JOB):
            self._fatal.keep(outcome)
        self.fail(pending, outcome)

    def _of_the_request(self, pending: PendingCheckpoint, action: Callable[[], _T]) -> _T | None:
        """The result of ``action``; None if it failed, which is the failure of the savepoint's request alone."""
        try:
            return action()
        except OF_THE_JOB:
            raise
        except Exception as error:  # whatever it is: a target of an unknown scheme once ended the job
            self.fail(pending, error)
            return None
