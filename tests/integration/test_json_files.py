"""What a JSON sink writes, Spark reads back: one row of each type, beside the file that Spark's own writer makes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T
from support.spark import spark_session

from sparkstate.sinks import file_sink

pytestmark = pytest.mark.spark

READ_BACK = {
    "byte": "cast(-7 as tinyint)",
    "long": "9223372036854775807L",
    "boolean": "true",
    "string": """'é"\\n\\u2028'""",
    "float": "cast(0.1 as float)",
    "float NaN": "float('NaN')",
    "double": "1e-7D",
    "NaN": "double('NaN')",
    "infinity": "double('Infinity')",
    "negative infinity": "double('-Infinity')",
    "decimal": "cast(12.50 as decimal(12,2))",
    "small decimal": "cast(1e-38 as decimal(38,38))",
    "date": "date'0001-02-03'",
    "timestamp": "timestamp'2026-01-02 03:04:05.123456Z'",
    "timestamp to the second": "timestamp'2026-01-02 03:04:05+02:00'",
    "timestamp without zone": "timestamp_ntz'2026-01-02 03:04:05.123456'",
    "array": "array(1, null)",
    "struct": "named_struct('x', cast(null as int), 'y', 2D)",
    "map": "map('a', 1, 'b', null)",
    "map in an array in a map": "map('a', array(map('b', double('-Infinity'))))",
}
SAME_TEXT = {
    "of whole numbers": "map(1, 2)",
    "of doubles": "map(1.5D, 1, 1e20D, 2, 1e-7D, 3, 12345678D, 4, double('NaN'), 5)",
    "of floats": "map(cast(0.1 as float), 1, cast(2.5e7 as float), 2)",
    "of decimals": "map(cast(1.50 as decimal(5,2)), 1)",
    "of small decimals": "map(cast(1e-18 as decimal(38,18)), 1)",
    "of booleans": "map(true, 1, false, 2)",
    "of maps": "map('a', map(1, named_struct('z', map(2, double('Infinity')))))",
}


@pytest.fixture(scope="module")
def spark() -> Any:
    return spark_session.get()


def is_same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and math.isnan(wanted):
        return isinstance(found, float) and math.isnan(found)
    return bool(found == wanted)


@pytest.mark.parametrize("sql", READ_BACK.values(), ids=READ_BACK)
def test_spark_reads_a_value_back_under_its_own_type(spark: Any, tmp_path: Path, sql: str) -> None:
    frame = spark.sql(f"select {sql} as v")
    file_sink._WRITERS["json"](frame.toArrow(), tmp_path / "file.json", {})
    schema = T.StructType([T.StructField("v", frame.schema["v"].dataType)])
    (row,) = spark.read.schema(schema).option("mode", "FAILFAST").json(str(tmp_path / "file.json")).collect()
    assert is_same(row["v"], frame.first()["v"])


@pytest.mark.parametrize("kind", ["float", "double"])
def test_spark_reads_back_numbers_that_are_not_finite_from_csv(spark: Any, tmp_path: Path, kind: str) -> None:
    values = [1.5, math.nan, math.inf, -math.inf, None, -2.0]
    column = pa.array(values, pa.float32() if kind == "float" else pa.float64())
    table = pa.table({"v": pa.chunked_array([column[:2], column[2:]]), "n": list(range(len(values)))})
    file_sink._WRITERS["csv"](table, tmp_path / "file.csv", {})
    reader = spark.read.schema(f"v {kind}, n int").option("header", True).option("mode", "FAILFAST")
    rows = reader.csv(str(tmp_path / "file.csv")).orderBy("n").collect()
    assert [is_same(row["v"], wanted) for row, wanted in zip(rows, values, strict=True)] == [True] * len(
        values
    )


@pytest.mark.parametrize("form", ["json", "csv"])
def test_spark_reads_back_times_in_years_that_python_does_not_have(
    spark: Any, tmp_path: Path, form: str
) -> None:
    """Python cannot hold them either, so Spark compares their numbers."""
    us = [-(2**63) + 1, -62_167_219_200_000_001, -62_135_596_800_000_001, 253_402_300_800_000_000, 2**63 - 1]
    day = [-(2**31), -719_529, -719_163, 2_932_897, 2**31 - 1]
    table = pa.table(
        {
            "at": pa.array(us, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "ntz": pa.array(us, pa.int64()).cast(pa.timestamp("us")),
            "day": pa.array(day, pa.int32()).cast(pa.date32()),
        }
    )
    file_sink._WRITERS[form](table, tmp_path / "file", {})
    reading = spark.read.schema("at timestamp, ntz timestamp_ntz, day date").option("mode", "FAILFAST")
    frame = getattr(reading.option("header", True), form)(str(tmp_path / "file"))
    rows = frame.selectExpr(
        "unix_micros(at)", "unix_micros(cast(ntz as timestamp))", "unix_date(day)"
    ).collect()
    assert [tuple(row) for row in rows] == [*zip(us, us, day, strict=True)]


@pytest.mark.parametrize("sql", SAME_TEXT.values(), ids=SAME_TEXT)
def test_keys_of_maps_have_the_text_of_sparks_own_files(spark: Any, tmp_path: Path, sql: str) -> None:
    frame = spark.sql(f"select {sql} as v")
    file_sink._WRITERS["json"](frame.toArrow(), tmp_path / "file.json", {})
    frame.write.json(str(tmp_path / "sparks"))
    (sparks,) = (tmp_path / "sparks").glob("part-*.json")
    assert json.loads((tmp_path / "file.json").read_text()) == json.loads(sparks.read_text())


def test_bytes_are_hexadecimal_text(spark: Any, tmp_path: Path) -> None:
    file_sink._WRITERS["json"](spark.sql("select X'00ff7e' as v").toArrow(), tmp_path / "file.json", {})
    read = spark.read.schema("v string").json(str(tmp_path / "file.json"))
    assert read.selectExpr("unhex(v) as v").first()["v"] == b"\x00\xff\x7e"
