"""What the driver does after a checkpoint that committed and could not be published: a real slot, a real storage."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.slots import slots
from support.slots.running import Running
from support.storage.stores import HookedStore

from sparkstate import errors
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.checkpoint.restore import RestoredSnapshot, RestorePlan
from sparkstate.checkpoint.savepoint import LoggedSavepoint
from sparkstate.control import driver_life
from sparkstate.control.documents import CheckpointKind, CheckpointStatus, SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import draining, failure_cause
from sparkstate.driver.epoch_loop import EpochLoop
from sparkstate.driver.epoch_pipeline import EpochPipeline
from sparkstate.driver.parts import Origin
from sparkstate.log import records
from sparkstate.spark import capture
from sparkstate.spark.watermarks import Watermarks


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
        running.requests.add(SavepointTrigger(trigger_id="end", stop=True))
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.checkpoints.settle()
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.start(1)
    assert len(running.staged()) == 1
    assert [c.epoch for c in running.job_storage.log.state.checkpoints] == [0]
    assert running.checkpoints.stop_requested() == running.requests.next_open()


def test_whoever_waits_for_a_checkpoint_hears_that_it_failed_whatever_tidying_up_raises(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted as complete: a bounded job was finished without its last checkpoint."""

    def fail(*_: object) -> None:
        raise errors.StorageError("refused")

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    running.slot.epoch(0, slots.rows(("a", 1)))
    monkeypatch.setattr(running.job_storage, "commit_checkpoint", fail)
    monkeypatch.setattr(running.job_storage, "discard", no_thread)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with pytest.raises(errors.StorageError, match="refused"):
        running.start(0).settle()


def test_who_waits_for_a_savepoint_goes_on_waiting_after_a_failure_of_the_job(running: Running) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.refuse_publication(0)
    for name in ("first", "second"):
        running.requests.add(SavepointTrigger(trigger_id=name))
    running.checkpoints.after_commit(0, Watermarks(()), capture.CapturedPosition, changed=True)
    running.checkpoints.wait()
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.checkpoints.after_commit(1, Watermarks(()), capture.CapturedPosition, changed=True)
    second = running.requests.find("second")
    assert second is not None and second.status == SavepointPhase.PENDING
    running.requests.fail_open("the job has ended")
    second = running.requests.find("second")
    assert second is not None and second.failure == "the job has ended"


def test_a_failed_savepoint_counts_towards_nothing(tmp_path: Path) -> None:
    running = Running(tmp_path, tolerable_failures=0)
    for number in range(3):
        running.slot.epoch(number, slots.rows(("a", 1)))
        running.requests.add(SavepointTrigger(trigger_id=f"t{number}", target_directory="file:///dev/null/x"))
        running.checkpoints.after_commit(number, Watermarks(()), capture.CapturedPosition, changed=True)
        running.checkpoints.settle()
        found = running.requests.find(f"t{number}")
        assert found is not None and found.status == SavepointPhase.FAILED
    assert running.job_storage.log.state.checkpoints[-1].epoch == 2
    running.close()


def take_savepoint(running: Running, epoch: int) -> None:
    running.requests.add(SavepointTrigger(trigger_id="one"))
    running.checkpoints.after_commit(epoch, Watermarks(()), capture.CapturedPosition, changed=True)
    current = running.checkpoints._current
    if current is not None:
        current.wait()  # to its end, also where nobody waits for it any more


