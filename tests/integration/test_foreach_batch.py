"""``foreachBatch`` with one Python session for all epochs: each query gets its batches, also the one after another."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from support.spark import spark_session

from sparkstate.spark import foreach_batch

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def session() -> SparkSession:
    return spark_session.get()


class Job:
    """A query over a folder with one file an epoch; it can be started again over the same checkpoint."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._written = 0

    def write(self, *rows: int) -> None:
        """Another epoch of rows."""
        values = ", ".join(f"({row})" for row in rows)
        frame = self._session.sql(f"select * from values {values} as t(n)").coalesce(1)
        frame.write.mode("append").parquet(str(self._folder / "in"))

    def run(self, on_batch: foreach_batch.OnBatch) -> foreach_batch.ForeachBatch:
        """A query until all input is read."""
        made = foreach_batch.ForeachBatch(self._session, on_batch)
        reader = self._session.readStream.schema("n int").option("maxFilesPerTrigger", 1)
        writer = made.writer(reader.parquet(str(self._folder / "in")))
        writer = writer.option("checkpointLocation", str(self._folder / "query")).trigger(availableNow=True)
        writer.start().awaitTermination(60)
        return made


def test_a_second_query_goes_on_where_the_first_has_ended(session: SparkSession, tmp_path: Path) -> None:
    job = Job(session, tmp_path)
    seen: list[tuple[int, list[int], SparkSession]] = []

    def note(frame: DataFrame, epoch: int) -> None:
        frame.sparkSession.conf.set(ZONE, "Pacific/Kiritimati")
        seen.append((epoch, sorted(row.n for row in frame.collect()), frame.sparkSession))

    job.write(1, 2)
    job.write(3)
    job.run(note)
    job.write(4, 5)
    job.run(note)
    assert sorted(epoch for epoch, _, _ in seen) == [0, 1, 2]
    assert sorted(rows for _, rows, _ in seen[:2]) == [[1, 2], [3]]
    assert seen[2][1] == [4, 5]
    first, again, second = (each for _, _, each in seen)
    assert first is again
    assert second is not first
    # It is the session that Spark has cloned for the query: its settings are not those of the job's.
    assert session.conf.get(ZONE) != "Pacific/Kiritimati"


def test_a_query_ends_with_the_error_of_its_function_and_another_one_repeats_the_epoch(
    session: SparkSession, tmp_path: Path
) -> None:
    job = Job(session, tmp_path)
    job.write(7)

    def refuse(_frame: DataFrame, _epoch: int) -> None:
        raise ValueError("no epoch today")

    with pytest.raises(StreamingQueryException, match="no epoch today"):
        job.run(refuse)
    seen: list[tuple[int, int]] = []
    job.run(lambda frame, epoch: seen.append((epoch, frame.count())))
    assert seen == [(0, 1)]


class Incarnation:
    """Something that a query's function belongs to."""

    def on_batch(self, frame: DataFrame, epoch: int) -> None:
        """Read an epoch."""
        frame.collect()


def test_nothing_of_a_query_that_is_forgotten_stays_in_memory(session: SparkSession, tmp_path: Path) -> None:
    job = Job(session, tmp_path)
    job.write(1)
    incarnation = Incarnation()
    left = weakref.ref(incarnation)
    ended = job.run(incarnation.on_batch)
    ended.forget()
    del incarnation, ended
    gc.collect()
    assert left() is None, "py4j keeps the callback until Java has collected the query"
