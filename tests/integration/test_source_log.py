"""A file source goes on from every position, however Spark spaced the compact entries of its log before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.spark import spark_session

import sparkstate
from sparkstate import errors
from sparkstate.clock import SystemClock
from sparkstate.functions import KeyedProcessFunction
from sparkstate.settings import TriggerSettings
from sparkstate.spark import graph, jvm, position, source_log
from sparkstate.spark.query import Query

pytestmark = pytest.mark.spark

FILES = 16
CACHED = "spark.sql.hive.filesourcePartitionFileCacheSize"
FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"


class Nothing(KeyedProcessFunction):
    """Drops every row."""

    def process_element(self, row: Any, ctx: Any) -> None:
        return None


def job(spark: Any, params: dict[str, str]) -> None:
    rows = files = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1).parquet(params["input"])
    if "twice" in params:  # Spark has two lines of offsets then, and one log
        rows = files.where("k % 2 = 0").union(files.where("k % 2 = 1"))
    if "longer" in params:
        longer = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1).parquet(params["longer"])
        rows = rows.union(longer)
    dropped = sparkstate.keyed(rows, "k").process(Nothing(), uid="nothing", output_schema="k long")
    dropped.sink(sparkstate.FileSink(params["input"] + "-out"))


@pytest.fixture
def spark() -> Iterator[Any]:
    session = spark_session.get()
    before = session.conf.get(INTERVAL)
    yield session
    session.conf.set(INTERVAL, before)
    for key in (FORMAT, CACHED):
        session.conf.unset(key)


class Run:
    """A query from a position to the end of the input; the position of each of its epochs, and the rows."""

    def __init__(
        self, spark: Any, folder: Path, interval: int, begin: position.Position | None, **params: str
    ) -> None:
        spark.conf.set(INTERVAL, str(interval))
        self.folder = folder / "query"
        if begin is not None:
            parts = {part.name: part.packed() for part in begin.parts}
            position.seed(self.folder, begin.archive, heartbeat=False, part=parts.__getitem__)
        self.positions: dict[int, position.Position] = {}
        self.rows: list[int] = []
        declared = graph.declare(job, spark, {"input": str(folder / "input"), **params})
        trigger = TriggerSettings(available_now=True)
        self._started: Future[Query] = Future()
        query = Query.start(spark, declared, self.folder, trigger, self._on_epoch, SystemClock())
        self._started.set_result(query)
        assert query.wait(120)
        if query.failure is not None:
            raise query.failure
        shutil.rmtree(self.folder)

    def _on_epoch(self, frame: DataFrame | None, epoch: int) -> None:
        assert frame is not None
        self.rows += [row.k for row in frame.select("k").collect()]
        self.positions[epoch] = self._started.result(60).position(epoch, 0).read()


@pytest.mark.parametrize(
    ("intervals", "epochs"),
    [
        pytest.param((2, 2, 2), (4, 9), id="one compact entry alone doubles the interval"),
        pytest.param((20, 4, 3), (11, 13), id="the interval is changed"),
    ],
)
def test_a_query_goes_on_from_a_position_of_a_query_that_went_on(
    tmp_path: Path, spark: Any, intervals: tuple[int, int, int], epochs: tuple[int, int]
) -> None:
    for number in range(FILES):
        frame = spark.createDataFrame([(number,)], "k long").coalesce(1)
        frame.write.mode("append").parquet(str(tmp_path / "input"))
    begin = None
    rows: list[int] = []
    for interval, ends in zip(intervals, (*epochs, FILES - 1), strict=True):
        run = Run(spark, tmp_path, interval, begin)
        begin = run.positions[ends]
        rows += run.rows[: ends + 1 - len(rows)]
    assert sorted(rows) == list(range(FILES))


def test_a_job_that_reads_one_source_twice_goes_on(tmp_path: Path, spark: Any) -> None:
    for number in range(6):
        frame = spark.createDataFrame([(number,)], "k long").coalesce(1)
        frame.write.mode("append").parquet(str(tmp_path / "input"))
    first = Run(spark, tmp_path, 2, None, twice="yes")
    assert sorted(first.rows) == list(range(6))
    second = Run(spark, tmp_path, 2, first.positions[3], twice="yes")
    assert sorted(second.rows) == sorted(first.rows[4:])


def test_a_source_that_is_used_twice_shortens_no_other_log(tmp_path: Path, spark: Any) -> None:
    """The second source's log is longer, and its folder has a lower number than its line of the offsets."""
    for name, files in (("input", 2), ("longer", 8)):
        for number in range(files):
            frame = spark.createDataFrame([(100 * files + number,)], "k long").coalesce(1)
            frame.write.mode("append").parquet(str(tmp_path / name))
    params = {"twice": "yes", "longer": str(tmp_path / "longer")}
    first = Run(spark, tmp_path, 3, None, **params)
    assert len(first.rows) == 10
    second = Run(spark, tmp_path, 3, first.positions[5], **params)
    assert sorted(second.rows) == sorted(first.rows[8:])


def test_offsets_in_a_format_that_the_job_s_code_asked_for_are_refused(tmp_path: Path, spark: Any) -> None:
    spark.createDataFrame([(1,)], "k long").write.parquet(str(tmp_path / "input"))
    spark.conf.set(FORMAT, "2")
    with pytest.raises(errors.DeclarationError, match=r"format 'v2'.*Remove spark"):
        Run(spark, tmp_path, 3, None)


def test_the_interval_is_that_of_spark(spark: Any) -> None:
    log = spark._jvm.org.apache.spark.sql.execution.streaming.runtime.CompactibleFileStreamLog
    for default in (1, 2, 3, 4, 7, 10, 25):
        for newest in range(130):
            assert source_log.interval_of([newest], default) == log.deriveCompactInterval(default, newest)


def test_no_list_of_an_epoch_s_files_stays_in_the_heap(spark: Any) -> None:
    of_spark = spark._jvm.org.apache.spark.sql.execution.datasources.FileStatusCache

    def kind() -> str:
        return str(of_spark.getOrCreate(spark._jsparkSession).getClass().getSimpleName())

    assert kind() != "NoopCache$"
    spark.conf.set(CACHED, jvm.DEFAULTS[CACHED])
    assert kind() == "NoopCache$"