@pytest.mark.fault(
    broken="the log's answer to the record of a savepoint is lost, and the incarnation ends",
    when="before the record of the checkpoint that came with it",
    expected="the next incarnation publishes what was staged if the record is in the log, and sweeps it if not",
)
@pytest.mark.fault_on("a folder")
@pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])
def test_what_a_savepoint_names_stays_while_it_is_open_whether_it_has_its_record(
    running: Running, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    job_storage = running.job_storage
    running.slot.epoch(0, slots.rows(("a", 1)))
    job_storage.log._entries.store = log = HookedStore(job_storage.lineage.store)
    record = job_storage.savepoints.record

    def lose(operation: str, key: str) -> None:
        if operation == "put_if_absent":
            log.heal()
            running.checkpoints.abandon()
            raise errors.StorageUnavailable("the answer is lost")

    def lost(of: records.SavepointCommitted) -> None:
        if landed:
            log.after = lose
        else:
            log.before = lose
        record(of)

    monkeypatch.setattr(job_storage.savepoints, "record", lost)
    take_savepoint(running, 0)
    job_storage.leftovers.settle()
    (staged,) = running.staged()
    assert running.requests.next_open() is not None, "whether it failed is open as well"
    assert [one.trigger_id for one in job_storage.log.check().savepoints] == ["one"] * landed
    restored = job_storage.restore_point()
    job_storage.begin_incarnation(restored, lambda number: None)
    assert (restored.metadata is not None) == landed
    assert not staged.exists() and running.staged() == []
    assert len(list(running.out.glob("part-*"))) == landed


def test_a_savepoint_that_was_given_up_before_its_record_is_the_failure_of_its_request_alone(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_storage = running.job_storage
    write = job_storage.savepoints.write

    def give_up(url: str, metadata: CheckpointMetadata) -> records.SavepointCommitted:
        written = write(url, metadata)
        job_storage.savepoints.abandon(url)
        return written

    monkeypatch.setattr(job_storage.savepoints, "write", give_up)
    running.slot.epoch(0, slots.rows(("a", 1)))
    take_savepoint(running, 0)
    status = running.requests.find("one")
    assert status is not None and status.status == SavepointPhase.FAILED
    assert "was given up" in (status.failure or "")
    running.checkpoints.require_sound()
    assert [one.epoch for one in job_storage.log.state.checkpoints] == [0]
    assert len(list(running.out.glob("part-*"))) == 1


@pytest.mark.parametrize("savepoint", [False, True], ids=["a checkpoint", "a savepoint"])
def test_an_incarnation_that_was_to_begin_without_a_late_commit_restores_anew(
    running: Running, savepoint: bool
) -> None:
    """The one before ends while a thread of it stores a checkpoint. It would publish epochs that the next repeats."""
    job_storage = running.job_storage
    before = job_storage.restore_point()
    running.slot.epoch(0, slots.rows(("a", 1)))
    if savepoint:
        take_savepoint(running, 0)
    else:
        running.start(0).settle()
    with pytest.raises(errors.StorageUnavailable, match="restore begins anew"):
        job_storage.begin_incarnation(before, lambda number: None)
    assert job_storage.log.check().incarnation == 1
    again = job_storage.restore_point()
    assert again.metadata is not None and again.metadata.epoch == 0
    assert job_storage.begin_incarnation(again, lambda number: None) == 2


def test_the_log_has_the_first_failure_of_a_row_of_checkpoints_with_its_cause(
    running: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = running.job_storage.commit_checkpoint
    failing = [True, True, False, True]

    def full(*arguments: Any) -> CheckpointMetadata:
        if failing.pop(0):
            raise errors.StorageUnavailable("No space left on device")
        return commit(*arguments)

    monkeypatch.setattr(running.job_storage, "commit_checkpoint", full)
    for epoch in range(4):
        running.slot.epoch(epoch, slots.rows(("a", epoch)))
        with contextlib.suppress(errors.StorageUnavailable):
            running.start(epoch).settle()
    told = [one.getMessage() for one in caplog.records if "has failed" in one.getMessage()]
    ids = [one.id for one in running.view.checkpoints()]
    assert told == [f"checkpoint {ids[n]} has failed: No space left on device" for n in (0, 3)]


@pytest.mark.parametrize("lost", ["the checkpoint's", "the savepoint's"])
def test_a_checkpoint_whose_order_a_slot_does_not_take_has_failed(running: Running, lost: str) -> None:
    """The end of the incarnation follows, and the savepoint is the next one's."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.requests.add(SavepointTrigger(trigger_id="one"))
    each, told = running.group.each, iter([lost == "the checkpoint's", lost == "the savepoint's"])

    def break_off(*arguments: Any) -> object:
        if next(told):
            raise errors.SlotLost("slot 0 is gone")
        return each(*arguments)

    running.group.each = break_off  # type: ignore[method-assign, assignment]
    with pytest.raises(errors.SlotLost):
        running.checkpoints.after_commit(0, Watermarks(()), capture.CapturedPosition, changed=True)
    status = running.view.status()
    (checkpoint,) = [one for one in running.view.checkpoints() if one.kind == CheckpointKind.CHECKPOINT]
    assert checkpoint.status == CheckpointStatus.FAILED and checkpoint.failure == "slot 0 is gone"
    assert status.checkpoints_failed == 1
    running.checkpoints.wait()
    assert running.checkpoints.under_way_s == 0
    assert running.requests.next_open() == SavepointTrigger(trigger_id="one")
    running.view.note_incarnation(2, None, None)
    assert running.view.status().checkpoints_in_progress == 0


def test_a_log_that_is_away_for_a_moment_keeps_no_job_from_its_stop(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The savepoint is complete by then. The job failed, and went on."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    savepoints = running.job_storage.savepoints
    find, answers = savepoints.find, iter([False])

    def found(trigger_id: str) -> LoggedSavepoint:
        if next(answers, True):
            return find(trigger_id)
        raise errors.StorageUnavailable("the log does not answer")

    monkeypatch.setattr(savepoints, "find", found)
    request = SavepointTrigger(trigger_id="end", stop=True)
    running.requests.add(request)
    pending = running.checkpoints.start(0, Watermarks(()), capture.CapturedPosition(), request)
    pending.settle()
    closed = running.job_storage.log.check().closed
    assert closed is not None and closed.savepoint_url == running.checkpoints.closed_by
    status = running.requests.find("end")
    assert status is not None and status.status == SavepointPhase.COMPLETED


def test_a_stop_that_comes_to_its_end_after_its_incarnation_stops_no_other(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output takes long to publish, and a slot is lost meanwhile. The next incarnation could complete nothing."""
    job_storage = running.job_storage
    publish = job_storage.publish

    def slowly(metadata: CheckpointMetadata, given_up: Any) -> None:
        monkeypatch.setattr(job_storage, "publish", publish)
        running.checkpoints.abandon()
        assert job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None) == 2
        publish(metadata, given_up)

    monkeypatch.setattr(job_storage, "publish", slowly)
    running.slot.epoch(0, slots.rows(("a", 1)))
    request = SavepointTrigger(trigger_id="end", stop=True)
    running.requests.add(request)
    running.checkpoints.start(0, Watermarks(()), capture.CapturedPosition(), request).ended.wait(30)
    assert job_storage.log.check().closed is None and job_storage.stopped_with is None
    status = running.requests.find("end")
    assert status is not None and status.status == SavepointPhase.FAILED
    assert "goes on as incarnation 2" in (status.failure or "")


def test_no_incarnation_begins_once_the_job_was_stopped(running: Running) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    job_storage, request = running.job_storage, SavepointTrigger(trigger_id="end", stop=True)
    running.requests.add(request)
    running.checkpoints.start(0, Watermarks(()), capture.CapturedPosition(), request).settle()
    with pytest.raises(errors.Fenced, match="was stopped with the savepoint"):
        job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None)
    saved = job_storage.stopped_with
    assert saved is not None and (saved.trigger_id, saved.epoch) == ("end", 0)


def draining_loop(running: Running) -> EpochLoop:
    """Over an incarnation that has just begun. The last epoch of a drain sums up one more row, as a timer might."""
    result: Any = SimpleNamespace(
        waited_ms=0, held_bytes=0, duration_ms=1, rows=0, watermarks=Watermarks(()), next_event_timer=None,
        next_processing_timer=None, late_rows=0, dropped_rows=0, operators=(),
    )  # fmt: skip

    def run(_frame: None, epoch: int, *, ended: bool) -> object:
        running.slot.epoch(epoch, slots.rows(("a", 1000)))
        return result

    runner: Any = SimpleNamespace(watermarks=Watermarks(()), run=run)
    query: Any = SimpleNamespace(position=lambda *_: capture.CapturedPosition())
    context = SimpleNamespace(view=running.view, reached=lambda _: None)
    origin = Origin(RestoredSnapshot(RestorePlan("empty", "nothing was found")), 1, slots.KEY_SPACE)
    parts: Any = SimpleNamespace(context=context)
    pauses: Any = None
    for step in (driver_life.RESTORES, driver_life.FILLED):
        running.view.happened(step)
    return EpochLoop(parts, origin, query, runner, running.checkpoints, pauses, EpochPipeline())


def test_a_stop_that_is_asked_for_at_the_end_of_an_epoch_waits_for_the_next(running: Running) -> None:
    """It was served as any savepoint: without its drain, and the job went on without a checkpoint ever after."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    assert running.checkpoints.stop_requested() is None
    request = SavepointTrigger(trigger_id="end", stop=True, drain=True)
    for asked in (request, SavepointTrigger(trigger_id="behind")):
        running.requests.add(asked)
    running.requests.ask_checkpoint()
    running.checkpoints.after_commit(0, Watermarks(()), capture.CapturedPosition, changed=True)
    running.checkpoints.wait()
    assert [one.epoch for one in running.job_storage.log.check().checkpoints] == [0], (
        "a checkpoint waits for no stop"
    )
    assert running.requests.waiting() == ("end", "behind")
    running.slot.epoch(1, slots.rows(("a", 10)))
    assert running.checkpoints.wants_epoch()
    assert running.checkpoints.stop_requested() == request
    with pytest.raises(failure_cause.StoppedBySavepoint):
        draining_loop(running)._stop_with_savepoint(request, 1)
    (saved,) = running.job_storage.log.check().savepoints
    assert (saved.trigger_id, saved.epoch) == ("end", 2), "it was drained"
    assert running.requests.waiting() == ("behind",)


def test_no_restart_goes_back_to_a_drained_epoch_whose_savepoint_failed(running: Running) -> None:
    """Its timers have fired up to the end of time, and the job goes on."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.start(0).settle()
    running.slot.epoch(1, slots.rows(("a", 10)))
    request = SavepointTrigger(trigger_id="end", stop=True, drain=True, target_directory="file:///dev/null/x")
    running.requests.add(request)
    with pytest.raises(errors.StorageUnavailable, match="goes back to its checkpoint"):
        draining_loop(running)._stop_with_savepoint(request, 1)
    running.job_storage.leftovers.settle()
    state = running.job_storage.log.check()
    assert [one.epoch for one in state.checkpoints] == [0]
    assert state.restore_point == state.checkpoints[0]
    found = running.requests.find("end")
    assert found is not None and found.status == SavepointPhase.FAILED
    assert "cannot open file:///dev/null/x" in (found.failure or ""), "its own reason, not the checkpoint's"
    assert len(list(running.out.glob("part-*"))) == 1 and running.staged() == []
    assert running.job_storage.outages.away == (), "the checkpoints' storage is there"


def test_a_savepoint_keeps_the_reason_why_it_failed_when_its_checkpoint_fails_later(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> CheckpointMetadata:
        raise errors.StorageError("the checkpoint is refused")

    monkeypatch.setattr(running.job_storage, "commit_checkpoint", refused)
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.requests.add(SavepointTrigger(trigger_id="one", target_directory="file:///dev/null/x"))
    running.checkpoints.after_commit(0, Watermarks(()), capture.CapturedPosition, changed=True)
    running.checkpoints.wait()
    found = running.requests.find("one")
    assert found is not None and "cannot open file:///dev/null/x" in (found.failure or "")
    savepoint, checkpoint = sorted(running.view.checkpoints(), key=lambda info: info.kind, reverse=True)
    assert "cannot open file:///dev/null/x" in (savepoint.failure or "")
    assert checkpoint.failure == "the checkpoint is refused"


def test_the_last_checkpoint_of_input_that_has_ended_stays_without_its_savepoint(running: Running) -> None:
    """The job is complete with it, and nobody goes on."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.requests.add(
        SavepointTrigger(trigger_id="end", stop=True, drain=True, target_directory="file:///dev/null/x")
    )
    draining.last_checkpoints(
        running.checkpoints, 0, Watermarks(()), capture.CapturedPosition(), lambda: False
    )
    assert [one.epoch for one in running.job_storage.log.check().checkpoints] == [0]
