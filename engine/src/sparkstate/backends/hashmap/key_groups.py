"""The key groups of one operator's keys in one shard: they are computed in Spark, so they have to be remembered."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping
from typing import Any

from sparkstate.backends import base


class KeyGroupsOfKeys:
    """Key → key group, for all tables of an operator that have no column of key groups of their own. Keys that lost
    all state are swept now and then."""

    def __init__(self) -> None:
        self.by_key: dict[Any, int] = {}
        self.deleted = 0

    def add(self, cells: KeysView[base.Cell], kgs: Mapping[Any, int]) -> None:
        """Remember the key groups of the keys of these cells."""
        by_key = self.by_key
        # Not ``cells - by_key.keys()``: that walks all keys of the operator, 19 ms of a commit for a million of them.
        if cells <= by_key.keys():
            return
        for cell in cells:
            if cell not in by_key:
                key = base.key_of(cell)
                by_key[key] = kgs[key]

    @property
    def is_mostly_garbage(self) -> bool:
        """Whether a sweep is worth its time."""
        return self.deleted > 1000 and self.deleted > len(self.by_key) // 2

    def keep(self, keys: Iterable[Any]) -> None:
        """Forget all other keys."""
        # A new dict: a snapshot in another thread may still read the old one.
        self.by_key = {key: self.by_key[key] for key in keys}
        self.deleted = 0
