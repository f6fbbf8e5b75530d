"""Rows per second of one window operator on one core, called record by record, without Spark.

    python benchmarks/window_hot_loop.py [--rows 400000] [--keys 20000] [--backend hashmap] [--only tumbling session]
    python benchmarks/window_hot_loop.py --profile --only tumbling
    python benchmarks/window_hot_loop.py --only session session-columns --numbers --gap 5

A row's time is its number, in ms. An epoch is all rows; at its end the watermark reaches its last row, so windows fire
and end. ``rows`` windows are a quarter of an epoch long, sliding ones start at every fifth of that; the gap of sessions
is ``--gap`` twentieths of an epoch. Cases named ``…-columns`` are built-in aggregates: ``.agg``, not ``.aggregate``.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import operator_hot_loop
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import testing, windows
from sparkstate.aggregates.sliced_rows import END, START
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MIN_WATERMARK, AggregateFunction, KeyedFunction, KeyedProcessFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types

ROW = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.LONG()])
BOUNDS = [(name, pa.timestamp("us", "UTC")) for name in (START, END)]
"""Columns that built-in aggregates put out beside the key and the sum."""


class Sum(AggregateFunction):
    """The sum of the amounts."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value.amount)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithUser(windows.WindowFunction):
    """A row of the key and the sum."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, total) for total in inputs]


class CountRows(windows.ProcessWindowFunction):
    """A row of the key and the number of its rows."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, len(list(elements))


def _aggregated(assigner: windows.WindowAssigner) -> KeyedProcessFunction:
    return windows.over(assigner).aggregate(Sum(), WithUser(), accumulator_type=Types.LONG())


def _on_columns(assigner: windows.WindowAssigner, key_type: Any) -> KeyedBatchFunction:
    row = Types.ROW_NAMED(["user", "amount"], [key_type, Types.LONG()])
    return testing.keyed(row, "user").window(assigner).agg(total="sum(amount)")


@dataclass(frozen=True)
class Lengths:
    """Of windows, in ms; and the type of keys."""

    size: int
    gap: int
    key_type: Any


CASES: dict[str, Callable[[Lengths], KeyedFunction]] = {
    "tumbling": lambda of: _aggregated(windows.TumblingEventTimeWindows.of(of.size)),
    "tumbling-columns": lambda of: _on_columns(windows.TumblingEventTimeWindows.of(of.size), of.key_type),
    "sliding": lambda of: _aggregated(windows.SlidingEventTimeWindows.of(of.size, of.size // 5)),
    "session": lambda of: _aggregated(windows.EventTimeSessionWindows.with_gap(of.gap)),
    "session-columns": lambda of: _on_columns(windows.EventTimeSessionWindows.with_gap(of.gap), of.key_type),
    "count": lambda of: _aggregated(windows.CountTumblingWindowAssigner.of(10)),
    "process": lambda of: windows.over(windows.TumblingEventTimeWindows.of(of.size)).process(
        CountRows(), element_type=ROW
    ),
}


def run_epoch(operator: Any, epoch: int, batches: list[pa.RecordBatch], rows: int) -> float:
    """Seconds of one epoch."""
    gc.collect()
    before = MIN_WATERMARK if epoch == 0 else epoch * rows - 1
    shifted = [batch.set_column(2, "ts", pc.add(batch.column("ts"), epoch * rows)) for batch in batches]
    start = time.process_time()
    overlay = operator.begin(epoch, before, 0)
    for batch in shifted:
        operator.process_batch(overlay, batch)
    fed = time.process_time()
    operator.finish(overlay, (epoch + 1) * rows - 1)
    finished = time.process_time()
    commit_overlays([(operator, overlay)])
    end = time.process_time()
    print(
        f"    epoch {epoch}  feed {fed - start:.3f} s  fire {finished - fed:.3f} s  commit {end - finished:.3f} s"
        f"  rows out {overlay.row_count():,}"
    )
    return end - start


def measure(case: str, backend: str, load: operator_hot_loop.Load, epochs: int, gap: int) -> None:
    """Print rows per second, median of the epochs."""
    with tempfile.TemporaryDirectory() as folder:
        function = CASES[case](Lengths(load.rows // 4, load.rows // 20 * gap, load.key_type))
        operator, (factory, stores) = operator_hot_loop.make_operator(
            backend, Path(folder), function, load, BOUNDS if case.endswith("-columns") else ()
        )
        seconds = [run_epoch(operator, epoch, load.batches(epoch), load.rows) for epoch in range(epochs)]
        print(f"{case:16} {backend:8} {load.rows / statistics.median(seconds):>9,.0f} rows/s")
        operator.close()
        for store in stores.values():
            store.close()
        factory.close()


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--backend", nargs="+", default=["hashmap", "rocksdb"])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--numbers", action="store_true", help="keys are whole numbers, not text")
    parser.add_argument("--gap", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    load = operator_hot_loop.Load(arguments.rows, arguments.keys, arguments.batch, arguments.numbers)
    for case in arguments.only:
        for backend in arguments.backend:
            if arguments.profile:
                with cProfile.Profile() as profile:
                    measure(case, backend, load, 1, arguments.gap)
                profile.print_stats("tottime")
            else:
                measure(case, backend, load, arguments.epochs, arguments.gap)


if __name__ == "__main__":
    main()
