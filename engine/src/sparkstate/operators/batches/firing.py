"""Fires the due timers of an epoch in sets.

The order is that of the record path (``keyed.firing``) as far as one key can see it: a set holds each key once, so a
key's timers fire one after another, and one that it registers or deletes meanwhile counts for its later ones. Timers of
different keys in one set fire together.
"""

from __future__ import annotations

from typing import cast

from sparkstate.backends.timer_columns import ColumnarTimerTable
from sparkstate.functions import TimeDomain
from sparkstate.operators.batches import column_firing
from sparkstate.operators.batches.calls import BatchCalls
from sparkstate.operators.batches.timer_sets import CHUNK_TIMERS, SetsByKey, TimerSets
from sparkstate.operators.common.due_timers import DueTimers
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.state.column_timers import ColumnTimers
from sparkstate.operators.state.overlay import Overlay


def fire_all(calls: BatchCalls, budget: EpochBudget | None, overlay: Overlay, watermark: int) -> None:
    """Fire everything that is due at the end of an epoch."""
    cursor = calls.cursor
    cursor.floor = overlay.watermark
    try:
        calls.bind(overlay, overlay.watermark)
        cursor.firing = TimeDomain.PROCESSING_TIME
        _fire(calls, budget, overlay, cursor.firing, overlay.processing_time, overlay.watermark)
        if watermark > overlay.watermark:
            calls.bind(overlay, watermark)
            cursor.firing = TimeDomain.EVENT_TIME
            if not _fire_columns(calls, budget, overlay, watermark):
                calls.bind(overlay, watermark)  # entries may have gone to disk meanwhile
                _fire(calls, budget, overlay, cursor.firing, watermark, watermark)
    finally:
        cursor.firing = None


def _fire_columns(calls: BatchCalls, budget: EpochBudget | None, overlay: Overlay, watermark: int) -> bool:
    """Whether all could fire as columns. If not, the rest are objects from now on."""
    timers = overlay.timers[TimeDomain.EVENT_TIME]
    if not isinstance(timers, ColumnTimers):
        return False
    if timers.is_columnar and overlay.spill is None:
        tables = cast("list[ColumnarTimerTable]", calls.tables.timer_tables(TimeDomain.EVENT_TIME))
        if column_firing.fire(calls, budget, overlay, timers, tables, watermark):
            return True
    timers.leave_columns()
    return False


def _fire(
    calls: BatchCalls,
    budget: EpochBudget | None,
    overlay: Overlay,
    domain: TimeDomain,
    until: int,
    watermark: int,
) -> None:
    timers = overlay.timers[domain]
    with DueTimers(
        calls.tables, budget, overlay, domain, until, lambda: calls.bind(overlay, watermark), CHUNK_TIMERS
    ) as due:
        fired = 0
        calls.outputs.start_piece(overlay)
        # Timers of processing time that are registered meanwhile wait for the next epoch, and so would those left out.
        is_by_key = domain is TimeDomain.EVENT_TIME and not calls.spec.function.is_ordered_across_keys
        sets = SetsByKey(due, timers) if is_by_key else TimerSets(due, timers)
        while together := sets.next_set():
            calls.fire(overlay, domain, together)
            fired += len(together)
            if fired >= CHUNK_TIMERS:  # sets may be small: one key may have all the timers
                fired = 0
                calls.outputs.end_piece(overlay)
                sets.make_room()
                calls.outputs.start_piece(overlay)
        calls.outputs.end_piece(overlay)
