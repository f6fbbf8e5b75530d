"""Yielded values come out as they are, or are refused: none becomes another one."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyspark.sql
import pytest

from sparkstate.operators.rows import arrow_rows
from sparkstate.operators.rows.output_columns import OutputError
from sparkstate.serde.row import Row, row_class

LONG, TEXT = pa.int64(), pa.string()
TIME = pa.timestamp("us", "UTC")
POINT = pa.struct([("x", LONG), ("y", LONG)])
MS = 1_711_845_020_000
NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)


class Pair(NamedTuple):
    high: int
    low: int


class Other(NamedTuple):
    b: int
    a: int


def column(kind: pa.DataType, *values: Any) -> list[Any]:
    """What becomes of values in a column of this type."""
    schema = pa.schema([("c", kind)])
    made = arrow_rows.to_batch([(value,) for value in values], schema).column(0)
    made.validate(full=True)
    return arrow_rows.column_values(made)


@pytest.mark.parametrize("value", [1.7, np.float64(1.7), np.float32(0.5), decimal.Decimal("1.5")])
@pytest.mark.parametrize(
    ("kind", "wrapped"),
    [
        pytest.param(LONG, lambda value: value, id="long"),
        pytest.param(pa.int8(), lambda value: value, id="byte"),
        pytest.param(pa.list_(LONG), lambda value: [1, value], id="list"),
        pytest.param(pa.list_(LONG), lambda value: np.array([float(value)]), id="array"),
        pytest.param(pa.map_(TEXT, LONG), lambda value: {"a": 1, "b": value}, id="map"),
        pytest.param(POINT, lambda value: {"x": 1, "y": value}, id="struct by name"),
        pytest.param(POINT, lambda value: (value, 1), id="struct by position"),
        pytest.param(pa.list_(POINT), lambda value: [None, {"y": value}], id="structs"),
    ],
)
def test_a_fraction_is_refused_in_a_column_of_whole_numbers(
    kind: pa.DataType, wrapped: Any, value: Any
) -> None:
    with pytest.raises(
        OutputError, match=r"does not fit column 'c' of type .*it would become [01]; yield int"
    ):
        column(kind, None, wrapped(1), wrapped(value))


def test_whole_numbers_of_other_types_are_taken() -> None:
    values = [2.0, np.int8(3), np.float32(4), decimal.Decimal(5), fractions.Fraction(6), 0, None, 2**63 - 1]
    assert column(LONG, *values) == [2, 3, 4, 5, 6, 0, None, 2**63 - 1]
    assert column(pa.list_(LONG), [np.uint8(200)] * 2, np.array([1, 2]), [2.0]) == [[200, 200], [1, 2], [2]]
    # Sums of NumPy's numbers run over, which is neither an error nor a warning.
    assert column(LONG, *[np.uint8(200)] * 2, *[np.int64(2**62)] * 3) == [200, 200, *[2**62] * 3]
    assert column(LONG, -(2**63), np.uint8(1)) == [-(2**63), 1]


@pytest.mark.parametrize("value", [MS, 5.5, np.int64(5), decimal.Decimal(5)], ids=repr)
@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (TIME, r"datetime.fromtimestamp\(ms / 1000, timezone.utc\), or declare it as bigint"),
        (pa.timestamp("us"), "datetime.fromtimestamp"),
        (pa.date32(), "yield a datetime.date,"),
        (pa.time64("us"), "yield a datetime.time,"),
        (pa.duration("us"), "yield a datetime.timedelta,"),
    ],
    ids=str,
)
def test_a_number_is_refused_in_a_column_of_times(kind: pa.DataType, remedy: str, value: Any) -> None:
    with pytest.raises(
        OutputError, match=f"does not fit column 'c' of type .*a number has no unit here; .*{remedy}"
    ):
        column(kind, None, value)


@pytest.mark.parametrize("kind", [TIME, pa.date32(), pa.time64("us"), pa.duration("us")], ids=str)
def test_a_number_is_refused_among_times_within_a_column(kind: pa.DataType) -> None:
    for wrapped, within in (
        ([5], pa.list_(kind)),
        ((5,), pa.struct([("f", kind)])),
        ({5: 1}, pa.map_(kind, LONG)),
    ):
        with pytest.raises(
            OutputError, match=r"the value 5 .* does not fit column 'c' .*a number has no unit here"
        ):
            column(within, None, wrapped)


@pytest.fixture
def local_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is not in UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("local_zone")
def test_times_of_python_are_taken_and_those_without_a_zone_count_as_utc() -> None:
    assert datetime.datetime.fromtimestamp(0).hour == 19
    local = datetime.datetime(2024, 1, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert column(TIME, NOON, NOON.replace(tzinfo=None), local, None) == [NOON, NOON, NOON, None]
    assert column(pa.list_(TIME), [NOON.replace(tzinfo=None)]) == [[NOON]]
    assert column(pa.date32(), NOON.date()) == [NOON.date()]


def test_a_number_beyond_a_float_column_is_refused() -> None:
    for kind, wrapped in (
        (pa.float32(), lambda value: value),
        (pa.list_(pa.float32()), lambda value: [value]),
    ):
        assert column(kind, wrapped(float("inf")), wrapped(1.5)) == [wrapped(float("inf")), wrapped(1.5)]
        with pytest.raises(OutputError, match=r"1e\+300 .*float.*would become inf; declare it as double"):
            column(kind, wrapped(float("inf")), wrapped(1e300))


def test_a_struct_takes_dicts_of_its_fields_only() -> None:
    assert column(POINT, {"y": 2}, [("y", 2), ("x", 1)]) == [{"x": None, "y": 2}, {"x": 1, "y": 2}]
    assert column(POINT, (1, 2), {"x": 1, "y": 2}) == [{"x": 1, "y": 2}] * 2
    for kind, value in ((POINT, {"x": 1, "typo": 2}), (pa.map_(TEXT, POINT), {"k": {"x": 1, "typo": 2}})):
        with pytest.raises(OutputError, match="the struct has no field typo; it has: x, y"):
            column(kind, value)


def test_text_is_refused_where_a_list_belongs() -> None:
    with pytest.raises(
        OutputError, match=r"'abc' .*a list of its characters would be there; yield \[value\]"
    ):
        column(pa.list_(TEXT), ["abc"], "abc")


@pytest.mark.parametrize(
    "row", [Row.of(high=9, low=1), pyspark.sql.Row(high=9, low=1), Pair(high=9, low=1), {"high": 9, "low": 1}]
)
def test_a_row_with_names_goes_by_them(row: Any) -> None:
    schema = pa.schema([("low", LONG), ("high", LONG)])
    rows = [(1, 9), row, Row.of(low=1, high=9), [1, 9], Row((1, 9)), Other(1, 9), pyspark.sql.Row(1, 9)]
    expected = [{"low": 1, "high": 9}] * len(rows)
    assert arrow_rows.to_batch(rows, schema).to_pylist() == expected
    assert arrow_rows.to_batch(rows, schema, set(map(type, rows))).to_pylist() == expected


@pytest.mark.parametrize(
    "row", [Row.of(hi=9, low=1), pyspark.sql.Row(hi=9, low=1), Row.of(high=9, low=1, x=1)]
)
def test_a_row_of_other_names_is_refused(row: Any) -> None:
    with pytest.raises(OutputError, match=r"the row Row\(hi.* has other names than the output: low, high"):
        arrow_rows.to_batch([(1, 9), row], pa.schema([("low", LONG), ("high", LONG)]))


@pytest.mark.parametrize("row", [Row.of(y=2, x=1), pyspark.sql.Row(y=2, x=1)])
def test_a_row_within_a_column_goes_by_its_names(row: Any) -> None:
    point = {"x": 1, "y": 2}
    assert column(POINT, (1, 2), row, None) == [point, point, None]
    assert column(pa.list_(POINT), [row, (1, 2), None], None, []) == [[point, point, None], None, []]
    assert column(pa.map_(TEXT, POINT), {"k": row}, [("k", row)]) == [{"k": point}] * 2
    nested = pa.struct([("p", POINT), ("n", LONG)])
    assert column(nested, (row, 3), {"p": row, "n": 3}, Row.of(n=3, p=row)) == [{"p": point, "n": 3}] * 3
    with pytest.raises(OutputError, match="it has other names than the struct: x, y"):
        column(POINT, Row.of(x=1, z=2))


@pytest.mark.parametrize(
    ("kind", "pairs", "expected"),
    [
        pytest.param(pa.map_(TEXT, LONG), [("k", 1), ("l", None), ("k", 2)], {"k": 2, "l": None}, id="map"),
        pytest.param(pa.list_(pa.map_(TEXT, LONG)), [[("k", 1)], None], [{"k": 1}, None], id="list"),
        pytest.param(
            pa.struct([("m", pa.map_(TEXT, pa.map_(LONG, TEXT))), ("n", LONG)]),
            {"m": [("k", [(1, "a")]), ("l", None)], "n": 3},
            {"m": {"k": {1: "a"}, "l": None}, "n": 3},
            id="struct of a map of maps",
        ),
        pytest.param(
            pa.map_(POINT, LONG), [({"x": 1, "y": 2}, 3)], [({"x": 1, "y": 2}, 3)], id="struct as key"
        ),
    ],
)
def test_a_map_is_a_dict_in_a_row(kind: pa.DataType, pairs: Any, expected: Any) -> None:
    values = arrow_rows.column_values(pa.array([pairs, None], kind))
    assert values == [expected, None]
    assert column(kind, *values) == values  # and may be yielded as it came


def test_a_list_of_any_kind_may_be_yielded() -> None:
    kinds = [(1, 2), collections.deque([1, 2]), {1, 2}, np.array([1, 2])]
    assert column(pa.list_(LONG), *kinds) == [[1, 2]] * len(kinds)


@pytest.mark.parametrize(
    ("element", "value"),
    [
        (TEXT, {"a": 1}),
        (TEXT, {"a": 1}.keys()),
        (TEXT, (letter for letter in "ab")),
        (TEXT, pd.DataFrame({"a": [1]})),
        (pa.list_(LONG), np.ones((2, 2), int)),
    ],
    ids=["dict", "keys", "generator", "frame", "two dimensions"],
)
def test_other_values_than_lists_are_refused_for_an_array(element: pa.DataType, value: Any) -> None:
    for kind, wrapped in (
        (pa.list_(element), value),
        (pa.map_(TEXT, pa.list_(element)), {"k": value}),
        (pa.struct([("f", pa.list_(element))]), (value,)),
    ):
        with pytest.raises(OutputError, match="does not fit column 'c' of type"):
            column(kind, None, wrapped)


@pytest.mark.parametrize(
    "value",
    [
        [{"key": "a", "value": 1}, {"value": None, "key": "b"}],
        [{"key": "a", "value": 1}, ("b", None)],
        [{"key": "a", "value": 1}, {"key": "b"}],
        pa.scalar([("a", 1), ("b", None)], pa.map_(TEXT, LONG)),
    ],
    ids=["dicts", "a dict and a tuple", "no value", "scalar"],
)
def test_the_pairs_of_a_map_may_be_dicts(value: Any) -> None:
    assert column(pa.map_(TEXT, LONG), value, {"a": 1, "b": None}) == [{"a": 1, "b": None}] * 2
    assert (
        column(pa.map_(TEXT, POINT), [{"key": "a", "value": (1, 2)}], {"a": {"x": 1, "y": 2}})
        == [{"a": {"x": 1, "y": 2}}] * 2
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([{"key": "a", "value": 1.5}], r"1\.5 .*it would become 1; yield int"),
        ([{"key": "a", "value": 1, "typo": 2}], "the struct has no field typo; it has: key, value"),
        (["ab"], r"the value \['ab'\] .* does not fit"),
        ([{"value": 1}], "the value .*'value': 1.* does not fit"),
    ],
    ids=["fraction", "misspelled", "text", "no key"],
)
def test_other_pairs_are_refused_for_a_map(value: Any, why: str) -> None:
    with pytest.raises(OutputError, match=why):
        column(pa.map_(TEXT, LONG), value)
    with pytest.raises(OutputError, match="does not fit"):
        column(pa.map_(TEXT, TEXT), ["ab"])


MAP = pa.map_(TEXT, LONG)


@pytest.mark.parametrize(
    ("kind", "around"),
    [
        (MAP, lambda pairs: pairs),
        (pa.list_(MAP), lambda pairs: [None, {"a": 1}, pairs]),
        (pa.map_(TEXT, MAP), lambda pairs: {"b": None, "a": pairs}),
        (pa.map_(TEXT, MAP), lambda pairs: [{"key": "a", "value": pairs}]),
        (pa.struct([("n", LONG), ("m", MAP)]), lambda pairs: {"m": pairs, "n": 1}),
        (pa.struct([("n", LONG), ("m", MAP)]), lambda pairs: (1, pairs)),
        (pa.struct([("n", LONG), ("m", MAP)]), lambda pairs: pyspark.sql.Row(m=pairs, n=1)),
    ],
    ids=["map", "in a list", "in a map", "in a pair", "in a dict", "in a tuple", "in a row"],
)
def test_none_is_refused_as_a_pair_of_a_map(kind: pa.DataType, around: Any) -> None:
    """Arrow ends the process there."""
    for pairs in ([None], [("a", 1), None]):
        with pytest.raises(OutputError, match="None is not a pair of a map; yield a dict"):
            column(kind, None, around(pairs))
    assert column(kind, None, around([("a", 1)]))[0] is None


MICROSECONDS = np.array([5, 7], "m8[us]")
DAYS = np.array(["2024-01-01"], "M8[us]")


def test_times_of_numpy_are_taken_in_the_unit_of_the_column() -> None:
    five, seven = (datetime.timedelta(microseconds=number) for number in (5, 7))
    of_lists = pa.list_(pa.duration("us"))
    assert column(pa.duration("us"), MICROSECONDS[0], None, five) == [five, None, five]
    assert column(of_lists, list(MICROSECONDS), MICROSECONDS, [five, seven]) == [[five, seven]] * 3
    midnight = NOON.replace(hour=0)
    assert column(pa.list_(TIME), DAYS, [midnight], pd.Series(DAYS.astype("M8[s]"))) == [[midnight]] * 3


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        *[
            (pa.duration("us"), MICROSECONDS.astype(f"m8[{unit}]"), r"\.astype\('timedelta64\[us\]'\)")
            for unit in "sD"
        ],
        *[(TIME, DAYS.astype(f"M8[{unit}]"), r"\.astype\('datetime64\[us\]'\)") for unit in ("s", "ms", "D")],
        (pa.date32(), np.array([5], "M8[ns]"), "yield a datetime.date for each"),
        (pa.duration("us"), [np.timedelta64(5, "s")], "duration"),
        (
            pa.duration("us"),
            [pd.Timedelta(5, "s").as_unit("s")],
            r"would become 0; yield value\.as_unit\('us'\)",
        ),
        (pa.duration("us"), pd.Series(np.array([5], "m8[ms]")), r"yield value\.as_unit\('us'\)"),
        (TIME, [np.timedelta64(5, "us")], "timestamp"),
    ],
    ids=str,
)
def test_times_of_numpy_in_another_unit_are_refused(kind: pa.DataType, value: Any, why: str) -> None:
    """Arrow takes the number of seconds for one of microseconds."""
    with pytest.raises(OutputError, match=f"(?s)does not fit column 'c' of type .*{why}"):
        column(pa.list_(kind), None, value)
    with pytest.raises(OutputError, match=f"(?s)does not fit column 'c' of type .*{why}"):
        column(pa.list_(pa.list_(kind)), None, [value])


class Unread(np.ndarray):
    """Arrow reads its memory; nobody else reads its elements."""

    def __iter__(self) -> Any:
        raise AssertionError


class UnreadList(list[float]):
    __iter__ = Unread.__iter__


class UnreadRow(row_class(("x", "y"))):  # type: ignore[misc]
    __iter__ = Unread.__iter__


@pytest.mark.parametrize("wrapped", [lambda value: value, lambda value: {"f": value}], ids=["list", "struct"])
def test_embeddings_are_not_looked_at_number_by_number(wrapped: Any) -> None:
    floats = pa.list_(pa.float32())
    kind = floats if wrapped(1) == 1 else pa.struct([("f", floats)])
    for value in (np.ones(3, np.float32).view(Unread), np.ones(3).view(Unread), UnreadList([1.0] * 3)):
        assert column(kind, wrapped(value), None) == [wrapped([1.0] * 3), None]
    # With an infinite number among them, those of 32 bits are what they are.
    infinite = np.array([np.inf], np.float32).view(Unread)
    assert column(kind, wrapped(infinite), wrapped([1.0])) == [wrapped([float("inf")]), wrapped([1.0])]
    for value in (np.array([1e300]), [1e300]):
        with pytest.raises(OutputError, match="it would become inf; declare it as double"):
            column(kind, wrapped(infinite), wrapped(value))


def test_rows_in_the_order_of_a_struct_are_taken_by_position() -> None:
    assert column(POINT, UnreadRow((1, 2)), (3, 4)) == [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    of_pyspark = [pyspark.sql.Row(x=1, y=2), pyspark.sql.Row(1, 2)]
    assert column(POINT, *of_pyspark, (1, 2), None) == [*[{"x": 1, "y": 2}] * 3, None]
    with pytest.raises(OutputError, match=r"1\.5 .*it would become 1"):
        column(POINT, UnreadRow((1, 1.5)))
