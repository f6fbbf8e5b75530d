"""What column buffers save, what they may take, and that nobody who reads meanwhile sees anything of them."""

from __future__ import annotations

import dataclasses
import enum
import threading

import numpy as np
import pytest
from support.backends import cells
from support.backends.cells import TIMERS, VALUES, commit, group_of
from support.backends.column_changes import columns, marks, put, read

from sparkstate import errors
from sparkstate.backends import long_index
from sparkstate.backends.base import NamespacedCell, StateKind, TableChanges, TableSpec, key_of
from sparkstate.backends.hashmap.store import HashMapStoreFactory
from sparkstate.backends.rocksdb.buffering import BufferMemory
from sparkstate.backends.rocksdb.column_buffer import ColumnBuffer
from sparkstate.backends.rocksdb.database import Database
from sparkstate.backends.rocksdb.family import Family
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types

KIB = 1024
MOST = 2**63 - 1


@pytest.fixture
def rows(monkeypatch):
    """The keys of all rows that are written to or removed from RocksDB."""
    found: list[bytes] = []
    write_batch = Database._write_batch

    def watched(self, handle, deletes, keys, values):
        found.extend([*deletes, *keys])
        write_batch(self, handle, deletes, keys, values)

    monkeypatch.setattr(Database, "_write_batch", watched)
    return found


def test_a_window_and_its_timer_that_end_before_the_next_snapshot_cost_rocksdb_nothing(slot, rows):
    store = slot.store()
    put(store, [99])
    store.commit([TableChanges(TIMERS, timer_columns=marks(5, [99]))], {})
    store.prepare_snapshot(1, slot.folder(), canonical=False)
    assert len(rows) == 2
    for end in range(10, 14):
        begun = columns(range(50), spaces=end, is_new=True)
        store.commit(
            [TableChanges(VALUES, pairs=begun), TableChanges(TIMERS, timer_columns=marks(end, range(50)))], {}
        )
        ended = columns(range(50), spaces=end, present=False)
        store.commit(
            [
                TableChanges(VALUES, pairs=ended),
                TableChanges(TIMERS, timer_columns=marks(end, range(50), False)),
            ],
            {},
        )
    taken = store.prepare_snapshot(2, slot.folder(), canonical=False)
    assert len(rows) == 2
    restored = slot.restored(taken)
    assert [timer.timestamp for timer in restored.table(TIMERS).due(MOST)] == [5]
    assert list(restored.table(VALUES).keys(9)) == [[(99, 99)]]


def test_a_total_that_every_epoch_adds_to_is_written_once_for_each_snapshot(slot, rows):
    store = slot.store()
    for number in range(3):
        for value in range(10):
            put(store, range(20), 10 * number + value)
        store.prepare_snapshot(number, slot.folder(), canonical=number == 1)
        assert len(rows) == 20 * (number + 1)
    store.prepare_snapshot(9, slot.folder(), canonical=False)
    assert len(rows) == 60, "nothing has changed"


def test_a_commit_of_many_states_keeps_to_the_limit_that_all_of_them_have(limited):
    slot = limited(100 * KIB)
    store = slot.store()
    specs = [
        TableSpec("op", f"total {number}", StateKind.VALUE, Types.LONG(), Types.LONG()) for number in range(8)
    ]
    for value in (1, 2):
        store.commit([TableChanges(spec, columns=columns(range(1000), value)) for spec in specs], {})
        assert slot.memory.used <= 1.5 * slot.memory.limit
        for spec in specs:
            assert read(store, range(1000), spec) == [value] * 1000


def test_buffers_take_no_more_than_their_limit_whatever_comes(limited):
    slot = limited(64 * KIB)
    stores = [slot.store(shard) for shard in range(3)]
    for number in range(60):
        for store in stores:
            put(store, range(100 * number, 100 * number + 200), number)
            store.commit([TableChanges(TIMERS, timer_columns=marks(number, range(100)))], {})
            assert slot.memory.used <= 1.5 * slot.memory.limit
    for store in stores:
        assert read(store, [0, 150, 5999, 6099]) == [0, 1, 59, 59]
        assert len(list(store.table(TIMERS).due(MOST))) == 6000
        store.close()
    assert slot.memory.used == 0


def test_a_table_that_nothing_is_written_to_any_more_gives_its_memory_to_others(limited, rows):
    slot = limited(50 * KIB)
    store = slot.store()
    put(store, range(1000))
    busy = TableSpec("op", "busy", StateKind.VALUE, Types.LONG(), Types.LONG())
    for value in range(30):
        store.commit([TableChanges(busy, columns=columns(range(700), value))], {})
    assert len(rows) < 1000 + 3 * 700
    assert store.table(busy).nbytes > store.table(VALUES).nbytes == 0
    assert read(store, range(1000)) == [1] * 1000
    assert read(store, range(700), busy) == [29] * 700


