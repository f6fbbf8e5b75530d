"""Each aggregate by itself: its types, and nulls, NaN, overflow and ties."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import statistics

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.aggregates import aggregate, sketch
from sparkstate.aggregates.aggregate import Rows
from sparkstate.aggregates.deviations import Deviation
from sparkstate.aggregates.distinct import DistinctCount
from sparkstate.aggregates.ends import EndValue
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Average, Count, Sum
from sparkstate.operators.batches import arrow_types

LONG, DOUBLE = pa.int64(), pa.float64()
NAN, INF = float("nan"), float("inf")


def result(chosen, values, kind, cuts=(), times=None):
    """The value of one group whose rows come in slices cut at these places, the first slice in two batches."""
    array = pa.array(values, kind)
    stamps = np.array(times if times is not None else range(len(values)), np.int64)
    slices = []
    for start, end in itertools.pairwise([0, *cuts, len(values)]):
        entry = [pa.nulls(1, arrow_types.arrow_type(part.type)) for part in chosen.parts]
        for first, last in ((start, (start + end) // 2), ((start + end) // 2, end)):
            rows = array[first:last]
            if len(rows):
                entry = chosen.fold(entry, Rows(np.zeros(len(rows), np.int64), 1, rows, stamps[first:last]))
        slices.append(entry)
    joined = [pa.concat_arrays(arrays) for arrays in zip(*slices, strict=True)]
    merged = chosen.merge(joined, np.zeros(len(slices), np.int64), 1)
    return chosen.result(merged, np.array([len(values)])).to_pylist()[0]


CASES = [
    ("sum of nothing", Sum(LONG), [None, None], LONG, None),
    ("sum of the largest", Sum(LONG), [2**63 - 1, -1], LONG, 2**63 - 2),
    ("sum that wraps", Sum(LONG, is_checked=False), [2**63 - 1, 1], LONG, -(2**63)),
    ("sum of infinities", Sum(DOUBLE), [INF, 1.0, None], DOUBLE, INF),
    ("sum of narrow numbers", Sum(LONG), [127, 127], pa.int8(), 254),
    ("count", Count(), [1, None, 3], LONG, 2),
    ("count of nothing", Count(), [None], LONG, 0),
    ("average", Average(DOUBLE), [1, 2, None], LONG, 1.5),
    ("average of nothing", Average(DOUBLE), [None], LONG, None),
    ("least with NaN", Extreme(DOUBLE, is_greatest=False), [NAN, 2.5, INF], DOUBLE, 2.5),
    ("greatest of the infinite", Extreme(DOUBLE, is_greatest=True), [-INF, None], DOUBLE, -INF),
    ("greatest of texts", Extreme(pa.string(), is_greatest=True), ["z", "ä", None], pa.string(), "ä"),
    ("least of bytes", Extreme(pa.binary(), is_greatest=False), [b"\xff", b"a"], pa.binary(), b"a"),
    ("greatest of booleans", Extreme(pa.bool_(), is_greatest=True), [False, True, None], pa.bool_(), True),
    ("deviation of one", Deviation(), [5.0, None], DOUBLE, None),
    ("deviation of a population of one", Deviation(is_sample=False), [5.0], DOUBLE, 0.0),
    ("deviation of equal values", Deviation(), [0.1] * 3, DOUBLE, 0.0),
    ("variance of equal values", Deviation(is_sample=False, is_root=False), [21.7] * 7, DOUBLE, 0.0),
    ("deviation of the largest values", Deviation(), [1e308, 1e308, 1e308], DOUBLE, 0.0),
    ("deviation of nothing", Deviation(is_sample=False), [None], DOUBLE, None),
    ("first, which is null", EndValue(LONG, is_last=False), [None, 2], LONG, None),
    ("first that is not null", EndValue(LONG, is_last=False, ignores_nulls=True), [None, 2, 3], LONG, 2),
    ("last that is not null", EndValue(LONG, is_last=True, ignores_nulls=True), [1, 2, None], LONG, 2),
    ("distinct nothing", DistinctCount(), [None], LONG, 0),
    ("distinct zeros", DistinctCount(), [0.0, -0.0, NAN, -NAN], DOUBLE, 2),
]


@pytest.mark.parametrize(
    ("chosen", "values", "kind", "wanted"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_an_aggregate_answers_as_spark_does(chosen, values, kind, wanted):
    for cuts in ([], *([cut] for cut in range(1, len(values)))):
        assert result(chosen, values, kind, cuts) == wanted


def test_nan_is_the_greatest_number():
    for cuts in ((), (1,), (2,)):
        assert math.isnan(result(Extreme(DOUBLE, is_greatest=True), [1.0, NAN, INF], DOUBLE, cuts))
        assert math.isnan(result(Extreme(DOUBLE, is_greatest=False), [NAN, None, NAN], DOUBLE, cuts))


@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1], [2**62] * 9], ids=str)
def test_a_sum_that_does_not_fit_is_an_error_where_spark_is_strict(values):
    for cuts in ((), (1,)):
        with pytest.raises(OverflowError, match="does not fit in 64 bits"):
            result(Sum(LONG), values, LONG, cuts)


def test_decimals_are_summed_and_averaged_exactly():
    kind = pa.decimal128(12, 2)
    values = [decimal.Decimal("0.10"), decimal.Decimal("0.25"), None, decimal.Decimal("9999999999.99")]
    assert result(Sum(pa.decimal128(22, 2)), values, kind, (1,)) == decimal.Decimal("10000000000.34")
    assert result(Average(pa.decimal128(16, 6)), values, kind, (2,)) == decimal.Decimal("3333333333.446667")
    assert result(Extreme(kind, is_greatest=False), values, kind, (1,)) == decimal.Decimal("0.10")
    assert result(EndValue(kind, is_last=True), values, kind) == decimal.Decimal("9999999999.99")


def test_a_decimal_that_does_not_fit_is_null_or_an_error():
    kind = pa.decimal128(4, 0)
    values = [decimal.Decimal(9999), decimal.Decimal(1)]
    assert result(Sum(kind, is_checked=False), values, kind) is None
    with pytest.raises(OverflowError, match="does not fit in decimal128"):
        result(Sum(kind), values, kind)
    widest = pa.decimal128(38, 0)
    with pytest.raises(OverflowError, match="more than 38 digits"):
        result(Sum(widest, is_checked=False), [decimal.Decimal(10**38 - 1)] * 2, widest)


SCALES = [0, 1, 18, 37, 38]
"""Digits behind the point, of 38."""


def decimals(scale, *digits):
    """Decimals whose last digit has this place."""
    exact = decimal.Context(prec=76)
    return [exact.scaleb(decimal.Decimal(each), -scale) for each in digits]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
def test_decimals_of_38_digits_are_summed_and_averaged_wherever_their_point_is(scale, sign):
    kind, most = pa.decimal128(38, scale), sign * (10**38 - 1)
    values = decimals(scale, most - 3 * sign, 2 * sign, sign)
    seven, five, three = decimals(scale, 7 * sign, 5 * sign, 3 * sign)
    for cuts in ((), (1,), (1, 2)):
        assert result(Sum(kind), [*values, None], kind, cuts) == decimals(scale, most)[0]
        assert result(Average(kind), [seven, three], kind, cuts[:1]) == five
    assert result(Average(kind), decimals(scale, most), kind) == decimals(scale, most)[0]


@pytest.mark.parametrize("scale", SCALES[1:])
@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
def test_a_sum_of_decimals_with_one_digit_too_many_is_null_or_an_error(scale, sign):
    kind, values = pa.decimal128(38, scale), decimals(scale, sign * (10**38 - 1), sign)
    for cuts in ((), (1,)):
        assert result(Sum(kind, is_checked=False), values, kind, cuts) is None
        with pytest.raises(OverflowError, match="does not fit in decimal128"):
            result(Sum(kind), values, kind, cuts)


def test_sums_in_state_may_have_more_digits_than_their_column_has_now():
    earlier = pa.array(map(decimal.Decimal, ("0.123456", "1.076544")), pa.decimal256(76, 38))
    (total,) = Sum(pa.decimal128(12, 1)).merge([earlier], np.zeros(2, np.int64), 1)
    assert total.to_pylist() == [decimal.Decimal("1.2")]


def test_an_average_of_the_narrowest_decimals_is_of_their_own_type():
    kind = pa.decimal128(38, 38)  # Spark's average has four digits more, as far as there are any
    most = decimals(38, 10**38 - 1) * 3
    for cuts in ((), (1,), (2,)):
        assert result(Average(kind), most, kind, cuts) == most[0]
        assert result(Average(kind), decimals(38, 1, 1, 3), kind, cuts) == decimals(38, 2)[0]
    assert result(Average(kind), [None], kind) is None


def test_first_and_last_go_by_event_time_and_then_by_arrival():
    times = [5, 1, 1, 9, 9]
    for cuts in ((), (1,), (3,)):
        assert result(EndValue(LONG, is_last=False), [10, 11, 12, 13, 14], LONG, cuts, times) == 11
        assert result(EndValue(LONG, is_last=True), [10, 11, 12, 13, 14], LONG, cuts, times) == 14


@given(
    st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=20),
    st.sets(st.integers(1, 19), max_size=4),
)
def test_deviations_do_not_depend_on_the_slices(values, cuts):
    cuts = sorted(cut for cut in cuts if cut < len(values))
    known = [value for value in values if value is not None]
    found = result(Deviation(), values, DOUBLE, cuts)
    if len(known) < 2:
        assert found is None
    else:
        assert math.isclose(found, statistics.stdev(known), rel_tol=1e-6, abs_tol=1e-6)


DAYS = [datetime.date(2026, 1, day) for day in range(1, 21)]
MANY = [
    ("whole numbers", list(range(5000)), LONG),
    ("texts", [f"user-{number}" for number in range(5000)], pa.string()),
    ("fractions", [number / 7 for number in range(5000)], DOUBLE),
    ("decimals", [decimal.Decimal(number) / 4 for number in range(5000)], pa.decimal128(10, 2)),
    (
        "times",
        [datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=n) for n in range(5000)],
        pa.timestamp("us"),
    ),
    ("days", DAYS, pa.date32()),
    ("booleans", [True, False], pa.bool_()),
]


@pytest.mark.parametrize(("values", "kind"), [case[1:] for case in MANY], ids=[case[0] for case in MANY])
@pytest.mark.parametrize("deviation", [0.01, 0.05, 0.2])
def test_distinct_counts_keep_to_their_deviation(values, kind, deviation):
    found = result(DistinctCount(deviation), values * 2, kind, (len(values) // 3, len(values)))
    assert abs(found - len(values)) <= max(1, 3 * deviation * len(values))


def test_the_mean_error_of_sketches_is_within_the_deviation():
    errors_of = []
    for size in (10, 100, 1000, 20_000):
        for seed in range(20):
            numbers = np.random.default_rng(seed).integers(-(2**62), 2**62, size)
            errors_of.append(result(DistinctCount(0.05), numbers.tolist(), LONG) / size - 1)
    assert math.sqrt(statistics.fmean(error * error for error in errors_of)) < 0.05
    assert abs(statistics.fmean(errors_of)) < 0.02


@given(st.lists(st.integers(0, 511), max_size=300))
def test_a_sketch_comes_back_as_it_was_stored(places):
    registers = np.zeros(512, np.uint8)
    registers[places] = 7
    opened = np.zeros(512, np.uint8)
    sketch.merge_into(opened, sketch.encode(registers))
    assert opened.tolist() == registers.tolist()
    assert len(sketch.encode(registers)) <= 513


@pytest.mark.parametrize(("scale", "wanted"), [(2, 0xE7804621F638F8D2), (4, 0x1FBB73CE92A25FA5)])
def test_sketches_in_state_know_a_decimal_by_all_digits_of_its_scale(scale, wanted):
    """No other form may take the place of this one: values of columns whose scale never changed would count again."""
    values = pa.array([decimal.Decimal("1.5")], pa.decimal128(12, scale))
    assert sketch.hashes(values).tolist() == [wanted]


@given(st.integers(0, 2**64 - 1), st.integers(sketch.LEAST_BITS, sketch.MOST_BITS))
def test_a_register_has_the_leading_zeros_of_a_hash(number, bits):
    register, content = sketch.contents(np.array([number], np.uint64), bits)
    rest = format(number, "064b")[bits:]
    assert register[0] == number >> (64 - bits)
    assert content[0] == len(rest) - len(rest.lstrip("0")) + 1


@pytest.mark.parametrize("deviation", [0, -0.1, 0.5, 0.001, NAN], ids=str)
def test_a_deviation_that_no_sketch_has_is_refused(deviation):
    with pytest.raises(errors.SpecInvalid, match="must lie between"):
        DistinctCount(deviation)


@pytest.mark.parametrize(
    "kind", [pa.list_(LONG), pa.duration("us"), pa.struct([("a", LONG)]), pa.null()], ids=str
)
def test_types_without_a_state_are_refused(kind):
    with pytest.raises(errors.SpecInvalid, match="cannot be aggregated"):
        aggregate.state_type(kind)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 1), "size is 0"),
        ((10, 0), "slide is 0"),
        ((10, 5, 5), "offset is 5"),
        ((10, 5, 0, -1), "lateness is -1"),
        ((1.5, 1), "size is 1.5"),
        ((True, 1), "size is True"),
        ((10**17, 10), "size is"),
        ((86_400_000, 7), "at most 100000 are possible"),
    ],
    ids=str,
)
def test_windows_that_cannot_be_cut_are_refused(shape, message):
    with pytest.raises(errors.SpecInvalid, match=message):
        Slices(*shape)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(-59, 59), st.integers(-200, 200))
def test_a_slice_belongs_to_the_windows_that_hold_it(size, slide, offset, time):
    offset = int(math.fmod(offset, slide))
    slices = Slices(size, slide, offset)
    start = int(slices.of(np.array([time]))[0])
    assert start <= time < start + slices.width
    holding = [end for end in range(time + 1, time + size + 1) if (end - size - offset) % slide == 0]
    assert bool(slices.has_window(np.array([start]))[0]) == bool(holding)
    if holding:
        assert slices.first_ends(np.array([start]))[0] == min(holding)
        assert slices.last_ends(np.array([start]))[0] == max(holding)
        assert all(start in slices.of_windows(np.array([end]))[0] for end in holding)
