"""What a slot tells of itself for the page: time, sizes and timers by operator, its log, and how far transfers are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slots import slots
from support.storage.stores import ManualClock

from sparkstate.backends.base import StateKind, TableSpec, TableStats
from sparkstate.serde.types import Types
from sparkstate.slots import logs, protocol, report
from sparkstate.slots.worked_time import WorkedTime
from sparkstate.storage import naming


@pytest.fixture(params=["hashmap", "rocksdb", "support.backends.own_backends:MemoryBackend"])
def slot(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[slots.Slot]:
    made = slots.Slot(tmp_path / "slot", slots.plan(tmp_path, backend=request.param))
    made.restore()
    yield made
    made.close()


def status(slot: slots.Slot) -> protocol.SlotStatus:
    return slot.client.call(protocol.Status(), protocol.SlotStatus)


def test_the_time_of_an_operator_is_told_with_the_end_of_its_epoch(slot: slots.Slot) -> None:
    slot.feed(0, 1, slots.rows(*[(f"k{number}", 1) for number in range(2000)]))
    finished = slot.finish(0, 1)
    assert 0 < finished.busy_ms < 60_000
    slot.commit(0)
    assert slot.finish(1, -1).busy_ms < finished.busy_ms  # an epoch without rows


def test_the_state_of_an_operator_has_its_own_size(slot: slots.Slot) -> None:
    assert status(slot).operators == () or status(slot).operators[0].state_rows == 0
    slot.epoch(0, slots.rows(*[(f"k{number}", 1) for number in range(500)]))
    told = status(slot)
    (size,) = told.operators
    assert (size.operator, size.state_rows, size.timers) == ("sum", 500, 0)
    assert size.state_rows == told.state_rows
    assert 0 < size.state_bytes == told.state_bytes


def test_tables_are_added_up_by_operator_and_timers_are_counted_apart() -> None:
    def table(uid: str, name: str, kind: StateKind, rows: int) -> TableStats:
        return TableStats(TableSpec(uid=uid, name=name, kind=kind, key_type=Types.STRING()), rows, rows * 10)

    told = report.operator_sizes(
        [
            table("a", "x", StateKind.VALUE, 3),
            table("a", "y", StateKind.LIST, 4),
            table("b", "x", StateKind.MAP, 5),
            table("a", "t", StateKind.EVENT_TIMERS, 2),
            table("a", "p", StateKind.PROCESSING_TIMERS, 1),
        ]
    )
    assert told == (
        protocol.OperatorSize(operator="a", state_rows=7, state_bytes=100, timers=3),
        protocol.OperatorSize(operator="b", state_rows=5, state_bytes=50, timers=0),
    )


def test_the_time_of_several_batches_adds_up_and_is_forgotten_with_the_epoch() -> None:
    clock = ManualClock()
    worked = WorkedTime(clock)
    for seconds in (1.0, 0.5):
        with worked.measured(3, "sum", 1):
            clock.sleep(seconds)
    with contextlib.suppress(ZeroDivisionError), worked.measured(3, "sum", 2):
        clock.sleep(0.25)
        clock.sleep(1 / 0)  # the time of a function that raises counts too
    assert [worked.milliseconds(3, "sum", attempt) for attempt in (1, 2, 3)] == [1500, 250, 0]
    worked.forget(2)
    assert worked.milliseconds(3, "sum", 1) == 1500
    worked.forget(3)
    assert worked.milliseconds(3, "sum", 1) == 0


def test_a_savepoint_tells_how_much_of_it_is_stored(slot: slots.Slot, tmp_path: Path) -> None:
    slot.epoch(0, slots.rows(*[(f"{number:06d}" + "x" * 900, 1) for number in range(3000)]))
    url = (tmp_path / "savepoint").as_uri()
    naming.local_path(url).mkdir()
    asked = protocol.Snapshot(incarnation=1, checkpoint_id=7, epoch=0, canonical=True, target_url=url)
    slot.client.call(asked, protocol.Ok)
    done = slot.client.call(protocol.SnapshotPoll(checkpoint_id=7, wait_s=60.0), protocol.SnapshotState)
    assert done.done and not done.failure
    assert done.done_bytes == sum(file.size for shard in done.shards for file in shard.files)
    # An estimate: it counts the filters that RocksDB's memtables have, which are a part of the write buffers.
    assert done.total_bytes == pytest.approx(done.done_bytes, rel=0.3)


def test_a_restore_tells_how_much_of_it_is_there(slot: slots.Slot, tmp_path: Path) -> None:
    nothing = slot.client.call(protocol.RestorePoll(), protocol.Transferred)
    assert (nothing.done_bytes, nothing.total_bytes) == (0, 0)
    slot.epoch(0, slots.rows(*[(f"k{number}", 1) for number in range(500)]))
    state = slot.snapshot(1, 0)
    other = slots.Slot(tmp_path / "other", slots.plan(tmp_path, backend=slot.plan.backend.type))
    try:
        other.restore(*state.shards, url=f"{slot.plan.storage_url}/{slots.LINEAGE}")
        told = other.client.call(protocol.RestorePoll(), protocol.Transferred)
    finally:
        other.close()
    size = sum(file.size for shard in state.shards for file in shard.files)
    assert (told.done_bytes, told.total_bytes) == (size, size)


def test_a_slot_reads_its_own_log_and_hides_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slot: slots.Slot
) -> None:
    path = tmp_path / "slot-0-1.log"
    path.write_text("opened with wJalrXUtnFEMI\nsecond line\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setattr(logs, "_file_behind", lambda descriptor: path if descriptor == 2 else None)
    told = slot.client.call(protocol.ReadLog(), protocol.LogLines)
    assert told.lines == ("opened with ***", "second line")
    monkeypatch.setattr(logs, "_file_behind", lambda descriptor: None)
    assert slot.client.call(protocol.ReadLog(), protocol.LogLines).lines == ()
    assert os.path.exists(path)
