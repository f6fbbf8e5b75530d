"""Fires the due timers of event time that are columns, in the sets that ``firing`` describes."""

from __future__ import annotations

from collections.abc import Sequence

from sparkstate.backends.timer_columns import ColumnarTimerTable
from sparkstate.operators.batches.calls import BatchCalls
from sparkstate.operators.batches.columns_by_key import DueByKey
from sparkstate.operators.batches.due_columns import DueColumns, NotInColumns
from sparkstate.operators.batches.timer_sets import CHUNK_TIMERS
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.state.column_timers import ColumnTimers
from sparkstate.operators.state.overlay import Overlay


def fire(
    calls: BatchCalls,
    budget: EpochBudget | None,
    overlay: Overlay,
    timers: ColumnTimers,
    tables: Sequence[ColumnarTimerTable],
    until: int,
) -> bool:
    """Fire what is due. False: some are left that have no place in columns, or entries went to disk."""
    streams = [table.due_columns(until, CHUNK_TIMERS) for table in tables]
    kind = DueColumns if calls.spec.function.is_ordered_across_keys else DueByKey
    due = kind(timers, streams, until)
    fired = 0
    calls.outputs.start_piece(overlay)
    try:
        while len(places := due.next_set()):
            calls.fire_columns(overlay, timers.timestamps(places), timers.keys(places), timers.groups(places))
            fired += len(places)
            if fired >= CHUNK_TIMERS:  # sets may be small: one key may have all the timers
                fired = 0
                calls.outputs.end_piece(overlay)
                if budget is not None and budget.make_room(calls.tables, overlay):
                    return False
                calls.outputs.start_piece(overlay)
    except NotInColumns:
        calls.outputs.end_piece(overlay)
        return False
    finally:
        timers.stop_pass()
    calls.outputs.end_piece(overlay)
    return True
