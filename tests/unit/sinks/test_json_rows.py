"""Each row is one line of JSON, whatever is in it: maps as objects, numbers that are not finite as text."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkstate.sinks import file_sink, json_rows

NAN, INF = float("nan"), float("inf")
TEXT, LONG, DOUBLE = pa.string(), pa.int64(), pa.float64()


def written(values: list[Any], kind: pa.DataType) -> list[Any]:
    """The values as a strict reader of JSON finds them."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    batch = pa.record_batch({"v": pa.array(values, kind)})
    return [json.loads(line, parse_constant=refuse)["v"] for line in json_rows.lines(batch)]


@pytest.mark.parametrize("kind", [pa.float32(), DOUBLE], ids=str)
def test_numbers_that_are_not_finite_are_text(kind: pa.DataType) -> None:
    assert written([NAN, INF, -INF, 1.5, None], kind) == ["NaN", "Infinity", "-Infinity", 1.5, None]


@pytest.mark.parametrize(
    "kind", [pa.list_(DOUBLE), pa.large_list(DOUBLE), pa.list_(DOUBLE, 2)], ids=["list", "large", "fixed"]
)
def test_numbers_that_are_not_finite_are_text_in_arrays(kind: pa.DataType) -> None:
    assert written([[NAN, None], None, [1.0, INF]], kind) == [["NaN", None], None, [1.0, "Infinity"]]


def test_a_map_is_an_object_and_an_empty_one_too() -> None:
    maps = [{"a": 1, "b": None}, {}, None]
    assert written([None if one is None else list(one.items()) for one in maps], pa.map_(TEXT, LONG)) == maps


def test_maps_and_infinite_numbers_are_found_at_any_depth() -> None:
    inner = pa.struct([("m", pa.map_(LONG, DOUBLE)), ("n", LONG)])
    value = [("a", [{"m": [(1, INF), (2, None)], "n": 3}, None, {"m": None, "n": None}])]
    assert written([value], pa.map_(TEXT, pa.list_(inner))) == [
        {"a": [{"m": {"1": "Infinity", "2": None}, "n": 3}, None, {"m": None, "n": None}]}
    ]


DAY = datetime.date(2026, 1, 2)
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 100_000)


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        (7, LONG, "7"),
        (True, pa.bool_(), "true"),
        (False, pa.bool_(), "false"),
        (decimal.Decimal("1.50"), pa.decimal128(5, 2), "1.50"),
        (DAY, pa.date32(), "2026-01-02"),
        (MOMENT, pa.timestamp("us"), "2026-01-02T03:04:05.100000"),
        (MOMENT, pa.timestamp("us", "UTC"), "2026-01-02T03:04:05.100000+00:00"),
        (b"\x00\xff", pa.binary(), "00ff"),
        ([1, None], pa.list_(LONG), "[1, null]"),
        ({"x": NAN}, pa.struct([("x", DOUBLE)]), '{"x": "NaN"}'),
        ({"x": "é"}, pa.struct([("x", TEXT)]), '{"x": "é"}'),
        (0.1, pa.float32(), "0.1"),
        (NAN, pa.float32(), "NaN"),
        (-INF, DOUBLE, "-Infinity"),
    ],
    ids=str,
)
def test_a_key_of_any_type_is_text(key: Any, kind: pa.DataType, text: str) -> None:
    assert written([[(key, 1)]], pa.map_(kind, LONG)) == [{text: 1}]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (1234567.0, "1234567.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (0.001, "0.001"),
        (0.00025, "2.5E-4"),
        (-1e20, "-1.0E20"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_a_key_of_floating_point_has_the_text_that_java_gives_it(number: float, text: str) -> None:
    assert written([[(number, 1)]], pa.map_(DOUBLE, LONG)) == [{text: 1}]


def test_other_values_have_the_forms_that_older_files_have(tmp_path: Path) -> None:
    values = {
        "n": (7, LONG),
        "s": ("é\n", TEXT),
        "d": (decimal.Decimal("12.50"), pa.decimal128(12, 2)),
        "b": (b"\x00\xff", pa.binary()),
        "day": (DAY, pa.date32()),
        "at": (MOMENT, pa.timestamp("us", "UTC")),
        "none": (None, LONG),
        "f": (1e20, DOUBLE),
    }
    table = pa.table({name: pa.array([value], kind) for name, (value, kind) in values.items()})
    file_sink._WRITERS["json"](pa.concat_tables([table, table]), tmp_path / "out", {})
    line = (
        '{"n": 7, "s": "é\\n", "d": "12.50", "b": "00ff", "day": "2026-01-02", '
        '"at": "2026-01-02T03:04:05.100000+00:00", "none": null, "f": 1e+20}\n'
    )
    assert (tmp_path / "out").read_bytes() == 2 * line.encode()
