"""The disk of the slots' working folder is full: what a slot that runs says, and one that cannot start."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.machine import volumes
from support.slots import slots

from sparkstate import errors
from sparkstate.driver import starting
from sparkstate.slots import protocol
from sparkstate.slots.client import error_of
from sparkstate.slots.starting import LocalSlots
from sparkstate.spark import slotlaunch

_FULL = r"its disk or quota is full: .*localStorage"
_PAGE = 4096


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[volumes.Volume]:
    with volumes.mounted(tmp_path / "volume", size="2m") as mounted:
        yield mounted


@pytest.fixture
def slot(tmp_path: Path, volume: volumes.Volume) -> Iterator[slots.Slot]:
    running = slots.Slot(volume.path / "slots" / "1-0", slots.plan(tmp_path))
    running.restore()
    yield running
    running.close()


def snapshot(slot: slots.Slot) -> None:
    """Raises the failure of the snapshot, in whichever of its parts it has failed."""
    slot.client.call(protocol.Snapshot(incarnation=1, checkpoint_id=1, epoch=0, base=-1), protocol.Ok)
    state = slot.client.call(protocol.SnapshotPoll(checkpoint_id=1, wait_s=20), protocol.SnapshotState)
    if state.failure:
        raise error_of(state.failure_reason, state.failure)


def test_output_for_which_the_disk_has_no_room_names_the_sink_and_the_folder(
    volume: volumes.Volume, slot: slots.Slot
) -> None:
    slot.feed(0, 1, slots.rows(*((f"key {n}", n) for n in range(20, 5000))))
    slot.finish(0, 1)
    volume.fill()
    with pytest.raises(errors.StorageError, match=rf"holding the output of 'sum' in {volume.path}.* {_FULL}"):
        slot.commit(0)
    volume.free()


def test_a_snapshot_for_which_the_disk_has_no_room_names_the_folder(
    volume: volumes.Volume, slot: slots.Slot
) -> None:
    slot.epoch(0, slots.rows(*((f"key {n}", n) for n in range(20, 5000))))
    volume.fill(leave=_PAGE)
    with pytest.raises(errors.StorageError, match=rf" in {volume.path}.* {_FULL}"):
        snapshot(slot)
    volume.free()


@pytest.mark.parametrize("begun", ["before the disk was full", "on a full disk"])
def test_slots_that_cannot_start_on_a_full_disk_are_waited_for(volume: volumes.Volume, begun: str) -> None:
    here = LocalSlots(volume.path / "slots", 1)
    if begun == "on a full disk":
        (address,) = here.start(1, slots.KEY, ())
        os.kill(address.pid, signal.SIGKILL)
    volume.fill()
    with pytest.raises(
        errors.StorageUnavailable, match=rf"disk of {volume.path}/slots is full.*localStorage"
    ):
        here.start(2, slots.KEY, ())
    volume.free()
    (address,) = here.start(3, slots.KEY, ())
    os.kill(address.pid, signal.SIGKILL)


def test_a_disk_without_room_for_a_file_is_full_as_well(tmp_path: Path) -> None:
    with volumes.mounted(tmp_path / "volume", "8m,nr_inodes=12") as volume:
        for number in range(20):
            try:
                (volume.path / str(number)).touch()
            except OSError:
                break
        with pytest.raises(errors.StorageUnavailable, match=r"is full"):
            LocalSlots(volume.path, 1)
        (volume.path / "0").unlink()
        here = LocalSlots(volume.path, 1)
        with pytest.raises(errors.StorageUnavailable, match=r"is full"):
            here.start(1, slots.KEY, ())


def test_a_slot_of_an_executor_for_which_the_disk_has_no_room_names_the_folder_and_takes_no_place(
    volume: volumes.Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task answers: one that fails would end the driver, and with it all executors."""
    monkeypatch.setattr(slotlaunch, "jvm_pid", os.getpid)
    start = slotlaunch.StartSlot(str(volume.path / "slots"), 1, "", (), places=1)
    volume.fill()
    for _ in range(2):
        (answer,) = start(iter([0]))
        assert isinstance(answer, slotlaunch.NotStarted)
        assert (answer.slot, answer.reason) == (0, "StorageUnavailable")
        assert f"the disk of {volume.path / 'slots'} is full" in answer.message
        assert "localStorage" in answer.message
    assert list(volume.path.rglob("places-1/*")) == []
    volume.free()


def test_a_source_position_for_which_the_disk_has_no_room_is_waited_for(volume: volumes.Volume) -> None:
    def seed(_: object, directory: Path, *, heartbeat: bool) -> None:
        directory.mkdir(parents=True)
        (directory / "offsets").write_bytes(bytes(100))

    parts: Any = SimpleNamespace(job_storage=SimpleNamespace(seed_position=seed), heartbeat=False)
    origin: Any = SimpleNamespace(restored=None)
    volume.fill()
    with pytest.raises(
        errors.StorageUnavailable, match=rf"the disk of {volume.path}/query is full.*localStorage"
    ):
        starting._query(parts, origin, volume.path / "query" / "00001", cast("Any", None), cast("Any", None))
    volume.free()
