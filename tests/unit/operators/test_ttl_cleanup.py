"""Expired entries leave memory, disk and savepoints without being read, at a pace that keeps the state bounded."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.backends import expiring_store
from support.expiring.scripted import Driven, ttl

from sparkstate import errors
from sparkstate.backends import canonical, loader
from sparkstate.backends.base import MapChange, StateKind, TableChanges, TableSpec
from sparkstate.backends.expiring import SweepPace
from sparkstate.backends.rocksdb.family import FamilyWrites
from sparkstate.durations import Time
from sparkstate.functions import KeyedProcessFunction
from sparkstate.keygroups import KeyGroupRange
from sparkstate.operators.state.cleanup import (
    LEAST_ENTRIES,
    LEAST_REST_MS,
    MOST_ENTRIES,
    called_ms,
    pace_of,
    rest_ms,
)
from sparkstate.serde.expiring import ExpiringType, TimeToLive
from sparkstate.serde.types import Types
from sparkstate.settings import StateBackendSettings
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.testing import KeyedProcessHarness

TTL_MS = 1000
EPOCHS_OF_TTL = 10
KEYS_OF_EPOCH = 400
"""More than the least number of entries that a sweep looks at."""
LIVE_KEYS = EPOCHS_OF_TTL * KEYS_OF_EPOCH
BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])


class Writing(KeyedProcessFunction):
    """Writes once under each key and never looks again, except into a list and a map of one key."""

    def open(self, ctx):
        config = StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).build()
        descriptors = (
            ValueStateDescriptor("value", Types.STRING()),
            ListStateDescriptor("list", Types.LONG()),
            MapStateDescriptor("map", Types.LONG(), Types.LONG()),
        )
        for descriptor in descriptors:
            descriptor.enable_time_to_live(config)
        self.value = ctx.get_state(descriptors[0])
        self.list = ctx.get_list_state(descriptors[1])
        self.map = ctx.get_map_state(descriptors[2])

    def process_element(self, value, ctx):
        if value["n"] < 0:
            self.list.add(-value["n"])
            self.map.put(value["n"], 0)
        else:
            self.value.update(value["text"])


def rows_of(harness: KeyedProcessHarness, folder: Path) -> tuple[int, int]:
    """Rows and bytes of a savepoint."""
    rows = size = 0
    for data in harness.snapshot().shards:
        path = folder / "canonical"
        path.write_bytes(data)
        rows, size = rows + sum(1 for _ in canonical.CanonicalFile(path).rows()), size + len(data)
    return rows, size


@BACKENDS
def test_over_twenty_lives_the_state_stays_as_large_as_after_two(backend: Any, tmp_path: Path) -> None:
    rng = random.Random(3)
    stored, kept, saved = [], [], []
    with KeyedProcessHarness(
        Writing(), key=lambda row: row["key"], key_type=Types.LONG(), backend=backend, shards=1
    ) as harness:
        for number in range(20 * EPOCHS_OF_TTL):
            harness.set_processing_time(number * TTL_MS // EPOCHS_OF_TTL)
            first = number * KEYS_OF_EPOCH
            news = range(first, first + KEYS_OF_EPOCH)
            elements = [({"key": key, "n": key, "text": rng.randbytes(100).hex()}, None) for key in news]
            elements += [({"key": -1, "n": -1 - number, "text": ""}, None)] * 2
            harness.process_elements(elements)
            if number % EPOCHS_OF_TTL == EPOCHS_OF_TTL - 1:
                rows, size = rows_of(harness, tmp_path)  # a savepoint flushes, as checkpoints do
                stats = [store.stats() for store in harness._stores.values()]
                stored.append(sum(each.rows for each in stats))
                kept.append(sum(each.bytes for each in stats))
                saved.append((rows, size))
    of_collections = EPOCHS_OF_TTL * 3  # two elements and an entry for each epoch
    assert {rows for rows, _ in saved} == {LIVE_KEYS + of_collections}
    sizes = [size for _, size in saved]
    assert max(sizes) <= 1.01 * min(sizes)
    assert max(stored) <= 1.5 * LIVE_KEYS
    # RocksDB's files have deleted rows until it merges them, here after seven flushes, one for each life. Twenty lives
    # are twenty times the size of one.
    assert max(kept[10:]) <= 1.2 * max(kept[:10])
    assert max(kept) <= 9 * sizes[0]


@BACKENDS
def test_deleted_rows_leave_the_disk_though_nothing_is_written_any_more(backend: Any, tmp_path: Path) -> None:
    with expiring_store.filled(backend, tmp_path, rows=20_000) as made:
        before = made.stored_bytes()
        assert before > 2_000_000
        made.expire_all()
        assert made.store.stats().rows == 0
        made.wait_until(lambda: made.stored_bytes() < before / 20)


@pytest.mark.parametrize(
    ("config", "elapsed", "rows", "keys", "pace"),
    [
        (StateTtlConfig.new_builder(1000), 0, 10, 5, SweepPace(0.0, LEAST_ENTRIES, MOST_ENTRIES // 4)),
        (StateTtlConfig.new_builder(1000), 100, 10, 5, SweepPace(0.2, LEAST_ENTRIES, MOST_ENTRIES // 4)),
        (StateTtlConfig.new_builder(1000), 10_000, 10, 5, SweepPace(1.0, LEAST_ENTRIES, MOST_ENTRIES // 4)),
        (StateTtlConfig.new_builder(1000), -50, 10, 5, SweepPace(0.0, LEAST_ENTRIES, MOST_ENTRIES // 4)),
        (StateTtlConfig.new_builder(1), 1, 10, 5, SweepPace(1.0, LEAST_ENTRIES, MOST_ENTRIES // 4)),
        (StateTtlConfig.new_builder(1000), 100, 10**6, 5, SweepPace(0.2, LEAST_ENTRIES, 10**6)),
        (
            StateTtlConfig.new_builder(1000).cleanup_in_rocksdb_compact_filter(1000, 200),
            100, 10, 5, SweepPace(0.5, LEAST_ENTRIES, MOST_ENTRIES // 4),
        ),
        (
            StateTtlConfig.new_builder(1000).cleanup_in_rocksdb_compact_filter(1000),
            100, 10, 5, SweepPace(0.2, LEAST_ENTRIES, MOST_ENTRIES // 4),
        ),
        (StateTtlConfig.new_builder(1000).cleanup_incrementally(6, False), 100, 10, 5, SweepPace(0.0, 8, 8)),
        (StateTtlConfig.new_builder(1000).cleanup_incrementally(6, True), 100, 10, 5, SweepPace(0.0, 15, 15)),
        (StateTtlConfig.new_builder(1000).cleanup_incrementally(6, True), 100, 0, 0, SweepPace(0.0, 0, 0)),
    ],
    ids=["first", "part", "pause", "clock back", "short", "many rows", "period", "long period", "keys",
         "records", "idle"],
)  # fmt: skip
def test_the_pace_is_that_of_half_a_life_unless_the_config_says_otherwise(
    config: Any, elapsed: int, rows: int, keys: int, pace: SweepPace
) -> None:
    assert pace_of(config.build(), elapsed, rows, keys, stores=4) == pace


def test_damage_is_reported_by_the_sweep_and_stays_where_it_is() -> None:
    driven = Driven(ttl().build(), "rocksdb", shards=1, max_parallelism=1)
    driven.do(lambda f, ctx: f.value.update(1))
    [store] = driven.harness._stores.values()
    spec = next(spec for spec in store.tables() if spec.name == "value")
    family = store.table(spec).family
    [(key, value)] = family.iterate(fill_cache=False)
    store._write([FamilyWrites(family, [], [key], [value[:4]])])
    with pytest.raises(
        errors.CorruptData, match=r"state 'value' of operator '.*': a stored value has no stamp"
    ):
        driven.at(1000)
    with pytest.raises(errors.CorruptData, match="no stamp"):
        driven.harness.snapshot()
    assert list(family.iterate(fill_cache=False)) == [(key, value[:4])]
    driven.harness.close()


@BACKENDS
def test_a_pass_ends_in_its_time_however_many_entries_a_cell_has(backend: str, tmp_path: Path) -> None:
    """The entries of maps counted as one: a pass took as many times longer as a map has entries."""
    kind = ExpiringType(Types.LONG(), TimeToLive(1000))
    spec = TableSpec("op", "maps", StateKind.MAP, Types.LONG(), kind, Types.LONG())
    factory = loader.create_store_factory(StateBackendSettings(type=backend), tmp_path / "factory")
    store = factory.create(0, KeyGroupRange(0, 127), tmp_path / "store")
    maps = {key: MapChange(entries={entry: (1, entry) for entry in range(20)}) for key in range(500)}
    store.commit([TableChanges(spec, maps=maps)], dict.fromkeys(maps, 0))
    removed = [store.expire(spec, 1000, SweepPace(0.1, 10, 100_000)) for _ in range(30)]
    assert sum(removed) == 10_000
    assert sum(removed[:12]) > 6_000
    assert max(removed) < 2_000
    store.close()
    factory.close()


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("config", "idle_ms", "removed", "rest"),
    [
        (StateTtlConfig.new_builder(HOUR_MS), 0, 0, HOUR_MS // 200),
        (StateTtlConfig.new_builder(1000), 0, 0, LEAST_REST_MS),
        (StateTtlConfig.new_builder(HOUR_MS), 3 * HOUR_MS, 0, HOUR_MS // 200),
        (StateTtlConfig.new_builder(HOUR_MS), 4 * HOUR_MS, 0, None),
        (StateTtlConfig.new_builder(HOUR_MS), 4 * HOUR_MS, 1, HOUR_MS // 200),
        (StateTtlConfig.new_builder(HOUR_MS).use_event_time(), 0, 5, None),
        (StateTtlConfig.new_builder(HOUR_MS).disable_cleanup_in_background(), 0, 0, None),
        (StateTtlConfig.new_builder(HOUR_MS).cleanup_incrementally(5, False), 0, 0, None),
        (
            StateTtlConfig.new_builder(HOUR_MS).cleanup_in_rocksdb_compact_filter(1, HOUR_MS // 6),
            0, 0, HOUR_MS // 600,
        ),
    ],
    ids=["hour", "short", "third life", "fifth life", "still some", "event time", "disabled", "by rows", "period"],
)  # fmt: skip
def test_epochs_for_a_sweep_alone_come_until_all_has_gone(
    config: Any, idle_ms: int, removed: int, rest: int | None
) -> None:
    assert rest_ms(config.build(), idle_ms, removed) == rest


def test_a_clock_that_is_set_back_keeps_no_idle_job_busy():
    """The sweeps of an idle job went on until the clock was past the time of the last call again."""
    called = called_ms(None, 10 * HOUR_MS, is_called=True)
    for now in range(HOUR_MS, 6 * HOUR_MS + 1, HOUR_MS):
        called = called_ms(called, now, is_called=False)
    assert called == HOUR_MS
    assert rest_ms(StateTtlConfig.new_builder(HOUR_MS).build(), 6 * HOUR_MS - called, 0) is None


@pytest.mark.parametrize(
    ("pace", "rows", "entries"),
    [
        (SweepPace(0.5, 10, 100), 0, 10),
        (SweepPace(0.5, 10, 100), 101, 51),
        (SweepPace(0.5, 10, 100), 1000, 100),
        (SweepPace(0.0, 0, 0), 1000, 0),
    ],
    ids=["least", "share", "most", "nothing"],
)
def test_a_share_of_the_rows_is_looked_at(pace: SweepPace, rows: int, entries: int) -> None:
    assert pace.entries(rows) == entries
