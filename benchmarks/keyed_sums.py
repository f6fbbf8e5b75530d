"""Running sums by key, as functions on records and on batches, for the jobs of `job.py` and of the peers.

The slots import this module: `benchmarks/` is on their path, as the folder of the job's file or by PYTHONPATH.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkstate import KeyedBatchFunction, KeyedProcessFunction, Types, ValueStateDescriptor


class Sum(KeyedProcessFunction):
    """Running sum per key."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        total = (self.total.value() or 0) + row.v
        self.total.update(total)
        yield row.k, total


class BatchSum(KeyedBatchFunction):
    """The same sum over Arrow batches."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        before = self.total.get(keys, default=0)
        self.total.update(keys, pc.add(before, keys.sum("v")))
        yield batch.set_column(1, "total", keys.cumulative_sum("v", start=before))


class Added(BatchSum):
    """The same sum, answered once for each key of a batch."""

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        total = pc.add(self.total.get(keys, default=0), keys.sum("v"))
        self.total.update(keys, total)
        yield pa.RecordBatch.from_arrays([keys.values, total], names=["k", "total"])


NOISE = random.Random(1).randbytes(1 << 20)
"""What no compression makes smaller."""
PADDING = 504


class PaddedSum(KeyedProcessFunction):
    """The same with 512 bytes of state for every key."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        stored = self.total.value()
        total = row.v if stored is None else int.from_bytes(stored[:8], "big") + row.v
        start = (row.k * 7919 + total) % (len(NOISE) - PADDING)
        self.total.update(total.to_bytes(8, "big") + NOISE[start : start + PADDING])
        yield row.k, total


class PaddedBatchSum(KeyedBatchFunction):
    """The same over Arrow batches, with the same stored bytes."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_batch(self, batch: Any, keys: Any, ctx: Any) -> Iterator[Any]:
        before = first_numbers(self.total.get(keys, default=bytes(8)))
        totals = pc.add(before, keys.sum("v")).to_numpy()
        self.total.update(keys, padded(keys.values.to_numpy(), totals))
        yield batch.set_column(1, "total", keys.cumulative_sum("v", start=before))


WINDOWS = np.lib.stride_tricks.sliding_window_view(np.frombuffer(NOISE, np.uint8), PADDING)


def first_numbers(stored: pa.Array) -> pa.Array:
    """The number at the beginning of each value."""
    starts = np.frombuffer(stored.buffers()[1], np.int32, len(stored), 4 * stored.offset)
    data = np.frombuffer(stored.buffers()[2], np.uint8)
    return pa.array(data[starts[:, None] + np.arange(8)].view(">i8")[:, 0].astype(np.int64))


def padded(keys: Any, totals: Any) -> pa.Array:
    """Each total with what pads it."""
    values = np.empty((len(keys), 8 + PADDING), np.uint8)
    values[:, :8] = totals.astype(">i8").view(np.uint8).reshape(-1, 8)
    values[:, 8:] = WINDOWS[(keys * 7919 + totals) % (len(NOISE) - PADDING)]
    ends = np.arange(len(keys) + 1, dtype=np.int32) * values.shape[1]
    return pa.Array.from_buffers(pa.binary(), len(keys), [None, pa.py_buffer(ends), pa.py_buffer(values)])


FUNCTIONS = {
    "sum": Sum,
    "batches": BatchSum,
    "added": Added,
    "padded": PaddedSum,
    "padded-batches": PaddedBatchSum,
}
