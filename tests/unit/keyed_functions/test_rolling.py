"""``sum``, ``min`` and ``max``, on batches and row by row, against a plain Python model of Flink's rolling values."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried

from sparkstate import Types, errors
from sparkstate.keyed_functions.rolling import How, Rolling, RollingBatches, RollingRows
from sparkstate.testing import KeyedProcessHarness

ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(-50, 50)), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


def rolling(how: How, kind: Any = None, others: bool = True) -> Rolling:
    kind = kind or Types.LONG()
    columns, types = ("k", "v", "tag"), (Types.STRING(), kind, Types.LONG())
    if not others:
        columns, types = columns[:2], types[:2]
    return Rolling(how=how, field="v", columns=columns, keys=("k",), types=types)


def harness(function: Any, backend: Any = "hashmap", **options: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(
        function, key=lambda row: row.k, key_type=Types.STRING(), backend=backend, **options
    )


def model(how: How, rows: list[tuple[str, Any, Any]]) -> list[tuple[Any, ...]]:
    """By Flink: the first row of the key, one field replaced."""
    folds = {"sum": lambda a, b: a + b, "min": min, "max": max}
    first: dict[str, list[Any]] = {}
    result = []
    for row in rows:
        known = first.get(row[0])
        if known is None:
            first[row[0]] = list(row)
        elif row[1] is not None:
            known[1] = row[1] if known[1] is None else folds[how](known[1], row[1])
        result.append(tuple(first[row[0]]))
    return result


@pytest.mark.parametrize("function", [RollingRows, RollingBatches])
@pytest.mark.parametrize("how", ["sum", "min", "max"])
@settings(max_examples=tried(15), deadline=None)
@given(pushes=st.lists(ROWS, min_size=1, max_size=4), backend=st.sampled_from(["hashmap", "rocksdb"]))
def test_running_values_are_those_of_a_plain_model_however_rows_are_cut(
    function: Any, how: How, pushes: list[list[Any]], backend: str
) -> None:
    with harness(function(rolling(how)), backend) as driven:
        for number, rows in enumerate(pushes):
            driven.process_elements([({"k": k, "v": v, "tag": tag}, None) for k, v, tag in rows])
            if number == 1:
                driven.restore(driven.snapshot())
        assert sorted(map(tuple, driven.output()), key=str) == sorted(
            model(how, [row for rows in pushes for row in rows]), key=str
        )
        by_key = [tuple(row) for row in driven.output() if row[0] == "a"]
        assert by_key == [row for row in model(how, [r for p in pushes for r in p]) if row[0] == "a"]


@pytest.mark.parametrize("how", ["sum", "min", "max"])
def test_rows_go_on_from_the_state_of_batches(how: How) -> None:
    with harness(RollingBatches(rolling(how))) as batches, harness(RollingRows(rolling(how))) as rows:
        batches.process_elements([({"k": "a", "v": 5, "tag": 1}, None), ({"k": "a", "v": 3, "tag": 2}, None)])
        rows.restore(batches.snapshot())
        rows.process_element({"k": "a", "v": 4, "tag": 3})
        assert [tuple(row) for row in rows.output()] == [("a", {"sum": 12, "min": 3, "max": 5}[how], 1)]


def test_without_other_columns_there_is_one_state_a_key() -> None:
    with harness(RollingBatches(rolling("sum", others=False))) as driven:
        driven.process_element({"k": "a", "v": 5})
        assert driven.state("value", "a") == 5
        with pytest.raises(errors.StateError, match="no state 'first'"):
            driven.state("first", "a")


@pytest.mark.parametrize(
    ("kind", "values", "least"),
    [
        (Types.STRING(), ["b", "a", "c"], "a"),
        (
            Types.BIG_DEC(),
            [decimal.Decimal("2.50"), decimal.Decimal("-1"), decimal.Decimal(0)],
            decimal.Decimal(-1),
        ),
        (Types.SQL_DATE(), [datetime.date(2026, 2, 1), datetime.date(2026, 1, 1)], datetime.date(2026, 1, 1)),
    ],
    ids=["text", "decimals", "dates"],
)
def test_whatever_has_an_order_has_a_least_value(kind: Any, values: list[Any], least: Any) -> None:
    with harness(RollingRows(rolling("min", kind))) as driven:
        driven.process_elements([({"k": "a", "v": value, "tag": 0}, None) for value in values])
        assert driven.output()[-1][1] == least


@pytest.mark.parametrize("function", [RollingRows, RollingBatches])
def test_a_nan_is_no_least_value(function: Any) -> None:
    with harness(function(rolling("min", Types.DOUBLE()))) as driven:
        for value in (math.nan, 2.0, math.nan, 1.0):
            driven.process_element({"k": "a", "v": value, "tag": 0})
        found = [row[1] for row in driven.output()]
        assert math.isnan(found[0])
        assert found[1:] == [2.0, 2.0, 1.0]


def test_a_sum_that_its_column_cannot_hold_fails_with_the_remedy() -> None:
    function = RollingBatches(rolling("sum", Types.BYTE()))
    with pytest.raises(errors.StateError, match=r"sum\('v'\) does not fit .* int8 .* bigint"):
        function._narrowed(pa.array([300]), pa.int8())


def test_a_sum_of_floats_that_would_be_infinite_fails_with_the_remedy() -> None:
    """Arrow's cast does not tell it."""
    function = RollingBatches(rolling("sum", Types.FLOAT()))
    with pytest.raises(errors.StateError, match=r"6e\+38 would become infinite in float; .* to double"):
        function._narrowed(pa.array([1.0, 6e38]), pa.float32())
    infinite = function._narrowed(pa.array([float("inf"), 3e38, None]), pa.float32())
    assert infinite.to_pylist()[::2] == [float("inf"), None]


