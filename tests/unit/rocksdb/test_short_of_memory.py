"""A commit for which memory is too short takes nothing away, or is the store's last one."""

from __future__ import annotations

from typing import Any

import pytest
from support.backends import cells
from support.backends.cells import TIMERS, VALUES, group_of, timer
from support.backends.column_changes import columns, marks, put, read

from sparkstate import errors
from sparkstate.backends.base import TableChanges
from sparkstate.backends.heap_timers import HeapTimerTable
from sparkstate.backends.rocksdb.column_buffer import ColumnBuffer
from sparkstate.backends.rocksdb.timers import RocksTimerTable

KIB = 1024


def short_of_memory(*_: Any) -> Any:
    raise MemoryError


def refused(slot: Any, store: Any) -> bool:
    """Whether no snapshot of the store is taken."""
    with pytest.raises(errors.StorageError, match="failed half-way"):
        store.prepare_snapshot(9, slot.folder(), canonical=False)
    return True


def test_buffers_that_cannot_be_compacted_keep_what_they_have(
    limited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that asks for it is of another store, which knows nothing of these entries."""
    slot = limited(40 * KIB)
    first, second = slot.store(0), slot.store(1)
    put(first, range(600))
    put(first, range(600, 800))
    used = slot.memory.used
    with monkeypatch.context() as short:
        short.setattr(ColumnBuffer, "write", short_of_memory)
        with pytest.raises(MemoryError):
            put(second, range(400))
    assert slot.memory.used == used
    assert read(first, [1, 700]) == [1, 1]
    taken = first.prepare_snapshot(1, slot.folder(), canonical=False)
    assert read(slot.restored(taken), [1, 700]) == [1, 1]


def test_a_commit_that_ends_behind_its_rows_is_the_last_one(
    limited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = limited(16 * KIB)
    store = slot.store()
    put(store, [1], 1)
    with monkeypatch.context() as short:
        short.setattr(RocksTimerTable, "applied_columns", short_of_memory)
        waits = TableChanges(VALUES, columns=columns([1], 2))
        direct = TableChanges(TIMERS, timer_columns=marks(5, range(400)))
        with pytest.raises(MemoryError):
            store.commit([waits, direct], {})
    assert refused(slot, store)


def test_a_commit_that_ends_among_timers_on_the_heap_is_the_last_one(
    make_slot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = make_slot(timer_service="heap")
    store = slot.store()
    cells.commit(store, cells.values({1: 1}))
    with monkeypatch.context() as short:
        short.setattr(HeapTimerTable, "add", short_of_memory)
        with pytest.raises(MemoryError):
            cells.commit(store, cells.values({1: 2}), cells.timers([timer(5, 1)]))
    assert refused(slot, store)


def test_timers_whose_cache_cannot_be_renewed_are_found_in_rocksdb(
    limited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = limited(1000 * KIB)
    store = slot.store()
    cells.commit(store, cells.timers([timer(20, 9)]))
    table = store.table(TIMERS)
    assert table.next_timestamp() == 20  # the cache knows all timers from here on
    store.commit([TableChanges(TIMERS, timer_columns=marks(5, [1, 2]))], {})
    with monkeypatch.context() as short:
        short.setattr(RocksTimerTable, "applied_columns", short_of_memory)
        with pytest.raises(MemoryError):
            cells.commit(store, cells.timers([timer(6, 3)]))
    assert sorted(each.key for each in table.due(10)) == [1, 2]


def test_heap_timers_of_an_overlay_on_disk_that_ended_half_way_take_no_snapshot(
    make_slot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables are on the heap, so there is no database yet that could refuse it."""
    slot = make_slot(timer_service="heap")
    store = slot.store()
    spill = slot.factory.create_spill({0: store}, [0] * 128, slot.folder())
    spill.add([TableChanges(TIMERS, timers={timer(at, 1): True for at in range(10)})], {1: group_of(1)})
    add, calls = HeapTimerTable.add, []

    def damaged(self: HeapTimerTable, one: Any) -> None:
        calls.append(one)
        if len(calls) == 5:
            raise errors.CorruptData("a block is damaged")
        add(self, one)

    with monkeypatch.context() as broken:
        broken.setattr(HeapTimerTable, "add", damaged)
        with pytest.raises(errors.CorruptData):
            spill.commit()
    assert refused(slot, store)
    spill.close()
