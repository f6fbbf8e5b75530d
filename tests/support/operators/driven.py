"""Keyed operators on Arrow batches, as a slot drives them, without Spark and without processes."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkstate import columns
from sparkstate.backends.base import ShardStore
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.keygroups import KeySpace
from sparkstate.operators import base, kinds
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.state.overlay import Overlay
from sparkstate.serde.types import Types
from sparkstate.testing import ManualClock

KEY_SPACE = KeySpace(16, 4)
ROWS = pa.schema([("user", pa.string()), ("amount", pa.int64())])


def key_group(key: Any) -> int:
    """A key group such as Spark might have given it."""
    return zlib.crc32(repr(key).encode()) % KEY_SPACE.max_parallelism


def make_stores(shards: range = range(4)) -> dict[int, ShardStore]:
    """Empty hash map stores."""
    factory = HashMapStoreFactory()
    return {n: factory.create(n, KEY_SPACE.key_groups_of_shard(n), Path()) for n in shards}


class CountingStore:
    """Passes everything on to a store, and notes whose changes came in each of its commits."""

    def __init__(self, store: ShardStore, commits: list[list[str]]) -> None:
        self._store, self._commits = store, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, changes: Any, kgs: Any) -> None:
        self._commits.append([change.spec.uid for change in changes])
        self._store.commit(changes, kgs)


def make_operator(
    function: KeyedProcessFunction | KeyedBatchFunction,
    stores: dict[int, ShardStore] | None = None,
    subtask: int = 0,
    parallelism: int = 1,
    budget: EpochBudget | None = None,
    **options: Any,
) -> base.Operator[Any]:
    """An open operator over rows (user, amount) with event time, keyed by user unless ``options`` say otherwise."""
    settings: dict[str, Any] = {
        "uid": "op",
        "row_columns": ("user", "amount"),
        "key_columns": ("user",),
        "key_type": Types.STRING(),
        "event_time_column": columns.TIMESTAMP,
        "output_schema": ROWS,
    }
    spec = kinds.spec(function, **(settings | options))
    operator = kinds.make(
        spec,
        make_stores() if stores is None else stores,
        KEY_SPACE,
        ManualClock(),
        subtask,
        parallelism,
        budget,
    )
    operator.open()
    return operator


def make_batch(*rows: tuple[Any, Any, Any], key_groups: list[int | None] | None = None) -> pa.RecordBatch:
    """A batch of (user, amount, timestamp); users are text, or whole numbers."""
    users, amounts, stamps = zip(*rows, strict=True) if rows else ((), (), ())
    groups = [key_group(user) for user in users] if key_groups is None else key_groups
    return pa.record_batch(
        {
            "user": pa.array(users, pa.int64() if any(type(user) is int for user in users) else pa.string()),
            "amount": pa.array(amounts, pa.int64()),
            columns.TIMESTAMP: pa.array(stamps, pa.int64()),
            columns.KEY_GROUP: pa.array(groups, pa.int32()),
        }
    )


def run(
    operator: base.Operator[Any],
    *rows: tuple[Any, Any, Any],
    before: int = MIN_WATERMARK,
    after: int | None = None,
    epoch: int = 1,
) -> Overlay:
    """One committed epoch of one batch; ``before`` and ``after`` are the watermarks around it."""
    overlay = operator.begin(epoch, before, 0)
    operator.process_batch(overlay, make_batch(*rows))
    operator.finish(overlay, before if after is None else after)
    commit_overlays([(operator, overlay)])
    return overlay


def rows_of(overlay: Overlay, tag: str | None = None) -> list[tuple[Any, ...]]:
    """The rows of an output."""
    return [tuple(row.values()) for batch in overlay.output(tag) for row in batch.to_pylist()]
