"""Open windows of many times the memory that overlays may take: their contents go to disk and come back when windows
fire, and memory stays within its share all the while."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.operators import driven as ops
from support.operators.spilling import Side

from sparkstate import windows
from sparkstate.functions import MIN_WATERMARK, TimeDomain
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory import weighing
from sparkstate.serde.types import Types

LIMIT = 200_000
ROWS = 30_000
KIND = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.LONG()])


FIRING = 4_000_000
"""Bytes that windows which fire together may hold: some thousand rows, and not all of them."""


class Sums(windows.ProcessWindowFunction):
    """The sum of a window's rows. Notes the most that its overlay weighs."""

    overlay: Any = None
    heaviest = 0

    def process(self, key, context, elements):
        self.heaviest = max(self.heaviest, weighing.state_bytes(self.overlay))
        yield key, sum(each.amount for each in elements)


@pytest.mark.parametrize(
    "assigner",
    [windows.TumblingEventTimeWindows.of(100), windows.EventTimeSessionWindows.with_gap(40)],
    ids=["tumbling", "session"],
)
def test_windows_of_ten_times_the_memory_fire_whole_within_their_share(tmp_path, assigner: Any) -> None:
    pytest.importorskip("rocksdict")
    sums = Sums()
    operation = windows.over(assigner).allowed_lateness(10_000)
    side = Side(tmp_path, LIMIT, operation.process(sums, element_type=KIND))
    heaviest = 0
    try:
        make_room = side.budget.make_room

        def watched(*arguments: Any, **named: Any) -> bool:
            nonlocal heaviest
            moved = make_room(*arguments, **named)
            heaviest = max(heaviest, side.budget.used_bytes())
            return moved

        side.budget.make_room = watched
        overlay = side.operator.begin(1, MIN_WATERMARK, 0)
        for start in range(0, ROWS, 500):
            rows = [(f"user-{n % 300}", n, n * 100 // ROWS) for n in range(start, start + 500)]
            side.operator.process_batch(overlay, ops.make_batch(*rows))
        in_the_epoch = side.budget.spilled
        assert in_the_epoch > 10
        side.operator.finish(overlay, MIN_WATERMARK)
        commit_overlays([(side.operator, overlay)])
        overlay.close()

        sums.overlay = overlay = side.operator.begin(2, MIN_WATERMARK, 0)
        side.operator.finish(overlay, 1000)
        assert side.budget.spilled > in_the_epoch
        assert Counter(ops.rows_of(overlay)) == Counter(
            (f"user-{user}", sum(range(user, ROWS, 300))) for user in range(300)
        )
        commit_overlays([(side.operator, overlay)])
        assert heaviest <= LIMIT
        assert 0 < sums.heaviest <= FIRING

        overlay = side.operator.begin(3, 1000, 0)
        side.operator.finish(overlay, 20_000)
        commit_overlays([(side.operator, overlay)])
        assert not ops.rows_of(overlay)
        assert side.operator.next_timer() == (None, None)
        assert not [
            timer for table in side.operator.timer_tables(TimeDomain.EVENT_TIME) for timer in table.due(2**62)
        ]
        for store in side.stores.values():
            assert not [row for spec in store.tables() for row in _rows(store, spec)]
    finally:
        side.close()


def _rows(store: Any, spec: Any) -> list[Any]:
    table = store.table(spec)
    return list(table.family.iterate(b"")) if hasattr(table, "family") else []
