"""``DataStreamWriter.foreachBatch`` with one Python session for all epochs (RFC 0062).

Spark hands each micro-batch to Python in the session that it has cloned for the query. PySpark makes an object for that
session anew in each epoch, with 6 calls of the JVM, and it is the same session every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

OnBatch = Callable[[DataFrame, int], None]


class ForeachBatch:
    """One query's function. py4j keeps Python's end of the callback until Java's has been collected, and Java's is a
    part of the query, which Python's objects keep in turn: :meth:`forget` opens this circle."""

    def __init__(self, session: SparkSession, on_batch: OnBatch) -> None:
        self._callback = _Callback(session, on_batch)

    def writer(self, rows: DataFrame) -> DataStreamWriter:
        """``rows.writeStream.foreachBatch(on_batch)``. Start no more than one query by it."""
        writer = rows.writeStream
        gateway = rows.sparkSession.sparkContext._gateway
        assert gateway is not None
        package = gateway.jvm.org.apache.spark.sql.execution.streaming.sources
        package.PythonForeachBatchHelper.callForeachBatch(writer._jwrite, self._callback)
        ensure_callback_server_started(gateway)
        return writer

    def forget(self) -> None:
        """The query has ended, or its next batch ends it: keep nothing of Python's for it. A later batch fails by
        an error of its own."""
        self._callback.forget()


class _Callback:
    """Python's end of the callback."""

    def __init__(self, session: SparkSession, on_batch: OnBatch) -> None:
        self._session = session
        self._on_batch = on_batch
        self._of_query: SparkSession | None = None

    def call(self, batch: Any, number: int) -> None:
        """Spark's thread calls it with its object of a frame."""
        if self._of_query is None:
            self._of_query = SparkSession(self._session.sparkContext, batch.sparkSession())
        self._on_batch(DataFrame(batch, self._of_query), number)

    def forget(self) -> None:
        """See :meth:`ForeachBatch.forget`."""
        self._on_batch, self._of_query = _refuse, None

    class Java:
        """The interface that py4j gives it."""

        implements: ClassVar = ["org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction"]


def _refuse(_frame: DataFrame, number: int) -> None:
    raise RuntimeError(f"the query of epoch {number} has been given up")
