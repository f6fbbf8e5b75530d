"""Stores of the RocksDB backend, closed when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.storage.stores import ManualClock

from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.keygroups import KeyGroupRange
from sparkstate.settings import StateBackendSettings

KEY_GROUPS = KeyGroupRange(0, 127)


class Slot:
    """One factory, and stores numbered as they are made."""

    def __init__(self, directory: Path, clock: ManualClock, settings: StateBackendSettings) -> None:
        self.directory = directory
        self.clock = clock
        self.factory = RocksDBStoreFactory(settings, directory, clock)
        self._made = 0

    def store(self, shard: int = 0, key_groups: KeyGroupRange = KEY_GROUPS) -> RocksDBShardStore:
        return self.factory.create(shard, key_groups, self.folder())

    def folder(self) -> Path:
        """A new empty directory."""
        self._made += 1
        folder = self.directory / f"{self._made}"
        folder.mkdir(parents=True)
        return folder

    def restored(self, snapshot: Any, key_groups: KeyGroupRange = KEY_GROUPS) -> RocksDBShardStore:
        store = self.store(key_groups=key_groups)
        store.restore({file.name: file.path for file in snapshot.files()}, snapshot.format)
        return store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_slot(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., Slot]]:
    slots: list[Slot] = []

    def make(**settings: Any) -> Slot:
        slots.append(
            Slot(tmp_path / f"slot-{len(slots)}", clock, StateBackendSettings(type="rocksdb", **settings))
        )
        return slots[-1]

    yield make
    for slot in slots:
        slot.factory.close()


@pytest.fixture
def slot(make_slot: Callable[..., Slot]) -> Slot:
    return make_slot()


@pytest.fixture
def limited(make_slot):
    """Makes a slot whose buffers may take so many bytes."""

    def make(limit: int, **given: Any) -> Any:
        slot = make_slot(**given)
        slot.memory = slot.factory._buffer_memory
        slot.memory.limit = limit
        return slot

    return make
