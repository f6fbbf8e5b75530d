"""After a piece of work nothing of an overlay is kept alive by the handles of its operator, so that its memory is free
as soon as it went to disk or became state."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.operators import driven as ops
from support.operators.spilling import Side

from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.state.overlay import TableOverlay
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, ValueStateDescriptor

ROWS = 1_000


class Remember(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", Types.STRING()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.last.update(f"{row.amount:0100}")
        self.seen.add(row.amount)
        ctx.timer_service().register_event_time_timer(row.amount % 2)
        yield row.user, row.amount

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.seen.add(timestamp)


class RememberBatches(KeyedBatchFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_batch(self, batch: pa.RecordBatch, keys: Any, ctx: Any) -> Iterator[pa.RecordBatch]:
        self.last.update(keys, keys.last("amount"))
        yield batch.select(["user", "amount"])


def rows(user: str) -> pa.RecordBatch:
    return ops.make_batch(*[(f"{user}-{n}", n, 1) for n in range(ROWS)])


def large_tables() -> list[TableOverlay]:
    gc.collect()
    return [
        each
        for each in gc.get_objects()
        if type(each) is TableOverlay
        and max(len(each.entries), each.columns.count if each.columns else 0) >= ROWS
    ]


@pytest.mark.parametrize("function", [Remember, RememberBatches])
def test_an_overlay_that_another_operator_sends_to_disk_is_free_at_once(
    function: Any, tmp_path: Path
) -> None:
    side = Side(tmp_path, 10_000_000, function())
    other = ops.make_operator(Remember(), side.stores, budget=side.budget, uid="other")
    first, second = side.operator.begin(1, MIN_WATERMARK, 0), other.begin(1, MIN_WATERMARK, 0)
    side.operator.process_batch(first, rows("a"))
    side.operator.finish(first, 5)
    assert large_tables() != []
    side.budget.limit_bytes = first.weight
    other.process_batch(second, ops.make_batch(("b", 1, 1)))
    assert first.spill is not None
    assert large_tables() == []
    commit_overlays([(side.operator, first)])
    assert side.operator.read_value("last", "a-7") in (f"{7:0100}", 7)
    side.close()


@pytest.mark.parametrize("limit", [None, 0], ids=["hashmap", "rocksdb"])
def test_an_overlay_that_became_state_is_free_while_nothing_comes(limit: int | None, tmp_path: Path) -> None:
    side = Side(tmp_path, limit, Remember())
    overlay = side.operator.begin(1, MIN_WATERMARK, 0)
    side.operator.process_batch(overlay, rows("a"))
    side.operator.finish(overlay, 5)
    commit_overlays([(side.operator, overlay)])
    overlay.forget_state()
    assert large_tables() == []
    assert overlay.row_count() == ROWS
    side.close()
