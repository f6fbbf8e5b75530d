"""Indexes and filters are whole while they fit in the cache, and in parts when they do not (RFC 0064)."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.backends import cells, options_factories
from support.backends.cells import VALUES, commit, group_of
from support.backends.written_options import options_of, sections_of

from sparkstate import errors
from sparkstate.backends.base import DELETED, StateKind, TableSpec
from sparkstate.backends.rocksdb import index_parts
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.serde.types import Types

KEY = "memory.partitioned-index-filters"
MIB = 1024 * 1024
SMALL = {"managed_memory_bytes": 2 * MIB}
MANY = 100_000
"""Keys whose filters alone take more than a sixteenth of the cache of ``SMALL``."""


@pytest.mark.parametrize(
    ("size", "before", "after"),
    [
        (0, False, False),
        (100, False, False),
        (101, False, True),
        (101, True, True),
        (51, True, True),
        (50, True, False),
    ],
)
def test_files_are_in_parts_from_a_sixteenth_of_the_cache_on_and_whole_below_half_of_that(
    size, before, after
):
    assert index_parts.in_parts(size, cache=1600, before=before) is after


def form_of(database: Path) -> tuple[str, str]:
    """Index and filter of files from now on, as RocksDB tells them of the family of the state."""
    found = sections_of(database)['TableOptions/BlockBasedTable "op/total"']
    return found["index_type"], found["partition_filters"]


WHOLE, IN_PARTS = ("kBinarySearch", "false"), ("kTwoLevelIndexSearch", "true")


def fill(slot, store: RocksDBShardStore, first: int, count: int) -> None:
    """Commit that many keys, have them in files, and let the time to the next look pass."""
    commit(store, cells.values({key: key for key in range(first, first + count)}))
    store.prepare_snapshot(first, slot.folder(), canonical=False)
    slot.clock.now += 10


def index_partitions(store: RocksDBShardStore) -> int:
    told = store.database().families()["op/total"].text("rocksdb.aggregated-table-properties")
    return int(told.split("index partitions=")[1].split(";")[0]) if "index partitions=" in told else 0


def test_files_become_parts_when_the_state_has_grown_and_whole_when_it_is_gone(make_slot):
    slot = make_slot(**SMALL)
    store = slot.store()
    fill(slot, store, 0, 1000)
    fill(slot, store, 1000, 1000)
    assert form_of(store.database().path) == WHOLE
    assert index_partitions(store) == 0
    fill(slot, store, 2000, MANY)
    fill(slot, store, 2000 + MANY, 1000)
    assert form_of(store.database().path) == IN_PARTS
    assert index_partitions(store) > 0
    everything = 3000 + MANY
    table = store.table(VALUES)
    assert table.get_many([group_of(key) for key in range(everything)], range(everything)) == list(
        range(everything)
    )
    commit(store, cells.values(dict.fromkeys(range(everything), DELETED)))
    store.database().flush()
    store.database().families()["op/total"].compact()
    slot.clock.now += 10
    fill(slot, store, 0, 1000)
    assert form_of(store.database().path) == WHOLE
    assert table.get_many([group_of(key) for key in (5, 2000)], [5, 2000]) == [5, None]


def test_restored_state_that_is_large_is_in_parts_with_the_first_write(make_slot):
    old, new = make_slot(), make_slot(**SMALL)
    source = old.store()
    fill(old, source, 0, MANY)
    restored = new.restored(source.prepare_snapshot(2, old.folder(), canonical=False))
    commit(restored, cells.values({MANY + 1: 1}))
    assert form_of(restored.database().path) == IN_PARTS


def test_a_new_state_and_an_overlay_on_disk_have_the_form_of_the_slot(make_slot):
    slot = make_slot(**SMALL)
    store = slot.store()
    fill(slot, store, 0, MANY)
    fill(slot, store, MANY, 1)
    commit(store, cells.values({"a": "b"}, cells.NAMES))
    folder = slot.folder()
    spill = slot.factory.create_spill({0: store}, [0] * 128, folder)
    spill.add([cells.values({"a": "b"}, cells.NAMES)], {"a": 1})
    for database in (store.database().path, folder / "db"):
        assert "partition_filters=true" in options_of(database).split("op/names")[-1]


def test_files_of_rows_in_order_become_parts_as_well(make_slot):
    """Epochs in the order of keys may give a store nothing but files: it is never written to (RFC 0065)."""
    slot = make_slot(**SMALL)
    store = slot.store()
    spec = TableSpec("op", "name", StateKind.VALUE, Types.LONG(), Types.STRING())
    keys = sorted(range(MANY), key=lambda key: (group_of(key), key))
    change = cells.values(dict.fromkeys(keys, "x"), spec)
    for _ in range(3):  # the first makes the state large, the second sees it
        spill = slot.factory.create_ordered_spill({0: store}, [0] * 128, slot.folder())
        spill.add([change], cells.groups([change]))
        spill.commit()
        spill.close()
        slot.clock.now += 10
    told = store.database().families()["op/name"].text("rocksdb.aggregated-table-properties")
    assert "index partitions=" in told


def test_nobody_looks_more_often_than_every_two_seconds(make_slot, monkeypatch):
    slot = make_slot(**SMALL)
    looks = []
    monkeypatch.setattr(
        "sparkstate.backends.rocksdb.family.Family.index_bytes", lambda family: looks.append(family) or 0
    )
    store = slot.store()
    for key in range(5):
        commit(store, cells.values({f"{key}": "a"}, cells.NAMES))
    seen = len(looks)
    slot.clock.now += 2
    commit(store, cells.values({"6": "a"}, cells.NAMES))
    assert (seen, len(looks)) == (1, 2)


@pytest.mark.parametrize(("value", "form"), [("true", IN_PARTS), ("false", WHOLE), ("FALSE", WHOLE)])
def test_what_the_job_says_holds_for_any_size(make_slot, value, form):
    slot = make_slot(**SMALL, options={KEY: value})
    store = slot.store()
    fill(slot, store, 0, MANY)
    fill(slot, store, MANY, 1)
    assert form_of(store.database().path) == form


def test_a_factory_that_has_chosen_a_form_is_left_alone(make_slot):
    factory = f"support.backends.options_factories:{options_factories.WholeFilters.__name__}"
    slot = make_slot(**SMALL, options_factory=factory)
    store = slot.store()
    fill(slot, store, 0, MANY)
    fill(slot, store, MANY, 1)
    assert form_of(store.database().path) == WHOLE


def test_without_managed_memory_nothing_is_in_parts(make_slot):
    store = make_slot(managed_memory_bytes=None, options={KEY: "true"}).store()
    commit(store, cells.values({1: 1}))
    assert form_of(store.database().path) == WHOLE


def test_another_value_is_refused_with_those_that_there_are(make_slot):
    with pytest.raises(errors.SpecInvalid, match=r"is 'maybe'; it must be true, false or auto"):
        make_slot(options={KEY: "maybe"})
