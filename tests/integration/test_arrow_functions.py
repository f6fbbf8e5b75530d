"""``mapInArrow`` with its constant parts made once gives what PySpark's gives, for frames of every epoch."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from support.spark import spark_session

from sparkstate.spark.arrow_functions import ArrowFunction, ArrowFunctions
from sparkstate_tools.tracing import jvm_calls

pytestmark = pytest.mark.spark

SCHEMA = T.StructType(
    [T.StructField("a.b", T.LongType()), *(T.StructField(name, T.StringType()) for name in ("c`d", "told"))]
)


@dataclasses.dataclass(frozen=True)
class Tells:
    """Adds a column of one word, as an epoch's task adds what it knows."""

    word: str
    ballast: bytes = b""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assert batch.schema.names == ["a.b", "c`d"]
            yield batch.append_column("told", pa.array([self.word] * batch.num_rows))


def read(name: str) -> ArrowFunction:
    """A function that tells what a worker's environment has under a name."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.append_column("told", pa.array([os.environ.get(name)] * batch.num_rows))

    return told


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def rows(session: SparkSession, first: int) -> DataFrame:
    """Another frame for each epoch, with names that have to be quoted."""
    return session.range(first, first + 3).selectExpr("id as `a.b`", "string(id) as `c``d`")


@pytest.fixture(autouse=True)
def by_value() -> Iterator[None]:
    """Workers cannot import this module."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def session() -> SparkSession:
    return spark_session.get()


@pytest.fixture
def functions(session: SparkSession) -> ArrowFunctions:
    return ArrowFunctions(session, "tells", rows(session, 0).columns, SCHEMA)


def test_each_epoch_has_its_own_function_on_its_own_frame(
    session: SparkSession, functions: ArrowFunctions
) -> None:
    for epoch in range(3):
        first, word = 10 * epoch, f"epoch {epoch}"
        made = functions.apply(Tells(word).__call__, rows(session, first))
        assert made.schema == SCHEMA
        assert sorted(map(tuple, made.collect())) == [(n, str(n), word) for n in range(first, first + 3)]


def test_it_gives_what_pyspark_gives(session: SparkSession) -> None:
    """Which cannot apply functions to columns whose names have to be quoted."""
    frame = session.range(0, 5, 1, 2)
    made = ArrowFunctions(session, "same", frame.columns, frame.schema)
    ours, theirs = made.apply(same, frame), frame.mapInArrow(same, frame.schema)
    assert ours.schema == theirs.schema
    assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions() == 2
    assert ours.collect() == theirs.collect()


def test_a_frame_takes_four_calls_of_the_jvm(session: SparkSession, functions: ArrowFunctions) -> None:
    frame, told = rows(session, 0), list[jvm_calls.Call]()
    counting = jvm_calls.Calls(session._jvm._gateway_client, told.append)
    try:
        functions.apply(Tells("counted").__call__, frame)
    finally:
        counting.stop()
    assert len([call for call in told if call.kind != jvm_calls.RELEASE]) == 4, told


def test_two_frames_of_one_base_can_be_united(session: SparkSession, functions: ArrowFunctions) -> None:
    frame = rows(session, 0)
    both = functions.apply(Tells("x").__call__, frame).union(functions.apply(Tells("y").__call__, frame))
    assert sorted(row.told for row in both.collect()) == ["x"] * 3 + ["y"] * 3


def test_a_function_beyond_the_threshold_of_broadcasts_is_brought_all_the_same(
    session: SparkSession, functions: ArrowFunctions
) -> None:
    large = Tells("large", os.urandom(2 << 20))
    assert {row.told for row in functions.apply(large.__call__, rows(session, 0)).collect()} == {"large"}


def test_workers_have_the_environment_and_the_files_of_the_session(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = session.sparkContext
    monkeypatch.setitem(context.environment, "SPARKSTATE_TEST_WORD", "from the session")
    module = tmp_path / "beside_the_job.py"
    module.write_text("WORD = 'from a file'\n")
    context.addPyFile(str(module))
    made = ArrowFunctions(session, "tells", rows(session, 0).columns, SCHEMA)
    (word,) = {row.told for row in made.apply(read("SPARKSTATE_TEST_WORD"), rows(session, 0)).collect()}
    assert word == "from the session"

    def imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import beside_the_job

        yield from Tells(beside_the_job.WORD)(batches)

    assert {row.told for row in made.apply(imported, rows(session, 0)).collect()} == {"from a file"}


def test_a_column_that_a_frame_lacks_is_named(session: SparkSession) -> None:
    made = ArrowFunctions(session, "tells", ["id", "gone"], T.StructType([T.StructField("id", T.LongType())]))
    with pytest.raises(Exception, match="gone"):
        made.apply(Tells("x").__call__, session.range(1))
