"""Windows from running totals: the results of lists of rows, whatever comes late, is missing, or restarts in between;
sums at the ends of 64 bits; and how few rows a window costs."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators.window_harness import WindowEpochs, harness

from sparkstate import errors
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.kept_merges import HERE
from sparkstate.aggregates.running_totals import RunningTotals
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Average, Count, Sum
from sparkstate.aggregates.terms import Terms
from sparkstate.functions import MIN_WATERMARK
from sparkstate.testing import KeyedProcessHarness

LONG, DOUBLE = pa.int64(), pa.float64()
WRAPPING = Output("total", "sum", Sum(LONG, is_checked=False), "v", LONG)
CHECKED = Output("total", "sum", Sum(LONG), "v", LONG)
COUNTS = (
    Output("rows", "count", Count(of_rows=True), None),
    Output("values", "count", Count(), "v", LONG),
)
SUMS = (*COUNTS, WRAPPING)
MIXED = (*SUMS, Output("least", "min", Extreme(LONG, is_greatest=False), "v", LONG))
"""The least value has no inverse, so these windows are merged from tails."""
KEYS = {"numbers": (0, -7, 2**63 - 1, None), "text": ("a", "b\0", "", None)}
BACKENDS: tuple[Any, ...] = ("hashmap", "rocksdb")


def wrapped(number: int) -> int:
    """As 64 bits have it."""
    return (number + 2**63) % 2**64 - 2**63


class Windows:
    """All rows in lists, by key and window."""

    def __init__(self, slices: Slices, has_least: bool) -> None:
        self._slices = slices
        self._has_least = has_least
        self._rows: dict[tuple[Any, int], list[int | None]] = defaultdict(list)
        self._watermark = MIN_WATERMARK

    def push(self, rows: list[tuple[Any, int, int | None]], watermark: int) -> Counter[tuple[Any, ...]]:
        size, slide, lateness = self._slices.size, self._slices.slide, self._slices.lateness
        again = set()
        for key, time, value in rows:
            for start in range(time - time % slide, time - size, -slide):
                end = start + size
                if end - 1 + lateness > self._watermark:
                    self._rows[key, end].append(value)
                    if end - 1 <= self._watermark:
                        again.add((key, end))
        before, self._watermark = self._watermark, max(watermark, self._watermark)
        new = [window for window in self._rows if before < window[1] - 1 <= self._watermark]
        # A window that got late rows is put out with those of this batch, before the watermark moves.
        return Counter(map(self._result, [*again, *new]))

    def _result(self, window: tuple[Any, int]) -> tuple[Any, ...]:
        values = [value for value in self._rows[window] if value is not None]
        total = wrapped(sum(values)) if values else None
        found = (window[0], window[1] - 1, len(self._rows[window]), len(values), total)
        return (*found, min(values, default=None)) if self._has_least else found


def put_out(opened: KeyedProcessHarness) -> Counter[tuple[Any, ...]]:
    rows = [(row[0], int(row[2].timestamp() * 1000) - 1, *row[3:]) for row in opened.output()]
    opened.clear_output()
    return Counter(rows)


VALUES = st.one_of(
    st.none(), st.integers(-9, 9), st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62), 2**32, -1])
)
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-40, 100), VALUES), max_size=12)
LIVES = st.none() | st.tuples(st.sampled_from(BACKENDS), st.integers(1, 3))
"""After an epoch: None, or the backend and the slots that go on from a savepoint."""
EPOCHS = st.lists(st.tuples(ROWS, st.integers(-60, 160), LIVES), max_size=8)
SHAPES = st.builds(
    lambda slide, times, rest, lateness: Slices(slide * times + rest % slide, slide, 0, lateness),
    st.integers(1, 5),
    st.integers(4, 9),
    st.integers(0, 4),
    st.sampled_from([0, 0, 5, 40]),
)


@pytest.mark.parametrize("kind", list(KEYS))
@pytest.mark.parametrize("outputs", [SUMS, MIXED], ids=["sums", "mixed"])
@settings(max_examples=tried(15), deadline=None)
@given(epochs=EPOCHS, slices=SHAPES, has_null=st.booleans())
def test_windows_are_those_of_lists_of_rows(
    kind: str, outputs: tuple[Output, ...], epochs: list[Any], slices: Slices, has_null: bool
) -> None:
    assert slices.per_size >= 4
    model, opened = Windows(slices, outputs is MIXED), harness(slices, outputs, kind)
    # Sums that wrap around are part of this: that of a slice may, and so may any merge.
    try:
        for pushed, watermark, life in [*epochs, ([], 10_000, None)]:
            rows = [(KEYS[kind][key if has_null else key % 3], time, value) for key, time, value in pushed]
            opened.process_elements([({"k": key, "v": value}, time) for key, time, value in rows], watermark)
            assert put_out(opened) == model.push(rows, watermark)
            if life is not None:
                taken = opened.snapshot()
                opened.close()
                opened = harness(slices, outputs, kind, *life)
                opened.restore(taken)
        assert opened.num_event_timers() == 0
        taken = opened.snapshot()
        with harness(slices, outputs, kind) as end:
            end.restore(taken)
            assert sum(store.stats().rows for store in end._stores.values()) == 0
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("outputs", "has_totals"),
    [
        (SUMS, True),
        ((CHECKED,), True),
        (COUNTS[:1], True),
        (MIXED, False),
        ((Output("total", "sum", Sum(DOUBLE), "v", DOUBLE),), False),
        ((Output("mean", "avg", Average(DOUBLE), "v", LONG),), False),
        ((Output("total", "sum", Sum(pa.decimal128(20, 2)), "v", pa.decimal128(10, 2)),), False),
    ],
    ids=["sums", "a checked sum", "rows", "a least value", "doubles", "a mean", "decimals"],
)
def test_only_what_can_be_subtracted_exactly_has_a_running_total(
    outputs: tuple[Output, ...], has_totals: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (Terms.of(outputs) is not None) == has_totals
    calls = []
    ending = RunningTotals.ending
    monkeypatch.setattr(RunningTotals, "ending", lambda *args: calls.append(1) or ending(*args))
    with harness(Slices(20, 5), outputs) as opened:
        opened.process_elements([({"k": 1, "v": None}, 3)], 4)
        assert len(opened.output()) == 1
    assert bool(calls) == has_totals


def test_a_total_for_another_window_is_not_used() -> None:
    """So it is where a restore begins with an earlier watermark than the one that the state has seen."""
    slices = Slices(40, 10)
    with harness(slices, SUMS) as before, harness(slices, SUMS) as now:
        before.process_elements([({"k": 1, "v": 1}, 1), ({"k": 1, "v": 8}, 31)])
        for watermark in range(9, 50, 10):
            before.process_watermark(watermark)
        assert [row.total for row in before.output()] == [1, 1, 1, 9, 8]
        now.restore(replace(before.snapshot(), watermark=19))
        now.process_elements([({"k": 1, "v": 2}, 21)])
        for watermark in range(29, 80, 10):
            now.process_watermark(watermark)
        assert [row.total for row in now.output()] == [2, 10, 10, 10, 8]


@pytest.mark.parametrize("kind", list(KEYS))
@pytest.mark.parametrize("backend", BACKENDS)
def test_slices_and_totals_are_shown_with_the_names_of_their_fields(kind: str, backend: Any) -> None:
    """So ``sparkstate state get`` prints them."""
    key = KEYS[kind][1]
    with harness(Slices(40, 10), SUMS, kind, backend) as opened:
        opened.process_elements([({"k": key, "v": 5}, 11), ({"k": key, "v": None}, 12)], 19)
        assert opened.state("rows", key, 10) == {
            "rows": 2, "total.sum.sum": 5, "values.count.count": 1,
        }  # fmt: skip
        assert opened.state("running total", key, HERE) == {
            "end": 30, "rows": 2, "values.count.count": 1,
            "total.sum.high": 0, "total.sum.low": 5, "total.sum.slices": 1,
        }  # fmt: skip
        assert opened.state("rows", key, 20) is None


HIGH, LOW = 2**63 - 1, -(2**63)
LONGS = st.one_of(st.none(), st.integers(LOW, HIGH), st.sampled_from([HIGH, LOW, 0, -1, 2**32, 2**31]))


@given(values=st.lists(LONGS, max_size=30))
def test_terms_add_up_to_the_sum_or_say_that_it_does_not_fit(values: list[int | None]) -> None:
    some = [value for value in values if value is not None]
    for output in (CHECKED, WRAPPING):
        terms = output.aggregate.to_terms([pa.array(values, LONG)])
        merged = [np.array([each.sum()]) for each in terms]
        if output is CHECKED and not LOW <= sum(some) <= HIGH:
            with pytest.raises(OverflowError, match="does not fit in 64 bits"):
                output.aggregate.of_terms(merged)
        else:
            expected = wrapped(sum(some)) if some else None
            assert output.aggregate.of_terms(merged)[0].to_pylist() == [expected]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("step", [1, 4], ids=["one by one", "together"])
def test_a_sum_fits_where_the_windows_result_does(backend: Any, step: int) -> None:
    """What is left of the window that ends at 60, -3 less 2**63 - 1, does not fit; with the next slice it does."""
    values = [HIGH, LOW, HIGH, LOW, HIGH, LOW, HIGH, LOW]
    rows = [({"k": 1, "v": value}, number * 10 + 1) for number, value in enumerate(values)]
    with harness(Slices(60, 10), (CHECKED,), backend=backend) as opened:
        for start in range(0, 8, step):
            opened.process_elements(rows[start : start + step], (start + step) * 10 - 1)
        totals = [row.total for row in opened.output()]
    assert totals == [sum(values[max(0, number - 5) : number + 1]) for number in range(8)]
    assert totals[-2:] == [-3, -3]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_does_not_fit_fails_or_wraps_around(backend: Any, sign: int) -> None:
    """Also where its 64 bits look like a small number: four times 2**62 and 5 are 2**64 and 5."""
    values = [sign * 2**62] * 4 + [5]
    sums = [sum(values[: number + 1]) for number in range(5)]
    rows = [({"k": 1, "v": value}, number * 10 + 1) for number, value in enumerate(values)]
    with harness(Slices(50, 10), (WRAPPING,), backend=backend) as opened:
        opened.process_elements(rows)
        for watermark in range(9, 50, 10):
            opened.process_watermark(watermark)
        assert [row.total for row in opened.output()] == list(map(wrapped, sums))
    with harness(Slices(50, 10), (CHECKED,), backend=backend) as opened:
        opened.process_elements(rows)
        fitting = [each for each in sums if LOW <= each <= HIGH][: 1 if sign > 0 else 2]
        for watermark in range(9, 10 * len(fitting), 10):
            opened.process_watermark(watermark)
        assert [row.total for row in opened.output()] == fitting
        with pytest.raises(errors.UserCodeError, match="does not fit in 64 bits"):
            opened.process_watermark(10 * len(fitting) + 9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_costs_its_slices_and_one_row(tmp_path: Path, backend: Any) -> None:
    """Where each key has a row in each slice, an epoch writes the new slice and the total of each key, and deletes the
    slice that no window has any more; all fields of each are one row."""
    with contextlib.closing(WindowEpochs(tmp_path, backend, Slices(60, 10), SUMS)) as windows:
        for epoch in range(9):
            rows = [(key, epoch, epoch * 10 + 3) for key in range(7)]
            written = windows.epoch(rows, epoch * 10 + 9)
    names = Counter((name, is_there) for name, _, _, is_there in written)
    assert names == {("rows", True): 7, ("rows", False): 7, ("running total", True): 7}


MINUTE = 60_000


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("outputs", "minute", "others"),
    [
        (SUMS, 100, {("running total", True): 1}),
        (SUMS, 20, {}),
        (MIXED, 100, {("rows.tail", False): 2, ("turn", False): 1}),  # a tail and the front
    ],
    ids=["a slice of the running total", "an older slice", "merged from tails"],
)
def test_a_late_row_changes_one_slice_however_many_windows_it_is_in(
    tmp_path: Path, backend: Any, outputs: tuple[Output, ...], minute: int, others: dict[Any, int]
) -> None:
    """And the running total of its key, if that has the slice; tails are dropped, since no merge of theirs is right
    any more."""
    slices = Slices(60 * MINUTE, MINUTE, 0, lateness=120 * MINUTE)
    with contextlib.closing(WindowEpochs(tmp_path, backend, slices, outputs)) as windows:
        for until in (40, 80, 120):
            times = [m * MINUTE + 5 for m in range(until - 40, until)]
            windows.epoch([(key, 1, at) for key in range(7) for at in times], until * MINUTE - 1)
        written = windows.epoch([(3, 5, minute * MINUTE + 7)], 120 * MINUTE - 1)
        out = windows.out
    assert [cell for cell in written if cell[0] == "rows"] == [("rows", 3, minute * MINUTE, True)]
    assert {key for _, key, _, _ in written} == {3}
    assert Counter((name, is_there) for name, _, _, is_there in written if name != "rows") == others
    assert not windows.timers
    # All windows with the slice that have ended are put out again.
    ends = range(minute + 1, min(minute + 60, 120) + 1)
    found = [(row["k"], row["window_end"].timestamp() // 60, row["values"], row["total"]) for row in out]
    assert found == [(3, end, min(end, 60) + 1, min(end, 60) + 5) for end in ends]
