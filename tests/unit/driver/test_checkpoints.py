"""What the driver does after a checkpoint that committed and could not be published: a real slot, a real storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import slots

from sparkstate import clock, errors, phases
from sparkstate.control import documents
from sparkstate.control.documents import SavepointPhase, SavepointRequest
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.durable import Durable
from sparkstate.driver.requests import Requests
from sparkstate.driver.started import Started
from sparkstate.driver.view import JobView
from sparkstate.settings import CheckpointSettings, EntryPoint, JobSettings
from sparkstate.slots.group import SlotGroup
from sparkstate.spark.watermarks import Watermarks


class Running:
    """One incarnation with one slot, between whose epochs a test asks for checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        checkpoint = CheckpointSettings(storage=str(folder / "storage"), interval_s=3600.0)
        settings = JobSettings(name="job", entry=EntryPoint(module="a.job"), slots=1, checkpoint=checkpoint)
        time = clock.SystemClock()
        self.durable = Durable(settings, time, 1, "a test")
        self.durable.key_space, self.durable.operators = slots.KEY_SPACE, ("sum",)
        self.durable.sink_paths = {"sum": str(self.out)}
        self.durable.begin_incarnation(self.durable.restore_point(), lambda number: None)
        lineage = self.durable.lineage
        plan = dataclasses.replace(slots.plan(folder), lineage=lineage.id, storage_url=self.durable.root.url)
        self.slot = slots.Slot(folder / "slot", plan)
        self.slot.restore()
        self.group = SlotGroup((self.slot.address,), slots.TOKEN, 1, "here")
        self.requests = Requests()
        view = JobView(documents.JobIdentity(job_uid="u", attempt=1), "job", "default", "hashmap", time)
        self.checkpoints = Checkpoints(
            self.group,
            self.durable,
            checkpoint,
            self.requests,
            view,
            time,
            phases.Phases("driver", time, {}),
            base=-1,
        )

    def start(self, epoch: int) -> Started:
        return self.checkpoints.start(epoch, Watermarks(()), b"position")

    def refuse_publication(self, epoch: int) -> None:
        """What is staged up to that epoch has no way to its name: a folder is there."""
        name = f"part-00001-{epoch:09d}-000-sum-{self.durable.lineage.id[:8]}.parquet"
        (self.out / name / "in-the-way").mkdir(parents=True)

    def staged(self) -> list[Path]:
        return [path for path in (self.out / "_sparkstate_staging").rglob("*") if path.is_file()]

    def close(self) -> None:
        self.group.close()
        self.slot.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("waiting", ["nobody", "a savepoint"])
def test_after_output_that_could_not_be_published_no_checkpoint_begins(
    running: Running, waiting: str
) -> None:
    """Its rows are still the slot's: another one would stage them a second time."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.refuse_publication(0)
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.start(0).settle()
    assert len(running.staged()) == 1
    running.slot.epoch(1, slots.rows(("a", 2)))
    if waiting == "a savepoint":
        running.requests.add(SavepointRequest(trigger_id="end", stop=True))
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.checkpoints.settle()
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.start(1)
    assert len(running.staged()) == 1
    assert [c.epoch for c in running.durable.log.state.checkpoints] == [0]
    assert running.checkpoints.stop_requested() == running.requests.next_open()


def test_whose_savepoint_came_with_it_is_told_why_and_who_waits_goes_on_waiting(running: Running) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.refuse_publication(0)
    for name in ("first", "second"):
        running.requests.add(SavepointRequest(trigger_id=name))
    running.checkpoints.after_commit(0, Watermarks(()), lambda: b"position", changed=True)
    running.checkpoints.wait()
    first = running.requests.find("first")
    assert first is not None and first.status == SavepointPhase.FAILED
    assert "Is a directory" in (first.failure or "")
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.checkpoints.after_commit(1, Watermarks(()), lambda: b"position", changed=True)
    second = running.requests.find("second")
    assert second is not None and second.status == SavepointPhase.PENDING
    running.requests.fail_open("the job has ended")
    second = running.requests.find("second")
    assert second is not None and second.failure == "the job has ended"
