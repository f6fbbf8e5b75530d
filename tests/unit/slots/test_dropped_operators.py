"""State of operators that a job no longer has: let go by the restore that is told so, in every backend and format."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.slots import checkpointed, slots

from sparkstate.backends.base import ListChange, StateKind, TableChanges, TableSpec, Timer
from sparkstate.local_state import inheritance
from sparkstate.serde.types import Types
from sparkstate.settings import StateBackendSettings
from sparkstate.slots import protocol
from sparkstate.state_backend import CustomStateBackend

OLD_VALUES = TableSpec("old", "values", StateKind.VALUE, Types.STRING(), Types.LONG())
OLD_NUMBERS = TableSpec("old", "numbers", StateKind.VALUE, Types.LONG(), Types.LONG())
OLD_LISTS = TableSpec("old", "lists", StateKind.LIST, Types.STRING(), Types.STRING())
OLD_TIMERS = TableSpec("old", "event timers", StateKind.EVENT_TIMERS, Types.STRING())
FORGOTTEN = TableSpec("sum", "forgotten", StateKind.VALUE, Types.STRING(), Types.LONG())
"""Of an operator that the job still has, whose ``open`` no longer declares it."""
OLD_ROWS = [
    TableChanges(OLD_VALUES, values={"a": 1}),
    TableChanges(OLD_NUMBERS, values={7: 2}),
    TableChanges(OLD_LISTS, lists={"a": ListChange(items=["x", "y"])}),
    TableChanges(OLD_TIMERS, timers={Timer(5, "a", 0): True}),
    TableChanges(FORGOTTEN, values={"a": 3}),
]
BACKENDS = {
    "hashmap": StateBackendSettings(type="hashmap"),
    "rocksdb": StateBackendSettings(type="rocksdb"),
    "rocksdb-heap-timers": StateBackendSettings(type="rocksdb", timer_service="heap"),
    "rocksdb-whole": StateBackendSettings(type="rocksdb", incremental=False),
    **{
        name: CustomStateBackend(f"support.backends.{module}:{name}").effective_settings(
            StateBackendSettings()
        )
        for module, name in [
            ("own_backends", "MemoryBackend"),
            ("own_backends", "PlainBackend"),
            ("own_formats", "OwnFormatBackend"),
            ("own_formats", "OwnFilesBackend"),
        ]
    },
}


class Lives:
    """Slots of one job, one set after the other, in one folder."""

    def __init__(self, folder: Path, backend: StateBackendSettings) -> None:
        self.folder = folder
        self.backend = backend
        self._numbers = itertools.count(1)
        self._open: list[slots.Slot] = []
        self.told = protocol.Restored(bytes_read=0)
        """By the last slot."""

    def slots(
        self,
        *states: protocol.SnapshotState,
        dropped: Sequence[str] = (),
        checkpoint_id: int = -1,
        count: int = 1,
        backend: StateBackendSettings | None = None,
    ) -> list[slots.Slot]:
        """The next ``count`` slots, filled from all answers to a snapshot, without the state of ``dropped``."""
        self.close()
        number = next(self._numbers)
        for slot in range(count):
            plan = slots.plan(self.folder, slot, count, incarnation=number)
            plan = dataclasses.replace(plan, backend=backend or self.backend)
            made = slots.Slot(self.folder / "slots" / f"{number}-{slot}", plan)
            self._open.append(made)
            mine = plan.key_space.shards_of_slot(slot, count)
            request = protocol.RestoreShards(
                shards=tuple(one for state in states for one in state.shards if one.shard in mine),
                base_url=str(self.folder / "storage" / slots.LINEAGE),
                checkpoint_id=checkpoint_id,
                restored_id=checkpoint_id,
                dropped=tuple(dropped),
            )
            self.told = made.client.call(request, protocol.Restored)
        return list(self._open)

    def close(self) -> None:
        for slot in self._open:
            slot.close()
        self._open.clear()


@pytest.fixture(params=BACKENDS.values(), ids=BACKENDS)
def lives(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lives]:
    made = Lives(tmp_path, request.param)
    yield made
    made.close()


def stores(slot: slots.Slot) -> dict[int, Any]:
    found: dict[int, Any] = checkpointed.state_of(slot).stores
    return found


def store(slot: slots.Slot) -> Any:
    """That of key group 0, in which all state of these tests is."""
    return stores(slot)[0]


def uids(slot: slots.Slot) -> set[str]:
    return {spec.uid for each in stores(slot).values() for spec in each.tables()}


def with_old_state(lives: Lives) -> protocol.SnapshotState:
    """A checkpoint with state of ``sum``, and of ``old`` in every kind of table."""
    (slot,) = lives.slots()
    slot.epoch(0, slots.rows(("a", 1), ("b", 2)))
    store(slot).commit(OLD_ROWS, {"a": 0, 7: 0})
    taken = slot.snapshot(1, 0)
    slot.done(1)
    assert {state.uid for state in taken.states} == {"sum", "old"}
    return taken


def old_content(slot: slots.Slot) -> tuple[Any, ...]:
    """The state of ``old``, as an operator of that uid finds it."""
    found = store(slot)
    return (
        found.table(OLD_VALUES).get(0, "a"),
        found.table(OLD_NUMBERS).get(0, 7),
        found.table(OLD_LISTS).get(0, "a"),
        [timer.timestamp for timer in found.table(OLD_TIMERS).due(100)],
    )


def test_dropped_state_is_in_no_later_checkpoint_and_its_uid_begins_empty(lives: Lives) -> None:
    first = with_old_state(lives)
    (slot,) = lives.slots(first, dropped=["old"], checkpoint_id=1)
    assert uids(slot) == {"sum"}
    slot.epoch(1, slots.rows(("a", 10)))
    second = slot.snapshot(2, 1, base=1)
    slot.done(2)
    assert {(state.uid, state.name) for state in second.states} == {("sum", "total"), ("sum", "forgotten")}
    (slot,) = lives.slots(second, checkpoint_id=2)
    assert uids(slot) == {"sum"}
    assert (slot.value("a"), slot.value("b")) == ("11", "2")
    assert store(slot).table(FORGOTTEN).get(0, "a") == 3, "its operator is still there, so it stays"
    assert old_content(slot) == (None, None, [], [])
    store(slot).commit(OLD_ROWS, {"a": 0, 7: 0})
    assert old_content(slot) == (1, 2, ["x", "y"], [5])
    third = slot.snapshot(3, 1, base=2)
    slot.done(3)
    (slot,) = lives.slots(third, checkpoint_id=3)
    assert old_content(slot) == (1, 2, ["x", "y"], [5]), "state of the operator that came back"


def test_an_older_checkpoint_keeps_what_a_later_restore_has_dropped(lives: Lives) -> None:
    first = with_old_state(lives)
    (slot,) = lives.slots(first, dropped=["old"], checkpoint_id=1)
    slot.snapshot(2, 0, base=1)
    slot.done(2)
    (slot,) = lives.slots(first, checkpoint_id=1)
    assert old_content(slot) == (1, 2, ["x", "y"], [5])
    assert slot.value("a") == "1"


def test_a_restore_that_was_lost_before_its_first_checkpoint_drops_the_state_again(lives: Lives) -> None:
    first = with_old_state(lives)
    (slot,) = lives.slots(first, dropped=["old"], checkpoint_id=1)
    slot.epoch(1, slots.rows(("a", 10)))
    (slot,) = lives.slots(first, dropped=["old"], checkpoint_id=1)
    assert uids(slot) == {"sum"}
    assert slot.value("a") == "1"
    assert old_content(slot) == (None, None, [], [])


def test_state_is_dropped_in_a_rescale(lives: Lives) -> None:
    first = with_old_state(lives)
    two = lives.slots(first, dropped=["old"], checkpoint_id=1, count=2)
    assert set().union(*map(uids, two)) == {"sum"}
    taken = [slot.snapshot(2, 0, base=1) for slot in two]
    (slot,) = lives.slots(*taken, checkpoint_id=2)
    assert uids(slot) == {"sum"}
    assert (slot.value("a"), slot.value("b")) == ("1", "2")


def test_a_snapshot_without_such_an_operator_is_restored_as_it_is(lives: Lives) -> None:
    first = with_old_state(lives)
    (slot,) = lives.slots(first, dropped=["unknown"], checkpoint_id=1)
    assert old_content(slot) == (1, 2, ["x", "y"], [5])
    assert slot.value("b") == "2"


def test_rocksdb_drops_state_of_a_canonical_snapshot_and_hands_no_file_of_it_on(tmp_path: Path) -> None:
    lives = Lives(tmp_path, BACKENDS["hashmap"])
    first = with_old_state(lives)
    (slot,) = lives.slots(first, dropped=["old"], backend=BACKENDS["rocksdb"])
    assert uids(slot) == {"sum"}
    store(slot).commit(OLD_ROWS, {"a": 0, 7: 0})
    full = slot.snapshot(2, 0)
    slot.done(2)
    (slot,) = lives.slots(full, dropped=["old"], checkpoint_id=2, backend=BACKENDS["rocksdb"])
    less = slot.snapshot(3, 0, base=2)
    named = [{file.path for one in taken.shards for file in one.files if file.path} for taken in (full, less)]
    tables = [{path for path in paths if path.startswith("shared/")} for paths in named]
    assert tables[1] < tables[0], "files of tables that stay are only named again, and no other is uploaded"
    lives.close()


def test_a_restore_from_files_that_the_slot_before_has_left_drops_state_too(tmp_path: Path) -> None:
    backend = dataclasses.replace(BACKENDS["rocksdb"], local_recovery=True)
    lives = Lives(tmp_path, backend)
    first = with_old_state(lives)
    tables = sum(file.size for one in first.shards for file in one.files if file.name.endswith(".sst"))
    lives.close()
    inheritance.retire(tmp_path / "slots" / "1-0")
    (slot,) = lives.slots(first, dropped=["old"], checkpoint_id=1)
    assert lives.told.bytes_found == tables
    assert set(lives.told.states) == {"sum/total", "sum/forgotten"}
    assert old_content(slot) == (None, None, [], [])
    lives.close()
    inheritance.retire(tmp_path / "slots" / "2-0")
    (slot,) = lives.slots(first, checkpoint_id=1)
    assert 0 < lives.told.bytes_found < tables, "the files of what was dropped come from the storage"
    assert old_content(slot) == (1, 2, ["x", "y"], [5])
    lives.close()
