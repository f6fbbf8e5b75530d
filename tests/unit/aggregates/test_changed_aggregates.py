"""Built-in aggregates of windows over a savepoint: into another number of slots, into the other backend, and with other
windows or aggregates, whose state would not fit."""

from __future__ import annotations

import decimal
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pytest
from support.operators import window_harness

from sparkstate import errors
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.deviations import Deviation
from sparkstate.aggregates.distinct import DistinctCount
from sparkstate.aggregates.ends import EndValue
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.session_aggregation import SessionAggregation
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Average, Count, Sum
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MIN_WATERMARK
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

LONG, TEXT = pa.int64(), pa.string()
TOTAL = Output("total", "sum", Sum(LONG), "v", LONG, "sum(v)")
OUTPUTS = (
    Output("rows", "count", Count(of_rows=True), None, definition="count(*)"),
    TOTAL,
    Output("greatest", "max", Extreme(TEXT, is_greatest=True), "s", TEXT, "max(s)"),
    Output("spread", "stddev_pop", Deviation(is_sample=False), "v", LONG, "stddev_pop(v)"),
    Output("kinds", "approx_count_distinct", DistinctCount(), "s", TEXT, "approx_count_distinct(s)"),
)
SLIDING = Slices(60, 10, 5, 20)
Backend = Literal["hashmap", "rocksdb"]


def harness(
    kind: str, backend: Backend, slots: int, slices: Slices = SLIDING, outputs: tuple[Output, ...] = OUTPUTS
) -> KeyedProcessHarness:
    return window_harness.harness(slices, outputs, kind, backend, slots)


def epochs(kind: str) -> Iterator[tuple[list[tuple[dict[str, Any], int]], int]]:
    """Rows of fifty keys with times out of order, some behind the watermark; and the watermark after them."""
    rng = random.Random(5)
    for epoch in range(18):
        rows = []
        for _ in range(120):
            number = rng.randrange(50)
            key = number if kind == "numbers" else f"key-{number}"
            values = {"k": key, "v": rng.randrange(-9, 10), "s": rng.choice("abcde")}
            rows.append((values, epoch * 15 + rng.randrange(-45, 20)))
        yield rows, epoch * 15


