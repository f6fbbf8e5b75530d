"""The streaming query of one incarnation: sources, heartbeat, callback, an orderly end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from sparkstate import columns
from sparkstate.clock import Clock
from sparkstate.settings import TriggerSettings
from sparkstate.spark import capture, exit_hook, graph, seen_files, source_log, sources

__all__ = ["DataFrame", "OnEpoch", "Query"]

OnEpoch = Callable[[DataFrame | None, int], None]

_AGAIN_S = 0.5
_COMPACT_INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"


class _Stopping(Exception):
    """Ends the query from within its callback: the one place where no epoch is half done."""


class Query:
    """Starts epochs until the input ends, a callback fails, or :meth:`stop`.

    Idle sources start no epochs, so a heartbeat (a rate source whose rows are filtered out) is added unless the input
    is bounded; an epoch that only the heartbeat started calls back without a DataFrame and costs no Spark job.
    """

    def __init__(
        self,
        session: SparkSession,
        declared: graph.Graph,
        directory: Path,
        trigger: TriggerSettings,
        on_epoch: OnEpoch,
        clock: Clock,
    ) -> None:
        self._session = session
        self._sources = declared.sources
        self.directory = directory
        self._trigger = trigger
        self._on_epoch = on_epoch
        self._stopping = threading.Event()
        self._in_callback = threading.Lock()
        self._query: StreamingQuery | None = None
        self._begun = threading.Event()
        self._seen = seen_files.SeenFiles(
            directory, lambda: sources.of_files(self._execution()), clock.now_ms
        )
        self.failure: BaseException | None = None
        _quiet(session)

    def start(self) -> None:
        """Start the query; a seeded directory resumes after its epoch."""
        source_log.align_all(self.directory, int(self._session.conf.get(_COMPACT_INTERVAL) or 0))
        self._seen.begin()
        arguments: dict[str, Any] = (
            {"availableNow": True}
            if self._trigger.available_now
            else {"processingTime": f"{self._trigger.processing_time_ms} milliseconds"}
        )
        self._query = (
            self._input()
            .writeStream.foreachBatch(self._callback)
            .option("checkpointLocation", str(self.directory))
            .trigger(**arguments)
            .start()
        )
        self._begun.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; whether it has come. Look at :attr:`failure` then."""
        assert self._query is not None
        try:
            return bool(self._query.awaitTermination(timeout_s))
        except Exception as error:
            if self.failure is None and not self._stopping.is_set():
                self.failure = error
            return True

    def stop(self, patience_s: float = 10.0) -> None:
        """End between epochs. Stopping while a callback runs can overflow the stream thread's stack, so the next
        callback ends the query from within; only if none comes the query is stopped from outside.
        """
        self._stopping.set()
        if self._query is None or self.wait(patience_s):
            return
        with self._in_callback, contextlib.suppress(Exception):
            self._query.stop()

    def position(self, epoch: int, watermark_ms: int) -> capture.CapturedPosition:
        """What has been read up to ``epoch``: within that epoch's callback, or after the query's end for its last one.

        Raises as :func:`sparkstate.spark.capture.take`.
        """
        return capture.take(
            self.directory, epoch, watermark_ms, self._folders, heartbeat=not self._trigger.available_now
        )

    def hold(self) -> None:
        """Wait for the epoch that runs, and let none begin after it. The query itself goes on to its next callback,
        which ends it: nobody waits for that where the next pod waits for this driver's end (RFC 0008)."""
        self._stopping.set()
        with self._in_callback:
            pass

    def abandon(self, interrupt: Callable[[], None], patience_s: float = 10.0) -> None:
        """End at once, because an epoch waits for something that will not come: Spark's jobs fail, and ``interrupt``
        makes all other waits fail.

        Both again and again: an epoch that is being planned has no job yet that could be cancelled, and the tasks of
        one that comes later looked for a lost slot for 50 seconds.
        """
        self._stopping.set()
        query, rounds = self._query, 0
        while query is not None:
            with contextlib.suppress(Exception):  # a JVM that has ended has no jobs either
                self._session.sparkContext.cancelAllJobs()
            interrupt()
            if self.wait(_AGAIN_S):
                return
            rounds += 1
            if rounds * _AGAIN_S >= patience_s and self._in_callback.acquire(blocking=False):
                with contextlib.suppress(Exception):
                    query.stop()
                self._in_callback.release()
                return

    def _callback(self, frame: DataFrame, epoch: int) -> None:
        with self._in_callback:
            if self._stopping.is_set():
                raise _Stopping
            idle = not self._trigger.available_now and capture.only_heartbeat(self.directory, epoch)
            try:
                self._seen.check()
                self._on_epoch(None if idle else frame, epoch)
                self._seen.forget()
                if epoch % exit_hook.EVERY == 0:
                    exit_hook.forget_sockets(self._session._jvm)
            except BaseException as error:
                self.failure = error
                self._stopping.set()
                raise

    @cached_property
    def _folders(self) -> tuple[int, ...]:
        return sources.folders(self._execution())

    def _execution(self) -> Any:
        while not self._begun.wait(0.2):  # the first callback may come before Spark's start has returned
            if self._stopping.is_set():
                raise _Stopping
        assert self._query is not None
        return self._query._jsq.streamingQuery()

    def _input(self) -> DataFrame:
        frames = []
        several = len(self._sources) > 1
        names = self._sources[0].frame.columns
        for number, source in enumerate(self._sources):
            frame = source.frame.select(*[f"`{name}`" for name in names])
            frames.append(frame.withColumn(columns.SOURCE, F.lit(number)) if several else frame)
        if not self._trigger.available_now:
            frames.append(self._heartbeat(frames[0]))
        return reduce(DataFrame.union, frames)

    def _heartbeat(self, like: DataFrame) -> DataFrame:
        beats = self._session.readStream.format("rate").option("rowsPerSecond", 1).load().where(F.lit(False))
        return beats.select(
            *[F.lit(None).cast(field.dataType).alias(field.name) for field in like.schema.fields]
        )


def _quiet(session: SparkSession) -> None:
    """Spark logs the end of a query by an exception with its stack; the driver reports ours instead."""
    log4j = session._jvm.org.apache.logging.log4j
    for name in ("streaming.runtime.MicroBatchExecution", "streaming.MicroBatchExecution"):
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.sql.execution.{name}", log4j.Level.OFF)
