"""One incarnation at work: slots that hold their state, and a query whose epochs they run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from pydantic import JsonValue

from sparkstate import errors
from sparkstate.control import driver_life
from sparkstate.driver import failure_cause, watching
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.epoch_loop import EpochLoop
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.outcomes import End
from sparkstate.driver.parts import Parts
from sparkstate.driver.slot_pool import SlotPool
from sparkstate.driver.storage_outages import Ending
from sparkstate.driver.watching import Loss
from sparkstate.spark.query import Query

_LOOK_S = 0.2
_STOPPED_ELSEWHERE = (
    "the job's query was stopped by something other than the driver before the end of its input; let the job's code "
    "stop no query that it has not started, and end the job with `sparkstate cancel` or a stop with savepoint"
)


class Incarnation:
    """Made by ``starting.started``, which ends what it consists of. :meth:`run` once: it returns how it ended, or
    raises why it failed."""

    def __init__(
        self,
        parts: Parts,
        slot_pool: SlotPool,
        query: Query,
        loop: EpochLoop,
        checkpoints: Checkpoints,
        pipeline: EpochPipeline,
        loss: Loss,
        over: threading.Event,
    ) -> None:
        self._parts = parts
        self._context = parts.context
        self._slot_pool = slot_pool
        self._query = query
        self._loop = loop
        self._checkpoints = checkpoints
        self._pipeline = pipeline
        self._loss = loss
        self._over = over

    def run(self) -> End:
        """Until the input ends, somebody wants the job to end, or something fails."""
        self._watch_slots()
        requests = self._context.requests
        while not self._query.wait(_LOOK_S):
            if requests.terminated.is_set():
                return self._terminate()
            if requests.cancelled.is_set():
                return self._cancel()
            self._raise_failure()
        if self._loss.error is not None:
            raise self._loss.error  # first: the query fails of it as well, with Spark's words
        if self._loop.stopped_by_savepoint:
            return End.SAVEPOINT
        if self._query.failure is not None:
            raise self._why(self._query.failure)
        if not self._has_read_all():
            # To fire the timers of the end of time would be wrong, and Spark may have planned an epoch whose rows
            # nobody has run: the last checkpoint would have a position behind them.
            raise self._why(self._pipeline.failure or errors.JobFailed(_STOPPED_ELSEWHERE))
        return self._drain()

    def _has_read_all(self) -> bool:
        try:
            return self._query.has_read_all()
        except Exception as error:  # of a JVM that has ended meanwhile
            raise self._why(error) from error

    def _watch_slots(self) -> None:
        watched = (self._slot_pool.group, self._context.view, self._over, self._loss)
        threading.Thread(target=watching.watch, args=watched, name="slot-watch", daemon=True).start()

    def _raise_failure(self) -> None:
        """Raise a failure beside the query, which knows nothing of it and is ended first."""
        failure = self._loss.error or self._pipeline.failure
        if self._is_lost() or isinstance(failure, errors.SlotLost):
            # An epoch that was still being planned began its Spark job after one cancellation, and its tasks looked for
            # the lost slot for 50 s. So everything that waits is cancelled until the query has ended. The same after
            # another loss: the watch has ended with it, and nobody would notice a slot that hangs from now on.
            self._query.abandon(self._slot_pool.group.interrupt)
        elif failure is not None:
            self._stop_query()
        if failure is not None:
            raise self._why(failure)

    def _stop_query(self) -> None:
        """After the epoch that runs; at once if a slot is lost meanwhile, for which that epoch may wait for ever."""
        self._query.stop(self._is_lost, self._slot_pool.group.interrupt)

    def _is_lost(self) -> bool:
        return self._loss.error is not None

    def _cancel(self) -> End:
        self._context.view.happened(driver_life.STOPS)
        self._stop_query()
        return End.SAVEPOINT if self._loop.stopped_by_savepoint else End.CANCELLED

    def _terminate(self) -> End:
        """End after the epoch that runs, with a checkpoint of it if that is worth its time.

        The next pod waits for this end. So it waits neither for Spark's next micro-batch, which would end the query,
        nor for an orderly end of session, slots and folders: they go with the process, which ends soon.
        """
        self._context.view.happened(driver_life.STOPS)
        self._slot_pool.quiesce()
        self._query.hold()
        if self._loop.stopped_by_savepoint:
            return End.SAVEPOINT
        if self._query.failure is not None:
            raise self._why(self._query.failure)
        self._settle()
        with contextlib.suppress(Ending):  # what does not answer is not waited for
            self._loop.save_last()
        # After the last commit and publication: the next driver claims as soon as it sees this (RFC 0012).
        self._parts.job_storage.release()
        self._context.reached(self._context.view.last_checkpoint_told())
        self._context.saved(self._checkpoints.unsaved.work_s)
        return End.TERMINATED

    def _drain(self) -> End:
        self._context.view.happened(driver_life.STOPS)
        with self._watching_over_the_end():
            self._settle()
            self._loop.end_of_input()
        return End.INPUT_ENDED

    @contextlib.contextmanager
    def _watching_over_the_end(self) -> Iterator[None]:
        """Within it, whatever waits for the slots is interrupted once one is lost: the last epoch waits for all of
        them, and for one that hangs it would wait for ever. The loss is raised then."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(_LOOK_S):
                if self._is_lost():
                    self._slot_pool.group.interrupt()

        looking = threading.Thread(target=look, name="end-watch", daemon=True)
        looking.start()
        try:
            yield
        except errors.SparkstateError as error:
            lost = self._loss.error
            if lost is None or lost is error:
                raise
            raise lost from error
        finally:
            ended.set()
            looking.join()

    def _settle(self) -> None:
        """Wait for the last epoch's end, once Spark begins no more."""
        try:
            self._pipeline.settle()
        except BaseException as error:
            raise self._why(error) from error

    def _why(self, failure: BaseException) -> errors.SparkstateError:
        return failure_cause.reason(failure, self._slot_pool.group)

    def read_state(self, uid: str, state: str, key: JsonValue, namespace: JsonValue) -> tuple[str, JsonValue]:
        """One key's committed state: kind and value."""
        return self._slot_pool.read_state(uid, state, key, namespace)

    def read_operator_state(self, uid: str, state: str, slot: int) -> tuple[str, JsonValue]:
        """One slot's committed operator state: kind and value."""
        return self._slot_pool.read_operator_state(uid, state, slot)

    def read_log(self, slot: int) -> tuple[str, ...]:
        """The last lines of a slot's log, oldest first."""
        return self._slot_pool.read_log(slot)

    @property
    def count(self) -> int:
        """How many slots there are."""
        return len(self._slot_pool.group)
