"""How the streaming query of an incarnation ends when what its epoch waits for will not come."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.spark import spark_session

import sparkstate
from sparkstate import errors
from sparkstate.clock import SystemClock
from sparkstate.control import driver_life
from sparkstate.control.documents import JobIdentity
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.incarnation import Incarnation
from sparkstate.driver.outcomes import End
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.driver.watching import Loss
from sparkstate.functions import KeyedProcessFunction
from sparkstate.settings import TriggerSettings
from sparkstate.slots import protocol
from sparkstate.spark import exit_hook, graph
from sparkstate.spark.query import Query

pytestmark = pytest.mark.spark

FOREVER_S = 300


class Nothing(KeyedProcessFunction):
    """Drops every row."""

    def process_element(self, row: Any, ctx: Any) -> None:
        return None


def job(spark: Any, params: dict[str, str]) -> None:
    rows = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1).parquet(params["input"])
    dropped = sparkstate.keyed(rows, "k").process(Nothing(), uid="nothing", output_schema="k long")
    dropped.sink(sparkstate.FileSink(params["input"] + "-out"))


class Epoch:
    """Plans until it was interrupted so often, and then waits in a Spark job for what never comes."""

    def __init__(self, interruptions: int) -> None:
        self.expected = interruptions
        self.interrupted = threading.Semaphore(0)
        self.planning = threading.Event()
        self.began_job = threading.Event()

    def __call__(self, frame: DataFrame | None, _: int) -> None:
        if frame is None:
            return
        self.planning.set()
        for _ in range(self.expected):
            assert self.interrupted.acquire(timeout=60)
        self.began_job.set()
        hangs = spark_session.get().sparkContext.parallelize([0], 1)
        hangs.map(lambda _: __import__("time").sleep(FOREVER_S)).collect()


@pytest.mark.parametrize("interruptions", [0, 4], ids=["in its job", "before its job"])
def test_an_epoch_that_would_wait_for_ever_ends_at_once_whatever_it_is_at(
    tmp_path: Path, interruptions: int
) -> None:
    spark = spark_session.get()
    spark.range(10).selectExpr("id as k").write.parquet(str(tmp_path / "input"))
    declared = graph.declare(job, spark, {"input": str(tmp_path / "input")})
    epoch = Epoch(interruptions)
    query = Query.start(spark, declared, tmp_path / "query", TriggerSettings(), epoch, SystemClock())
    assert epoch.planning.wait(60)
    if not interruptions:
        assert epoch.began_job.wait(10)
        time.sleep(1)
    started = time.monotonic()
    query.abandon(epoch.interrupted.release)
    assert time.monotonic() - started < 8 + interruptions / 2
    assert epoch.began_job.is_set()
    assert query.wait(0.1)


def parts_of_a_running_driver(requests: Requests) -> Any:
    view = JobView(JobIdentity(job_uid="u"), "job", "default", "hashmap", SystemClock())
    for event in (driver_life.RESTORES, driver_life.FILLED):
        view.happened(event)
    return SimpleNamespace(context=SimpleNamespace(requests=requests, view=view))


def refuse() -> None:
    raise errors.StorageRefused("of a commit")


class Slots:
    """One slot, which hangs: only a question with a limit says so."""

    def __init__(self, epoch: Epoch) -> None:
        self.interrupt = epoch.interrupted.release
        self.status = hangs_for_good


@pytest.mark.fault(
    broken="a slot hangs for good",
    when="the driver waits for the last epoch of an incarnation, because {why}",
    expected="the epoch is given up when the slot counts as lost, and the incarnation ends",
)
@pytest.mark.fault_on("real Spark")
@pytest.mark.parametrize("why", ["the job was cancelled", "a commit failed"])
def test_an_incarnation_that_ends_does_not_wait_for_a_slot_that_hangs(tmp_path: Path, why: str) -> None:
    spark = spark_session.get()
    spark.range(10).selectExpr("id as k").write.parquet(str(tmp_path / "input"))
    declared = graph.declare(job, spark, {"input": str(tmp_path / "input")})
    epoch, over, requests, pipeline = Epoch(0), threading.Event(), Requests(), EpochPipeline()
    parts = parts_of_a_running_driver(requests)
    pool: Any = SimpleNamespace(group=Slots(epoch))
    unused: Any = None
    query = Query.start(spark, declared, tmp_path / "query", TriggerSettings(), epoch, SystemClock())
    assert epoch.began_job.wait(60)
    if why == "the job was cancelled":
        requests.cancelled.set()
    else:
        pipeline.start(refuse)
    loop: Any = SimpleNamespace(stopped_by_savepoint=False)
    incarnation = Incarnation(parts, pool, query, loop, unused, pipeline, Loss(over), over)
    with ThreadPoolExecutor(1) as main:
        try:
            ended = main.submit(incarnation.run)
            if why == "the job was cancelled":
                assert ended.result(30) is End.CANCELLED
            else:
                assert isinstance(ended.exception(30), errors.StorageRefused)
        finally:
            query.abandon(epoch.interrupted.release)
            over.set()


@pytest.mark.parametrize("at", ["the epoch before the last", "the last epoch"])
def test_the_end_of_the_input_does_not_wait_for_a_slot_that_hangs(at: str) -> None:
    waits, over, pipeline = threading.Semaphore(0), threading.Event(), EpochPipeline()

    def wait() -> None:
        assert waits.acquire(timeout=60)
        raise errors.SlotLost("interrupted")

    if at == "the epoch before the last":
        pipeline.start(wait)
    parts = parts_of_a_running_driver(Requests())
    pool: Any = SimpleNamespace(group=SimpleNamespace(interrupt=waits.release, status=hangs_for_good))
    query: Any = SimpleNamespace(wait=lambda _: True, failure=None, has_read_all=lambda: True)
    loop: Any = SimpleNamespace(stopped_by_savepoint=False, end_of_input=wait)
    incarnation = Incarnation(parts, pool, query, loop, loop, pipeline, Loss(over), over)
    with ThreadPoolExecutor(1) as main:
        try:
            failure = main.submit(incarnation.run).exception(30)
        finally:
            waits.release()
            over.set()
    assert isinstance(failure, errors.SlotLost)
    assert "no sign of life" in str(failure)


def hangs_for_good(_: float) -> list[protocol.SlotStatus]:
    time.sleep(1)
    raise errors.SlotLost("slot 0 gives no sign of life")


def test_the_names_of_spark_s_sockets_do_not_pile_up_in_the_driver(tmp_path: Path) -> None:
    spark = spark_session.get()
    other = str(tmp_path / "of somebody else")
    spark._jvm.java.io.File(other).deleteOnExit()
    spark.range(10).selectExpr("id as k").write.parquet(str(tmp_path / "input"))
    declared = graph.declare(job, spark, {"input": str(tmp_path / "input")})
    before: list[str] = []

    def epoch(frame: DataFrame | None, _: int) -> None:
        for _ in range(3):
            spark.range(1).collect()
        before.extend(exit_hook.names(spark._jvm))

    query = Query.start(
        spark, declared, tmp_path / "query", TriggerSettings(available_now=True), epoch, SystemClock()
    )
    assert query.wait(60)
    assert query.failure is None
    assert len([name for name in before if name.endswith(".sock")]) >= 3
    after = exit_hook.names(spark._jvm)
    assert other in after
    assert not [name for name in after if name.endswith(".sock")]


def test_a_source_that_is_used_twice_and_the_heartbeat_have_the_folders_of_spark(tmp_path: Path) -> None:
    spark = spark_session.get()
    spark.range(10).selectExpr("id as k").write.parquet(str(tmp_path / "input"))

    def both(session: Any, params: dict[str, str]) -> None:
        files = session.readStream.schema("k long").option("maxFilesPerTrigger", 1).parquet(params["input"])
        beats = (
            session.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 2)
            .load()
            .selectExpr("value as k")
        )
        rows = files.union(beats).union(files)
        dropped = sparkstate.keyed(rows, "k").process(Nothing(), uid="nothing", output_schema="k long")
        dropped.sink(sparkstate.FileSink(params["input"] + "-out"))

    declared = graph.declare(both, spark, {"input": str(tmp_path / "input")})
    taken: list[set[str]] = []
    started: Future[Query] = Future()

    def epoch(_: DataFrame | None, number: int) -> None:
        running = started.result(60)
        assert running._calls.folders == (0, 1, 0, 2)
        position = running.position(number, 0)
        taken.append({path.split("/")[1] for path in position.linked})

    query = Query.start(spark, declared, tmp_path / "query", TriggerSettings(), epoch, SystemClock())
    started.set_result(query)
    deadline = time.monotonic() + 60
    while not taken and query.failure is None and time.monotonic() < deadline:
        time.sleep(0.1)
    query.stop()
    assert query.failure is None
    assert set(os.listdir(tmp_path / "query/sources")) == {"0", "2"}  # the middle one keeps nothing
    assert taken[0] == {"0"}
