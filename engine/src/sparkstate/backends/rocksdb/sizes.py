"""How much a store has, by table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from sparkstate.backends.base import ShardStats, TableSpec, TableStats
from sparkstate.backends.heap_timers import HeapTimerTable
from sparkstate.backends.rocksdb import layout
from sparkstate.backends.rocksdb.buffering import BufferedTable
from sparkstate.backends.rocksdb.family import Family

_Name: TypeAlias = tuple[str, str]
"""Of a table: its operator's uid, and its own."""


def heap_tables(
    specs: Mapping[_Name, TableSpec], tables: Mapping[_Name, Any]
) -> list[tuple[TableSpec, HeapTimerTable]]:
    """The tables that keep timers on the heap."""
    # After a restore the operators make tables when they first need them, beside the thread that asks for sizes. The
    # names are copied in one step of the interpreter. A copy of the items makes objects, which may start the garbage
    # collector and so let another thread in.
    names = tuple(tables)
    return [(specs[name], table) for name in names if isinstance(table := tables.get(name), HeapTimerTable)]


def of_store(
    specs: Mapping[_Name, TableSpec], tables: Mapping[_Name, Any], families: Mapping[str, Family]
) -> ShardStats:
    """Rows and bytes of a store: RocksDB's estimates, with what waits in column buffers."""
    by_family = {layout.family_name(spec): spec for spec in tuple(specs.values())}
    found = [TableStats(spec, len(table), 0) for spec, table in heap_tables(specs, tables)]
    rows, size = sum(table.rows for table in found), 0
    for name, family in families.items():
        spec = by_family.get(name)
        waiting = _waiting(None if spec is None else tables.get((spec.uid, spec.name)))
        count = family.integer("rocksdb.estimate-num-keys") + waiting[0]
        stored = family.integer("rocksdb.live-sst-files-size") + waiting[1]
        stored += family.integer("rocksdb.cur-size-all-mem-tables")
        rows, size = rows + count, size + stored
        if spec is not None:
            found.append(TableStats(spec, count, stored))
    return ShardStats(rows=rows, bytes=size, estimated=True, tables=found)


def _waiting(table: Any) -> tuple[int, int]:
    """Entries that RocksDB does not have yet, and the bytes of the buffers."""
    if not isinstance(table, BufferedTable):
        return 0, 0
    return sum(buffer.unwritten_rows() for buffer in table.buffers.values()), table.nbytes
