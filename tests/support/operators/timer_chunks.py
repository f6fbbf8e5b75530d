"""Due timers in chunks of a few, so that small tests meet several reads, sets and pieces of output.

Each constant is patched in both modules that use it: due timers would otherwise be read in parts of one size, and fired
in sets of another.
"""

from __future__ import annotations

import pytest

from sparkstate.operators.batches import column_firing, columns_by_key, due_columns, timer_sets
from sparkstate.operators.batches import firing as firing_sets
from sparkstate.operators.common import due_timers
from sparkstate.operators.keyed import firing


def patch_records(patch: pytest.MonkeyPatch, timers: int) -> None:
    """Of functions called per record."""
    patch.setattr(due_timers, "CHUNK_TIMERS", timers)
    patch.setattr(firing, "CHUNK_TIMERS", timers)


def patch_batches(patch: pytest.MonkeyPatch, timers: int) -> None:
    """Of functions on batches, whose timers are columns or objects."""
    for module in (column_firing, columns_by_key, due_columns, firing_sets, timer_sets):
        patch.setattr(module, "CHUNK_TIMERS", timers)