@pytest.mark.parametrize("value", [3.4028235e38, 3.40282352e38, -3.4028235e38, float("inf"), float("nan")])
def test_the_largest_sum_of_floats_is_taken(value: float) -> None:
    limit = rolling("sum", Types.FLOAT()).limit()
    assert limit is not None
    assert limit(value) is None


def test_a_sum_of_decimals_is_exact() -> None:
    """Python itself rounds to 28 digits."""
    large = decimal.Decimal(10**37)
    with harness(RollingRows(rolling("sum", Types.BIG_DEC()))) as driven:
        for value in (large, decimal.Decimal(1), decimal.Decimal("-2")):
            driven.process_element({"k": "a", "v": value, "tag": 0})
        assert [row[1] for row in driven.output()] == [10**37, 10**37 + 1, 10**37 - 1]


def test_a_sum_of_bigint_wraps_around_and_is_refused_where_a_row_may_be_rejected() -> None:
    rows = [({"k": "a", "v": value, "tag": 0}, None) for value in (2**63 - 1, 1)]
    with harness(RollingBatches(rolling("sum", Types.LONG()))) as driven:
        driven.process_elements(rows)
        assert [row[1] for row in driven.output()] == [2**63 - 1, -(2**63)]
    with (
        harness(RollingRows(rolling("sum", Types.LONG()))) as driven,
        pytest.raises(errors.UserCodeError, match=f"{2**63} .*does not fit the declared type LONG"),
    ):
        driven.process_elements(rows)


DECIMAL = decimal.Decimal
TOO_LARGE: dict[str, tuple[Any, Any, list[Any], str]] = {
    "int": (Types.INT(), None, [2**31 - 1, 7, -5], "2147483654 .*type INT; cast the column to bigint"),
    "float": (
        Types.FLOAT(), None, [3e38, 3e38, -1e38], r"6e\+38 would become infinite in float; cast the column to double",
    ),
    "decimal": (
        Types.BIG_DEC(), (3, 1), [DECIMAL("99.9"), DECIMAL("0.1"), DECIMAL("-5")],
        r"100\.0 is not a decimal\(3,1\); cast the column to a wider decimal",
    ),
    "decimal of more places": (
        Types.BIG_DEC(), (38, 1), [DECIMAL("1.5"), DECIMAL("0.25"), DECIMAL("-5")], r"1\.75 is not a decimal",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fields", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_row_whose_sum_its_column_cannot_hold_is_rejected_and_changes_nothing(fields: Any) -> None:
    kind, decimals, (first, over, last), told = fields
    made = replace(rolling("sum", kind), decimals=decimals).function("side-output")
    with harness(made, on_error="side-output") as driven:
        rows = [(first, "a"), (type(first)(1), "b"), (over, "a"), (last, "a"), (None, "a")]
        driven.process_elements([({"k": key, "v": value, "tag": 0}, None) for value, key in rows])
        after = first + last
        assert sorted(map(tuple, driven.output())) == sorted(
            [("a", first, 0), ("b", 1, 0), ("a", after, 0), ("a", after, 0)]
        )
        ((*row, error),) = driven.side_output("errors")
        assert row == ["a", over, 0]
        assert re.search(r"sum\('v'\) does not fit the column's type: .*" + told, error)


def test_the_least_value_is_checked_too_because_its_state_may_be_of_a_wider_column() -> None:
    with harness(rolling("min").function()) as wide:
        wide.process_element({"k": "a", "v": -(2**40), "tag": 0})
        snapshot = wide.snapshot()
    narrow = rolling("min", Types.INT()).function("side-output")
    with harness(narrow, on_error="side-output") as driven:
        driven.restore(snapshot)
        driven.process_elements([({"k": key, "v": 1, "tag": 0}, None) for key in "ab"])
        assert [tuple(row) for row in driven.output()] == [("b", 1, 0)]


@pytest.mark.parametrize("before", [RollingRows, RollingBatches])
@pytest.mark.parametrize("now", [RollingRows, RollingBatches])
def test_another_running_value_does_not_go_on_where_one_was(before: Any, now: Any) -> None:
    with harness(before(rolling("sum"))) as first, harness(now(rolling("max"))) as second:
        first.process_element({"k": "a", "v": 5, "tag": 0})
        with pytest.raises(
            errors.StateMigrationError, match=r"running value was sum and is now max.*another uid"
        ):
            second.restore(first.snapshot())
    with harness(before(rolling("sum"))) as first, harness(now(rolling("sum"))) as second:
        first.process_element({"k": "a", "v": 5, "tag": 0})
        second.restore(first.snapshot())
        second.process_element({"k": "a", "v": 2, "tag": 1})
        assert [tuple(row) for row in second.output()] == [("a", 7, 0)]


def test_a_first_row_with_digits_that_its_column_has_lost_names_the_column() -> None:
    made = Rolling(
        how="sum",
        field="v",
        columns=("k", "v", "d"),
        keys=("k",),
        types=(Types.STRING(), Types.LONG(), Types.BIG_DEC()),
    )
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("d", pa.decimal128(10, 1))])
    with harness(RollingBatches(made)) as before, harness(RollingBatches(made), output_schema=schema) as now:
        before.process_element({"k": "a", "v": 1, "d": DECIMAL("1.25")})
        now.restore(before.snapshot())
        now.process_element({"k": "b", "v": 1, "d": DECIMAL("1.5")})
        with pytest.raises(
            errors.UserCodeError, match=r"column 'd' of type .* does not fit decimal128\(10, 1\)"
        ):
            now.process_element({"k": "a", "v": 1, "d": DECIMAL("1.5")})
