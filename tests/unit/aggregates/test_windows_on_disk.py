"""Windows of built-in aggregates whose overlays go to disk at every occasion: packed rows in sorted runs, which are
merged, become rows of RocksDB half-way, and are given up, put out what windows in memory put out."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.backends.small_runs import small_runs
from support.faults import tried
from support.operators import driven as ops
from support.operators import timer_chunks
from support.operators.spilling import Side

from sparkstate import columns
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.deviations import Deviation
from sparkstate.aggregates.extremes import Extreme
from sparkstate.aggregates.session_aggregation import SessionAggregation
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Count, Sum
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types

LONG, DOUBLE = pa.int64(), pa.float64()
ROWS = Output("rows", "count", Count(of_rows=True), None, definition="count(*)")
TOTAL = Output("total", "sum", Sum(LONG), "v", LONG, "sum(v)")
OUTPUTS = {
    "running totals": (ROWS, TOTAL),
    "merges of slices": (
        ROWS,
        TOTAL,
        Output("least", "min", Extreme(DOUBLE, is_greatest=False), "d", DOUBLE, "min(d)"),
        Output("greatest", "max", Extreme(DOUBLE, is_greatest=True), "d", DOUBLE, "max(d)"),
        Output("spread", "stddev_pop", Deviation(is_sample=False), "v", LONG, "stddev_pop(v)"),
    ),
}
SLICES = {
    "tumbling": Slices(10, 10),
    "sliding": Slices(60, 10, 5, 20),
    "uneven": Slices(30, 20, 0, 0),
    "sessions": Slices(20, 20),
    "sessions with lateness": Slices(20, 20, 0, 15),
}
KEYS = [None, 0, -1, 7, 2**63 - 1, -(2**63)]
DOUBLES = [None, 0.0, -0.0, 1.5, float("nan"), float("inf"), -1e300]


@pytest.fixture(autouse=True, scope="module")
def _few_rows_at_once() -> Iterator[None]:
    """So that some rows need several steps, reads and merges."""
    with small_runs() as patch:
        timer_chunks.patch_batches(patch, 3)
        yield


def a_side(folder: Path, limit: int | None, slices: str, outputs: tuple[Output, ...], key_type: Any) -> Side:
    results = [
        pa.field(each.name, DOUBLE if each.name not in ("rows", "total") else LONG) for each in outputs
    ]
    times = [pa.field(name, pa.timestamp("us", "UTC")) for name in ("window_start", "window_end")]
    make = SessionAggregation if slices.startswith("sessions") else WindowAggregation
    return Side(
        folder,
        limit,
        make(SLICES[slices], ("k",), outputs),  # type: ignore[arg-type]
        row_columns=("k", "v", "d"),
        key_columns=("k",),
        key_type=key_type,
        output_schema=pa.schema([pa.field("k", LONG), *times, *results]),
    )


def a_batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    keys, amounts, doubles, stamps = zip(*rows, strict=True)
    return pa.record_batch(
        {
            "k": pa.array(keys, LONG),
            "v": pa.array(amounts, LONG),
            "d": pa.array(doubles, DOUBLE),
            columns.TIMESTAMP: pa.array(stamps, LONG),
            columns.KEY_GROUP: pa.array(map(ops.key_group, keys), pa.int32()),
        }
    )


def live(side: Side, life: list[Any]) -> list[Any]:
    """What each epoch put out."""
    found, before = [], MIN_WATERMARK
    for number, (batches, step, committed) in enumerate(life):
        after = max(before, 0) + step
        for attempt in range(1 if committed else 2):
            overlay = side.operator.begin(number, before, 0)
            for batch in batches if attempt or committed else batches[::-1]:
                side.operator.process_batch(overlay, a_batch(batch))
            side.operator.finish(overlay, after)
            if attempt or committed:
                rows = [tuple(map(repr, row)) for row in ops.rows_of(overlay)]
                found.append((Counter(rows), overlay.timers_fired, overlay.late_rows))
                commit_overlays([(side.operator, overlay)])
            overlay.close()
        before = after
    return found


rows = st.tuples(
    st.sampled_from(KEYS), st.none() | st.integers(-9, 9), st.sampled_from(DOUBLES), st.integers(0, 150)
)
epochs = st.lists(
    st.tuples(
        st.lists(st.lists(rows, min_size=1, max_size=8), max_size=4), st.integers(0, 60), st.booleans()
    ),
    min_size=1,
    max_size=5,
)


def room_for(calls: int) -> Callable[..., bool]:
    """There is memory for filters at the first calls, and none from then on."""
    left = iter(range(calls))
    return lambda *_: next(left, None) is not None


@pytest.mark.parametrize(
    ("slices", "outputs"),
    [
        ("sliding", "running totals"),
        ("tumbling", "merges of slices"),
        ("uneven", "merges of slices"),
        ("sessions", "merges of slices"),
        ("sessions with lateness", "running totals"),
    ],
)
@settings(max_examples=tried(5), deadline=None)
@given(life=epochs, calls=st.sampled_from([0, 3, 12, 10**6]))
def test_windows_on_disk_are_those_in_memory(slices: str, outputs: str, life: list[Any], calls: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(RocksDBStoreFactory, "_has_room", room_for(calls))
        life = [*life, ([], 10_000, True)]
        sides = [
            a_side(Path(folder) / str(limit), limit, slices, OUTPUTS[outputs], Types.LONG())
            for limit in (None, 1)
        ]
        in_memory, spilled = (live(side, life) for side in sides)
        assert spilled == in_memory
        assert sides[1].budget.spilled > 0 or not any(batches for batches, _, _ in life)
        assert sides[1].files() == []
        assert sides[1].operator.next_timer() == (None, None)
        for side in sides:
            side.close()
