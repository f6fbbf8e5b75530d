"""Blocks of RocksDB's files that changed on the disk: every read of them is refused, none ends early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.backends import cells
from support.backends.cells import LISTS, MAPS, TIMERS, VALUES, commit

from sparkstate import errors
from sparkstate.backends import canonical
from sparkstate.keygroups import KeyGroupRange

COUNT = 3_000
GROUPS = KeyGroupRange(0, 127)


def filled(slot: Any) -> Any:
    """A store with all kinds of tables, in files."""
    store = slot.store()
    commit(
        store,
        cells.values({key: key * 10 for key in range(COUNT)}),
        cells.timers([cells.timer(1000 + key, key) for key in range(COUNT)]),
        *(cells.appended(key, f"item {key}") for key in range(COUNT)),
        *(cells.mapped(key, {"a": f"entry {key}"}) for key in range(COUNT)),
    )
    snapshot = store.prepare_snapshot(1, slot.folder(), canonical=False)
    snapshot.files()
    snapshot.release()
    return store


def damage(store: Any) -> None:
    """Flip a bit in the middle of every file of rows."""
    files = list(store._path.glob("**/*.sst"))
    assert files
    for file in files:
        with file.open("r+b") as opened:
            opened.seek(file.stat().st_size // 2)
            byte = opened.read(1)[0]
            opened.seek(-1, 1)
            opened.write(bytes([byte ^ 1]))


@pytest.fixture
def damaged(make_slot: Callable[..., Any]) -> Any:
    slot = make_slot(managed_memory_bytes=4 << 20)
    store = filled(slot)
    damage(store)
    return slot, store


def test_a_sound_store_is_read_to_its_end(make_slot):
    slot = make_slot(managed_memory_bytes=4 << 20)
    store = filled(slot)
    snapshot = store.prepare_snapshot(2, slot.folder(), canonical=True)
    rows = list(canonical.CanonicalFile(snapshot.files()[0].path).rows(GROUPS))
    snapshot.release()
    assert len(rows) == 4 * COUNT
    assert len(list(store.table(TIMERS).due(10**9))) == COUNT


def test_no_savepoint_is_made_of_a_part_of_the_state(damaged):
    slot, store = damaged
    snapshot = store.prepare_snapshot(2, slot.folder(), canonical=True)
    with pytest.raises(errors.CorruptData, match=r"reading the state in .* its files are damaged"):
        snapshot.files()
    snapshot.release()


def test_no_due_timer_is_left_out(damaged):
    _, store = damaged
    with pytest.raises(errors.CorruptData, match="reading the state"):
        list(store.table(TIMERS).due(10**9))


@pytest.mark.parametrize(
    "read",
    [
        lambda store, key: store.table(VALUES).get(cells.group_of(key), key),
        lambda store, key: store.table(VALUES).get_many([cells.group_of(key)], [key]),
        lambda store, key: store.table(LISTS).get(cells.group_of(key), key),
        lambda store, key: store.table(MAPS).get(cells.group_of(key), key, "a"),
        lambda store, key: store.table(MAPS).items(cells.group_of(key), key),
    ],
    ids=["value", "values", "list", "map entry", "map"],
)
def test_a_read_of_a_damaged_block_is_no_error_of_the_users_code(damaged, read):
    """What is no ``SparkstateError`` within a user's function counts as its own, and rejects the record."""
    _, store = damaged
    refused = 0
    for key in range(COUNT):
        try:
            read(store, key)
        except errors.CorruptData:
            refused += 1
    assert refused > 0


def test_the_keys_of_a_damaged_table_are_refused(damaged):
    _, store = damaged
    with pytest.raises(errors.CorruptData, match="reading the state"):
        for _ in store.table(VALUES).keys(500):
            pass


def test_a_database_closes_after_a_refused_read(damaged):
    slot, store = damaged
    with pytest.raises(errors.CorruptData) as caught:
        list(store.table(TIMERS).due(10**9))
    store.close()
    again = slot.factory.create(1, GROUPS, store._path.parent)
    assert caught.value is not None  # its frames are alive, and hold no iterator
    again.close()
