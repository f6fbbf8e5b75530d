"""Far more state than memory, and a million timers."""

from __future__ import annotations

import contextlib
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from support import cells
from support.cells import TIMERS, commit, group_of
from support.memory_probe import resident_bytes

from sparkstate.backends.base import StateKind, TableSpec, Timer
from sparkstate.backends.loader import create_store_factory
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types
from sparkstate.settings import MIB, StateBackendSettings

BUDGET = 16 * MIB
BLOBS = TableSpec("op", "blobs", StateKind.VALUE, Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE()))
MILLION = 1_000_000


def stored_bytes(folder: Path) -> int:
    """Of all files of state; a compaction may remove some meanwhile."""
    total = 0
    for path in folder.rglob("*.sst"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def test_state_of_eight_times_the_budget_is_kept_on_disk_and_read_back(make_slot: Any) -> None:
    slot = make_slot(managed_memory_bytes=BUDGET)
    store = slot.store()
    chance = random.Random(5)
    blobs = {key: chance.randbytes(8192) for key in range(16_000)}
    commit(store, cells.values({-1: b""}, BLOBS))
    before = resident_bytes()
    for start in range(0, len(blobs), 250):
        commit(store, cells.values({key: blobs[key] for key in range(start, start + 250)}, BLOBS))
    on_disk = stored_bytes(slot.directory)
    assert on_disk > 7 * BUDGET
    keys = chance.sample(range(16_000), 500)
    found = store.table(BLOBS).get_many([group_of(key) for key in keys], keys)
    assert found == [blobs[key] for key in keys]
    del found
    assert slot.factory.memory()["used"] <= BUDGET
    # The allocator keeps some of what passed through; how tightly the budget is kept is measured in test_memory.
    assert resident_bytes() - before < on_disk / 2


@pytest.mark.parametrize(("backend", "service"), [("hashmap", "heap"), ("rocksdb", "rocksdb")])
def test_a_million_timers_fire_once_each_in_order(backend: Any, service: Any, tmp_path: Path) -> None:
    settings = StateBackendSettings(type=backend, timer_service=service, managed_memory_bytes=64 * MIB)
    factory = create_store_factory(settings, tmp_path)
    store = factory.create(0, KeyGroupRange(0, 127), tmp_path / "0")
    registered = [Timer((n * 7919) % MILLION, n % 1000, n % 128) for n in range(MILLION)]
    for start in range(0, MILLION, 250_000):
        commit(store, cells.timers(registered[start : start + 250_000]))
    commit(store, cells.timers(registered[:100_000]))  # registered again: still one each
    table = store.table(TIMERS)
    assert table.next_timestamp() == 0
    stamps = [timer.timestamp for timer in table.due(MILLION // 2 - 1)]
    assert stamps == list(range(MILLION // 2))
    commit(store, cells.timers(deleted=itertools.islice(table.due(MILLION), MILLION // 2)))
    assert table.next_timestamp() == MILLION // 2
    assert sum(1 for _ in table.due(MILLION)) == MILLION // 2
    factory.close()
