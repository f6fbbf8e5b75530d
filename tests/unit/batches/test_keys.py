"""The keys of a batch against plain Python: numbering, one value per key, running values."""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.batches import keys as batch_keys
from sparkstate.batches import running
from sparkstate.batches.keys import BatchKeys

LONG = pa.int64()
EXACT = decimal.Context(prec=200)
WHOLE = st.none() | st.integers(-(2**40), 2**40)
FLOATS = st.none() | st.floats(allow_nan=False)
ROWS = st.lists(st.tuples(st.none() | st.integers(-3, 3), WHOLE), max_size=40)
FLOAT_ROWS = st.lists(st.tuples(st.integers(0, 5), FLOATS), max_size=40)
ODD_FLOATS = (
    st.none() | st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5])
)
FLOAT_TYPES = st.sampled_from([pa.float32(), pa.float64()])
LARGE = st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**63 - 1, -(2**63)])


def keys_of(rows: list[tuple[Any, Any]], kind: pa.DataType = LONG) -> BatchKeys:
    """The keys of a batch of rows (key, value)."""
    batch = pa.record_batch(
        {
            "k": pa.array([key for key, _ in rows], pa.int64()),
            "v": pa.array([value for _, value in rows], kind),
        }
    )
    codes, values = batch_keys.of_columns([batch.column("k")])
    return BatchKeys(codes, values, batch)