def test_a_state_whose_keys_never_come_twice_is_tried_more_and_more_seldom(limited):
    slot = limited(40 * KIB)
    store, tries = slot.store(), []
    for number in range(500):
        put(store, range(200 * number, 200 * number + 200), number)
        if slot.memory.used:
            tries.append(number)
    assert tries[:3] == [0, 1, 2]
    assert len([number for number in tries if number < 100]) > 2 * len([n for n in tries if 300 <= n < 400])
    assert len(tries) < 40
    assert read(store, [0, 199, 99_999]) == [0, 0, 499]


def test_what_nobody_needs_is_dropped_again_after_a_table_was_written_out():
    """What was in use after the last time says nothing once it is gone."""
    live, ended = (ColumnBuffer(np.int64, long_index.LongIndex) for _ in range(2))
    memory = BufferMemory(64 * KIB)
    live.write(columns(range(1100)))
    memory.weigh(live)
    assert memory.used > memory.limit / 2
    memory.compact()
    live.clear()
    memory.weigh(live)
    for present in (True, False):
        ended.write(columns(range(1000), present=present, is_new=True))
    memory.weigh(ended)
    memory.compact()
    assert memory.used == 0


def test_reads_beside_snapshots_find_what_was_committed(limited):
    slot = limited(200 * KIB, options={"timer-service.cache-size": "4"})
    store = slot.store()
    keys, over, failed = list(range(500)), threading.Event(), []
    value = 0

    def look() -> None:
        while not over.is_set() and not failed:
            before = value
            try:
                assert read(store, keys) == [before] * 500
                assert store.table(VALUES).get_many([group_of(7)], [7]) == [before]
                assert sum(map(len, store.table(VALUES).keys(100))) == 500
                stamps = [timer.timestamp for timer in store.table(TIMERS).due(MOST)]
                assert stamps == [before] * 500
                assert sum(map(len, store.table(TIMERS).due_columns(MOST, 64))) == 500
                store.stats()
            except BaseException as error:
                failed.append(error)

    for value in range(8):
        over.clear()
        store.commit(
            [
                TableChanges(VALUES, columns=columns(keys, value)),
                TableChanges(TIMERS, timer_columns=marks(value, keys)),
                TableChanges(TIMERS, timer_columns=marks(value - 1, keys, False)),
            ],
            {},
        )
        readers = [threading.Thread(target=look) for _ in range(2)]
        for reader in readers:
            reader.start()
        taken = store.prepare_snapshot(value, slot.folder(), canonical=value % 2 == 1)
        taken.files()
        over.set()
        for reader in readers:
            reader.join()
        assert not failed
    restored = slot.restored(taken)
    assert read(restored, keys) == [7] * 500
    assert len(list(restored.table(TIMERS).due(MOST))) == 500


def test_who_reads_while_a_store_closes_finds_nothing_older_than_the_last_commit(slot, monkeypatch):
    store = slot.store()
    put(store, [1], 1)
    store.prepare_snapshot(1, slot.folder(), canonical=False)
    put(store, [1], 2)
    table, found, close = store.table(VALUES), [], Database.close

    def closing(self):
        found.append(table.get(group_of(1), 1))
        close(self)

    monkeypatch.setattr(Database, "close", closing)
    store.close()
    assert found == [2]


def test_a_commit_that_the_buffers_took_half_of_is_the_last_one(slot, monkeypatch):
    store = slot.store()
    put(store, [1], 1)
    taken = store.prepare_snapshot(1, slot.folder(), canonical=False)
    write, calls = ColumnBuffer.write, []

    def short_of_memory(self, change):
        calls.append(change)
        if len(calls) == 2:
            raise MemoryError
        write(self, change)

    monkeypatch.setattr(ColumnBuffer, "write", short_of_memory)
    both = TableChanges(VALUES, columns=columns([1], 2), pairs=columns([1], 2, spaces=3))
    with pytest.raises(MemoryError):
        store.commit([both], {})
    with pytest.raises(errors.StorageError, match="failed half-way"):
        put(store, [2])
    with pytest.raises(errors.StorageError, match="failed half-way"):
        store.prepare_snapshot(2, slot.folder(), canonical=False)
    assert read(slot.restored(taken), [1]) == [1]


def test_a_savepoint_has_the_same_bytes_whoever_took_it_and_whatever_waited(limited):
    slot = limited(1000 * KIB)
    hashed = HashMapStoreFactory().create(0, KeyGroupRange(0, 127), slot.folder())
    direct, waiting = slot.store(), slot.store()
    found = []
    for store, limit in ((hashed, 0), (direct, 0), (waiting, 1000 * KIB)):
        slot.memory.limit = limit
        put(store, [*range(300, -300, -7), -(2**63), MOST])
        store.commit([TableChanges(VALUES, pairs=columns(range(50), 5, spaces=-1))], {})
        store.commit([TableChanges(TIMERS, timer_columns=marks(7, range(50)))], {})
        put(store, range(6, 300, 7), present=False)
        found.append(store.prepare_snapshot(1, slot.folder(), canonical=True).files()[0].path.read_bytes())
    assert found[1] == found[2]
    assert found[0] == found[1]


