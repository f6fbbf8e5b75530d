"""How the driver tells the end of a query's input from a stop by the job's own code, which Spark reports alike."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.spark import spark_session

import sparkstate
from sparkstate.clock import SystemClock
from sparkstate.functions import KeyedProcessFunction
from sparkstate.settings import TriggerSettings
from sparkstate.spark import graph, query_end
from sparkstate.spark.query import Query

pytestmark = pytest.mark.spark

BOUNDED = TriggerSettings(available_now=True)


class Nothing(KeyedProcessFunction):
    """Drops every row."""

    def process_element(self, row: Any, ctx: Any) -> None:
        return None


def job(spark: Any, params: dict[str, str]) -> None:
    rows = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1).parquet(params["input"] + "/*")
    dropped = sparkstate.keyed(rows, "k").process(Nothing(), uid="nothing", output_schema="k long")
    dropped.sink(sparkstate.FileSink(params["input"] + "-out"))


def run(folder: Path, files: int, on_epoch: Callable[[DataFrame | None, int], None]) -> Query:
    """A query over so many files, one an epoch, that has ended without an error."""
    spark = spark_session.get()
    for number in range(files):
        spark.range(10).selectExpr("id as k").coalesce(1).write.parquet(str(folder / f"input/{number}"))
    declared = graph.declare(job, spark, {"input": str(folder / "input")})
    query = Query.start(spark, declared, folder / "query", BOUNDED, on_epoch, SystemClock())
    assert query.wait(60)
    assert query.failure is None
    return query


def stop_all() -> None:
    for query in spark_session.get().streams.active:
        query.stop()


@pytest.mark.parametrize("files", [1, 3])
def test_a_query_that_has_read_everything_says_so(tmp_path: Path, files: int) -> None:
    epochs: list[int] = []
    query = run(tmp_path, files, lambda _, epoch: epochs.append(epoch))
    assert len(epochs) == files
    assert query.has_read_all()


@pytest.mark.parametrize("within", [0, 2], ids=["the first epoch", "the last one"])
def test_a_query_that_the_jobs_code_stops_within_an_epoch_has_not_read_everything(
    tmp_path: Path, within: int
) -> None:
    """Of the last one nobody knows that it is the last: Spark has not looked for more."""
    stopping = threading.Thread(target=stop_all)

    def on_epoch(_: DataFrame | None, epoch: int) -> None:
        if epoch == within:
            stopping.start()
            stopping.join(1.0)  # it waits for the end of this callback
            assert stopping.is_alive()

    query = run(tmp_path, 3, on_epoch)
    stopping.join(60)
    assert not query.has_read_all()


def test_a_query_that_is_stopped_before_its_first_epoch_has_not_read_everything(tmp_path: Path) -> None:
    spark, called = spark_session.get(), threading.Event()
    spark.range(10).selectExpr("id as k").write.parquet(str(tmp_path / "input/0"))
    declared = graph.declare(job, spark, {"input": str(tmp_path / "input")})
    query = Query.start(spark, declared, tmp_path / "query", BOUNDED, lambda *_: called.set(), SystemClock())
    stop_all()
    assert query.wait(60)
    assert query.failure is None
    assert not query.has_read_all() or called.is_set()


@pytest.fixture
def talker() -> Iterator[int]:
    """A port that says one word to each caller: a source that cannot say what is there now."""
    server = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def talk() -> None:
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            held.append(caller)
            caller.sendall(b"word\n")

    talking = threading.Thread(target=talk)
    talking.start()
    yield int(server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    talking.join()
    for each in held:
        each.close()


def test_a_source_that_is_read_in_one_epoch_ends_with_it(tmp_path: Path, talker: int) -> None:
    spark, called = spark_session.get(), threading.Event()
    frame = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", talker).load()
    for attempt in range(20):  # the word may come too late for Spark's only look
        writer = frame.writeStream.foreachBatch(lambda *_: called.set())
        writer = writer.option("checkpointLocation", str(tmp_path / f"query-{attempt}"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        execution = query._jsq.streamingQuery()
        assert query_end.has_read_all(execution)
        if called.is_set():
            break
    assert execution.triggerExecutor().getClass().getSimpleName() == "SingleBatchExecutor"
    assert execution.getLatestExecutionContext().isCurrentBatchConstructed()
