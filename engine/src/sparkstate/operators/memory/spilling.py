"""Moves what an overlay holds in memory to disk, between two batches or two timers."""

from __future__ import annotations

from sparkstate.backends.base import Spill
from sparkstate.backends.ordered_spill import OrderedSpill
from sparkstate.functions import TimeDomain
from sparkstate.operators.rows import sorting
from sparkstate.operators.rows.files import EpochFiles
from sparkstate.operators.state import changes
from sparkstate.operators.state.handles import ValueStateHandle
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables


def move_to_disk(tables: OperatorTables, overlay: Overlay, spill: Spill) -> None:
    """Fold entries and timers into the overlay's spill and forget them here: keys get new numbers.

    Entries that were only read are forgotten as well, and read again when they are asked for. If it fails, some of the
    changes are in neither place. So the spill is closed, and whatever is done with the overlay later is refused.
    """
    try:
        _move(tables, overlay, spill)
    except BaseException:
        spill.close()
        raise


def _move(tables: OperatorTables, overlay: Overlay, spill: Spill) -> None:
    taken = {domain: timers.take() for domain, timers in overlay.timers.items()}
    specs = {domain: tables.timer_spec(domain) for domain in TimeDomain}
    if isinstance(spill, OrderedSpill):
        _add_longs(tables, overlay, spill)
    everywhere = [0] * len(tables.shard_of)  # the spill is one for all shards
    changed = changes.changes_of(overlay, tables.handles, specs, everywhere, tables.takes_columns, taken)
    spill.add(changed.get(0, []), changes.key_groups_of(changed, overlay.known))
    kept = [timer[1] for timers in overlay.timers.values() for timer in timers.changes]
    kgs = overlay.known.groups_of(kept) if kept else {}
    overlay.known = tables.no_keys()
    overlay.tables = tables.empty_tables(spill)
    if kept:
        tables.prefetch(overlay, kept, [kgs[key] for key in kept])


def _add_longs(tables: OperatorTables, overlay: Overlay, spill: OrderedSpill) -> None:
    """Changes that can go as arrays go, and count as unchanged then."""
    for handle in tables.handles:
        table = overlay.tables[handle.number]
        if isinstance(handle, ValueStateHandle) and spill.takes_longs(handle.spec):
            changed = changes.long_values(handle.spec, table, overlay.known)
            if changed is not None:
                spill.add_longs(changed)
                table.entries = table.read


def sort_to_disk(overlay: Overlay, files: EpochFiles, batch_bytes: int) -> None:
    """Write the batches that wait to be sorted as one sorted run, in batches of about so many bytes."""
    assert overlay.sort_column is not None
    files.add_run(sorting.sort_run(overlay.held, overlay.sort_column, batch_bytes))
    overlay.held = []
    overlay.measured.pop(("held",), None)
