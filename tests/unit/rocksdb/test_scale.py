"""Far more state than memory, and a million timers."""

from __future__ import annotations

import contextlib
import itertools
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.backends import cells
from support.backends.cells import TIMERS, commit, group_of
from support.backends.memory_probe import resident_bytes

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


TIMERS_OF_A_SHARD = 150_000


def peak_bytes(action: Callable[[], object]) -> int:
    """Of Python's memory above what there is, while ``action`` runs."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_a_canonical_snapshot_of_many_timers_sorts_none_in_memory(make_slot: Any, tmp_path: Path) -> None:
    """RocksDB has them by time; so does the file, and its reader does not care."""
    slot = make_slot(managed_memory_bytes=64 * MIB)
    store = slot.store()
    chance = random.Random(3)
    for start in range(0, TIMERS_OF_A_SHARD, 25_000):
        commit(
            store,
            cells.timers(cells.timer(chance.randrange(10**9), key) for key in range(start, start + 25_000)),
        )
    snapshot = store.prepare_snapshot(1, slot.folder(), True)
    sizes: list[int] = []

    def send() -> None:
        (stream,) = snapshot.streams()
        sizes.extend(len(data) for data in stream.chunks())

    assert peak_bytes(send) < 2 * MIB < sum(sizes) / 2
    again = store.prepare_snapshot(2, slot.folder(), True)
    restored = slot.restored(again)
    fired = list(restored.table(TIMERS).due(10**9))
    assert len(fired) == TIMERS_OF_A_SHARD
    assert [timer.timestamp for timer in fired] == sorted(timer.timestamp for timer in fired)
    snapshot.release()
    again.release()


def test_a_restore_of_long_rows_holds_few_of_them(make_slot: Any) -> None:
    slot = make_slot(managed_memory_bytes=64 * MIB)
    store = slot.store()
    for start in range(96):
        commit(store, cells.values({key: bytes([key]) * MIB for key in range(start, start + 1)}, BLOBS))
    snapshot = store.prepare_snapshot(1, slot.folder(), True)
    assert snapshot.files()[0].size > 90 * MIB
    restored = []
    assert peak_bytes(lambda: restored.append(slot.restored(snapshot))) < 24 * MIB
    assert restored[0].table(BLOBS).get(group_of(95), 95) == bytes([95]) * MIB
    snapshot.release()
