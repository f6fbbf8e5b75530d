"""The streaming query of one incarnation: sources, heartbeat, callback, an orderly end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from sparkstate import columns
from sparkstate.clock import Clock
from sparkstate.settings import TriggerSettings
from sparkstate.spark import (
    batch_weighing,
    capture,
    exit_hook,
    foreach_batch,
    graph,
    query_end,
    seen_files,
    shipping,
    source_log,
    sources,
)

__all__ = ["DataFrame", "OnEpoch", "Query"]

OnEpoch = Callable[[DataFrame | None, int], None]

_AGAIN_S = 0.5
_PATIENCE_S = 10.0
_COMPACT_INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"


class _Stopping(Exception):
    """Ends the query from within its callback: the one place where no epoch is half done."""


class _EpochCalls:
    """The function that Spark calls for every epoch. Its first call may come before Spark's start has returned."""

    def __init__(
        self,
        session: SparkSession,
        directory: Path,
        on_epoch: OnEpoch,
        clock: Clock,
        *,
        beats: bool,
        spares_weighing: bool,
    ) -> None:
        self._session = session
        self._spares_weighing = spares_weighing
        """Whether the session of the query is still to be told."""
        self._directory = directory
        self._on_epoch = on_epoch
        self._beats = beats
        self._started: futures.Future[StreamingQuery] = futures.Future()
        self.stopping = threading.Event()
        self.running = threading.Lock()
        """Held while an epoch runs."""
        self.seen = seen_files.SeenFiles(directory, lambda: sources.of_files(self._execution()), clock.now_ms)
        self.failure: BaseException | None = None

    def started(self, query: StreamingQuery) -> None:
        """Spark's start has returned."""
        self._started.set_result(query)

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        if self.stopping.is_set():  # whoever stops the query holds the lock, and waits for this thread
            raise _Stopping
        with self.running:
            if self.stopping.is_set():
                raise _Stopping
            idle = self._beats and capture.only_heartbeat(self._directory, epoch)
            try:
                if self._spares_weighing:
                    # In the session that Spark has cloned for the query: sinks read in that of the job.
                    batch_weighing.turn_off(frame.sparkSession)
                    self._spares_weighing = False
                self.seen.check()
                self._on_epoch(None if idle else frame, epoch)
                self.seen.forget()
                if epoch % exit_hook.EVERY == 0:
                    exit_hook.forget_sockets(self._session._jvm)
            except BaseException as error:
                self.failure = error
                self.stopping.set()
                raise

    @cached_property
    def folders(self) -> tuple[int, ...]:
        """The folder of each source of the plan, see :func:`sparkstate.spark.capture.take`."""
        return sources.folders(self._execution())

    def _execution(self) -> Any:
        while not futures.wait((self._started,), 0.2).done:
            if self.stopping.is_set():
                raise _Stopping
        return self._started.result()._jsq.streamingQuery()


