"""From a spill to the shard stores: files that they take in, and one pass over each column family, whose rows are
sorted into their shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkstate.backends.base import TIMER_KINDS, StateKind, TableSpec
from sparkstate.backends.heap_timers import HeapTimerTable
from sparkstate.backends.rocksdb import layout
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.schemas import SchemaCodec
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.serde import composite

GONE, STANDS, REPLACED = b"\x00", b"\x01", b"\x02"
"""The byte before a spilled value; see ``spill``."""

_ROWS_AT_ONCE = 4000
_BYTES_AT_ONCE = 1 << 20
_TIME_BYTES = 8
_POSITION_BYTES = 8


def give_files(
    spec: TableSpec, files: Mapping[int, Sequence[Path]], stores: Mapping[int, RocksDBShardStore]
) -> None:
    """Put files of rows (``ordered_rows``) into the shard stores, by shard. They are gone afterwards."""
    for shard, paths in files.items():
        stores[shard].take_files(spec, paths)


def copy_rows(
    spec: TableSpec,
    family: Family,
    stores: Mapping[int, RocksDBShardStore],
    shard_of: Sequence[int],
    positions: Mapping[int, int],
) -> None:
    """Apply all rows of one spilled table. ``positions``: what is added to those of list elements, by shard."""
    if any(isinstance(store.table(spec), HeapTimerTable) for store in stores.values()):
        _copy_to_heap(spec, family, stores, shard_of)
        return
    key_group_at = _TIME_BYTES if spec.kind in TIMER_KINDS else 0
    is_list = spec.kind is StateKind.LIST
    pending: dict[int, FamilyWrites] = {}
    schemas: dict[int, SchemaCodec | None] = {}
    count = size = 0
    for row, data in family.iterate():
        shard = shard_of[composite.decode_key_group(row[key_group_at : key_group_at + 2])]
        writes = pending.get(shard)
        if writes is None:
            table = stores[shard].table(spec)
            writes = pending[shard] = FamilyWrites(table.family)
            schemas[shard] = getattr(table, "schemas", None)
        meaning = data[:1]
        if meaning == STANDS:
            writes.keys.append(_moved(row, positions[shard]) if is_list else row)
            codec = schemas[shard]
            writes.values.append(data[1:] if codec is None else codec.stamped(data[1:]))
        elif meaning == GONE:
            writes.deletes.append(row)
        else:
            writes.deletes += [key for key, _ in writes.family.scan(row)]
        count += 1
        size += len(row) + len(data)
        if count >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            _write(spec, stores, pending)
            count = size = 0
    _write(spec, stores, pending)


def _write(
    spec: TableSpec, stores: Mapping[int, RocksDBShardStore], pending: dict[int, FamilyWrites]
) -> None:
    for shard, writes in pending.items():
        stores[shard].write_rows(spec, writes)
    pending.clear()


def _moved(row: bytes, by: int) -> bytes:
    at = len(row) - _POSITION_BYTES
    return row[:at] + composite.encode_long(composite.decode_long(row, at) + by)


def _copy_to_heap(
    spec: TableSpec, family: Family, stores: Mapping[int, RocksDBShardStore], shard_of: Sequence[int]
) -> None:
    codec = layout.RowCodec(spec)
    for row, data in family.iterate():
        timer = codec.timer(row)
        table: HeapTimerTable = stores[shard_of[timer.key_group]].table(spec)
        if data == STANDS:
            table.add(timer)
        else:
            table.remove(timer)
