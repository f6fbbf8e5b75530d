"""Spark weighs no Arrow batch of a query whose rows have a fixed width, and every batch of any other query."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.slots import slots
from support.spark import spark_session

import sparkstate
from sparkstate import columns
from sparkstate.clock import SystemClock
from sparkstate.settings import TriggerSettings
from sparkstate.spark import batch_weighing, combining, graph, shipping
from sparkstate.spark.query import Query

pytestmark = pytest.mark.spark

ROWS = 5_000
FIXED = {
    "flag": "id % 2 = 0",
    "tiny": "cast(id % 100 AS tinyint)",
    "small": "cast(id AS smallint)",
    "whole": "cast(id AS int)",
    "long": "id",
    "single": "cast(id AS float)",
    "double": "cast(id AS double)",
    "money": "cast(id AS decimal(38, 2))",
    "day": "date_add(DATE'2026-01-01', cast(id % 100 AS int))",
    "at": "timestamp_millis(id)",
    "local": "cast(timestamp_millis(id) AS timestamp_ntz)",
    "void": "null",
    "took": "make_dt_interval(0, 0, 0, id)",
    "pair": "named_struct('a', id, 'b', cast(null AS int))",
    "nothing": "cast(null AS bigint)",
}


@pytest.fixture
def session() -> Iterator[Any]:
    made = spark_session.get()
    before = made.conf.get(batch_weighing.BYTES).rstrip("b")
    yield made
    made.conf.set(batch_weighing.BYTES, before)


def fixed(session: Any) -> DataFrame:
    rows: DataFrame = session.range(ROWS).select(*[F.expr(sql).alias(name) for name, sql in FIXED.items()])
    return rows


def is_idle(rows: DataFrame, *operators: graph.Operator, is_selected: bool = True) -> bool:
    declared = graph.Graph()
    for operator in operators:
        declared.operators[operator.uid] = operator
    return batch_weighing.is_idle(rows, declared, is_selected=is_selected)


def operator(**changes: Any) -> graph.Operator:
    made = graph.Operator(
        uid="sum",
        function=slots.Sum(),
        keys=("k",),
        upstream=None,
        event_time=None,
        output_schema="k long, v long",
    )
    return dataclasses.replace(made, **changes)


def batches_of(frame: DataFrame) -> list[tuple[int, int]]:
    """Rows and bytes of the batches that Python gets."""

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # pickled by value
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    return [(row.rows, row.bytes) for row in frame.mapInArrow(sizes, "rows long, bytes long").collect()]


@pytest.mark.parametrize("name", FIXED)
def test_no_value_takes_more_than_its_width(session: Any, name: str) -> None:
    column = fixed(session).select(name)
    width = batch_weighing.width_of(column.schema[name].dataType)
    assert width is not None
    # A batch's own beginnings: buffers end at whole bytes.
    assert all(size <= rows * width + 64 for rows, size in batches_of(column.coalesce(1)))


def test_rows_of_a_fixed_width_need_no_weighing(session: Any) -> None:
    assert is_idle(fixed(session))


@pytest.mark.parametrize("sql", ["cast(id AS string)", "cast('x' AS binary)", "array(id)", "map(id, id)"])
def test_values_without_a_bound_are_weighed(session: Any, sql: str) -> None:
    assert not is_idle(session.range(1).selectExpr("id", f"{sql} AS v"))
    assert not is_idle(session.range(1).selectExpr("id", f"named_struct('a', {sql}) AS v"))


def test_rows_are_weighed_where_a_batch_may_reach_the_limit(session: Any) -> None:
    rows = session.range(1)
    session.conf.set(batch_weighing.BYTES, "1m")
    assert not is_idle(rows)
    session.conf.set(batch_weighing.BYTES, "2m")
    assert is_idle(rows)
    many = [F.col("id").alias(f"c{number}") for number in range(12)]
    assert not is_idle(rows.select(*many)), "2 MiB are 209 bytes for each of 10,000 rows"


def test_the_parts_that_spark_combines_count(session: Any) -> None:
    session.conf.set(batch_weighing.BYTES, "2m")
    parts = tuple((f"p{number}", "sum(id)") for number in range(10))
    summing = operator(combining=combining.Combining(1, 0, parts))
    assert not is_idle(session.range(1), summing)


def test_columns_that_an_operator_computes_later_are_unknown(session: Any) -> None:
    computing = operator(computed=(("text", "repeat('x', 100000)"),))
    assert not is_idle(session.range(1), computing, is_selected=False)
    assert is_idle(session.range(1), computing), "the query has computed them"


def test_the_rows_of_another_operator_are_unknown(session: Any) -> None:
    upstream = graph.Input(keys=("k",), upstream=("other", None), event_time=None)
    assert is_idle(session.range(1), operator(), is_selected=False)
    assert not is_idle(session.range(1), operator(second=upstream), is_selected=False)


def chained(*changes: dict[str, Any], schema: str = "k long, v long") -> graph.Graph:
    """One operator on the job's input, and one on its output for each of ``changes``."""
    declared = graph.Graph()
    declared.add(operator(uid="first", output_schema=schema))
    for number, change in enumerate(changes):
        declared.add(operator(uid=f"behind{number}", upstream=("first", None), **change))
    return declared


