"""Open windows of ten times the managed memory of a slot lie in RocksDB: memory stays flat while they grow, and each
fires whole."""

from __future__ import annotations

import contextlib
import random
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.backends.memory_probe import resident_bytes
from support.operators import driven as ops

from sparkstate import columns, windows
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.sums import Count, Sum
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.backends import loader
from sparkstate.functions import MIN_WATERMARK, AggregateFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

MANAGED = MIB
TIMES = 10
NOISE_BYTES = 1024
KEYS = 420
NUMBERS = 15_000
"""Keys of windows that hold numbers: with its key and its start, each is 32 bytes."""
EPOCHS = 24
EPOCH_MS = 100
END = 2_000_000
PINNED = MANAGED // 16
"""Blocks that a flush or a compaction holds beside the cache; 1.3 % were seen on a busy machine."""
GROWTH = 6 * MIB
"""Of the process: the allocator keeps some of what passes through an epoch. Contents would be ten and more."""
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
ROW = Types.ROW_NAMED(["user", "noise"], [Types.LONG(), BYTES])


class Slot:
    """The stores of a slot with so much managed memory, and one operator over rows of a user and something else."""

    def __init__(self, folder: Path, function: Any, column: str, fields: list[pa.Field]) -> None:
        self.folder = folder
        settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=MANAGED)
        self.factory: Any = loader.create_store_factory(settings, folder / "state")
        self.stores = {
            shard: self.factory.create(
                shard, ops.KEY_SPACE.key_groups_of_shard(shard), folder / "state" / str(shard)
            )
            for shard in range(4)
        }
        self.operator = ops.make_operator(
            function,
            self.stores,
            budget=EpochBudget(folder / "overlays", self.factory),
            row_columns=("user", column),
            key_type=Types.LONG(),
            output_schema=pa.schema([pa.field("user", pa.int64()), *fields]),
        )
        self.epochs = 0

    def epoch(self, watermark: int, *batches: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """What a committed epoch puts out."""
        self.epochs += 1
        overlay = self.operator.begin(self.epochs, MIN_WATERMARK, 0)
        for batch in batches:
            self.operator.process_batch(overlay, batch)
        self.operator.finish(overlay, watermark)
        rows = ops.rows_of(overlay)
        commit_overlays([(self.operator, overlay)])
        return rows

    def stored_bytes(self) -> int:
        """Of the files of its stores; a compaction may remove some meanwhile."""
        total = 0
        for path in self.folder.rglob("*.sst"):
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size
        return total

    def grow(self, batch_of: Callable[[int], pa.RecordBatch]) -> int:
        """Commit a batch in each epoch, while no window ends; how much memory the later three quarters took."""
        seen = []
        for number in range(EPOCHS):
            assert not self.epoch(MIN_WATERMARK, batch_of(number))
            assert self.factory.memory()["used"] <= MANAGED + PINNED
            seen.append(resident_bytes())
        return max(seen) - max(seen[: EPOCHS // 4])

    def close(self) -> None:
        for store in self.stores.values():
            store.close()
        self.factory.close()


def batch(users: Any, values: pa.Array, column: str, times: Any) -> pa.RecordBatch:
    groups = np.asarray(users) % ops.KEY_SPACE.max_parallelism
    return pa.record_batch(
        {
            "user": pa.array(users, pa.int64()),
            column: values,
            columns.TIMESTAMP: pa.array(times, pa.int64()),
            columns.KEY_GROUP: pa.array(groups, pa.int32()),
        }
    )


class Digest(windows.ProcessWindowFunction):
    """The number of a window's rows and a digest of them."""

    def process(self, key, context, elements):
        digest = 0
        for row in elements:
            digest += zlib.crc32(row.noise)
        yield key, len(elements), digest


class Greatest(AggregateFunction):
    """The number of rows, and the greatest noise of them."""

    def create_accumulator(self):
        return 0, b""

    def add(self, value, accumulator):
        return accumulator[0] + 1, max(accumulator[1], value.noise)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], max(acc_a[1], acc_b[1])


class GreatestDigest(windows.WindowFunction):
    """Key, number and digest."""

    def apply(self, key, window, inputs):
        return [(key, rows, zlib.crc32(noise)) for rows, noise in inputs]


def noise(user: int, number: int) -> bytes:
    return random.Random(user * 1_000 + number).randbytes(NOISE_BYTES)


PER_RECORD = {
    "all rows": windows.over(windows.TumblingEventTimeWindows.of(END)).process(Digest(), element_type=ROW),
    "a value of each session": windows.over(windows.EventTimeSessionWindows.with_gap(50)).aggregate(
        Greatest(), GreatestDigest(), accumulator_type=Types.TUPLE([Types.LONG(), BYTES])
    ),
}


@pytest.mark.parametrize("kind", PER_RECORD)
def test_open_windows_of_ten_times_the_managed_memory_are_on_disk(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("rocksdict")
    fields = [pa.field("rows", pa.int64()), pa.field("digest", pa.int64())]
    slot = Slot(tmp_path, PER_RECORD[kind], "noise", fields)
    users = [*range(KEYS)]

    def batch_of(number: int) -> pa.RecordBatch:
        held = pa.array([noise(user, number) for user in users], pa.binary())
        return batch(users, held, "noise", [number * EPOCH_MS] * KEYS)

    try:
        assert slot.grow(batch_of) <= GROWTH
        assert slot.stored_bytes() >= TIMES * MANAGED
        found = Counter(slot.epoch(END))
    finally:
        slot.close()
    digests = {user: [zlib.crc32(noise(user, number)) for number in range(EPOCHS)] for user in users}
    assert found == Counter(
        [(user, EPOCHS, sum(held)) for user, held in digests.items()]
        if kind == "all rows"
        else [(user, 1, digest) for user, held in digests.items() for digest in held]
    )


@pytest.mark.extra
def test_open_windows_of_agg_of_ten_times_the_managed_memory_are_on_disk(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    long, time = pa.int64(), pa.timestamp("us", "UTC")
    outputs = (
        Output("rows", "count", Count(of_rows=True), None),
        Output("total", "sum", Sum(long), "amount", long),
    )
    aggregation = WindowAggregation(Slices(size=EPOCH_MS, slide=EPOCH_MS), ("user",), outputs)
    fields = [pa.field("window_start", time), pa.field("window_end", time)]
    fields += [pa.field("rows", long), pa.field("total", long)]
    slot = Slot(tmp_path, aggregation, "amount", fields)
    users = np.arange(NUMBERS)

    def batch_of(number: int) -> pa.RecordBatch:
        return batch(users, pa.array(users * 7 + number), "amount", np.full(NUMBERS, number * EPOCH_MS))

    try:
        assert slot.grow(batch_of) <= GROWTH
        assert EPOCHS * NUMBERS * 32 >= TIMES * MANAGED
        found = slot.epoch(END)
    finally:
        slot.close()
    assert len(found) == EPOCHS * NUMBERS
    assert {
        (user, round(start.timestamp() * 1000), rows, total) for user, start, _, rows, total in found
    } == {
        (user, number * EPOCH_MS, 1, user * 7 + number) for number in range(EPOCHS) for user in range(NUMBERS)
    }
