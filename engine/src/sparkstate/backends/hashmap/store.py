"""``HashMapStateBackend``'s store: committed state as Python objects in this process.

Snapshots are asynchronous and copy-on-write (``backends.copy_on_write``); their only format is the canonical file.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkstate import errors
from sparkstate.backends import base, canonical
from sparkstate.backends.base import ShardStats, TableChanges, TableSpec, TableStats
from sparkstate.backends.expiring import SweepPace, ttl_change
from sparkstate.backends.hashmap import migration, snapshot, tables
from sparkstate.backends.hashmap.column_table import HashMapColumnTable
from sparkstate.backends.hashmap.key_groups import KeyGroupsOfKeys
from sparkstate.backends.hashmap.kinds import HashMapTable, create_table
from sparkstate.backends.hashmap.sweeping import CellSweep
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde import expiring

_SAMPLE = 64


class HashMapShardStore:
    """A ``ShardStore`` of dicts and columns."""

    takes_columns = True
    takes_timer_columns = True

    def __init__(self, shard: int, key_groups: KeyGroupRange) -> None:
        self.shard = shard
        self.key_groups = key_groups
        self._tables: dict[tuple[str, str], HashMapTable] = {}
        self._key_groups: dict[str, KeyGroupsOfKeys] = {}
        self._sweeps: dict[tuple[str, str], CellSweep] = {}

    def table(self, spec: TableSpec) -> HashMapTable:
        found = self._tables.get((spec.uid, spec.name))
        if found is None:
            key_groups = self._key_groups.setdefault(spec.uid, KeyGroupsOfKeys())
            found = self._tables[spec.uid, spec.name] = create_table(spec, key_groups)
        elif found.spec is not spec:
            verdict = canonical.check_same_table(found.spec, spec)
            if verdict.before != verdict.now:
                found = migration.taken_up(found, spec, verdict, self._key_groups[spec.uid])
                self._tables[spec.uid, spec.name] = found
            found.spec = spec  # so that the next look is by identity
        return found

    def tables(self) -> Sequence[TableSpec]:
        return [table.spec for table in self._tables.values()]

    def commit(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        # All tables are found, and all key groups known, before the first table changes: nothing can fail half-way.
        found = [self.table(change.spec) for change in changes]
        for table, change in zip(found, changes, strict=True):
            table.note_groups(change, kgs)
        for table, change in zip(found, changes, strict=True):
            deletions = table.apply(change, kgs)
            self._key_groups[change.spec.uid].deleted += deletions
        for uid in self._key_groups:
            self._forget_garbage(uid)

    def _forget_garbage(self, uid: str) -> None:
        key_groups = self._key_groups[uid]
        if key_groups.is_mostly_garbage:
            key_groups.keep(key for t in self._tables.values() if t.spec.uid == uid for key in t.live_keys())

    # ---- values that expire

    def adopt(self, spec: TableSpec, times: expiring.Times) -> None:
        name = (spec.uid, spec.name)
        found = self._tables.get(name)
        wanted = ttl_change(None if found is None else found.spec, spec, times)
        if found is None or wanted is None:
            return
        self._sweeps.pop(name, None)
        if wanted.convert is None:
            found.spec = wanted.spec
        else:
            self._tables[name] = migration.rewritten(
                found, wanted.spec, wanted.convert, self._key_groups[spec.uid]
            )

    def expire(self, spec: TableSpec, cutoff: int, pace: SweepPace) -> int:
        table = self.table(spec)
        sweep = self._sweeps.setdefault((spec.uid, spec.name), CellSweep())
        sweep.cutoff = cutoff  # it may go back, when a clock that was ahead is set
        if not isinstance(table, tables.HashMapCells):
            raise AssertionError(f"the values of {spec} have no stamps. This is a bug, please report")
        removed, gone = sweep.run(table, pace)
        self._key_groups[spec.uid].deleted += gone
        self._forget_garbage(spec.uid)
        return removed

    # ---- snapshots

    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> base.ShardSnapshot:
        frozen = [
            snapshot.FrozenTable(
                table.spec, table.freeze(), self._key_groups[table.spec.uid].by_key, self._cutoff(name)
            )
            for name, table in self._tables.items()
        ]
        return snapshot.HashMapSnapshot(frozen, directory)

    def _cutoff(self, name: tuple[str, str]) -> int:
        sweep = self._sweeps.get(name)
        return expiring.NO_STAMP if sweep is None else sweep.cutoff

    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        if fmt != canonical.FORMAT:
            raise errors.RestoreBlocked(
                f"shard {self.shard}: the snapshot has the format {fmt!r}; the hashmap backend restores "
                f"{canonical.FORMAT!r} only. Take a canonical savepoint with the other backend and restore from that"
            )
        for path in files.values():
            self._load(canonical.CanonicalFile(path))

    def _load(self, file: canonical.CanonicalFile) -> None:
        targets = [(self.table(spec), canonical.TableCodec(spec)) for spec in file.tables]
        for block in file.blocks(self.key_groups):
            table, codec = targets[block.table]
            table.load(codec, block)

    def quiesce(self) -> None:
        """This store never has such work."""

    def stats(self) -> ShardStats:
        tables = [_stats(table) for table in self._tables.values()]
        return ShardStats(
            rows=sum(table.rows for table in tables),
            bytes=sum(table.bytes for table in tables),
            estimated=True,
            tables=tables,
        )

    def close(self) -> None:
        self._tables.clear()
        self._key_groups.clear()


def _stats(table: HashMapTable) -> TableStats:
    count = table.rows()
    return TableStats(table.spec, count, _estimate_bytes(table, count))


def _estimate_bytes(table: HashMapTable, count: int) -> int:
    """Encoded size of a sample, scaled up; what a snapshot would take, not what Python's objects take."""
    if isinstance(table, tables.HashMapTimerTable):
        return count * 24
    if isinstance(table, HashMapColumnTable):
        return count * table.row_bytes
    codec = canonical.TableCodec(table.spec)
    sample = list(itertools.islice(table.cells.items(), _SAMPLE)) if table.cells.is_flat else []
    if not sample:
        return count * 32
    size = sum(
        len(row.key) + len(row.sub) + len(row.value) + 8
        for cell, stored in sample
        for row in tables.rows_of_cell(codec, 0, 0, cell, stored)
    )
    return size * count // len(sample)


class HashMapStoreFactory:
    """A ``StoreFactory``: nothing is shared between the stores of a slot, and nothing limits them but the process."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> HashMapShardStore:
        """An empty store; ``directory`` is not used."""
        return HashMapShardStore(shard, key_groups)

    def memory(self) -> Mapping[str, int]:
        return {}

    def metrics(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        """Nothing to free."""
