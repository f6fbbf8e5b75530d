"""Windows of a key that end in one epoch, as at the end of a bounded input: they are merged together, and the result is
that of one after another."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.ends import EndValue
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Count, Sum
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.functions import MAX_WATERMARK
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

LONG = pa.int64()
OUTPUTS = (
    Output("rows", "count", Count(of_rows=True), None),
    Output("total", "sum", Sum(LONG), "v", LONG),
    Output("greatest", "max", Extreme(LONG, is_greatest=True), "v", LONG),
    Output("first", "first", EndValue(LONG, is_last=False), "v", LONG),
    Output("last", "last", EndValue(LONG, is_last=True), "v", LONG),
)


class Counting(WindowAggregation):
    """Counts its calls. One object in all: the harness runs copies."""

    calls: list[int] = []  # noqa: RUF012

    def on_timers(self, timestamps: Any, keys: Any, ctx: Any) -> Any:
        self.calls.append(len(timestamps))
        return super().on_timers(timestamps, keys, ctx)


def harness(slices: Slices, backend: Any) -> KeyedProcessHarness:
    Counting.calls.clear()
    return KeyedProcessHarness(
        Counting(slices, ("k",), OUTPUTS), key=lambda row: row.k, key_type=Types.LONG(), backend=backend
    )


def rows_of(keys: int, until: int) -> list[tuple[dict[str, int], int]]:
    rng = random.Random(2)
    # One time for each row, so that there is one first and one last.
    times = rng.sample(range(until), until // 3)
    return [({"k": rng.randrange(keys), "v": rng.randrange(-9, 99)}, time) for time in times]


ROWS = rows_of(keys=5, until=200)
"""The last of them is over in each window before 300."""
SHAPES = [Slices(60, 1), Slices(60, 7, 3), Slices(8, 2), Slices(40, 4, 1)]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("slices", SHAPES, ids=lambda each: f"{each.size} by {each.slide}")
@pytest.mark.parametrize("before", [0, 61], ids=["from the beginning", "after some windows"])
def test_windows_that_end_together_are_those_that_end_one_by_one(
    slices: Slices, backend: Any, before: int
) -> None:
    wanted = one_by_one(slices, before)
    assert len(wanted) > 100
    assert max(wanted.values()) == 1
    for stops in ((before, 300), (before, before + 45, MAX_WATERMARK)):
        assert put_out(ROWS, slices, backend, stops) == wanted


@functools.cache
def one_by_one(slices: Slices, before: int) -> Counter[tuple[Any, ...]]:
    """The rows put out while the watermark moves by one at a time."""
    return put_out(ROWS, slices, "hashmap", range(before, 300))


def put_out(
    rows: list[tuple[dict[str, int], int]], slices: Slices, backend: Any, watermarks: Iterable[int]
) -> Counter[tuple[Any, ...]]:
    """The rows put out while the watermark moves so, after which nothing is left."""
    with harness(slices, backend) as opened, harness(slices, "hashmap") as end:
        opened.process_elements(rows, -300)
        for watermark in watermarks:
            opened.process_watermark(watermark)
        end.restore(opened.snapshot())
        assert end.num_event_timers() == 0
        assert sum(store.stats().rows for store in end._stores.values()) == 0
        return Counter(map(tuple, opened.output()))


def test_the_end_of_the_input_takes_one_call_for_all_windows_of_a_key() -> None:
    with harness(Slices(60, 1), "hashmap") as opened:
        opened.process_elements([({"k": key, "v": key}, 3) for key in range(50)])
        opened.process_watermark(MAX_WATERMARK)
        assert len(opened.output()) == 50 * 60
        assert sum(Counting.calls) <= 50


@pytest.mark.parametrize("key_type", [Types.LONG(), Types.STRING()], ids=["whole numbers", "texts"])
@pytest.mark.parametrize("slices", [Slices(10, 10), Slices(20, 5)], ids=["tumbling", "sliding"])
def test_many_ends_in_one_epoch_take_few_calls_and_each_key_keeps_its_order(
    slices: Slices, key_type: Any
) -> None:
    """Each key has windows for a short time, one key after another, and each has several."""
    Counting.calls.clear()
    with KeyedProcessHarness(
        Counting(slices, ("k",), OUTPUTS), key=lambda row: row.k, key_type=key_type
    ) as opened:
        keys = [key if key_type == Types.LONG() else f"{key:03}" for key in range(200)]
        rows = [
            ({"k": key, "v": 1}, 3 * place + at) for place, key in enumerate(keys) for at in (0, 11, 23, 37)
        ]
        opened.process_elements(rows, -300)
        opened.process_watermark(1000)
        starts: dict[Any, list[Any]] = {}
        for key, start, *_ in map(tuple, opened.output()):
            starts.setdefault(key, []).append(start)
    assert sorted(starts) == keys
    assert all(found == sorted(set(found)) and len(found) >= 4 for found in starts.values())
    assert len(Counting.calls) < 30
    assert sum(Counting.calls) >= 600