def test_timers_of_one_time_come_in_one_order_whether_they_wait_or_not(slot):
    store = slot.store()
    commit(store, cells.timers([cells.timer(5, key) for key in range(0, 40, 2)]))
    store.commit([TableChanges(TIMERS, timer_columns=marks(5, range(1, 40, 2)))], {})
    found = [key for part in store.table(TIMERS).due_columns(5, 7) for key in part.keys.tolist()]
    assert found == [timer.key for timer in store.table(TIMERS).due(5)] == list(range(40))


def test_a_commit_does_not_look_for_the_last_stored_timer_each_time(slot, monkeypatch):
    store, looked, last = slot.store(), [], Family.last

    def watched(self):
        looked.append(self)
        return last(self)

    monkeypatch.setattr(Family, "last", watched)
    for number in range(20):
        store.commit([TableChanges(TIMERS, timer_columns=marks(number, range(5)))], {})
        store.commit([TableChanges(TIMERS, timer_columns=marks(number - 3, range(5), False))], {})
    assert len(looked) == 1
    store.prepare_snapshot(1, slot.folder(), canonical=False)
    store.commit([TableChanges(TIMERS, timer_columns=marks(99, range(5)))], {})
    assert len(looked) <= 2


def test_an_epoch_asks_for_its_timers_without_a_look_at_all_that_wait(slot, monkeypatch):
    store, looked = slot.store(), []
    for name in ("present", "present_keys"):
        look = getattr(ColumnBuffer, name)
        monkeypatch.setattr(
            ColumnBuffer, name, lambda self, *given, look=look: looked.append(1) or look(self, *given)
        )
    table = store.table(TIMERS)
    for number in range(10):
        store.commit([TableChanges(TIMERS, timer_columns=marks(1000 - number, range(50)))], {})
        assert table.next_timestamp() == 1000 - number
        assert list(table.due(500)) == list(table.due_columns(500, 99)) == []
    assert looked == []
    store.commit([TableChanges(TIMERS, timer_columns=marks(991, range(50), False))], {})
    assert table.next_timestamp() == 992
    assert [timer.timestamp for timer in table.due(993)] == [992] * 50 + [993] * 50


class Period(enum.IntEnum):
    DAY = 1
    WEEK = 7


def test_a_namespace_that_is_a_member_of_an_enum_is_its_number(slot):
    store = slot.store()
    table, cell = store.table(VALUES), NamespacedCell(3, Period.WEEK)
    store.commit([TableChanges(VALUES, pairs=columns([3], 4, spaces=7))], {})
    assert table.get(group_of(3), cell) == 4
    assert table.get_many([group_of(3)] * 2, [cell, NamespacedCell(3, Period.DAY)]) == [4, None]
    commit(store, cells.values({cell: 5}))
    assert table.get_columns(np.array([group_of(3)]), long_index.pairs(np.array([3]), np.array([7])))[0] == [
        5
    ]


def test_buffers_that_single_entries_empty_each_time_take_nothing_for_a_while(slot):
    store = slot.store()
    for value in range(4):
        put(store, range(20), value)
        commit(store, cells.values({5: -value}))
        assert read(store, [4, 5]) == [value, -value]
    put(store, range(20), 9)
    assert not store.table(VALUES).has_buffered


def test_single_entries_that_no_column_has_leave_the_buffers_alone(slot):
    store = slot.store()
    put(store, range(20))
    for cell in (None, NamespacedCell(None, 1), NamespacedCell(5, "w"), NamespacedCell(5, 1)):
        commit(store, cells.values({cell: 2}))
        assert store.table(VALUES).get(group_of(key_of(cell)), cell) == 2
    assert store.table(VALUES).buffers["columns"].count == 20
    assert read(store, [5]) == [1]


def test_a_table_of_which_nothing_is_left_is_forgotten(limited):
    slot = limited(30 * KIB)
    store = slot.store()
    ints = dataclasses.replace(VALUES, value_type=Types.INT())
    for present in (True, False):
        pairs = columns(range(300), spaces=1, present=present, is_new=True)
        store.commit([TableChanges(ints, pairs=pairs)], {})
    assert slot.memory.used > 0
    slot.memory.compact()
    assert slot.memory.used == 0
    before = store.table(ints)
    assert store.table(VALUES) is not before
    assert all(table is not before for table, _ in slot.memory._tables.values())
