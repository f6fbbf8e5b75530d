"""A job whose sources are idle takes no checkpoint: a real slot and a real storage, and epochs without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.slots import slots
from support.slots.idle_job import IDLE_MS, NEW, IdleJob

from sparkstate import errors
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.driver.unsaved_work import UnsavedWork
from sparkstate.log.records import SavepointCommitted
from sparkstate.testing.manual_clock import ManualClock

FRAME: Any = object()
"""The rows of an epoch, of which the slot has been told already."""


class Job(IdleJob):
    """Its rows reach the slot before the epoch."""

    def __init__(self, folder: Path, restored: RestoredSnapshot = NEW) -> None:
        super().__init__(folder, ManualClock(), 100, restored, tolerable_failures=5)

    def rows(self) -> None:
        """An epoch with a row, and the checkpoint after it."""
        self.running.slot.feed(self.following, 1, slots.rows(("a", 1)))
        self.running.slot.finish(self.following, 1)
        self.run(FRAME)

    def idle(self) -> None:
        """An epoch that only the heartbeat started."""
        self.run()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.close()


def failing(error: errors.SparkstateError) -> Any:
    def fail(*_: Any) -> None:
        raise error

    return fail


def test_a_job_whose_input_pauses_takes_no_checkpoint_until_rows_come_again(job: Job) -> None:
    """Once it had rows, an idle job wrote one at every interval."""
    job.idle()
    assert job.completed == 0
    for wanted in (1, 2):
        job.rows()
        assert job.completed == wanted
        for _ in range(3):
            job.idle()
        assert job.completed == wanted


def test_a_checkpoint_that_failed_is_followed_by_another_though_no_row_comes(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(job.running.job_storage, "commit_checkpoint", failing(errors.StorageError("refused")))
        job.rows()
        job.idle()
    assert job.completed == 0
    job.idle()
    job.idle()
    assert job.completed == 1


def test_a_watermark_that_goes_on_because_a_partition_is_idle_is_saved(job: Job) -> None:
    job.time.advance(IDLE_MS // 2)
    job.runner.watermarks = job.runner.watermarks.advance({(0, "a"): 200}, IDLE_MS // 2)
    job.rows()
    assert (job.completed, job.runner.watermarks.current) == (1, 49)
    job.time.advance(IDLE_MS // 2)
    job.idle()
    assert (job.completed, job.runner.watermarks.current) == (2, 199)
    job.idle()
    assert job.completed == 2


OWN = SavepointCommitted(
    trigger_id="t", url="s3://b/sp", checksum="c", checkpoint_id=3, epoch=-1, incarnation=1, timestamp_ms=0
)


@pytest.mark.parametrize("record", [None, OWN], ids=["of another job", "of its own"])
def test_state_of_a_savepoint_is_saved_once_though_no_row_comes(
    tmp_path: Path, record: SavepointCommitted | None
) -> None:
    """The savepoint is its user's, who was told that it is complete, and may move it."""
    metadata: Any = SimpleNamespace(epoch=-1)
    job = Job(tmp_path, RestoredSnapshot(RestorePlan("savepoint", "it is there", record=record), metadata))
    job.idle()
    job.idle()
    assert job.completed == 1
    job.close()


def test_state_of_a_checkpoint_is_saved_already(tmp_path: Path) -> None:
    metadata: Any = SimpleNamespace(epoch=-1)
    job = Job(tmp_path, RestoredSnapshot(RestorePlan("checkpoint", "it is there"), metadata))
    job.idle()
    job.idle()
    assert job.completed == 0
    job.close()


def test_a_storage_that_was_away_is_asked_again_though_no_row_comes(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    outages = job.running.job_storage.outages
    with monkeypatch.context() as broken:
        away = errors.StorageUnavailable("it does not answer")
        broken.setattr(job.running.job_storage, "commit_checkpoint", failing(away))
        job.running.requests.ask_checkpoint()
        job.idle()
    assert (job.completed, len(outages.away)) == (0, 1)
    for _ in range(2):
        job.idle()
        assert (job.completed, len(outages.away)) == (1, 0)


def test_the_time_in_which_a_job_was_idle_is_none_in_which_changes_waited() -> None:
    """The limit of that time stops a job whose storage is away."""
    time = ManualClock()
    unsaved = UnsavedWork(time)
    time.advance(3_600_000)
    assert unsaved.age_s == 0
    unsaved.note_change()
    time.advance(5_000)
    assert unsaved.age_s == 5
    mark = unsaved.mark()
    time.advance(1_000)
    unsaved.note_change()
    assert unsaved.age_s == 6
    unsaved.completed(mark)
    time.advance(2_000)
    assert unsaved.age_s == 2
    unsaved.completed(unsaved.mark())
    time.advance(3_600_000)
    assert unsaved.age_s == 0