def run(kind: str, lives: list[tuple[Backend, int]]) -> tuple[Counter[Any], int]:
    """The rows put out over these lives, one savepoint after another; and the timers that are left at the end."""
    found: Counter[Any] = Counter()
    every = len(list(epochs(kind))) // len(lives)
    opened = harness(kind, *lives[0])
    try:
        for number, (rows, watermark) in enumerate(epochs(kind)):
            if number and number % every == 0:
                taken = opened.snapshot()
                opened.close()
                opened = harness(kind, *lives[number // every])
                opened.restore(taken)
            opened.process_elements(rows, watermark)
            found.update(_rounded(opened))
        opened.process_watermark(10_000)
        found.update(_rounded(opened))
        return found, opened.num_event_timers()
    finally:
        opened.close()


def _rounded(opened: KeyedProcessHarness) -> list[tuple[Any, ...]]:
    rows = [
        tuple(round(each, 6) if isinstance(each, float) else each for each in row) for row in opened.output()
    ]
    opened.clear_output()
    return rows


@pytest.mark.parametrize(
    ("kind", "begins_on"),
    [
        ("numbers", "hashmap"),
        ("text", "rocksdb"),
        pytest.param("numbers", "rocksdb", marks=pytest.mark.extra),
        pytest.param("text", "hashmap", marks=pytest.mark.extra),
    ],
)
def test_windows_go_on_in_two_three_and_one_slots_and_in_the_other_backend(
    kind: str, begins_on: Backend
) -> None:
    other: Backend = "rocksdb" if begins_on == "hashmap" else "hashmap"
    wanted, _ = run(kind, [("hashmap", 1)])
    assert len(wanted) > 500
    found, timers_left = run(kind, [(begins_on, 2), (other, 3), (begins_on, 1)])
    assert found == wanted
    assert timers_left == 0


CHANGED: dict[str, tuple[Slices, tuple[Output, ...], str]] = {
    "size": (replace(SLIDING, size=30), OUTPUTS, "size of windows was 60 ms and is now 30 ms"),
    "slide": (replace(SLIDING, slide=20), OUTPUTS, "slide of windows was 10 ms and is now 20 ms"),
    "offset": (replace(SLIDING, offset=0), OUTPUTS, "offset of windows was 5 ms and is now 0 ms"),
    "lateness": (replace(SLIDING, lateness=0), OUTPUTS, "allowed lateness was 20 ms and is now 0 ms"),
    "an aggregate less": (SLIDING, OUTPUTS[:-1], "aggregate 'kinds' was approx_count_distinct.* now none"),
    "an aggregate more": (
        SLIDING,
        (*OUTPUTS, replace(TOTAL, name="again")),
        r"aggregate 'again' was none and is now sum\(v\)",
    ),
    "another column": (
        SLIDING,
        (OUTPUTS[0], replace(TOTAL, column="w", definition="sum(w)"), *OUTPUTS[2:]),
        r"aggregate 'total' was sum\(v\) and is now sum\(w\)",
    ),
}


@pytest.mark.parametrize(("slices", "outputs", "message"), CHANGED.values(), ids=list(CHANGED))
def test_state_of_other_windows_or_aggregates_is_refused(
    slices: Slices, outputs: tuple[Output, ...], message: str
) -> None:
    with harness("numbers", "hashmap", 1) as before, harness("numbers", "hashmap", 1, slices, outputs) as now:
        before.process_element({"k": 1, "v": 1, "s": "a"}, 3)
        with pytest.raises(errors.StateMigrationError, match=f"'harness' whose {message}.*another uid"):
            now.restore(before.snapshot())
        # It goes on as it was.
        now.process_element({"k": 1, "v": 1, "s": "a", "w": 1}, 3)
        now.process_watermark(MIN_WATERMARK + 1)


def test_the_order_of_aggregates_may_change() -> None:
    with (
        harness("numbers", "hashmap", 1) as before,
        harness("numbers", "hashmap", 1, SLIDING, OUTPUTS[::-1]) as now,
    ):
        before.process_element({"k": 1, "v": 4, "s": "a"}, 3)
        now.restore(before.snapshot())
        now.process_watermark(10_000)
        assert {row.total for row in now.output()} == {4}


def test_state_of_an_older_version_has_no_premises_and_is_compared_by_its_types_alone() -> None:
    with (
        harness("numbers", "hashmap", 1) as before,
        harness("numbers", "hashmap", 1) as same,
        harness("numbers", "hashmap", 1, outputs=OUTPUTS[:2]) as other,
    ):
        before.process_element({"k": 1, "v": 4, "s": "a"}, 3)
        taken = replace(before.snapshot(), premises=None)
        same.restore(taken)
        same.process_watermark(10_000)
        assert {row.total for row in same.output()} == {4}
        with pytest.raises(errors.StateMigrationError, match=r"state 'rows' .* was PACKED<.* is now PACKED<"):
            other.restore(taken)


@pytest.mark.parametrize("ends", [EndValue, Extreme], ids=["last", "max"])
def test_a_value_that_a_shorter_column_cannot_take_names_the_aggregate_and_the_remedy(ends: Any) -> None:
    def output(kind: pa.DataType) -> tuple[Output, ...]:
        return (Output("most", "max", ends(kind, True), "v", kind, "max(v)"),)

    with (
        harness("numbers", "hashmap", 1, outputs=output(LONG)) as before,
        harness("numbers", "hashmap", 1, outputs=output(pa.int32())) as now,
    ):
        before.process_element({"k": 1, "v": 2**40, "s": "a"}, 3)
        now.restore(before.snapshot())
        with pytest.raises(
            errors.UserCodeError,
            match=r"aggregate 'most', max\(v\): a value in state does not fit .*1099511627776.*cast the column",
        ):
            now.process_watermark(10_000)


def _of_decimals(how: str, scale: int) -> KeyedProcessHarness:
    kind = pa.decimal128(12, scale)
    chosen = Sum(kind) if how == "sum" else Average(pa.decimal128(16, scale + 4))
    return harness("numbers", "hashmap", 1, outputs=(Output("most", how, chosen, "v", kind, f"{how}(v)"),))


def _decimal_rows(*values: str) -> list[tuple[dict[str, Any], int]]:
    return [({"k": 1, "v": decimal.Decimal(value)}, 3) for value in values]


def test_an_average_of_decimals_goes_on_when_its_column_has_lost_digits_behind_the_point() -> None:
    with _of_decimals("avg", 6) as before, _of_decimals("avg", 1) as now:
        before.process_elements(_decimal_rows("0.123456", "1"))
        now.restore(before.snapshot())
        now.process_elements(_decimal_rows("2.5"))
        now.process_watermark(10_000)
        assert {row.most for row in now.output()} == {decimal.Decimal("1.20782")}


def test_a_sum_of_decimals_with_digits_that_its_column_has_lost_names_the_aggregate_and_the_remedy() -> None:
    with _of_decimals("sum", 6) as before, _of_decimals("sum", 1) as now:
        before.process_elements(_decimal_rows("0.123456"))
        now.restore(before.snapshot())
        now.process_elements(_decimal_rows("2.5"))
        with pytest.raises(
            errors.UserCodeError, match=r"aggregate 'most', sum\(v\): .* cast the column to its earlier"
        ):
            now.process_watermark(10_000)


SESSIONS = SessionAggregation(Slices(20, 20, lateness=5), ("k",), (TOTAL,))
CHANGED_SESSIONS = {
    "gap": (
        SessionAggregation(Slices(30, 30, lateness=5), ("k",), (TOTAL,)),
        "gap of sessions was 20 ms and is now 30 ms",
    ),
    "lateness": (
        SessionAggregation(Slices(20, 20), ("k",), (TOTAL,)),
        "allowed lateness was 5 ms and is now 0 ms",
    ),
    "windows": (
        WindowAggregation(Slices(20, 20, lateness=5), ("k",), (TOTAL,)),
        "kind of windows was sessions with built-in aggregates and is now windows with built-in aggregates",
    ),
}


@pytest.mark.parametrize(("function", "message"), CHANGED_SESSIONS.values(), ids=list(CHANGED_SESSIONS))
def test_state_of_other_sessions_is_refused(function: KeyedBatchFunction, message: str) -> None:
    def opened(made: KeyedBatchFunction) -> KeyedProcessHarness:
        return KeyedProcessHarness(made, key=lambda row: row.k, key_type=Types.LONG())

    with opened(SESSIONS) as before, opened(function) as now:
        before.process_element({"k": 1, "v": 1}, 3)
        with pytest.raises(errors.StateMigrationError, match=f"whose .*{message}"):
            now.restore(before.snapshot())
