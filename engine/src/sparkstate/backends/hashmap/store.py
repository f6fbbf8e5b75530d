"""``HashMapStateBackend``'s store: committed state as Python objects in this process.

Snapshots are asynchronous and copy-on-write (``backends.layered_dict``); their only format is the canonical file.
"""

from __future__ import annotations

import itertools
from collections.abc import KeysView, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkstate import errors
from sparkstate.backends import base, canonical
from sparkstate.backends.base import ShardStats, Table, TableChanges, TableSpec
from sparkstate.backends.hashmap import snapshot, tables
from sparkstate.keygroups import KeyGroupRange

_SAMPLE = 64


class HashMapShardStore:
    """A ``ShardStore`` of dicts."""

    def __init__(self, shard: int, key_groups: KeyGroupRange) -> None:
        self.shard = shard
        self.key_groups = key_groups
        self._tables: dict[tuple[str, str], tables.HashMapTable] = {}
        self._key_groups: dict[str, _KeyGroups] = {}

    def table(self, spec: TableSpec) -> Table:
        found = self._tables.get((spec.uid, spec.name))
        if found is None:
            found = self._create(spec)
        else:
            canonical.check_same_table(found.spec, spec)
        return found

    def _create(self, spec: TableSpec) -> tables.HashMapTable:
        made = self._tables[spec.uid, spec.name] = tables.create_table(spec)
        self._key_groups.setdefault(spec.uid, _KeyGroups())
        return made

    def tables(self) -> Sequence[TableSpec]:
        return [table.spec for table in self._tables.values()]

    def commit(self, changes: Sequence[TableChanges], kgs: Mapping[Any, int]) -> None:
        # All tables are found, and all key groups known, before the first table changes: nothing can fail half-way.
        found = [self.table(change.spec) for change in changes]
        for change in changes:
            if change.spec.kind not in snapshot.TIMERS:
                known = self._key_groups[change.spec.uid]
                for cells in (change.values, change.lists, change.maps):
                    known.add(cells.keys(), kgs)
        for table, change in zip(found, changes, strict=True):
            deletions = table.apply(change)  # type: ignore[union-attr]
            self._key_groups[change.spec.uid].deleted += deletions
        for uid, key_groups in self._key_groups.items():
            if key_groups.is_mostly_garbage:
                key_groups.keep(
                    key for t in self._tables.values() if t.spec.uid == uid for key in t.live_keys()
                )

    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> base.ShardSnapshot:
        frozen = [
            snapshot.FrozenTable(table.spec, table.freeze(), self._key_groups[table.spec.uid].by_key)
            for table in self._tables.values()
        ]
        return snapshot.HashMapSnapshot(frozen, directory)

    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        if fmt != canonical.FORMAT:
            raise errors.RestoreBlocked(
                f"shard {self.shard}: the snapshot has the format {fmt!r}; the hashmap backend restores "
                f"{canonical.FORMAT!r} only. Take a savepoint with the other backend and restore from that"
            )
        for path in files.values():
            self._load(canonical.CanonicalFile(path))

    def _load(self, file: canonical.CanonicalFile) -> None:
        targets = []
        for spec in file.tables:
            self.table(spec)
            targets.append(
                (
                    self._tables[spec.uid, spec.name],
                    canonical.TableCodec(spec),
                    self._key_groups[spec.uid].by_key,
                    spec.kind in snapshot.TIMERS,
                )
            )
        for row in file.rows(self.key_groups):
            table, codec, by_key, is_timer = targets[row.table]
            table.load(codec, row)
            if not is_timer:
                by_key[codec.key(row.key)] = row.key_group

    def quiesce(self) -> None:
        """This store never has such work."""

    def stats(self) -> ShardStats:
        rows = total = 0
        for table in self._tables.values():
            count = table.rows()
            rows += count
            total += _estimate_bytes(table, count)
        return ShardStats(rows=rows, bytes=total, estimated=True)

    def close(self) -> None:
        self._tables.clear()
        self._key_groups.clear()


class _KeyGroups:
    """Key → key group of one operator's keys. Keys that lost all state are swept now and then."""

    def __init__(self) -> None:
        self.by_key: dict[Any, int] = {}
        self.deleted = 0

    def add(self, cells: KeysView[base.Cell], kgs: Mapping[Any, int]) -> None:
        by_key = self.by_key
        for cell in cells - by_key.keys():
            key = base.key_of(cell)
            by_key[key] = kgs[key]

    @property
    def is_mostly_garbage(self) -> bool:
        return self.deleted > 1000 and self.deleted > len(self.by_key) // 2

    def keep(self, keys: Any) -> None:
        # A new dict: a snapshot in another thread may still read the old one.
        self.by_key = {key: self.by_key[key] for key in keys}
        self.deleted = 0


def _estimate_bytes(table: tables.HashMapTable, count: int) -> int:
    """Encoded size of a sample, scaled up; what a snapshot would take, not what Python's objects take."""
    if isinstance(table, tables.HashMapTimerTable):
        return count * 24
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
    """A ``StoreFactory``: nothing is shared between the stores of a slot, and nothing limits them but the
    process."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> HashMapShardStore:
        """An empty store; ``directory`` is not used."""
        return HashMapShardStore(shard, key_groups)

    def memory(self) -> Mapping[str, int]:
        return {}

    def metrics(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        """Nothing to free."""
