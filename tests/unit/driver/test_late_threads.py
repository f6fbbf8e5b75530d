"""A thread of an incarnation that is over comes back from a storage that hung: it changes nothing of the next one."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.slots import slots
from support.slots.running import Running, settings

from sparkstate import clock, errors, phases
from sparkstate.control.documents import SavepointPhase, SavepointStatus
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import companion
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.pending_checkpoint import PendingCheckpoint
from sparkstate.slots.group import SlotGroup
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks
from sparkstate_tools.drivers import driving


class Lives:
    """The first incarnation hangs in the write of a savepoint's ``_metadata``, and ends; the second one follows.

    ``beside``: the savepoint goes on beside later checkpoints, and the write is refused after all.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, beside: bool) -> None:
        self.folder, self.beside = folder, beside
        self.running = Running(folder)
        self.answers, self.late = threading.Event(), threading.Thread()
        self.crashed: list[Any] = []
        monkeypatch.setattr(threading, "excepthook", self.crashed.append)
        if beside:
            monkeypatch.setattr(companion, "PATIENCE_S", 0.1)
        write, hung = self.running.job_storage.write_savepoint, threading.Event()

        def hang(*arguments: Any) -> Any:
            if not hung.is_set():
                self.late = threading.current_thread()
                hung.set()
                assert self.answers.wait(60)
                if beside:  # nobody would ask the log about one that is stored
                    raise errors.StorageError("refused")
            return write(*arguments)

        monkeypatch.setattr(self.running.job_storage, "write_savepoint", hang)
        self._begin()
        assert hung.wait(20)
        monkeypatch.setattr(companion, "PATIENCE_S", 30.0)
        self.running.checkpoints.abandon()
        self.running.group.close()
        self._begin_anew()

    def _begin(self) -> None:
        running, may_store = self.running, threading.Event()
        if self.beside:
            runtime: Any = running.slot.server.slot.runtime
            runtime._snapshots.worker._upload_savepoint.submit(may_store.wait, 60.0)
        running.slot.epoch(0, slots.rows(("a", 1)))
        running.requests.add(SavepointTrigger(trigger_id="one"))
        self.first = self.after(running.checkpoints, 0)
        if self.beside:
            self.first.wait()
            may_store.set()

    def _begin_anew(self) -> None:
        storage = self.running.job_storage
        number = storage.begin_incarnation(storage.restore_point(), lambda number: None)
        plan = slots.plan(self.folder, 0, 1, incarnation=number)
        plan = dataclasses.replace(plan, lineage=storage.lineage.id, storage_url=storage.root.url)
        self.slot = slots.Slot(self.folder / "slot-anew", plan)
        self.slot.restore()
        self.group = SlotGroup((self.slot.address,), slots.KEY, number, "here")
        time = clock.SystemClock()
        self.checkpoints = Checkpoints(
            self.group, storage, settings(self.folder).checkpoint, self.running.requests, self.running.view,
            time, phases.Phases("driver", time, {}), slots.KEY_SPACE, base=-1,
        )  # fmt: skip

    def after(self, checkpoints: Checkpoints, epoch: int) -> PendingCheckpoint:
        checkpoints.after_commit(epoch, Watermarks(()), CapturedPosition, changed=True)
        begun = checkpoints._current
        assert begun is not None
        return begun

    def serve(self) -> None:
        """The second incarnation takes the savepoint, in a folder of its own."""
        self.after(self.checkpoints, 1).settle()
        driving.wait_for(lambda: self.status().status == SavepointPhase.COMPLETED, 10, "the savepoint")

    def come_back(self) -> None:
        """The storage answers the first incarnation, whose thread comes to its end."""
        self.answers.set()
        self.late.join(20)
        assert not self.late.is_alive()
        assert self.crashed == []
        self.running.job_storage.leftovers.settle()

    def status(self) -> SavepointStatus:
        found = self.running.requests.find("one")
        assert found is not None
        return found

    def folders(self) -> list[str]:
        return [found.name for found in (self.folder / "storage" / "savepoints").glob("savepoint-*")]

    def close(self) -> None:
        self.answers.set()
        self.group.close()
        self.slot.close()
        self.running.close()


@pytest.fixture(params=[False, True], ids=["with its checkpoint", "beside later checkpoints"])
def lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Lives]:
    made = Lives(tmp_path, monkeypatch, beside=request.param)
    yield made
    made.close()


def test_a_savepoint_that_a_newer_incarnation_has_completed_stays_complete(lives: Lives) -> None:
    """What the late thread stored goes."""
    lives.serve()
    told = lives.status()
    lives.come_back()
    assert lives.status() == told and told.location is not None
    assert lives.folders() == [told.location.rpartition("/")[2]]


def test_a_request_stays_open_for_the_newer_incarnation(lives: Lives) -> None:
    lives.come_back()
    assert lives.status().status == SavepointPhase.PENDING
    lives.serve()
    assert lives.running.job_storage.savepoints.find("one").url == lives.status().location


def test_a_late_checkpoint_says_that_it_has_failed(lives: Lives) -> None:
    lives.come_back()
    assert lives.first.ended.is_set()
    assert (lives.first.failure is None) == lives.beside
