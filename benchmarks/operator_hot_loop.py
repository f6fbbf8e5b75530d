"""Rows per second of one keyed operator on one core: a keyed sum that answers every record, without Spark.

    python benchmarks/operator_hot_loop.py [--rows 1200000] [--keys 50000] [--batch 10000] [--backend hashmap]
    python benchmarks/operator_hot_loop.py --profile
    python benchmarks/operator_hot_loop.py --batches     by a function on Arrow batches
    python benchmarks/operator_hot_loop.py --numbers     keys are whole numbers, not text
    python benchmarks/operator_hot_loop.py --keys 0      no key comes twice, in no epoch

Batches are Arrow, as a slot gets them; an epoch is all rows: begin, process_batch for each, finish, commit.
The second epoch is reported too, because the first fills empty stores.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import columns
from sparkstate.backends import loader
from sparkstate.batches.functions import BatchContext, BatchRuntimeContext, KeyedBatchFunction
from sparkstate.batches.keys import BatchKeys
from sparkstate.clock import SystemClock
from sparkstate.functions import MIN_WATERMARK, Context, KeyedProcessFunction, RuntimeContext
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.operators.base import Operator
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.state.descriptors import ValueStateDescriptor

KEY_SPACE = KeySpace(128, 8)


class KeyedSum(KeyedProcessFunction):
    """The benchmark's function: one read, one write and one row per record."""

    def open(self, ctx: RuntimeContext) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Context) -> Iterable[tuple[str, int]]:
        total = (self.total.value() or 0) + value.amount
        self.total.update(total)
        yield value.user, total


class BatchSum(KeyedBatchFunction):
    """The same sum over Arrow batches."""

    def open(self, ctx: BatchRuntimeContext) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(
        self, batch: pa.RecordBatch, keys: BatchKeys, ctx: BatchContext
    ) -> Iterable[pa.RecordBatch]:
        before = self.total.get(keys, default=0)
        self.total.update(keys, pc.add(before, keys.sum("amount")))
        yield batch.set_column(1, "total", keys.cumulative_sum("amount", start=before))


@dataclass(frozen=True)
class Load:
    """What the rows are like. ``keys`` 0: every row of every epoch has a key of its own."""

    rows: int
    keys: int
    batch: int
    numbers: bool

    @property
    def key_type(self) -> Any:
        return Types.LONG() if self.numbers else Types.STRING()

    @property
    def key_arrow_type(self) -> pa.DataType:
        return pa.int64() if self.numbers else pa.string()

    def batches(self, epoch: int) -> list[pa.RecordBatch]:
        """The batches of an epoch, seeded by its number where keys differ."""
        made = []
        chosen = np.random.default_rng(1)
        for start in range(0, self.rows, self.batch):
            count = min(self.batch, self.rows - start)
            if self.keys:
                numbers = chosen.integers(0, self.keys, count)
            else:  # odd multipliers lose no number
                at = np.arange(count, dtype=np.uint64) + np.uint64(epoch * self.rows + start)
                numbers = (at * np.uint64(0x9E3779B97F4A7C15)).astype(np.int64)
            keys = numbers if self.numbers else [f"user-{number:06d}" for number in numbers]
            made.append(
                pa.record_batch(
                    {
                        "user": pa.array(keys, self.key_arrow_type),
                        "amount": pa.array(numbers % 100, pa.int64()),
                        "ts": pa.array(range(start, start + count), pa.int64()),
                        columns.KEY_GROUP: pa.array(numbers % 128, pa.int32()),
                    }
                )
            )
        return made


def make_stores(backend: str, folder: Path) -> tuple[Any, dict[int, Any]]:
    """A factory and the fresh stores of all shards."""
    settings = StateBackendSettings(type=backend, managed_memory_bytes=256 * MIB)  # type: ignore[arg-type]
    factory = loader.create_store_factory(settings, folder)
    stores = {}
    for shard in range(KEY_SPACE.shards):
        stores[shard] = factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), folder / f"shard-{shard}")
    return factory, stores


def make_operator(
    backend: str, folder: Path, function: Any, load: Load, bounds: Iterable[tuple[str, pa.DataType]] = ()
) -> tuple[Operator[Any], Any]:
    """An operator that owns all shards, on fresh stores. ``bounds`` are columns that it puts out before the total."""
    factory, stores = make_stores(backend, folder)
    spec = kinds.spec(
        function,
        uid="sum",
        row_columns=("user", "amount"),
        key_columns=("user",),
        key_type=load.key_type,
        event_time_column="ts",
        output_schema=pa.schema([("user", load.key_arrow_type), *bounds, ("total", pa.int64())]),
    )
    operator = kinds.make(spec, stores, KEY_SPACE, SystemClock(), 0, 1)
    operator.open()
    return operator, (factory, stores)


def timed_epoch(
    operator: Operator[Any],
    epoch: int,
    batches: list[pa.RecordBatch],
    before: int = MIN_WATERMARK,
    after: int = MIN_WATERMARK,
) -> tuple[dict[str, float], int]:
    """Seconds of each step, and the number of rows put out. ``before`` and ``after`` are watermarks."""
    gc.collect()
    times = [time.process_time()]
    overlay = operator.begin(epoch, before, 0)
    for batch in batches:
        operator.process_batch(overlay, batch)
    times.append(time.process_time())
    operator.finish(overlay, after)
    times.append(time.process_time())
    commit_overlays([(operator, overlay)])
    times.append(time.process_time())
    names = ("feed", "finish", "commit")
    steps = {name: end - begin for name, begin, end in zip(names, times, times[1:], strict=False)}
    return steps, sum(batch.num_rows for batch in overlay.output())


def run_epoch(operator: Operator[Any], epoch: int, batches: list[pa.RecordBatch]) -> dict[str, float]:
    """Seconds of each step."""
    steps, produced = timed_epoch(operator, epoch, batches)
    expected = sum(batch.num_rows for batch in batches)
    if produced != expected:
        raise AssertionError(f"{produced} rows came out of {expected}")
    return steps


def measure(backend: str, load: Load, epochs: int, function: Any) -> None:
    """Print rows per second, median and each epoch."""
    with tempfile.TemporaryDirectory() as folder:
        operator, (factory, stores) = make_operator(backend, Path(folder), function, load)
        rates = []
        for epoch in range(epochs):
            steps = run_epoch(operator, epoch, load.batches(epoch))
            rates.append(load.rows / sum(steps.values()))
            shown = "  ".join(f"{name} {seconds:.3f} s" for name, seconds in steps.items())
            print(f"{backend:8}  epoch {epoch}  {rates[-1]:>9,.0f} rows/s   {shown}")
        print(f"{backend:8}  median   {statistics.median(rates):>9,.0f} rows/s")
        operator.close()
        for store in stores.values():
            store.close()
        factory.close()


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_200_000)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--backend", choices=("hashmap", "rocksdb", "both"), default="both")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--numbers", action="store_true")
    arguments = parser.parse_args()
    load = Load(arguments.rows, arguments.keys, arguments.batch, arguments.numbers)
    function = BatchSum() if arguments.batches else KeyedSum()
    backends = ["hashmap", "rocksdb"] if arguments.backend == "both" else [arguments.backend]
    for backend in backends:
        if backend == "rocksdb" and importlib.util.find_spec("rocksdict") is None:
            print("rocksdb   skipped: rocksdict is not installed")
            continue
        if arguments.profile:
            with cProfile.Profile() as profile:
                measure(backend, load, 1, function)
            profile.print_stats("tottime")
        else:
            measure(backend, load, arguments.epochs, function)


if __name__ == "__main__":
    main()
