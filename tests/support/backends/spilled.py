"""A spill of numbers above two stores of RocksDB, beside a dict of what there has to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from support.backends import cells

from sparkstate.backends import base, column_cells, loader
from sparkstate.backends.base import DELETED, NamespacedCell, StateKind, TableChanges, TableSpec
from sparkstate.keygroups import KeySpace
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

KEY_SPACE = KeySpace(128, 2)
SPEC = TableSpec("op", "half", StateKind.VALUE, Types.LONG(), Types.DOUBLE())


def groups(added: dict[Any, Any]) -> dict[Any, int]:
    return cells.groups([TableChanges(SPEC, values=added)])


def columns(added: dict[Any, Any]) -> Any:
    make: Callable[..., Any] = column_cells.plain_columns
    if any(column_cells.is_pair(cell) for cell in added):
        make = column_cells.pair_columns
    return make(added, groups(added), np.float64)


def row_order(cell: Any) -> tuple[Any, ...]:
    return (cells.group_of(cell.key), *cell) if isinstance(cell, tuple) else (cells.group_of(cell), cell)


def listed(found: Iterator[Any]) -> list[Any]:
    return [
        (NamespacedCell(*key) if isinstance(key, tuple) else key, value if is_there else DELETED)
        for part in found
        for key, value, is_there in zip(
            part.keys.tolist(), part.values.tolist(), part.present.tolist(), strict=True
        )
    ]


class TwoStores:
    """Two stores of RocksDB in ``folder``, for a spill above them."""

    spill: Any

    def __init__(self, folder: Path) -> None:
        settings = StateBackendSettings(type="rocksdb", managed_memory_bytes=8 * MIB)
        self.factory: Any = loader.create_store_factory(settings, folder / "factory")
        self.stores = {
            shard: self.factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), folder / str(shard))
            for shard in range(2)
        }
        self.shard_of = [KEY_SPACE.shard_of_key_group(kg) for kg in range(128)]

    def close(self) -> None:
        self.spill.close()
        for store in self.stores.values():
            store.close()
        self.factory.close()


class Spilled(TwoStores):
    """A spill of numbers, and what there has to be, by cell."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder / "spill"
        self.spill = self.factory.create_spill(self.stores, self.shard_of, self.folder)
        self.has_room = True
        self.spill._has_room = lambda _: self.has_room
        self.committed: dict[Any, Any] = {}
        self.state: dict[Any, Any] = {}

    def commit_first(self, added: dict[Any, Any]) -> None:
        for shard, store in self.stores.items():
            own = {c: v for c, v in added.items() if self.shard_of[groups({c: v})[base.key_of(c)]] == shard}
            store.commit([TableChanges(SPEC, values=own)], groups(own))
        self.committed = dict(added)
        self.state.update(added)

    def add(self, kind: str, added: dict[Any, Any]) -> None:
        of_kind = {"values": {}, "columns": {}, "pairs": {}}
        for cell, value in added.items():
            name = "columns" if type(cell) is int else "pairs" if column_cells.is_pair(cell) else "values"
            of_kind[name if kind == "columns" else "values"][cell] = value
        changes = TableChanges(SPEC, values=of_kind["values"])
        changes.columns = columns(of_kind["columns"]) if of_kind["columns"] else None
        changes.pairs = columns(of_kind["pairs"]) if of_kind["pairs"] else None
        self.spill.add([changes], groups(of_kind["values"]))
        self.state.update(added)

    def read(self, table_of: Callable[[int], Any], asked: list[Any]) -> list[Any]:
        kgs = [cells.group_of(base.key_of(cell)) for cell in asked]
        return [table_of(kg).get(kg, cell) for kg, cell in zip(kgs, asked, strict=True)]
