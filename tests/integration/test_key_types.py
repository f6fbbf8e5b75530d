"""A key column of another Spark type: refused where its keys would not find their state, by check and start alike."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.commands.checked import Checked
from support.spark import spark_session

import sparkstate
from sparkstate import errors
from sparkstate.checkpoint import key_columns
from sparkstate.checkpoint.key_columns import KeyColumn
from sparkstate.spark import graph, plans
from sparkstate_tools.drivers import driving, totals

pytestmark = pytest.mark.spark

TYPES = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(4,1)",
    "decimal(5,2)",
    "decimal(18,2)",
    "decimal(19,2)",
    "decimal(38,2)",
)
JOB = """
import totals
import sparkstate
from pyspark.sql import functions as F

def job(spark, params):
    rows = totals.source(spark, params).withColumn("user", F.col("v").cast(params["user"]))
    first = sparkstate.keyed(rows, "user").process(
        totals.Groups(), uid="first", output_schema=f"v {params['v']}, count bigint")
    again = first.keyed("v").process(totals.Groups(), uid="again", output_schema="v bigint, count bigint")
    again.sink(sparkstate.FileSink(params["output"] + "/again"))
"""


@pytest.mark.parametrize("one", TYPES)
def test_types_are_a_change_exactly_where_spark_hashes_them_otherwise(one: str) -> None:
    """Seven as a key of each type: those of one type in the slots alone, because others are told by the states."""
    session = spark_session.get()
    in_slots = {kind: plans.key_type("k", plans.schema_of(f"k {kind}", "x")["k"].dataType) for kind in TYPES}
    others = [kind for kind in TYPES if in_slots[kind].describe() == in_slots[one].describe()]
    hashes = [F.xxhash64(F.lit(7).cast(kind)).alias(f"h{at}") for at, kind in enumerate((one, *others))]
    row = session.range(1).select(*hashes).first()
    assert row is not None
    mine, *theirs = row
    assert [is_a_change(one, other) for other in others] == [other != mine for other in theirs]


def is_a_change(one: str, other: str) -> bool:
    before, now = (KeyColumn(name="k", type=kind) for kind in (one, other))
    return bool(list(key_columns.changes("op", [before], [now])))


def files(folder: Path, kinds: str = "k int, v double, n array<int>") -> DataFrame:
    reader = spark_session.get().readStream.schema(kinds).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def declared(*frames: DataFrame) -> graph.Graph:
    def job() -> None:
        counted = sparkstate.keyed(list(frames), "k").process(
            sparkstate.KeyedProcessFunction(), uid="u", output_schema="k int"
        )
        counted.sink(lambda frame, epoch: None)

    return graph.declare(job)


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (
            "k bigint, v double, n array<int>",
            "column 'k' is int in one DataFrame of keyed(), and bigint in another",
        ),
        (
            "k int, v float, n array<int>",
            "column 'v' is double in one DataFrame of keyed(), and float in another",
        ),
        (
            "k int, v double, n array<bigint>",
            "column 'n' is array<int> in one DataFrame of keyed(), and array<bigint>",
        ),
        ("k int, v double", "the DataFrames of one keyed() differ in columns"),
    ],
    ids=["the key", "another column", "within a column", "a column less"],
)
def test_dataframes_of_one_input_with_other_types_are_refused(tmp_path: Path, kinds: str, told: str) -> None:
    """Spark would widen the key of both, and keys of the other input of connect() would not meet it."""
    with pytest.raises(errors.SpecInvalid) as refused:
        declared(files(tmp_path), files(tmp_path, kinds))
    assert told in str(refused.value)


def test_the_dataframes_of_a_broadcast_stream_have_the_same_types_too(tmp_path: Path) -> None:
    rules = sparkstate.MapStateDescriptor("rules", sparkstate.Types.LONG(), sparkstate.Types.LONG())
    both = [files(tmp_path), files(tmp_path, "k bigint, v double, n array<int>")]
    with pytest.raises(errors.SpecInvalid, match="bigint in another; cast one of them"):
        graph.declare(lambda: sparkstate.broadcast(both, rules))


def test_dataframes_of_one_input_may_order_columns_and_hold_nulls_as_they_like(tmp_path: Path) -> None:
    never_null = files(tmp_path).select("n", F.lit(1.0).alias("v"), F.lit(1).alias("k"))
    assert len(declared(files(tmp_path), never_null).sources) == 2


def version(folder: Path, user: str, v: str, slots: int = 2) -> dict[str, Any]:
    (folder / "own.py").write_text(JOB)
    shutil.copy(driving.JOBS / "totals.py", folder)
    document = driving.manifest(
        folder, "totals.py", slots=slots, params={"user": user, "v": v}, restart={"strategy": "none"}
    )
    document["spec"]["pythonFile"] = str(folder / "own.py")
    return document


@pytest.mark.slow
def test_a_key_of_another_hash_is_refused_by_the_check_in_the_words_of_the_start(tmp_path: Path) -> None:
    """Also where the key is a column of another operator's output."""
    rows = totals.make_input(tmp_path / "in", files=1)
    with driving.Driver(tmp_path, version(tmp_path, "int", "int")) as first:
        first.finish()
    for attempt, (user, v, told) in enumerate(
        [
            (
                "bigint",
                "int",
                ("first: type of key column 'user' int", "first: type of key column 'user' bigint"),
            ),
            ("int", "bigint", ("again: type of key column 'v' int", "again: type of key column 'v' bigint")),
        ],
        2,
    ):
        changed = version(tmp_path, user, v)
        found = Checked(tmp_path, changed, "-o", "json")
        assert found.code == 3, found.err
        assert "as-it-is" in found.outcomes().values(), "the types of states alone show nothing"
        (key,) = found.document["differences"]
        assert (key["field"], key["stored"], key["declared"]) == ("keys", *told)
        with driving.Driver(tmp_path, changed, attempt=attempt) as refused:
            assert refused.wait() == 3
        assert refused.end()["reason"] == "StateMigrationError"
        assert refused.end()["message"].endswith(key["message"].partition(" has state of ")[2])

    rows += totals.make_input(tmp_path / "in", files=1, first=1)
    shared = version(tmp_path, "smallint", "tinyint", slots=3)
    same = Checked(tmp_path, shared, "-o", "json")
    assert [one["field"] for one in same.document["differences"]] == ["spec.slots"], same.err
    assert same.document["notices"] == []
    with driving.Driver(tmp_path, shared, attempt=4) as later:
        later.finish()
    out = totals.read(tmp_path / "out" / "again")
    counts = {value: sum(row[2] == value for row in rows) for value in range(10)}
    assert {value: max(row["count"] for row in out if row["v"] == value) for value in counts} == counts
