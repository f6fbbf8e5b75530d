"""Dates and timestamps in years that Python does not have are written as Spark reads them, and stop no checkpoint."""

from __future__ import annotations

import csv
import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import storage
from sparkstate.settings import S3Settings
from sparkstate.sinks import far_times, file_sink
from sparkstate.sinks.file_sink import FileSink, FileSinkWriter

UTC, NTZ, DATE = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()
DAY_US = 86_400_000_000
TIMES = {
    2**63 - 1: "+294247-01-10T04:00:54.775807",
    -(2**63): "-290308-12-21T19:59:05.224192",
    253_402_300_800_000_000: "+10000-01-01T00:00:00",
    253_402_300_799_999_999: "9999-12-31T23:59:59.999999",
    -62_135_596_800_000_000: "0001-01-01T00:00:00",
    -62_135_596_800_000_001: "0000-12-31T23:59:59.999999",
    -62_167_219_200_000_001: "-0001-12-31T23:59:59.999999",
    0: "1970-01-01T00:00:00",
}
DATES = {
    2**31 - 1: "+5881580-07-11",
    -(2**31): "-5877641-06-23",
    2_932_897: "+10000-01-01",
    -719_529: "-0001-12-31",
    0: "1970-01-01",
}


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Of numbers, because Python has no such times."""
    return pa.array(values, far_times.numbers(kind)).cast(kind)


def staged(folder: Path, form: str, **columns: pa.Array) -> Path:
    """The file that a checkpoint stages of these columns."""
    sink = FileSink(str(folder / "out"), form)  # type: ignore[arg-type]
    sink.check(pa.schema([(name, column.type) for name, column in columns.items()]), "totals")
    file_sink.begin(storage.open_store(sink.path), "abcdef0123456789", 1)
    writer = FileSinkWriter(sink, "totals", 0, 1, "abcdef0123456789", folder / "held", S3Settings())
    writer.hold([pa.record_batch(columns)])
    return folder / "out" / writer.stage(writer.rotate(1), 1, 1).staged


def lines(folder: Path, **columns: pa.Array) -> list[dict[str, Any]]:
    return [json.loads(line) for line in staged(folder, "json", **columns).read_text().splitlines()]


def test_json_has_the_text_that_spark_has_for_any_year(tmp_path: Path) -> None:
    days = [*DATES, None, None, None]
    found = lines(tmp_path, utc=array([*TIMES], UTC), ntz=array([*TIMES], NTZ), day=array(days, DATE))
    assert [row["ntz"] for row in found] == [*TIMES.values()]
    assert [row["utc"] for row in found] == [f"{text}+00:00" for text in TIMES.values()]
    assert [row["day"] for row in found] == [*DATES.values(), None, None, None]


def test_json_has_them_at_any_depth(tmp_path: Path) -> None:
    far, text = 2**63 - 1, "+294247-01-10T04:00:54.775807"
    inner = pa.struct([("at", NTZ), ("day", DATE), ("n", pa.float64())])
    nested = array(
        [[("a", [{"at": far, "day": 0, "n": float("inf")}, None])], None],
        pa.map_(pa.string(), pa.list_(inner)),
    )
    keys = array([[(far, 1), (0, 2)], []], pa.map_(NTZ, pa.int64()))
    struct_keys = array([[({"x": far}, 1)], []], pa.map_(pa.struct([("x", UTC)]), pa.int64()))
    pair = array([[far, None], None], pa.list_(NTZ, 2))
    first, second = lines(tmp_path, nested=nested, keys=keys, struct_keys=struct_keys, pair=pair)
    assert first["nested"] == {"a": [{"at": text, "day": "1970-01-01", "n": "Infinity"}, None]}
    assert first["keys"] == {text: 1, "1970-01-01T00:00:00": 2}
    assert first["struct_keys"] == {f'{{"x": "{text}+00:00"}}': 1}
    assert first["pair"] == [text, None]
    assert second == {"nested": None, "keys": {}, "struct_keys": {}, "pair": None}


def test_csv_has_the_year_and_not_another_one(tmp_path: Path) -> None:
    """Arrow writes ``<value out of range: …>`` for these, and beside a zone another year."""
    times = [2**63 - 1, -(2**63), 253_402_300_800_000_000, 0, None]
    days = [2**31 - 1, -(2**31), 2_932_897, 0, None]
    file = staged(tmp_path, "csv", utc=array(times, UTC), ntz=array(times, NTZ), day=array(days, DATE))
    with file.open(newline="") as text:
        head, *rows = csv.reader(text)
    assert head == ["utc", "ntz", "day"]
    assert rows == [
        ["294247-01-10 04:00:54.775807Z", "294247-01-10 04:00:54.775807", "5881580-07-11"],
        ["-290308-12-21 19:59:05.224192Z", "-290308-12-21 19:59:05.224192", "-5877641-06-23"],
        ["10000-01-01 00:00:00.000000Z", "10000-01-01 00:00:00.000000", "10000-01-01"],
        ["1970-01-01 00:00:00.000000Z", "1970-01-01 00:00:00.000000", "1970-01-01"],
        ["", "", ""],
    ]


def test_parquet_has_the_numbers(tmp_path: Path) -> None:
    columns = {"utc": array([*TIMES], UTC), "ntz": array([*TIMES], NTZ)}
    assert pa.parquet.read_table(staged(tmp_path, "parquet", **columns)).equals(pa.table(columns))


@given(st.datetimes())
def test_a_time_that_python_has_gets_the_text_that_python_gives_it(moment: datetime.datetime) -> None:
    micros = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert far_times.timestamp_text(micros) == moment.isoformat()
    assert far_times.date_text(micros // DAY_US) == moment.date().isoformat()


@given(st.integers(-(2**63), 2**63 - 1))
def test_400_years_later_only_the_year_is_another(micros: int) -> None:
    def year_and_rest(text: str) -> tuple[int, str]:
        year, dash, rest = text[1:].partition("-")
        return int(text[0] + year), dash + rest

    one, other = (
        year_and_rest(far_times.timestamp_text(each)) for each in (micros, micros + 146_097 * DAY_US)
    )
    assert (one[0] + 400, one[1]) == other
