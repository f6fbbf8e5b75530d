"""Stores that were given files of rows (RFC 0065): with options that a job may set, beside an open savepoint, and in
incremental checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.backends import cells, options_factories

from sparkstate.backends import canonical
from sparkstate.backends.base import DELETED, ShardSnapshot, StateKind, TableSpec
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.serde.types import Types

MIB = 1024 * 1024
SPEC = TableSpec("op", "name", StateKind.VALUE, Types.LONG(), Types.STRING())
KEYS = range(600)
AS_TOLD = f"{options_factories.__name__}:{options_factories.AsTold.__name__}"


def row_order(key: int) -> tuple[int, int]:
    return cells.group_of(key), key


def give(slot: Any, store: RocksDBShardStore, values: dict[int, Any]) -> None:
    """An epoch whose values come in the order of their keys."""
    spill = slot.factory.create_ordered_spill({0: store}, [0] * 128, slot.folder())
    change = cells.values({key: values[key] for key in sorted(values, key=row_order)}, SPEC)
    spill.add([change], cells.groups([change]))
    assert not spill.table(SPEC).ordered.is_sealed
    spill.commit()
    assert sum(map(len, spill.table(SPEC).ordered.files.values())) == 1
    spill.close()


def write(store: RocksDBShardStore, values: dict[int, Any]) -> None:
    """An epoch that fits in memory."""
    cells.commit(store, cells.values(values, SPEC))


def values_of(store: RocksDBShardStore) -> list[str | None]:
    found: list[str | None] = store.table(SPEC).get_many([cells.group_of(key) for key in KEYS], KEYS)
    return found


def settle(state: dict[int, Any], changes: dict[int, Any]) -> None:
    state.update(changes)
    for key in [key for key, value in state.items() if value is DELETED]:
        del state[key]


@pytest.mark.parametrize(
    "options",
    [
        {"compaction_style": "LEVEL", "level_zero_file_num_compaction_trigger": 2},
        {"compaction_style": "LEVEL", "num_levels": 2, "max_bytes_for_level_base": 4096},
        {"compaction_style": "UNIVERSAL", "num_levels": 1},
        {"compaction_style": "FIFO"},
        {"compaction_style": "NONE"},
        {"disable_auto_compactions": True, "level_zero_stop_writes_trigger": 3},
        {"compression_per_level": ["NO", "LZ4", "ZSTD"]},
        {"write_buffer_size": 4096, "arena_block_size": 4096},
    ],
    ids=str,
)
@pytest.mark.parametrize("memory", [8 * MIB, None])
def test_the_newest_value_holds_with_any_options(make_slot, options, memory):
    told = {options_factories.AsTold.KEY: json.dumps(options)}
    slot = make_slot(managed_memory_bytes=memory, options_factory=AS_TOLD, options=told)
    store, state = slot.store(), {}
    for epoch in range(10):
        given = {
            key: DELETED if (key + epoch) % 7 == 0 else f"{epoch}" * 9
            for key in KEYS
            if key % (epoch + 1) != 1
        }
        give(slot, store, given)
        settle(state, given)
        if epoch % 3 == 1:
            written = {key: DELETED if key % 2 else f"written {epoch}" for key in KEYS[epoch::5]}
            write(store, written)
            settle(state, written)
        if epoch % 4 == 2:
            before, store = (
                store,
                slot.restored(store.prepare_snapshot(epoch, slot.folder(), canonical=False)),
            )
            before.close()
        assert values_of(store) == [state.get(key) for key in KEYS]
    store.database().families()["op/name"].compact()
    assert values_of(store) == [state.get(key) for key in KEYS]


def rows_of(path: Path) -> list[tuple[bytes, bytes]]:
    return [(row.key, row.value) for row in canonical.CanonicalFile(path).rows()]


@pytest.mark.parametrize("begun", [False, True])
def test_an_open_savepoint_has_the_rows_from_before_the_files(make_slot, begun):
    slot = make_slot(managed_memory_bytes=8 * MIB)
    store = slot.store()
    give(slot, store, dict.fromkeys(KEYS[::2], "given"))
    write(store, dict.fromkeys(KEYS[::5], "written"))
    folder = slot.folder()
    snapshot = store.prepare_snapshot(1, folder, canonical=True)
    expected = rows_of(snapshot.files()[0].path)
    snapshot.release()
    snapshot = store.prepare_snapshot(2, folder, canonical=True)
    chunks = snapshot.streams()[0].chunks()
    data = [next(chunks)] if begun else []
    for epoch in range(3):
        give(slot, store, {key: DELETED if key % 3 == epoch else f"new {epoch}" for key in KEYS})
        store.database().families()["op/name"].compact()
    path = folder / "read later"
    path.write_bytes(b"".join([*data, *chunks]))
    assert len(expected) == len(set(KEYS[::2]) | set(KEYS[::5]))
    assert rows_of(path) == expected
    snapshot.release()


def uploaded(snapshot: ShardSnapshot, remote: dict[str, bytes]) -> set[str]:
    """The names of files that an incremental checkpoint has to upload. A name stands for one content for ever."""
    new = set()
    for file in snapshot.files():
        if file.shared:
            data = file.path.read_bytes()
            assert remote.setdefault(file.identity, data) == data
            new.add(file.identity)
    return new


def test_given_files_are_shared_between_checkpoints_and_have_names_of_their_own_after_a_restore(make_slot):
    slot = make_slot(managed_memory_bytes=8 * MIB)
    store, remote = slot.store(), {}
    give(slot, store, dict.fromkeys(KEYS, "first"))
    first = store.prepare_snapshot(1, slot.folder(), canonical=False)
    names = uploaded(first, remote)
    give(slot, store, dict.fromkeys(KEYS, "second"))
    second = uploaded(store.prepare_snapshot(2, slot.folder(), canonical=False), remote)
    assert names < second
    restored = slot.restored(first)
    give(slot, restored, dict.fromkeys(KEYS, "other!"))  # as long as the one with the same number
    third = uploaded(restored.prepare_snapshot(2, slot.folder(), canonical=False), remote)
    assert names < third
    assert third & second == names
    assert values_of(restored) == ["other!"] * len(KEYS)
