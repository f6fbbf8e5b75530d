"""Timers on the heap beside state in RocksDB (``timer-service.factory: HEAP``).

Faster where timers are few. They are not in RocksDB's files, so a snapshot writes them out in its
synchronous part: the price that Flink names too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkstate.backends import canonical, heap_timers
from sparkstate.backends.base import TableChanges, TableSpec
from sparkstate.backends.heap_timers import HeapTimerTable
from sparkstate.backends.rocksdb.family import FamilyWrites

FILE = "timers"
"""Name of the snapshot's file of heap timers; its format is the canonical one."""


def apply(table: HeapTimerTable, changes: TableChanges) -> None:
    """Register and delete."""
    for timer, registered in changes.timers.items():
        if registered:
            table.add(timer)
        else:
            table.remove(timer)
    if changes.timer_columns is not None:
        table.apply_columns(changes.timer_columns)


def single_writes(table: Any, change: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites | None:
    """The rows of everything but columns, of which every value fits; None: they go to the heap."""
    if isinstance(table, HeapTimerTable):
        return None
    singles = dataclasses.replace(change, columns=None, pairs=None, timer_columns=None)
    writes: FamilyWrites = table.writes(singles, kgs)
    return writes


def write(path: Path, tables: Sequence[tuple[TableSpec, HeapTimerTable]]) -> None:
    """Write all heap timers of a store into one file."""
    with canonical.CanonicalWriter(path, [spec for spec, _ in tables]) as writer:
        for number, (spec, table) in enumerate(tables):
            view = table.freeze()
            try:
                for row in heap_timers.rows(view, spec, number):
                    writer.write(row)
            finally:
                view.release()
