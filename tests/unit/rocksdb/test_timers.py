"""Timers in RocksDB and on the heap: order, deduplication, and the cache of the earliest ones."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.backends import cells
from support.backends.cells import TIMERS, commit, group_of, timer
from support.faults import tried
from support.storage.stores import ManualClock

from sparkstate.backends.base import StateKind, TableChanges, TableSpec
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.types import Types
from sparkstate.settings import StateBackendSettings

SERVICES = pytest.mark.parametrize("service", ["rocksdb", "heap"])


def due(store, until):
    return [(found.timestamp, found.key, found.namespace) for found in store.table(TIMERS).due(until)]


@SERVICES
def test_timers_are_due_in_order_of_time_also_before_1970(make_slot, service):
    store = make_slot(timer_service=service).store()
    commit(store, cells.timers([timer(stamp, 1) for stamp in (300, -5, 0, 2**62, -(2**62))]))
    assert [stamp for stamp, _, _ in due(store, 300)] == [-(2**62), -5, 0, 300]
    assert [stamp for stamp, _, _ in due(store, 2**63 - 1)] == [-(2**62), -5, 0, 300, 2**62]


@SERVICES
def test_a_timer_registered_twice_is_one_timer(make_slot, service):
    store = make_slot(timer_service=service).store()
    for _ in range(2):
        commit(store, cells.timers([timer(10, 1)]))
    assert due(store, 10) == [(10, 1, None)]
    commit(store, cells.timers(deleted=[timer(10, 1)]))
    assert due(store, 10) == []


@SERVICES
def test_key_and_namespace_make_different_timers(make_slot, service):
    store = make_slot(timer_service=service).store()
    commit(store, cells.timers([timer(10, 1), timer(10, 2), timer(10, 1, "window")]))
    assert sorted(due(store, 10), key=repr) == [(10, 1, "window"), (10, 1, None), (10, 2, None)]
    table = store.table(TIMERS)
    assert table.contains(timer(10, 1, "window"))
    assert not table.contains(timer(10, 2, "window"))
    assert not table.contains(timer(11, 1))


@SERVICES
def test_asking_what_is_due_consumes_nothing(make_slot, service):
    store = make_slot(timer_service=service).store()
    commit(store, cells.timers([timer(10, 1)]))
    assert due(store, 10) == due(store, 10) == [(10, 1, None)]


@SERVICES
@pytest.mark.parametrize("canonical", [False, True])
@pytest.mark.parametrize("restored_as", ["rocksdb", "heap"])
def test_timers_survive_a_change_of_the_timer_service(make_slot, service, canonical, restored_as):
    slot, other = make_slot(timer_service=service), make_slot(timer_service=restored_as)
    store = slot.store()
    registered = [timer(stamp, stamp % 7) for stamp in range(500)]
    commit(store, cells.timers(registered), cells.values({1: 1}))
    restored = other.restored(store.prepare_snapshot(1, slot.folder(), canonical))
    assert [stamp for stamp, _, _ in due(restored, 10**6)] == list(range(500))
    commit(restored, cells.timers([timer(5, 99)], deleted=registered[:3]))
    assert restored.table(TIMERS).next_timestamp() == 3
    again = other.restored(restored.prepare_snapshot(2, other.folder(), canonical))
    assert len(due(again, 10**6)) == 498


def test_heap_timers_of_a_snapshot_are_those_of_its_time(make_slot):
    slot = make_slot(timer_service="heap")
    store = slot.store()
    commit(store, cells.timers([timer(10, 1)]))
    snapshot = store.prepare_snapshot(1, slot.folder(), canonical=False)
    commit(store, cells.timers([timer(20, 2)], deleted=[timer(10, 1)]))
    assert due(slot.restored(snapshot), 100) == [(10, 1, None)]


def test_far_more_timers_than_the_cache_holds_fire_in_order(make_slot):
    store = make_slot(options={"timer-service.cache-size": "16"}).store()
    stamps = [(number * 7919) % 5000 for number in range(5000)]
    commit(store, cells.timers([timer(stamp, stamp) for stamp in stamps]))
    assert store.table(TIMERS).next_timestamp() == 0
    assert [stamp for stamp, _, _ in due(store, 4000)] == list(range(4001))
    commit(store, cells.timers(deleted=[timer(stamp, stamp) for stamp in range(4001)]))
    assert store.table(TIMERS).next_timestamp() == 4001
    commit(store, cells.timers([timer(17, 17)]))
    assert store.table(TIMERS).next_timestamp() == 17


def columns_of(marks):
    stamps, keys = (np.array([mark[at] for mark in marks], np.int64) for at in (0, 1))
    groups = np.array([group_of(key) for _, key in marks], np.int32)
    return TimerColumns(stamps, keys, groups, np.array(list(marks.values()), np.bool_))


class TimerTable(RuleBasedStateMachine):
    """A table with a small cache, or one on the heap, against a plain set: whatever is registered, deleted and asked,
    one by one or as columns, they agree."""

    @initialize(cache=st.integers(1, 4), service=st.sampled_from(("rocksdb", "rocksdb", "heap")))
    def open(self, cache, service):
        self.folder = tempfile.TemporaryDirectory()
        options = {"timer-service.cache-size": str(cache)}
        settings = StateBackendSettings(type="rocksdb", options=options, timer_service=service)
        self.factory = RocksDBStoreFactory(settings, Path(self.folder.name), ManualClock())
        self.number = 0
        self.store = self.new_store()
        self.model = set()

    def new_store(self):
        self.number += 1
        return self.factory.create(0, KeyGroupRange(0, 127), Path(self.folder.name) / str(self.number))

    @rule(
        marks=st.dictionaries(st.tuples(st.integers(-3, 12), st.integers(0, 2)), st.booleans(), max_size=8),
        as_columns=st.booleans(),
    )
    def commit(self, marks, as_columns):
        registered = [timer(*mark) for mark, on in marks.items() if on]
        deleted = [timer(*mark) for mark, on in marks.items() if not on]
        if as_columns:
            self.store.commit([TableChanges(TIMERS, timer_columns=columns_of(marks))], {})
        else:
            commit(self.store, cells.timers(registered, deleted))
        self.model.update((found.timestamp, found.key) for found in registered)
        self.model.difference_update((found.timestamp, found.key) for found in deleted)

    @rule(until=st.integers(-4, 13))
    def ask(self, until):
        found = [(stamp, key) for stamp, key, _ in due(self.store, until)]
        assert [stamp for stamp, _ in found] == sorted(stamp for stamp, _ in found)
        assert sorted(found) == sorted(entry for entry in self.model if entry[0] <= until)

    @rule(until=st.integers(-4, 13), at_once=st.integers(1, 5))
    def ask_for_columns(self, until, at_once):
        parts = list(self.store.table(TIMERS).due_columns(until, at_once))
        found = [
            each
            for part in parts
            for each in zip(
                part.timestamps.tolist(), part.keys.tolist(), part.key_groups.tolist(), strict=True
            )
        ]
        assert found == [(stamp, key, group_of(key)) for stamp, key, _ in due(self.store, until)]

    @rule(until=st.integers(-4, 13))
    def ask_for_the_first_only(self, until):
        for found in self.store.table(TIMERS).due(until):
            assert found.timestamp == min(self.model)[0]
            break

    @rule(canonical=st.booleans())
    def restore(self, canonical):
        folder = Path(self.folder.name) / f"snapshot-{self.number}"
        folder.mkdir()
        snapshot = self.store.prepare_snapshot(1, folder, canonical)
        files = {file.name: file.path for file in snapshot.files()}
        restored = self.new_store()
        restored.restore(files, snapshot.format)
        self.store.close()
        self.store = restored

    @invariant()
    def the_next_one_is_known(self):
        if hasattr(self, "store"):
            least = min(self.model)[0] if self.model else None
            assert self.store.table(TIMERS).next_timestamp() == least

    def teardown(self):
        if hasattr(self, "factory"):
            self.factory.close()
            self.folder.cleanup()


TestTimerTable = TimerTable.TestCase
TestTimerTable.settings = settings(max_examples=tried(12), stateful_step_count=15, deadline=None)


def test_sizes_are_told_while_the_operators_make_tables(make_slot):
    """After a restore each table is made when it is first needed, beside the thread that asks for sizes."""
    asked = make_slot(timer_service="heap").store()
    commit(asked, cells.values({1: 1}))
    over, failed = threading.Event(), []

    def ask():
        while not over.is_set():
            try:
                asked.stats()
            except RuntimeError as error:
                failed.append(error)
                return

    asking = threading.Thread(target=ask)
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        asking.start()
        for number in range(30_000):
            asked.table(TableSpec("op", f"timers {number}", StateKind.EVENT_TIMERS, Types.LONG()))
            if failed:
                break
    finally:
        sys.setswitchinterval(switch_s)
        over.set()
        asking.join()
    assert failed == []
