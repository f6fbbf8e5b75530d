"""Sums at the ends of their type in windows that are merged from tails and fronts. A merge of some slices of a window
need not fit where the window does."""

from __future__ import annotations

import decimal
import itertools
import random
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.operators.window_harness import harness

from sparkstate import errors
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.aggregate import Aggregate
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.kept_merges import HERE
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Average, Sum
from sparkstate.aggregates.tails import TURN
from sparkstate.testing import KeyedProcessHarness

LONG, DECIMAL = pa.int64(), pa.decimal128(38, 0)
LARGE = {LONG: 9 * 10**18, DECIMAL: decimal.Decimal(9).scaleb(37)}
"""Of each type a number that fits, and its double does not."""
SLICES = Slices(40, 10)
BACKENDS: tuple[Any, ...] = ("hashmap", "rocksdb")
Pattern = tuple[int, ...]
"""The value of each slice: -1, 0 or 1, in large numbers."""
STEPS = {"one by one": range(9, 100, 10), "together": [1_000]}
"""Watermarks."""


def totals(pattern: Pattern) -> list[int]:
    """Of the windows, in large numbers. All but the first three and the last three have four slices."""
    return [sum(pattern[max(0, end - 4) : end]) for end in range(1, len(pattern) + 4)]


PATTERNS = list(itertools.product((-1, 0, 1), repeat=6))
FITTING = [pattern for pattern in PATTERNS if max(map(abs, totals(pattern))) <= 1]


def outputs_of(kind: pa.DataType) -> tuple[Output, ...]:
    """The least value has no inverse, so these windows are merged from tails."""
    least = Output("least", "min", Extreme(kind, is_greatest=False), "v", kind)
    return Output("total", "sum", Sum(kind), "v", kind), least


def rows_of(pattern: Pattern, key: int, kind: pa.DataType) -> list[tuple[dict[str, Any], int]]:
    return [({"k": key, "v": value * LARGE[kind]}, number * 10) for number, value in enumerate(pattern)]


def end_windows(opened: KeyedProcessHarness, step: str) -> None:
    for watermark in STEPS[step]:
        opened.process_watermark(watermark)


def totals_by_key(opened: KeyedProcessHarness, kind: pa.DataType) -> dict[int, list[int]]:
    """In the order of windows, in large numbers."""
    found: dict[int, list[int]] = defaultdict(list)
    for row in sorted(opened.output(), key=lambda row: row.window_end):
        found[row.k].append(int(row.total / LARGE[kind]) if row.total else 0)
    return found