def is_unweighed(session: Any, declared: graph.Graph) -> bool:
    """Whether operators read outputs in another session than sinks, which weighs nothing."""
    made = batch_weighing.session_of_outputs(session, declared)
    if made is session:
        return False
    assert made.conf.get(batch_weighing.BYTES) == str(batch_weighing.UNWEIGHED)
    assert session.conf.get(batch_weighing.BYTES) != str(batch_weighing.UNWEIGHED)
    return True


def test_outputs_of_a_fixed_width_reach_other_operators_without_weighing(session: Any) -> None:
    assert is_unweighed(session, chained({}))
    assert not is_unweighed(session, chained()), "no operator reads the output"
    assert not is_unweighed(session, chained({}, schema="k long, v string"))
    assert not is_unweighed(session, chained({}, {"computed": (("text", "repeat('x', 100000)"),)}))


def test_outputs_are_weighed_where_their_rows_may_be_joined_to_others(session: Any) -> None:
    of_the_job = graph.Input(keys=("k",), upstream=None, event_time=None)
    assert not is_unweighed(session, chained({"second": of_the_job}))
    of_an_operator = graph.Input(keys=("k",), upstream=("first", None), event_time=None)
    assert is_unweighed(session, chained({"second": of_an_operator}))


def test_outputs_are_weighed_where_a_batch_may_reach_the_limit(session: Any) -> None:
    session.conf.set(batch_weighing.BYTES, "1m")
    assert not is_unweighed(session, chained({}))
    session.conf.set(batch_weighing.BYTES, "2m")
    assert is_unweighed(session, chained({}))
    parts = tuple((f"p{number}", "sum(v)") for number in range(5))
    assert not is_unweighed(session, chained({"combining": combining.Combining(1, 0, parts)}))


class Twice:
    """Makes a table of each value."""

    def eval(self, value: int) -> Any:
        """Its rows."""
        yield (value,)
        yield (value,)


def in_python(session: Any, kind: str) -> DataFrame:
    """Rows that Python makes, by a function on batches, on columns, or by one that makes tables."""
    if kind == "tables":
        session.udtf.register("twice", F.udtf(Twice, returnType="id long"))
        return session.sql("SELECT made.id FROM range(1) AS given, LATERAL twice(given.id) AS made")
    rows = session.range(1)
    if kind == "batches":
        return rows.mapInArrow(lambda given: given, "id long")
    return rows.select(F.udf(lambda value: value, "long")("id"))


@pytest.mark.parametrize("kind", ["batches", "column", "tables"])
def test_python_in_the_query_keeps_its_batches(session: Any, kind: str) -> None:
    assert not is_idle(in_python(session, kind))


def run(session: Any, folder: Path, select: str) -> list[tuple[str, list[tuple[int, int]]]]:
    """The limit that held in each epoch of a query over two files, and its batches."""
    source = folder / "in"
    source.mkdir()
    for number in range(2):
        values = pa.table({"k": range(ROWS), "v": [number] * ROWS})
        pq.write_table(values, source / f"{number}.parquet")

    def job(spark: Any, params: dict[str, Any]) -> None:
        rows = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1)
        frame = rows.parquet(str(source)).selectExpr("k", f"{select} AS v")
        schema = f"k long, v {frame.schema['v'].dataType.simpleString()}"
        made = sparkstate.keyed(frame, "k").process(slots.Sum(), uid="sum", output_schema=schema)
        made.sink(lambda *_: None)

    declared = graph.declare(job, session, {})
    seen: list[tuple[str, list[tuple[int, int]]]] = []

    def epoch(frame: DataFrame | None, _: int) -> None:
        assert frame is not None
        assert columns.KEY_GROUP in frame.columns
        limit = frame.sparkSession.conf.get(batch_weighing.BYTES)
        seen.append((str(limit), batches_of(frame)))

    started = Query.start(
        session,
        declared,
        folder / "query",
        TriggerSettings(available_now=True),
        epoch,
        SystemClock(),
        selected=shipping.in_query(declared, 128),
    )
    assert started.wait(120)
    assert started.failure is None
    return seen


def test_a_query_of_numbers_is_not_weighed_and_its_sinks_are(session: Any, tmp_path: Path) -> None:
    before = session.conf.get(batch_weighing.BYTES)
    seen = run(session, tmp_path, "v")
    assert [limit for limit, _ in seen] == [str(batch_weighing.UNWEIGHED)] * 2
    assert [sum(rows for rows, _ in batches) for _, batches in seen] == [ROWS, ROWS]
    assert session.conf.get(batch_weighing.BYTES) == before


def test_a_query_of_text_keeps_its_limit(session: Any, tmp_path: Path) -> None:
    session.conf.set(batch_weighing.BYTES, "200000")
    for limit, batches in run(session, tmp_path, "repeat('x', 1000)"):
        assert limit == "200000"
        assert sum(rows for rows, _ in batches) == ROWS
        assert all(size <= 210_000 for _, size in batches)
        assert len(batches) > 20
