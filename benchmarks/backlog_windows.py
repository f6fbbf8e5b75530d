"""Processor time of windows while a job catches up: many windows of each key end in one epoch. One slot, without Spark.

    python benchmarks/backlog_windows.py [--queries q5 q12] [--backends hashmap rocksdb] [--epochs 4]
    python benchmarks/backlog_windows.py --text       keys are texts

The rows are half of Nexmark's bids (``peers/nexmark.py``), those of every other key, counted by the windows of the
query; Spark has combined the rows of a key and slice already. An epoch has ``--events`` events a ms apart, 20 minutes
by default. The table has the mean of the last two epochs, in µs of all threads for each window that is put out: for the
rows (``feed``), the ends of the windows (``finish``) and the ``commit``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import aggregates_hot_loop
import numpy as np
import operator_hot_loop
import pyarrow as pa
from peers import nexmark

from sparkstate import columns
from sparkstate.aggregates.slices import Slices
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators.memory.budget import EpochBudget

BEGIN_MS = 20_000
QUERIES = {
    "q5": ("auction", Slices(nexmark.SIZE_MS, nexmark.SLIDE_MS)),
    "q12": ("bidder", Slices(nexmark.SIZE_MS, nexmark.SIZE_MS)),
}


def batches_of(bids: Any, query: str, asked: argparse.Namespace, epoch: int) -> list[pa.RecordBatch]:
    """The combined rows of an epoch, in no order."""
    name, slices = QUERIES[query]
    keys = getattr(bids, name)
    begin = BEGIN_MS + epoch * asked.events
    mine = (bids.ts >= begin) & (bids.ts < begin + asked.events) & (keys % 2 == 0)
    pairs = np.stack([keys[mine], bids.ts[mine] // slices.width], axis=1)
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    order = np.random.default_rng(epoch).permutation(len(distinct))
    users, starts = distinct[order, 0], distinct[order, 1] * slices.width
    whole = pa.record_batch(
        {
            "user": [f"user-{user:08d}" for user in users.tolist()] if asked.text else users,
            "amount": counts[order].astype(np.int64),
            "ts": starts + slices.width - 1,
            columns.KEY_GROUP: (users * 2654435761 % (1 << 32) % 128).astype(np.int32),
        }
    )
    return [whole.slice(start, 1 << 16) for start in range(0, len(whole), 1 << 16)]


def run(query: str, backend: str, asked: argparse.Namespace, bids: Any) -> None:
    """Print the line of one query and backend."""
    with tempfile.TemporaryDirectory() as folder:
        factory, stores = operator_hot_loop.make_stores(backend, Path(folder, "stores"))
        budget = EpochBudget(Path(folder, "overlays"), factory)
        operator = aggregates_hot_loop.make_operator(QUERIES[query][1], stores, asked.text, budget)
        took, watermark = [], MIN_WATERMARK
        for epoch in range(asked.epochs):
            before, watermark = watermark, BEGIN_MS + (epoch + 1) * asked.events - 1
            batches = batches_of(bids, query, asked, epoch)
            took.append(operator_hot_loop.timed_epoch(operator, epoch + 1, batches, before, watermark))
        windows = sum(found for _, found in took[-2:]) / len(took[-2:])
        means = {name: sum(steps[name] for steps, _ in took[-2:]) / len(took[-2:]) for name in took[0][0]}
        shown = "  ".join(f"{name} {mean / windows * 1e6:6.2f}" for name, mean in means.items())
        print(f"{query:4} {backend:8} {shown} µs per window, {windows:,.0f} windows per epoch", flush=True)
        operator.close()
        for store in stores.values():
            store.close()
        factory.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", nargs="+", choices=list(QUERIES), default=list(QUERIES))
    parser.add_argument(
        "--backends", nargs="+", choices=["hashmap", "rocksdb"], default=["hashmap", "rocksdb"]
    )
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--events", type=int, default=1_200_000)
    parser.add_argument("--text", action="store_true")
    asked = parser.parse_args()
    bids = nexmark.reference_bids(BEGIN_MS + np.arange(asked.events * asked.epochs))
    for query in asked.queries:
        for backend in asked.backends:
            run(query, backend, asked, bids)


if __name__ == "__main__":
    main()