def grouped(rows: list[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Values by key, keys by first appearance."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return found


@given(ROWS)
def test_keys_are_numbered_by_first_appearance(rows):
    keys, wanted = keys_of(rows), grouped(rows)
    assert keys.values.to_pylist() == list(wanted)
    assert keys.count == len(keys) == len(wanted)
    assert [keys.values[code].as_py() for code in keys.codes] == [key for key, _ in rows]
    assert [rows[row][0] for row in keys.first_rows()] == list(wanted)


@given(st.lists(st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from("ab"), st.booleans())))
def test_several_columns_make_one_key(rows):
    columns = [
        pa.array([row[at] for row in rows], kind)
        for at, kind in enumerate((pa.int64(), pa.string(), pa.bool_()))
    ]
    codes, values = batch_keys.of_columns(columns)
    assert [tuple(value.values()) for value in values.to_pylist()] == list(dict.fromkeys(rows))
    assert [tuple(values[int(code)].as_py().values()) for code in codes] == rows


@given(ROWS)
def test_one_value_per_key(rows):
    keys, wanted = keys_of(rows), grouped(rows).values()
    given_values = [[value for value in values if value is not None] for values in wanted]
    assert keys.size().to_pylist() == [len(values) for values in wanted]
    assert keys.count_of("v").to_pylist() == [len(values) for values in given_values]
    assert keys.sum("v").to_pylist() == [sum(values) if values else None for values in given_values]
    assert keys.min("v").to_pylist() == [min(values, default=None) for values in given_values]
    assert keys.max("v").to_pylist() == [max(values, default=None) for values in given_values]
    assert keys.first("v").to_pylist() == [values[0] for values in wanted]
    assert keys.last("v").to_pylist() == [values[-1] for values in wanted]


def folded(rows: list[tuple[Any, Any]], start: dict[Any, Any], fold: Any) -> list[Any]:
    """The running value of each row."""
    current = dict(start)
    answers = []
    for key, value in rows:
        before = current.get(key)
        if value is not None:
            current[key] = value if before is None else fold(before, value)
        answers.append(current.get(key))
    return answers


DECIMAL_TYPES = st.sampled_from(
    [
        *(pa.decimal32(9, 2), pa.decimal64(18, 0), pa.decimal128(38, 0), pa.decimal128(38, 20)),
        *(pa.decimal256(20, 2), pa.decimal256(76, 0), pa.decimal256(76, 38)),
    ]
)


@st.composite
def rows_of_decimals(draw: st.DrawFn) -> tuple[pa.DataType, list[tuple[int, decimal.Decimal | None]]]:
    kind = draw(DECIMAL_TYPES)
    most = 10**kind.precision - 1
    unscaled = st.integers(-most, most) | st.sampled_from([most, -most])
    values = st.none() | unscaled.map(lambda number: EXACT.scaleb(decimal.Decimal(number), -kind.scale))
    return kind, draw(st.lists(st.tuples(st.integers(0, 2), values), max_size=20))


@given(rows_of_decimals())
def test_a_sum_of_decimals_is_exact_or_refused(drawn):
    kind, rows = drawn
    wanted = []
    for values in grouped(rows).values():
        present = [value for value in values if value is not None]
        total = decimal.Decimal(0)
        for value in present:
            total = EXACT.add(total, value)
        wanted.append(total if present else None)
    digits = 76 if pa.types.is_decimal256(kind) else 38
    unscaled = [EXACT.scaleb((total or decimal.Decimal(0)).copy_abs(), kind.scale) for total in wanted]
    if any(total >= 10**digits for total in unscaled):
        with pytest.raises(errors.StateError, match="cast the column to"):
            keys_of(rows, kind).sum("v")
    elif digits == 38 or may_be_added(kind, rows):
        found = keys_of(rows, kind).sum("v")
        assert found.to_pylist() == wanted
        assert found.type == (
            pa.decimal256(76, kind.scale) if digits == 76 else pa.decimal128(38, kind.scale)
        )


def may_be_added(kind: pa.DataType, rows: list[tuple[Any, Any]]) -> bool:
    """Whether no key of a column of decimal256 can have a sum of more than 76 digits."""
    known = [value.copy_abs() for _, value in rows if value is not None]
    largest = EXACT.scaleb(max(known, default=decimal.Decimal(0)), kind.scale)
    most = max((len(values) for values in grouped(rows).values()), default=0)
    return EXACT.multiply(largest, decimal.Decimal(most)) < 10**76


def test_a_decimal_sum_that_wrapped_around_is_refused_with_the_remedy():
    rows = [(7, decimal.Decimal(9 * 10**37))] * 3
    with pytest.raises(
        errors.StateError, match=r"38 digits of decimal128\(38, 0\).*cast the column to decimal256"
    ):
        keys_of(rows, pa.decimal128(38, 0)).sum("v")
    widened = keys_of(rows, pa.decimal128(38, 0)).column("v").cast(pa.decimal256(76, 0))
    assert keys_of(rows, pa.decimal128(38, 0)).sum(widened).to_pylist() == [decimal.Decimal(27 * 10**37)]


@given(ROWS, st.data())
def test_running_values_of_whole_numbers(rows, data):
    keys = keys_of(rows)
    start = [data.draw(WHOLE) for _ in range(keys.count)]
    begun = {
        key: value for key, value in zip(keys.values.to_pylist(), start, strict=True) if value is not None
    }
    array = pa.array(start, pa.int64())
    assert keys.cumulative_sum("v", start=array).to_pylist() == folded(rows, begun, lambda a, b: a + b)
    assert keys.cumulative_max("v", start=array).to_pylist() == folded(rows, begun, max)
    assert keys.cumulative_min("v", start=array).to_pylist() == folded(rows, begun, min)
    assert keys.cumulative_sum("v").to_pylist() == folded(rows, {}, lambda a, b: a + b)


@given(FLOAT_ROWS)
def test_running_sums_of_floats_add_in_the_order_of_the_rows(rows):
    found = keys_of(rows, pa.float64()).cumulative_sum("v").to_pylist()
    assert shown(found) == shown(folded(rows, {}, lambda a, b: a + b))


def shown(values: list[float | None]) -> list[float | str | None]:
    """The values, a NaN as text: it equals nothing. 0.0 and -0.0 are equal."""
    return ["NaN" if value is not None and math.isnan(value) else value for value in values]


def least(before: float, value: float) -> float:
    """A NaN gives way to any number."""
    return value if math.isnan(before) else before if math.isnan(value) else min(before, value)


def greatest(before: float, value: float) -> float:
    return -least(-before, -value)


@given(st.lists(st.tuples(st.integers(0, 3), ODD_FLOATS), max_size=40), FLOAT_TYPES, st.data())
def test_nan_is_a_least_or_greatest_value_only_where_a_key_has_no_number(rows, kind, data):
    keys = keys_of(rows, kind)
    names = keys.values.to_pylist()
    for found, running_values, fold in (
        (keys.min("v"), keys.cumulative_min, least),
        (keys.max("v"), keys.cumulative_max, greatest),
    ):
        in_all = dict(zip((key for key, _ in rows), folded(rows, {}, fold), strict=True))
        assert shown(found.to_pylist()) == shown([in_all[name] for name in names])
        assert found.type == kind
        assert shown(running_values("v").to_pylist()) == shown(folded(rows, {}, fold))
        start = [data.draw(ODD_FLOATS) for _ in names]
        begun = {name: value for name, value in zip(names, start, strict=True) if value is not None}
        given_start = running_values("v", start=pa.array(start, kind)).to_pylist()
        assert shown(given_start) == shown(folded(rows, begun, fold))


def wrapped(total: int | None) -> int | None:
    """A number as 64 bits hold it."""
    return None if total is None else (total + 2**63) % 2**64 - 2**63


@given(st.lists(st.tuples(st.integers(0, 2), LARGE), max_size=20), st.data())
def test_sums_of_whole_numbers_wrap_around_and_those_of_the_column_as_decimals_do_not(rows, data):
    keys = keys_of(rows)
    exact = dict(zip((key for key, _ in rows), folded(rows, {}, lambda a, b: a + b), strict=True))
    assert keys.sum("v").to_pylist() == [wrapped(total) for total in exact.values()]
    decimals = keys.sum(keys.column("v").cast(pa.decimal128(38, 0)))
    assert decimals.to_pylist() == list(exact.values())
    start = [data.draw(LARGE) for _ in exact]
    begun = {key: value for key, value in zip(exact, start, strict=True) if value is not None}
    found = keys.cumulative_sum("v", start=pa.array(start, LONG)).to_pylist()
    assert found == [wrapped(total) for total in folded(rows, begun, lambda a, b: a + b)]


def test_sums_of_unsigned_numbers_have_64_bits_with_a_sign():
    rows = [(1, 2**63), (2, 2**64 - 1), (2, 3), (1, 2**62)]
    keys = keys_of(rows, pa.uint64())
    assert keys.sum("v").to_pylist() == [-(2**63) + 2**62, 2]
    assert keys.cumulative_sum("v").to_pylist() == [-(2**63), -1, 2, -(2**63) + 2**62]
    assert keys.sum("v").type == keys.cumulative_sum("v").type == LONG


def test_whole_numbers_beside_floats_become_the_nearest_floats():
    keys = keys_of([(1, 2**53 + 1), (1, 1)], LONG)
    start = pa.array([1.5])
    first = 1.5 + float(2**53 + 1)
    assert keys.cumulative_sum("v", start=start).to_pylist() == [first, first + 1]
    assert keys.cumulative_max("v", start=start).to_pylist() == [float(2**53 + 1)] * 2
    floats = keys_of([(1, 0.5)], pa.float64())
    assert floats.cumulative_min("v", start=pa.array([2**60 + 1])).to_pylist() == [0.5]
    assert floats.cumulative_max("v", start=pa.array([2**60 + 1])).to_pylist() == [float(2**60 + 1)]


def test_a_series_in_several_pieces_is_one_array():
    pieces = [pd.Series([number], dtype=pd.ArrowDtype(LONG)) for number in (1, 2)]
    assert batch_keys.to_array(pd.concat(pieces, ignore_index=True)).equals(pa.array([1, 2]))


def test_one_keys_infinity_reaches_no_other_key():
    rows = [(1, math.inf), (2, 1.0), (1, -math.inf), (2, 2.0)]
    found = keys_of(rows, pa.float64()).cumulative_sum("v").to_pylist()
    assert found[1::2] == [1.0, 3.0]
    assert math.isnan(found[2])


@pytest.mark.parametrize("keys", [1, 3, 70_000, 200_000])
def test_a_large_batch_is_folded_in_few_steps(keys, monkeypatch):
    """One key with many rows beside many keys with one: neither way alone would do."""
    rng = np.random.default_rng(keys)
    size = 200_000
    codes = np.concatenate((np.zeros(size // 2, np.int64), rng.integers(0, keys, size // 2)))
    values = rng.random(size)
    steps = []

    class Counted:
        def __call__(self, *arguments):
            steps.append(1)
            return np.add(*arguments)

        def accumulate(self, stretch):
            steps.append(1)
            return np.add.accumulate(stretch)

    monkeypatch.setattr(running, "SUM", running.Running("sum", Counted()))
    batch = pa.record_batch({"k": codes, "v": values})
    found_codes, uniques = batch_keys.of_columns([batch.column("k")])
    found = BatchKeys(found_codes, uniques, batch).cumulative_sum("v").to_numpy()
    wanted = pd.Series(values).groupby(codes).cumsum().to_numpy()
    assert np.allclose(found, wanted)
    assert len(steps) <= 2 * math.isqrt(size) + 2


@given(ROWS)
def test_ranks_and_values_per_row(rows):
    keys = keys_of(rows)
    seen: dict[Any, int] = defaultdict(int)
    ranks = []
    for key, _ in rows:
        seen[key] += 1
        ranks.append(seen[key])
    assert keys.rank().to_pylist() == ranks
    assert keys.take(keys.size()).to_pylist() == [seen[key] for key, _ in rows]


@given(ROWS)
def test_a_sorted_batch_keeps_its_keys(rows):
    batch, keys = keys_of(rows).sort_by("v")
    wanted = sorted(rows, key=lambda row: (row[1] is not None, row[1] or 0))
    assert [tuple(row.values()) for row in batch.to_pylist()] == wanted
    assert [keys.values[code].as_py() for code in keys.codes] == [key for key, _ in wanted]
    values = [[value for key, value in wanted if key == of] for of in keys.values.to_pylist()]
    sums = [[value for value in each if value is not None] for each in values]
    assert keys.sum("v").to_pylist() == [sum(each) if each else None for each in sums]
    assert keys.size().to_pylist() == [len(each) for each in values]
    assert keys.last("v").to_pylist() == [
        [value for key, value in wanted if key == of][-1] for of in keys.values.to_pylist()
    ]


def test_columns_are_named_or_given():
    keys = keys_of([(1, 2), (1, 3), (2, 4)])
    for column in (
        "v",
        pa.array([2, 3, 4]),
        pa.chunked_array([[2], [3, 4]]),
        np.array([2, 3, 4]),
        pd.Series([2, 3, 4]),
    ):
        assert keys.sum(column).to_pylist() == [5, 4]
    with pytest.raises(errors.StateError, match=r"no column 'w'; its columns are: k, v"):
        keys.sum("w")
    with pytest.raises(errors.StateError, match="2 entries, where one per row is needed: 3"):
        keys.sum([1, 2])
    with pytest.raises(errors.StateError, match="3 entries, where one per key is needed: 2"):
        keys.take([1, 2, 3])
    with pytest.raises(errors.StateError, match="needs numbers, not string"):
        keys.cumulative_sum(pa.array(["a", "b", "c"]))


def test_an_empty_batch_has_no_keys():
    keys = keys_of([])
    assert keys.sum("v").to_pylist() == keys.cumulative_sum("v").to_pylist() == keys.rank().to_pylist() == []


ANSWERS = {
    "sum": lambda keys, start: keys.sum("v"),
    "min": lambda keys, start: keys.min("v"),
    "max": lambda keys, start: keys.max("v"),
    "count_of": lambda keys, start: keys.count_of("v"),
    "cumulative_sum": lambda keys, start: keys.cumulative_sum("v", start),
    "cumulative_min": lambda keys, start: keys.cumulative_min("v", start),
    "cumulative_max": lambda keys, start: keys.cumulative_max("v", start),
}
COLUMNS = st.sampled_from(
    [
        (pa.int64(), LARGE),
        (pa.int8(), st.none() | st.integers(-128, 127)),
        (pa.uint64(), st.none() | st.integers(0, 2**64 - 1)),
        (pa.float64(), ODD_FLOATS),
        (pa.float32(), ODD_FLOATS),
        (pa.bool_(), st.none() | st.booleans()),
        (pa.decimal128(10, 2), st.none() | st.decimals(-1000, 1000, places=2)),
    ]
)


@pytest.mark.parametrize("answer", ANSWERS)
@given(data=st.data(), column=COLUMNS, begins=st.booleans())
def test_keys_of_one_row_each_get_what_keys_of_several_rows_get(answer, data, column, begins):
    kind, values = column
    given_values = data.draw(st.lists(values, max_size=8))
    rows = list(enumerate(given_values))
    starts = [data.draw(values) for _ in rows] if begins else None

    def ask(rows, starts):
        keys = keys_of(rows, kind)
        try:
            return ANSWERS[answer](keys, None if starts is None else pa.array(starts, kind))
        except (errors.StateError, pa.ArrowInvalid) as error:
            return type(error)

    found = ask(rows, starts)
    # Two rows of one more key: no key's answer depends on another key's rows.
    several = ask([*rows, (-1, None), (-1, None)], None if starts is None else [*starts, None])
    if isinstance(found, type) or isinstance(several, type):
        assert found == several
        return
    assert found.type == several.type
    shown, wanted = (list(map(repr, each.to_pylist())) for each in (found, several[: len(rows)]))
    if "sum" not in answer:  # NumPy takes either zero as the lesser one, depending on where it lies
        shown, wanted = ([text.replace("-0.0", "0.0") for text in each] for each in (shown, wanted))
    assert shown == wanted
