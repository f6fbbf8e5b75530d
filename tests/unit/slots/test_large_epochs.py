"""Epochs larger than their share of memory, through a slot's own sockets."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.drivers.supervised import wait_for
from support.slots import slots

from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.slots import protocol
from sparkstate.slots.epochs import Epochs

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


LATE = {"anew": True, "part": 9, "task": 9}


def feed_late(slot, epoch: int, *rows):
    """A task comes that Spark has given up: it still runs where an executor was lost. It makes its attempt afresh."""
    left, process = [sum(batch.num_rows for batch in rows)], Epochs._process

    def noted(epochs: Epochs, *given: Any) -> None:
        try:
            process(epochs, *given)
        finally:
            left[0] -= given[-1].num_rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Epochs, "_process", noted)
        assert isinstance(slot.feed(epoch, 1, *rows, **LATE), protocol.FeedAck)
        wait_for(lambda: not left[0])


@pytest.mark.parametrize("is_large", [True, False], ids=["large", "small"])
def test_a_task_that_comes_after_the_finish_takes_nothing_from_the_winner(slot, is_large):
    slot.epoch(1, slots.rows(("key-1", 5)))
    slot.feed(2, 1, *(batches(1) if is_large else [slots.rows(("key-1", 100))]), anew=True)
    slot.finish(2, 1)
    feed_late(slot, 2, *batches(2))
    slot.commit(2)
    slot.release(2)
    assert (slot.value("key-1"), slot.value("key-2")) == ("105", "200" if is_large else "null")


@pytest.mark.parametrize("late", [1, 2], ids=["of the epoch before", "of the attempt before"])
def test_a_late_task_takes_nothing_from_the_attempt_at_work(slot, tmp_path, late):
    slot.epoch(1, slots.rows(("key-1", 5)))
    slot.feed(2, 2, *batches(1), anew=True)
    wait_for(lambda: overlays(tmp_path))
    feed_late(slot, late, slots.rows(("key-1", 7)))
    slot.finish(2, 2)
    slot.commit(2)
    assert (slot.value("key-1"), slot.value("key-2")) == ("105", "200")


def test_a_task_of_a_committed_epoch_keeps_no_checkpoint_from_being_taken(slot, tmp_path):
    slot.epoch(1, slots.rows(("key-1", 5)))
    feed_late(slot, 1, *batches(1))
    slot.snapshot(1, 1)
    slot.epoch(2, slots.rows(("key-1", 100)))
    assert slot.value("key-1") == "105"
    assert overlays(tmp_path) == []
