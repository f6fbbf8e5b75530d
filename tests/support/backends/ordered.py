"""A spill that expects the order of keys above two stores, beside a dict of what there has to be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from support.backends import cells
from support.backends.spilled import TwoStores

from sparkstate.backends import base
from sparkstate.backends.base import DELETED, NamespacedCell, StateKind, TableChanges, TableSpec
from sparkstate.backends.ordered_spill import LongValues
from sparkstate.serde.types import Types

SPEC = TableSpec("op", "name", StateKind.VALUE, Types.LONG(), Types.STRING())


def cell_of(key: int, space: Any) -> Any:
    return key if space is None else NamespacedCell(key, space)


class Spilled(TwoStores):
    """A spill that expects order, and what there has to be, by cell. ``stores``: another folder for these."""

    def __init__(self, folder: Path, stores: Path | None = None) -> None:
        super().__init__(stores or folder)
        self.folder = folder
        self.state: dict[Any, Any] = {}
        self.numbers = iter(range(1_000_000))
        self.begin()

    def begin(self) -> None:
        self.spill = self.factory.create_ordered_spill(
            self.stores, self.shard_of, self.folder / f"spill-{next(self.numbers)}"
        )
        self.given = dict(self.state)

    def add(self, added: dict[Any, Any]) -> None:
        self.spill.add([TableChanges(SPEC, values=dict(added))], groups_of(added))
        self.given.update(added)

    def add_longs(self, added: dict[int, Any]) -> None:
        """The same as arrays."""
        assert self.spill.takes_longs(SPEC)
        keys = np.array([*added], np.int64)
        groups = np.array([cells.group_of(key) for key in added], np.int32)
        values = [None if value is DELETED else value for value in added.values()]
        self.spill.add_longs(LongValues(SPEC, keys, groups, values))
        self.given.update(added)

    @property
    def ordered(self) -> Any:
        return self.spill.table(SPEC).ordered

    def commit(self) -> None:
        self.spill.commit()
        self.spill.close()
        self.state = {cell: value for cell, value in self.given.items() if value is not DELETED}
        self.begin()

    def look_ahead(self, asked: list[Any]) -> None:
        """At many cells at once."""
        groups = [cells.group_of(base.key_of(cell)) for cell in asked]
        expected = {cell: value for cell, value in self.given.items() if value is not DELETED}
        assert self.spill.table(SPEC).get_many(groups, asked) == [expected.get(cell) for cell in asked]

    def look(self, table_of: Callable[[int], Any], expected: dict[Any, Any], asked: list[Any]) -> None:
        groups = [cells.group_of(base.key_of(cell)) for cell in asked]
        expected = {cell: value for cell, value in expected.items() if value is not DELETED}
        wanted = [expected.get(cell) for cell in asked]
        assert [table_of(group).get(group, cell) for group, cell in zip(groups, asked, strict=True)] == wanted


def groups_of(added: dict[Any, Any]) -> dict[Any, int]:
    return {base.key_of(cell): cells.group_of(base.key_of(cell)) for cell in added}


def row_order(cell: Any) -> Any:
    key = base.key_of(cell)
    return cells.group_of(key), key
