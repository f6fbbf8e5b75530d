"""Windows with built-in aggregates without Spark: a harness in any backend and number of slots, and epochs whose writes
can be counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from sparkstate import columns
from sparkstate.aggregates.accumulators import Output
from sparkstate.aggregates.sliced_rows import END, START
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.backends import loader
from sparkstate.functions import MIN_WATERMARK
from sparkstate.keygroups import KeySpace
from sparkstate.operators import kinds
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.testing import KeyedProcessHarness, ManualClock

KEY_TYPES: Final = {"numbers": Types.LONG(), "text": Types.STRING()}
"""By the kind of the key ``k``."""


def harness(
    slices: Slices,
    outputs: tuple[Output, ...],
    kind: str = "numbers",
    backend: Any = "hashmap",
    slots: int = 1,
) -> KeyedProcessHarness:
    """With four shards; rows have the key ``k``, of a kind of ``KEY_TYPES``."""
    return KeyedProcessHarness(
        WindowAggregation(slices, ("k",), outputs),
        key=lambda row: row.k,
        key_type=KEY_TYPES[kind],
        backend=backend,
        parallelism=slots,
        shards=4,
    )


Cells = list[tuple[str, int, int, bool]]
"""Of state that an epoch writes: its name, key, namespace, and False where it deletes."""


class WindowEpochs:
    """Windows in one slot, epoch by epoch, and the state that each epoch writes. Keys are numbers below 8."""

    def __init__(self, folder: Path, backend: Any, slices: Slices, outputs: tuple[Output, ...]) -> None:
        settings_ = StateBackendSettings(type=backend, managed_memory_bytes=8 * MIB)
        space = KeySpace(16, 2)
        self._factory = loader.create_store_factory(settings_, folder)
        self._stores = {
            shard: self._factory.create(shard, space.key_groups_of_shard(shard), folder / str(shard))
            for shard in range(2)
        }
        bounds = [(name, pa.timestamp("us", "UTC")) for name in (START, END)]
        fields = [("k", pa.int64()), *bounds, *((output.name, pa.int64()) for output in outputs)]
        spec = kinds.spec(
            WindowAggregation(slices, ("k",), outputs),
            uid="windows",
            row_columns=("k", "v"),
            key_columns=("k",),
            key_type=Types.LONG(),
            event_time_column=columns.TIMESTAMP,
            output_schema=pa.schema(fields),
        )
        self._operator = kinds.make(spec, self._stores, space, ManualClock(), 0, 1)
        self._operator.open()
        self._number, self._watermark = 0, MIN_WATERMARK
        self.timers: list[Any] = []
        """Those that the last epoch set or deleted."""
        self.out: list[Any] = []
        """What the last epoch put out."""

    def epoch(self, rows: list[tuple[int, int, int]], watermark: int) -> Cells:
        """Rows are (key, value, event time)."""
        keys, values, times = zip(*rows, strict=True)
        batch = pa.record_batch(
            {
                "k": list(keys),
                "v": list(values),
                columns.KEY_GROUP: pa.array([2 * key for key in keys], pa.int32()),
                columns.TIMESTAMP: list(times),
            }
        )
        self._number += 1
        overlay: Any = self._operator.begin(self._number, self._watermark, 0)
        self._operator.process_batch(overlay, batch)
        self._operator.finish(overlay, watermark)
        self._watermark = watermark
        changes = [
            each for of_shard in self._operator.changes(overlay).by_shard.values() for each in of_shard
        ]
        assert not any(each.values or each.lists or each.maps or each.columns for each in changes)
        self.timers = [
            timer for each in changes for timer in [*each.timers, *range(len(each.timer_columns or ()))]
        ]
        self.out = [row for each in overlay.output() for row in each.to_pylist()]
        commit_overlays([(self._operator, overlay)])
        return [
            (each.spec.name, int(key), int(space), bool(is_there))
            for each in changes
            if each.pairs is not None
            for (key, space), is_there in zip(each.pairs.keys, each.pairs.present, strict=True)
        ]

    def close(self) -> None:
        for store in self._stores.values():
            store.close()
        self._factory.close()
