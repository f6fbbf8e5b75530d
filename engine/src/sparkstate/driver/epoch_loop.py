"""The epochs of one incarnation, each from Spark's callback to the checkpoint that may follow it."""

from __future__ import annotations

from pathlib import Path

from sparkstate import errors
from sparkstate.control import driver_life
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import draining, failure_cause
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.epoch_overlap import EpochOverlap
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.parts import Origin, Parts
from sparkstate.driver.pausing import Pauses
from sparkstate.functions import MIN_WATERMARK
from sparkstate.spark import capture
from sparkstate.spark.epochs import EpochResult, EpochRunner, FedEpoch
from sparkstate.spark.query import DataFrame, Query
from sparkstate.spark.watermarks import Watermarks


class EpochLoop:
    """Spark's thread calls :meth:`on_epoch`. The incarnation calls :meth:`save_last` or :meth:`end_of_input` when
    Spark begins no more epochs and the last one is settled.
    """

    def __init__(
        self,
        parts: Parts,
        origin: Origin,
        running: Query,
        runner: EpochRunner,
        checkpoints: Checkpoints,
        pauses: Pauses,
        pipeline: EpochPipeline,
    ) -> None:
        self._parts = parts
        self._view = parts.context.view
        self._running = running
        self._runner = runner
        self._checkpoints = checkpoints
        self._pauses = pauses
        self._pipeline = pipeline
        self._overlap = EpochOverlap()
        self._last_epoch = origin.epoch
        self._has_committed = False
        self._watermark = runner.watermarks.current
        if origin.restored.plan.kind == "savepoint":
            # It gets a checkpoint even if no input follows: the owner of a savepoint may move or delete it. That is
            # true of one of the job's own, too. A restart goes back to it if the driver was killed between the
            # savepoint's record and that of its checkpoint (RFC 0004).
            checkpoints.unsaved.note_change()
        self.stopped_by_savepoint = False
        """Whether the lineage is closed; no epoch may follow."""

    # -- one epoch ----------------------------------------------------------------------------------------------

    def on_epoch(self, frame: DataFrame | None, epoch: int) -> None:
        """The callback of a Spark micro-batch.

        If the end of the epoch needs nothing done, its end goes on beside the next one's beginning, where that pays
        (RFC 0007). Otherwise it ends here: only within the callback do Spark's files hold the position of this epoch
        and of none that is later.
        """
        if frame is None:  # whether timers are due is known when the epoch before is complete
            self._pipeline.settle()
        fed = self._runner.begin(frame, epoch)
        self._pipeline.settle()
        may_overlap = frame is not None and self._runner.may_overlap and self._overlap.pays
        if may_overlap and not self._checkpoints.wants_epoch():
            self._pipeline.start(lambda: self._complete(fed, idle=False, overlapped=True))
            return
        result = self._complete(fed, idle=frame is None)
        request = self._checkpoints.stop_requested()
        if request is not None:
            self._stop_with_savepoint(request, epoch)
            return
        checkpoints, at = self._checkpoints, result.watermarks
        changed = checkpoints.unsaved.changed
        checkpoints.after_commit(epoch, at, lambda: self._position(epoch, at), changed=changed)
        with self._runner.paused.measured():  # a pause makes no partition idle, see ``starting``
            self._pauses.hold_back(
                checkpoints, lambda: checkpoints.start(epoch, at, self._position(epoch, at))
            )

    def _complete(self, fed: FedEpoch, *, idle: bool, overlapped: bool = False) -> EpochResult:
        clock = self._parts.context.clock
        began_s = clock.monotonic()
        result = self._runner.complete(fed)
        if fed.batch is not None and self._runner.calls_sinks:
            was_of_use = overlapped and self._running.has_begun(fed.epoch + 1)
            took_s = clock.monotonic() - began_s
            self._overlap = self._overlap.after(took_s, overlapped=overlapped, was_of_use=was_of_use)
        self._note(result, fed.epoch, idle=idle and not result.timers_fired and not result.swept)
        return result

    def _note(self, result: EpochResult, epoch: int, *, idle: bool) -> None:
        if not self._has_committed:
            self._has_committed = True
            self._parts.context.reached(f"epoch {epoch} is the first to commit")
        self._last_epoch = epoch
        unsaved, before = self._checkpoints.unsaved, self._watermark
        self._watermark = result.watermarks.current
        self._checkpoints.note_pause(result.waited_ms)
        unsaved.note_held(result.held_bytes)
        # Sources that become idle let the watermark go on, without rows and perhaps without timers.
        if not idle or self._watermark != before:
            unsaved.note_change()
        if not idle:  # an idle epoch is no work that a last checkpoint could spare the next attempt
            unsaved.note_work(result.duration_ms / 1000)
        self._view.note_epoch(
            epoch,
            result.rows,
            result.watermarks.current,
            result.duration_ms / 1000,
            result.next_event_timer,
            result.next_processing_timer,
            result.late_rows,
            result.dropped_rows,
            result.operators,
        )

    def _position(self, epoch: int, at: Watermarks) -> capture.CapturedPosition:
        """How far the query has read up to that epoch, for a checkpoint."""
        of_spark = 0 if at.current == MIN_WATERMARK else at.current
        return self._running.position(epoch, of_spark)

    def _stop_with_savepoint(self, request: SavepointTrigger, epoch: int) -> None:
        """One operation: no epoch commits after it. If it fails the job goes on."""
        if not self._checkpoints.settle_before(request) or self._checkpoints.stop_requested() != request:
            return
        self._view.happened(driver_life.STOPS)
        archive = self._position(epoch, self._runner.watermarks)
        if request.drain:
            epoch += 1
            self._note(self._runner.run(None, epoch, ended=True), epoch, idle=False)
        pending = self._checkpoints.start(
            epoch,
            self._runner.watermarks,
            archive,
            request,
            drained=request.drain,
            only_with_savepoint=request.drain,
        )
        pending.wait(self._checkpoints.given_up)
        if self._checkpoints.closed_by is None:
            self._checkpoints.require_sound()  # else the failure was the request's alone
            if request.drain:
                # The drain has fired every timer at +∞, so the job can only go back, to a checkpoint from before the
                # drain. The error is of a kind that no restart strategy counts: it was the request's failure, not the
                # job's.
                raise errors.StorageUnavailable(
                    "the savepoint of a drained job failed; the job goes back to its checkpoint"
                )
            self._view.happened(driver_life.NOT_STOPPED)
            return
        self.stopped_by_savepoint = True
        raise failure_cause.StoppedBySavepoint

    # -- after the last one -------------------------------------------------------------------------------------

    def save_last(self) -> None:
        """A checkpoint of the last epoch, if it is worth its time. Raises ``Ending`` for one that is given up."""
        draining.save_last_epoch(self._checkpoints, self._save)

    def _save(self) -> None:
        epoch, at = self._last_epoch, self._runner.watermarks
        self._checkpoints.start(epoch, at, self._position(epoch, at)).settle(self._checkpoints.given_up)

    def end_of_input(self) -> None:
        """Bounded input has ended: watermark +∞, a last epoch, a last checkpoint."""
        self._checkpoints.settle()
        archive = capture.CapturedPosition()
        planned = newest_planned(self._running.directory)
        if planned is not None:
            archive = self._position(planned, self._runner.watermarks)
        epoch = self._last_epoch + 1
        self._note(self._runner.run(None, epoch, ended=True), epoch, idle=False)
        ending = self._parts.context.requests.ending
        draining.last_checkpoints(self._checkpoints, epoch, self._runner.watermarks, archive, ending)


def newest_planned(directory: Path) -> int | None:
    """The number of the newest micro-batch in the query's folder; None if the run has had no rows. Spark makes its
    ``offsets`` with the query, and the first entry with the first rows."""
    return max(
        (int(path.name) for path in (directory / "offsets").glob("*") if path.name.isdigit()), default=None
    )