class Query:
    """A query that runs: it starts epochs until the input ends, a callback fails, or :meth:`stop`.

    Idle sources start no epochs, so a heartbeat (a rate source whose rows are filtered out) is added unless the input
    is bounded; an epoch that only the heartbeat started calls back without a DataFrame and costs no Spark job.
    """

    def __init__(
        self,
        session: SparkSession,
        query: StreamingQuery,
        calls: _EpochCalls,
        directory: Path,
        for_each: foreach_batch.ForeachBatch,
        *,
        beats: bool,
        is_selected: bool,
    ) -> None:
        self._session = session
        self._query = query
        self._calls = calls
        self._for_each = for_each
        self.directory = directory
        self._beats = beats
        self.is_selected = is_selected
        """Whether frames have the columns to ship, not those of the job's inputs."""

    @classmethod
    def start(
        cls,
        session: SparkSession,
        declared: graph.Graph,
        directory: Path,
        trigger: TriggerSettings,
        on_epoch: OnEpoch,
        clock: Clock,
        selected: Sequence[Column] = (),
        tasks: int = 1,
    ) -> Query:
        """Start a query; a seeded directory resumes after its epoch. ``on_epoch`` may be called before this returns.

        ``selected``: the columns of the frames that it is called with (``shipping.in_query``), which then have at most
        ``tasks`` partitions. Without them, frames have those of the job's inputs, and the partitions of its sources.
        """
        _quiet(session)
        beats = not trigger.available_now
        rows = _input(session, declared, selected, tasks, beats=beats)
        spares = batch_weighing.is_idle(rows, declared, is_selected=bool(selected))
        calls = _EpochCalls(session, directory, on_epoch, clock, beats=beats, spares_weighing=spares)
        source_log.align_all(directory, int(session.conf.get(_COMPACT_INTERVAL) or 0))
        calls.seen.begin()
        arguments: dict[str, Any] = (
            {"processingTime": f"{trigger.processing_time_ms} milliseconds"}
            if beats
            else {"availableNow": True}
        )
        for_each = foreach_batch.ForeachBatch(session, calls.__call__)
        try:
            query = (
                for_each.writer(rows)
                .option("checkpointLocation", str(directory))
                .trigger(**arguments)
                .start()
            )
        except BaseException:
            calls.stopping.set()
            for_each.forget()
            raise
        calls.started(query)
        return cls(session, query, calls, directory, for_each, beats=beats, is_selected=bool(selected))

    @property
    def failure(self) -> BaseException | None:
        """Why it has failed; None while it runs well."""
        return self._calls.failure

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; whether it has come. Look at :attr:`failure` then."""
        try:
            return bool(self._query.awaitTermination(timeout_s))
        except Exception as error:
            if self.failure is None and not self._calls.stopping.is_set():
                self._calls.failure = error
            return True

    def has_read_all(self) -> bool:
        """Of a query that has ended without a failure: whether that was the end of its input, and not a stop by
        somebody who did not ask this object. Input without end is never read."""
        return not self._beats and query_end.has_read_all(self._query._jsq.streamingQuery())

    def stop(
        self,
        lost: Callable[[], bool] = lambda: False,
        interrupt: Callable[[], None] = lambda: None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """End between epochs. Stopping while a callback runs can overflow the stream thread's stack, so the next
        callback ends the query from within; only if none comes the query is stopped from outside.

        ``lost``: whether the epoch that runs waits for something that will not come. As soon as that is so, the query
        is abandoned, with ``interrupt``: nobody else could end the epoch while this waits for its end.
        """
        self._calls.stopping.set()
        rounds = 0
        while not self.wait(_AGAIN_S):
            if lost():
                self.abandon(interrupt)
                return
            rounds += 1
            if rounds * _AGAIN_S >= patience_s and self._stopped_from_outside():
                return

    def forget(self) -> None:
        """After :meth:`stop`: what its callbacks held, an incarnation's slots and runner among it, may be collected."""
        self._for_each.forget()

    def position(self, epoch: int, watermark_ms: int) -> capture.CapturedPosition:
        """The position up to ``epoch``: within that epoch's callback, or after the query's end for its last one.

        Raises as :func:`sparkstate.spark.capture.take`.
        """
        return capture.take(self.directory, epoch, watermark_ms, self._calls.folders, heartbeat=self._beats)

    def has_begun(self, epoch: int) -> bool:
        """Whether Spark has begun the micro-batch of ``epoch`` by now, and for rows, not for the heartbeat alone."""
        has_begun = (self.directory / "offsets" / str(epoch)).is_file()
        return has_begun and not (self._beats and capture.only_heartbeat(self.directory, epoch))

    def hold(self) -> None:
        """Wait for the epoch that runs, and let none begin after it. The query itself goes on to its next callback,
        which ends it: nobody waits for that where the next pod waits for this driver's end (RFC 0008)."""
        self._calls.stopping.set()
        with self._calls.running:
            pass

    def abandon(self, interrupt: Callable[[], None], patience_s: float = _PATIENCE_S) -> None:
        """End at once, because an epoch waits for something that will not come: Spark's jobs fail, and ``interrupt``
        makes all other waits fail.

        Both again and again: an epoch that is being planned has no job yet that could be cancelled, and the tasks of
        one that comes later looked for a lost slot for 50 seconds.
        """
        self._calls.stopping.set()
        rounds = 0
        while True:
            with contextlib.suppress(Exception):  # a JVM that has ended has no jobs either
                self._session.sparkContext.cancelAllJobs()
            interrupt()
            if self.wait(_AGAIN_S):
                return
            rounds += 1
            if rounds * _AGAIN_S >= patience_s and self._stopped_from_outside():
                return

    def _stopped_from_outside(self) -> bool:
        """Stop the query, unless a callback runs; whether none did."""
        if not self._calls.running.acquire(blocking=False):
            return False
        with contextlib.suppress(Exception):
            self._query.stop()
        self._calls.running.release()
        return True


def _input(
    session: SparkSession, declared: graph.Graph, selected: Sequence[Column], tasks: int, *, beats: bool
) -> DataFrame:
    frames = []
    several = len(declared.sources) > 1
    for number, source in enumerate(declared.sources):
        frame = source.frame.select(*shipping.of_source(declared, source))
        frames.append(frame.withColumn(columns.SOURCE, F.lit(number)) if several else frame)
    if beats:
        frames.append(_heartbeat(session, frames[0]))
    rows = reduce(DataFrame.union, frames)
    return rows.select(*selected).coalesce(tasks) if selected else rows


def _heartbeat(session: SparkSession, like: DataFrame) -> DataFrame:
    beats = session.readStream.format("rate").option("rowsPerSecond", 1).load().where(F.lit(False))
    return beats.select(*[F.lit(None).cast(field.dataType).alias(field.name) for field in like.schema.fields])


def _quiet(session: SparkSession) -> None:
    """Spark logs the end of a query by an exception with its stack; the driver reports ours instead."""
    log4j = session._jvm.org.apache.logging.log4j
    for name in ("streaming.runtime.MicroBatchExecution", "streaming.MicroBatchExecution"):
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.sql.execution.{name}", log4j.Level.OFF)