@pytest.mark.parametrize("kind", LARGE, ids=str)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sum_fits_where_those_of_its_windows_and_slices_do(
    backend: Any, step: str, kind: pa.DataType
) -> None:
    with harness(SLICES, outputs_of(kind), backend=backend) as opened:
        opened.process_elements(
            [row for key, pattern in enumerate(FITTING) for row in rows_of(pattern, key, kind)]
        )
        end_windows(opened, step)
        assert totals_by_key(opened, kind) == {key: totals(pattern) for key, pattern in enumerate(FITTING)}
        assert opened.num_event_timers() == 0
        taken = opened.snapshot()
    with harness(SLICES, outputs_of(kind)) as end:  # RocksDB only estimates its rows
        end.restore(taken)
        assert sum(store.stats().rows for store in end._stores.values()) == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_so_it_is_with_late_rows_and_restarts(backend: Any) -> None:
    """Of most keys one slice is late by one window, which is put out twice."""
    slices, size, patterns = replace(SLICES, lateness=20), len(FITTING[0]), FITTING[::4]
    late = {key: 1 + key % (size - 1) for key in range(len(patterns))}
    early = {key: (*patterns[key][:at], 0, *patterns[key][at + 1 :]) for key, at in late.items()}
    late = {key: at for key, at in late.items() if abs(totals(early[key])[at]) <= 1}
    expected = Counter(
        (key, end, total) for key, pattern in enumerate(patterns) for end, total in enumerate(totals(pattern))
    ) + Counter((key, at, totals(early[key])[at]) for key, at in late.items())
    others = {"hashmap": ("rocksdb", 3), "rocksdb": ("hashmap", 2)}
    put_out: list[Any] = []
    opened = harness(slices, outputs_of(LONG), backend=backend)
    try:
        for epoch in range(size + 1):
            rows = [
                ({"k": key, "v": pattern[at] * LARGE[LONG]}, at * 10)
                for key, pattern in enumerate(patterns)
                for at in (epoch - 1, epoch)
                if 0 <= at < size and at + (late.get(key) == at) == epoch
            ]
            opened.process_elements(rows, epoch * 10 + 9 if epoch < size else 1_000)
            put_out += opened.output()
            opened.clear_output()
            if epoch in (2, 3):
                taken = opened.snapshot()
                opened.close()
                opened = harness(slices, outputs_of(LONG), "numbers", *others[backend])
                opened.restore(taken)
    finally:
        opened.close()
    found = [(row.k, int(row.window_end.timestamp() * 100) - 1, row.total // LARGE[LONG]) for row in put_out]
    assert len(late) > len(patterns) // 2
    assert Counter(found) == expected


def test_a_key_has_tails_again_when_they_fit() -> None:
    """A key whose merges fit always has them."""
    pattern = (0, 0, 0, -1, 1, 1, -1, 0, 1, 1, -1, 0)
    without = []
    with harness(SLICES, outputs_of(LONG)) as opened:
        for number, row in enumerate(rows_of(pattern, 1, LONG)):
            opened.process_elements([row, ({"k": 2, "v": 1}, number * 10)], number * 10 + 9)
            without += [(key, number) for key in (1, 2) if opened.state(TURN, key, HERE) is None]
        assert totals_by_key(opened, LONG)[1] == totals(pattern)[: len(pattern)]
    assert without == [(1, 5), (1, 9)], "a tail of the window does not fit, then a front"


@pytest.mark.parametrize("kind", LARGE, ids=str)
@pytest.mark.parametrize("step", STEPS)
def test_a_window_whose_sum_does_not_fit_fails(step: str, kind: pa.DataType) -> None:
    """Not the ones before it."""
    for pattern in random.Random(3).sample([each for each in PATTERNS if each not in FITTING], 5):
        first = next(number for number, total in enumerate(totals(pattern)) if abs(total) > 1)
        with harness(SLICES, outputs_of(kind)) as opened:
            opened.process_elements(rows_of(pattern, 1, kind))
            with pytest.raises(errors.UserCodeError, match=r"does not fit in 64 bits|38 digits"):
                end_windows(opened, step)
            if step == "one by one":
                assert totals_by_key(opened, kind)[1] == totals(pattern)[:first]


DOUBLE, WIDE = pa.float64(), pa.decimal256(76, 38)
DOUBLES = st.sampled_from([0.0, 1e308, -1e308])
LONGS = st.sampled_from([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)])
DECIMALS = st.sampled_from([0, 1, 10**38 - 1, 1 - 10**38, 5 * 10**37]).map(decimal.Decimal)


@pytest.mark.parametrize(
    ("aggregate", "stored", "values"),
    [
        (Sum(LONG), LONG, LONGS),
        (Sum(LONG, is_checked=False), LONG, LONGS),
        (Sum(DOUBLE), DOUBLE, DOUBLES),
        (Sum(DECIMAL), WIDE, DECIMALS),
        (Average(DECIMAL), WIDE, DECIMALS),
        (Average(DOUBLE), DOUBLE, DOUBLES),
    ],
    ids=["longs", "longs that wrap around", "doubles", "decimals", "a mean of decimals", "a mean"],
)
def test_groups_are_too_large_where_their_merge_fails(
    aggregate: Aggregate, stored: pa.DataType, values: st.SearchStrategy[Any]
) -> None:
    @settings(max_examples=25, deadline=None)
    @given(rows=st.lists(st.tuples(st.integers(0, 2), st.none() | values), max_size=12))
    def check(rows: list[tuple[int, Any]]) -> None:
        codes = np.array([code for code, _ in rows], np.int64)
        sums = pa.array([value for _, value in rows], stored)
        parts = [sums, sums.is_valid().cast(pa.int64())][: len(aggregate.parts)]
        found = aggregate.too_large(parts, codes, 3)
        for group in range(3):
            own = np.flatnonzero(codes == group)
            try:
                aggregate.merge([part.take(pa.array(own)) for part in parts], codes[own], 3)
            except OverflowError:
                assert found[group]
            else:
                assert not found[group]

    check()
