"""Epochs larger than their share of memory, through a slot's own sockets."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.slots import slots

from sparkstate.settings import MIB, StateBackendSettings

KEYS = 12_000
BATCH = 3_000


@pytest.fixture
def slot(tmp_path):
    backend = StateBackendSettings(type="rocksdb", managed_memory_bytes=4 * MIB)
    made = slots.Slot(tmp_path / "slot", dataclasses.replace(slots.plan(tmp_path), backend=backend, sinks=()))
    made.restore()
    yield made
    made.close()


def batches(amount: int):
    """Every key once; key n brings n times ``amount``."""
    for start in range(0, KEYS, BATCH):
        yield slots.rows(*((f"key-{n}", n * 100 * amount) for n in range(start, start + BATCH)))


def overlays(folder: Path) -> list[Path]:
    """What lies on disk for overlays."""
    return [path for path in (folder / "slot" / "overlays").rglob("*") if path.is_file()]


def test_an_epoch_with_more_keys_than_fit_is_put_out_and_committed_whole(slot, tmp_path):
    for epoch in (1, 2):
        slot.feed(epoch, 1, *batches(epoch))
        slot.finish(epoch, 1)
        assert overlays(tmp_path) != []
        slot.commit(epoch)
        found = {row["k"]: row["total"] for row in slot.output(epoch)}
        assert found == {f"key-{n}": n * 100 * (1 if epoch == 1 else 3) for n in range(KEYS)}
        slot.release(epoch)
        assert overlays(tmp_path) == []
    assert slot.value("key-11999") == str(11_999 * 300)


def test_several_tasks_read_an_output_at_once_and_one_that_breaks_off_takes_nothing_from_them(slot, tmp_path):
    slot.feed(1, 1, *batches(1))
    slot.finish(1, 1)
    assert overlays(tmp_path) != []
    begin = threading.Barrier(4)

    def read(task: int) -> int:
        begin.wait(30)
        if task == 0:
            return next(slot.batches_of_output(1)).num_rows
        return len(slot.output(1))

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(read, range(4))
    assert 0 < first < KEYS
    assert others == [KEYS] * 3
    slot.commit(1)
    assert len(slot.output(1)) == KEYS, "and again after the commit"


def test_an_attempt_that_did_not_win_leaves_neither_file_nor_state(slot, tmp_path):
    slot.feed(1, 7, *batches(5))
    slot.feed(1, 8, *batches(1))
    slot.finish(1, 8)
    slot.commit(1)
    slot.release(1)
    assert overlays(tmp_path) == []
    assert slot.value("key-100") == "10000"


def test_a_checkpoint_after_such_an_epoch_holds_all_of_it(slot, tmp_path):
    slot.epoch(1, *batches(1))
    state = slot.snapshot(1, 1)
    slot.done(1)
    other = slots.Slot(tmp_path / "other", dataclasses.replace(slot.plan, incarnation=2))
    try:
        other.restore(*state.shards, url=f"{slot.plan.storage_url}/{slot.plan.lineage}")
        assert other.value("key-11999") == str(11_999 * 100)
        assert other.value("key-5") == "500"
    finally:
        other.close()
