"""Processor time of built-in aggregates of windows in one slot, without Spark.

    python benchmarks/aggregates_hot_loop.py [--keys 25000] [--rows 24] [--backend hashmap rocksdb] [--minutes 66]
    python benchmarks/aggregates_hot_loop.py --profile --backend rocksdb --only sliding
    python benchmarks/aggregates_hot_loop.py --end       the end of a bounded input as well
    python benchmarks/aggregates_hot_loop.py --keys 2500 --rows 2 --epoch-minutes 60 --minutes 480 --measured 4
                                                         a backlog: many windows of each key end in an epoch

Each epoch is a minute, or several, with ``--rows`` rows of each key in a minute; ``--text`` makes keys texts. The first
epochs fill the first windows, so the table has the mean of the last ``--measured`` ones: processor time of all threads,
in microseconds per row.
"""

from __future__ import annotations

import argparse
import cProfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import operator_hot_loop
import pyarrow as pa

from sparkstate import columns
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.sliced_rows import END, START
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Sum
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.clock import SystemClock
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK
from sparkstate.operators import kinds
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.serde.types import Types

MINUTE = 60_000
CASES = {"tumbling": Slices(MINUTE, MINUTE), "sliding": Slices(60 * MINUTE, MINUTE)}
TIME = pa.timestamp("us", "UTC")


def make_operator(
    slices: Slices, stores: dict[int, Any], is_text: bool, budget: EpochBudget | None = None
) -> Any:
    """One sum of whole numbers; the operator owns all shards."""
    function = WindowAggregation(
        slices, ("user",), (Output("total", "sum", Sum(pa.int64()), "amount", pa.int64()),)
    )
    user = pa.string() if is_text else pa.int64()
    spec = kinds.spec(
        function,
        uid="windows",
        row_columns=("user", "amount"),
        key_columns=("user",),
        key_type=Types.STRING() if is_text else Types.LONG(),
        event_time_column="ts",
        output_schema=pa.schema([("user", user), (START, TIME), (END, TIME), ("total", pa.int64())]),
    )
    operator = kinds.make(spec, stores, operator_hot_loop.KEY_SPACE, SystemClock(), 0, 1, budget)
    operator.open()
    return operator


def batches_of(minute: int, asked: argparse.Namespace, size: int = 1 << 18) -> list[pa.RecordBatch]:
    """The rows of an epoch that begins with a minute, keys in no order."""
    rng = np.random.default_rng(minute)
    users = rng.integers(0, asked.keys, asked.keys * asked.rows * asked.epoch_minutes)
    times = minute * MINUTE + np.sort(rng.integers(0, asked.epoch_minutes * MINUTE, len(users)))
    whole = pa.record_batch(
        {
            "user": [f"user-{user:08d}" for user in users.tolist()] if asked.text else users,
            "amount": users % 100,
            "ts": times,
            columns.KEY_GROUP: (users % 128).astype(np.int32),
        }
    )
    return [whole.slice(start, size) for start in range(0, len(users), size)]


def run_epoch(
    operator: Any, epoch: int, batches: list[pa.RecordBatch], before: int, watermark: int
) -> tuple[float, int]:
    """Seconds of processor time, and the number of rows put out."""
    steps, rows = operator_hot_loop.timed_epoch(operator, epoch, batches, before, watermark)
    return sum(steps.values()), rows


def run(name: str, backend: str, asked: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        factory, stores = operator_hot_loop.make_stores(backend, Path(folder))
        operator = make_operator(CASES[name], stores, asked.text)
        watermark, took = MIN_WATERMARK, []
        rows = asked.keys * asked.rows * asked.epoch_minutes
        profile = cProfile.Profile()
        for minute in range(0, asked.minutes, asked.epoch_minutes):
            is_measured = minute >= asked.minutes - asked.measured * asked.epoch_minutes
            batches = batches_of(minute, asked)
            before, watermark = watermark, (minute + asked.epoch_minutes) * MINUTE - 1
            if is_measured and asked.profile:
                profile.enable()
            seconds, _ = run_epoch(operator, minute + 1, batches, before, watermark)
            profile.disable()
            if is_measured:
                took.append(seconds)
        mean, most = sum(took) / len(took) / rows * 1e6, max(took) / rows * 1e6
        print(
            f"{name:9} {backend:8} {mean:6.2f} µs per row (longest epoch {most:.2f}), "
            f"{rows / 1e6:.2f} M rows per epoch"
        )
        if asked.end:
            if asked.profile:
                profile.enable()
            seconds, put_out = run_epoch(operator, asked.minutes + 1, [], watermark, MAX_WATERMARK)
            profile.disable()
            print(f"{'':18} the end: {put_out} windows, {seconds / max(put_out, 1) * 1e6:.2f} µs for each")
        if asked.profile:
            profile.print_stats("tottime")
        for store in stores.values():
            store.close()
        factory.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=25_000)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--minutes", type=int, default=130)
    parser.add_argument("--measured", type=int, default=60, help="epochs (default 60)")
    parser.add_argument("--epoch-minutes", type=int, default=1)
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--backend", nargs="+", default=["hashmap", "rocksdb"])
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--end", action="store_true")
    asked = parser.parse_args()
    for backend in asked.backend:
        for name in asked.only:
            run(name, backend, asked)


if __name__ == "__main__":
    main()
