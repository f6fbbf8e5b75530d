"""Files have large blocks where epochs in the order of keys touch most blocks, and small ones elsewhere (RFC 0065)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.backends import cells
from support.backends.written_options import sections_of

from sparkstate.backends.base import StateKind, TableSpec
from sparkstate.backends.rocksdb import large_blocks
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.serde.types import Types

MIB = 1024 * 1024
SPEC = TableSpec("op", "name", StateKind.VALUE, Types.LONG(), Types.STRING())
KEYS = range(2000)
SMALL, LARGE = "4096", "16384"


@pytest.mark.parametrize(
    ("given", "before", "after"),
    [(125, False, True), (124, False, False), (124, True, True), (62, True, False), (63, True, True)],
)
def test_blocks_are_large_from_a_key_in_each_small_block_on_and_small_below_half_a_key(given, before, after):
    assert large_blocks.pay(given, live=1000, row=512, before=before) is after


def test_rows_that_fill_a_block_leave_blocks_small():
    assert not large_blocks.pay(1000, live=1000, row=4097, before=False)
    assert not large_blocks.pay(1000, live=0, row=10**7, before=False)


def change_of(keys: Iterable[int], version: int) -> Any:
    ordered = sorted(keys, key=lambda key: (cells.group_of(key), key))
    return cells.values({key: f"{version}{key:05}" * 85 for key in ordered}, SPEC)


def give(slot: Any, store: RocksDBShardStore, keys: Iterable[int], version: int = 0) -> None:
    """An epoch in the order of its keys that did not fit in memory."""
    spill = slot.factory.create_ordered_spill({0: store}, [0] * 128, slot.folder())
    change = change_of(keys, version)
    spill.add([change], cells.groups([change]))
    spill.commit()
    spill.close()


def block_bytes(database: Path) -> str:
    """Of files from now on, as RocksDB tells it of the family of the state."""
    return sections_of(database)['TableOptions/BlockBasedTable "op/name"']["block_size"]


def blocks_and_rows(store: RocksDBShardStore) -> tuple[int, int]:
    """Of all files of the state."""
    told = store.database().families()["op/name"].text("rocksdb.aggregated-table-properties")
    numbers = dict(part.strip().split("=", 1) for part in told.split(";") if "=" in part)
    return int(numbers["# data blocks"]), int(numbers["# entries"])


def values_of(store: RocksDBShardStore) -> list[str | None]:
    found: list[str | None] = store.table(SPEC).get_many([cells.group_of(key) for key in KEYS], KEYS)
    return found


@pytest.mark.parametrize("memory", [8 * MIB, None])
def test_an_epoch_that_touches_most_blocks_makes_those_of_later_files_large(make_slot, memory):
    slot = make_slot(managed_memory_bytes=memory)
    store = slot.store()
    give(slot, store, KEYS)
    small, rows = blocks_and_rows(store)
    assert (block_bytes(store.database().path), rows) == (LARGE, len(KEYS))
    give(slot, store, KEYS[::4], 1)
    both, rows = blocks_and_rows(store)
    assert rows == len(KEYS) * 5 // 4
    assert both - small < small / 4 / 3  # a quarter of the rows, in blocks of four times as many
    store.database().families()["op/name"].compact()
    merged, rows = blocks_and_rows(store)
    assert rows == len(KEYS)
    assert merged < small / 3
    assert values_of(store) == [f"{int(key % 4 == 0)}{key:05}" * 85 for key in KEYS]


def test_an_epoch_that_touches_few_blocks_makes_them_small_again(make_slot):
    slot = make_slot()
    store = slot.store()
    found = []
    for share in (
        1,
        4,
        12,
        20,
        12,
        4,
    ):  # every so-manieth key: 8, 2, 0.7, 0.4, 0.7 and 2 of them in a small block
        give(slot, store, KEYS[::share])
        found.append(block_bytes(store.database().path))
    assert found == [LARGE, LARGE, LARGE, SMALL, SMALL, LARGE]


def test_ten_epochs_in_a_row_that_fit_in_memory_make_them_small_again(make_slot):
    slot = make_slot()
    store = slot.store()
    other = TableSpec("op", "other", StateKind.VALUE, Types.LONG(), Types.STRING())

    def write(epochs: int, spec: TableSpec = SPEC) -> None:
        for _ in range(epochs):
            cells.commit(store, cells.values({1: "new"}, spec))

    give(slot, store, KEYS)
    write(20, other)
    write(9)
    give(slot, store, KEYS)
    write(9)
    assert block_bytes(store.database().path) == LARGE
    write(1)
    assert block_bytes(store.database().path) == SMALL
    give(slot, store, KEYS)
    assert block_bytes(store.database().path) == LARGE


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ({"options": {"block.blocksize": "4kb"}}, SMALL),
        ({"options": {"block.blocksize": "8kb"}}, "8192"),
        ({"predefined_options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM"}, str(128 * 1024)),
    ],
    ids=str,
)
def test_a_size_that_the_job_chose_holds(make_slot, given, held):
    slot = make_slot(**given)
    store = slot.store()
    for version in range(2):
        give(slot, store, KEYS, version)
    assert block_bytes(store.database().path) == held


def test_the_blocks_of_other_states_stay_small_and_a_dropped_state_begins_anew(make_slot):
    slot = make_slot()
    store = slot.store()
    cells.commit(store, cells.values({"a": "b"}, cells.NAMES))
    give(slot, store, KEYS)
    told = sections_of(store.database().path)
    assert {
        name: each["block_size"] for name, each in told.items() if "BlockBasedTable" in name and "op/" in name
    } == {
        'TableOptions/BlockBasedTable "op/names"': SMALL,
        'TableOptions/BlockBasedTable "op/name"': LARGE,
    }
    store.drop(["op"])
    cells.commit(store, cells.values({1: "new"}, SPEC))
    assert block_bytes(store.database().path) == SMALL
    give(slot, store, KEYS)
    assert block_bytes(store.database().path) == LARGE


def test_the_bulk_of_a_state_counts_where_it_lies_in_newer_files_alone(make_slot):
    """RocksDB's estimate of the live data passes over files that a newer one overlaps."""
    slot = make_slot()
    store = slot.store()
    for keys in (KEYS[::2], KEYS[1::2]):
        change = change_of(keys, 0)
        store.commit([change], cells.groups([change]))
        store.database().families()["op/name"].flush()
    for version in range(1, 4):
        give(slot, store, KEYS[:: len(KEYS) // 20], version)
        assert block_bytes(store.database().path) == SMALL


def test_epochs_on_disk_whose_keys_come_in_any_order_make_blocks_small_again(make_slot):
    slot = make_slot()
    store = slot.store()
    give(slot, store, KEYS)
    assert block_bytes(store.database().path) == LARGE
    for version in range(1, large_blocks._FITTING + 1):
        spill = slot.factory.create_spill({0: store}, [0] * 128, slot.folder())
        change = change_of(KEYS[:3], version)
        spill.add([change], cells.groups([change]))
        spill.commit()
        spill.close()
    assert block_bytes(store.database().path) == SMALL
