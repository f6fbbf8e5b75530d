"""A savepoint that takes long goes on beside the job's epochs and checkpoints: a real slot, a real storage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.slots import slots
from support.slots.held_savepoint import Job

from sparkstate import errors
from sparkstate.checkpoint.savepoint import open_snapshot
from sparkstate.control.documents import SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import companion, draining, long_savepoint
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks
from sparkstate.storage import open_store


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setattr(companion, "PATIENCE_S", 0.1)
    made = Job(tmp_path)
    yield made
    made.may_store.set()
    made.running.close()


def test_epochs_and_checkpoints_go_on_while_a_savepoint_is_stored(job: Job, tmp_path: Path) -> None:
    """Before, no checkpoint completed meanwhile, its own neither: a restart lost all of it."""
    job.ask("one")
    job.run()
    job.checkpoint()
    job.checkpoint()
    assert job.records() == [("checkpoint", 0), ("checkpoint", 1), ("checkpoint", 2)]
    assert job.status().status == SavepointPhase.IN_PROGRESS
    assert job.told_bytes_of() == ["one"]
    job.stored()
    assert job.status().status == SavepointPhase.IN_PROGRESS, "it has no record yet"
    job.run()
    assert job.records()[3:] == [("savepoint", 0), ("checkpoint", 3)]
    assert job.status().status == SavepointPhase.COMPLETED
    assert job.told_bytes_of() == []
    restored = job.running.job_storage.restore_point()
    assert (restored.plan.kind, restored.metadata.epoch if restored.metadata else -1) == ("checkpoint", 3)
    opened = open_snapshot(job.status().location or "", open_store)
    assert (opened.metadata.epoch, opened.metadata.committables) == (0, ())
    other = slots.Slot(tmp_path / "other", slots.plan(tmp_path / "elsewhere"))
    other.restore(*opened.metadata.shards, url=opened.store.url)
    assert other.value("a") == "1"
    other.close()


def test_a_savepoint_for_which_no_thread_is_left_fails_and_nobody_waits_for_it(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's end waited for a thread that had never begun."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "savepoint":
            raise RuntimeError("can't start new thread")
        start(thread)

    job.ask("one")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        job.run()
    assert job.status().status == SavepointPhase.FAILED
    assert not job.running.checkpoints.is_awaited
    job.may_store.set()
    job.checkpoint()
    assert job.records() == [("checkpoint", 1)]


def test_what_is_stored_in_time_costs_no_second_checkpoint(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "PATIENCE_S", 30.0)
    job.may_store.set()
    job.ask("one")
    job.run()
    job.run()
    assert job.records() == [("savepoint", 0), ("checkpoint", 0)]
    assert job.status().status == SavepointPhase.COMPLETED


@pytest.mark.parametrize("stored", ["in time", "beside later checkpoints"])
def test_a_checkpoint_with_a_savepoint_does_not_tell_how_long_checkpoints_take(
    job: Job, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    if stored == "in time":
        monkeypatch.setattr(companion, "PATIENCE_S", 30.0)
        job.may_store.set()
    job.ask("one")
    job.run()
    assert job.running.checkpoints.usual_s is None
    job.checkpoint()
    assert job.running.checkpoints.usual_s is not None
    job.stored()


def test_another_savepoint_waits_for_its_turn_and_one_that_stops_the_job_too(job: Job) -> None:
    job.ask("one")
    job.ask("end", stop=True)
    job.run()
    assert job.running.checkpoints.stop_requested() is None
    assert job.running.checkpoints.next_request() is None
    job.stored()
    job.run()
    assert job.status().status == SavepointPhase.COMPLETED
    stop = job.running.checkpoints.stop_requested()
    assert stop is not None and stop.trigger_id == "end"


def test_a_savepoint_that_stops_the_job_is_waited_for(job: Job) -> None:
    job.ask("end", stop=True)
    running = job.running
    running.slot.epoch(0, slots.rows(("a", 1)))
    started = running.checkpoints.start(0, Watermarks(()), CapturedPosition(), running.requests.next_open())
    assert not started.ended.wait(0.5)
    job.may_store.set()
    started.wait()
    assert job.records() == [("savepoint", 0), ("checkpoint", 0)]
    assert running.checkpoints.closed_by == job.status("end").location


def refuse(what: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise errors.StorageError(f"{what} is refused")

    return refused


@pytest.mark.fault_on("a folder")
@pytest.mark.fault(
    broken="the storage of a savepoint that is stored beside later checkpoints",
    when="its _metadata is written",
    expected="the savepoint has failed, the job and its checkpoints go on, another savepoint is taken",
)
def test_a_savepoint_that_fails_beside_is_the_failure_of_its_request_alone(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.ask("one")
    job.run()
    with monkeypatch.context() as broken:
        broken.setattr(job.running.job_storage.savepoints, "write", refuse("_metadata"))
        job.stored()
    assert job.status().status == SavepointPhase.FAILED
    assert "_metadata is refused" in (job.status().failure or "")
    assert job.told_bytes_of() == []
    job_storage = job.running.job_storage
    job_storage.leftovers.settle()
    folders = open_store(job_storage._default_savepoints())
    assert list(folders.list("savepoint-")) == [], "what was stored of it is gone"
    job.ask("two")
    job.run()
    job.stored()
    job.run()
    job.running.checkpoints.require_sound()
    assert job.status("two").status == SavepointPhase.COMPLETED
    job_storage.leftovers.settle()
    assert list(folders.list("savepoint-"))
    assert job_storage.log.refresh().doomed_savepoints == ()


def test_a_savepoint_that_fails_beside_is_never_open_and_unserved(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epochs' thread would begin it again, in the folder that its failure deletes."""
    going_on = job.running.checkpoints._long_savepoint
    open_then: list[object] = []
    ended = going_on._ended

    def seen(*outcome: Any) -> None:
        open_then.append(job.running.checkpoints.next_request())
        ended(*outcome)

    monkeypatch.setattr(going_on, "_ended", seen)
    job.ask("one")
    job.run()
    monkeypatch.setattr(job.running.job_storage.savepoints, "write", refuse("_metadata"))
    job.stored()
    assert open_then == [None]
    assert job.status().status == SavepointPhase.FAILED


@pytest.mark.fault_on("a folder")
@pytest.mark.fault(
    broken="the checkpoint that came with a savepoint fails",
    when="the savepoint is stored beside later ones",
    expected="it has its record when a checkpoint of its epoch or a later one is complete, never before",
)
def test_a_savepoint_is_never_what_a_restart_goes_back_to(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output was staged for a checkpoint, and who asked for it may move it away."""
    job.checkpoint()
    job.ask("one")
    with monkeypatch.context() as broken:
        broken.setattr(job.running.job_storage, "commit_checkpoint", refuse("the checkpoint"))
        job.run()
    assert job.records() == [("checkpoint", 0)]
    job.stored()
    job.run()
    assert job.records() == [("checkpoint", 0), ("checkpoint", 2)], "of an earlier epoch than the savepoint's"
    job.run()
    assert job.records()[2:] == [("savepoint", 1), ("checkpoint", 3)]


def test_a_driver_that_dies_between_the_two_records_goes_back_to_the_newest_checkpoint(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.ask("one")
    job.run()
    job.checkpoint()
    job.stored()
    monkeypatch.setattr(long_savepoint.LongSavepoint, "record", lambda self: self._storage.record_savepoint(
        self._stored.record, lambda: False) or refuse("the next record")())  # fmt: skip
    job.run()
    assert job.records() == [("checkpoint", 0), ("checkpoint", 1), ("savepoint", 0)]
    restored = job.running.job_storage.restore_point()
    assert (restored.plan.kind, restored.metadata.epoch if restored.metadata else -1) == ("checkpoint", 1)


def test_a_checkpoint_that_fails_with_the_record_is_followed_by_another_though_no_row_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the record, every other savepoint waits, and so does a stop with one."""
    monkeypatch.setattr(companion, "PATIENCE_S", 0.1)
    job = Job(tmp_path, interval_s=0.0)
    job.ask("one")
    job.run()
    job.stored()
    with monkeypatch.context() as failing:
        failing.setattr(job.running.job_storage, "commit_checkpoint", refuse("the checkpoint"))
        job.run(changed=False)
    assert job.status().status == SavepointPhase.IN_PROGRESS
    job.run(changed=False)
    assert job.status().status == SavepointPhase.COMPLETED
    job.running.close()


def test_who_ends_saves_the_epochs_first_and_then_waits_for_the_savepoint(job: Job) -> None:
    """SIGTERM leaves a process half a minute; a savepoint may take longer, and the epochs must not be lost by it."""
    job.ask("one")
    job.run()
    part = threading.Thread(target=job.running.checkpoints.wait)
    job.running.checkpoints.wait(long_savepoint=False)  # returns while the savepoint is stored
    part.start()
    part.join(0.3)
    assert part.is_alive() and job.running.checkpoints.is_awaited
    job.running.checkpoints.start(0, Watermarks(()), CapturedPosition()).settle()
    job.may_store.set()
    part.join(30)
    assert not part.is_alive() and job.running.checkpoints.is_awaited, "its record is missing"
    job.running.checkpoints.start(0, Watermarks(()), CapturedPosition()).settle()
    assert job.status().status == SavepointPhase.COMPLETED
    assert not job.running.checkpoints.is_awaited
    assert job.records() == [("checkpoint", 0), ("checkpoint", 0), ("savepoint", 0), ("checkpoint", 0)]


def drain(job: Job) -> None:
    running = job.running
    draining.last_checkpoints(
        running.checkpoints, job.epoch, Watermarks(()), CapturedPosition(), running.requests.ending
    )


def test_at_the_end_of_the_input_every_savepoint_that_waits_is_taken(job: Job, tmp_path: Path) -> None:
    """Those behind one that is stored beside failed: nobody served them, and the job had ended."""
    job.ask("one")
    job.run()
    for name in ("two", "three"):
        job.ask(name)
    (tmp_path / "a-file").touch()
    job.running.requests.add(SavepointTrigger(trigger_id="bad", target_directory=f"file://{tmp_path}/a-file"))
    job.ask("last")
    job.stored()
    drain(job)
    told = {name: job.status(name).status for name in ("one", "two", "three", "bad", "last")}
    assert told.pop("bad") == SavepointPhase.FAILED
    assert set(told.values()) == {SavepointPhase.COMPLETED}
    for name in told:
        location = job.status(name).location
        assert location is not None
        assert open_snapshot(location, open_store).metadata.drained == (name != "one")


def test_a_savepoint_that_stops_the_job_at_the_end_of_the_input_is_its_last(job: Job) -> None:
    job.ask("one", stop=True)
    job.ask("two")
    job.may_store.set()
    job.epoch = 0
    job.running.slot.epoch(0, slots.rows(("a", 1)))
    drain(job)
    assert job.status("one").status == SavepointPhase.COMPLETED
    assert job.status("two").status == SavepointPhase.PENDING  # its failure: the job has ended


def at_its_end(job: Job) -> None:
    """The input has ended, and nobody has asked for a savepoint."""
    job.epoch = 0
    job.running.slot.epoch(0, slots.rows(("a", 1)))


def after_the_first(job: Job, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """``act`` when the job's last checkpoint is complete."""
    job_storage, first = job.running.job_storage, threading.Event()
    subsume = job_storage.subsume

    def subsume_and_act() -> None:
        subsume()
        if not first.is_set():
            first.set()
            act()

    monkeypatch.setattr(job_storage, "subsume", subsume_and_act)


def test_who_is_asked_to_end_serves_no_further_savepoint_at_the_end_of_the_input(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has ten minutes, and the kubelet waits for half of one."""
    at_its_end(job)
    job.may_store.set()
    after_the_first(job, monkeypatch, job.running.requests.terminated.set)
    job.ask("one")
    job.ask("two")
    drain(job)
    assert job.status("one").status == SavepointPhase.COMPLETED
    assert job.status("two").status == SavepointPhase.PENDING  # its failure: the job has ended
    assert job.records() == [("savepoint", 0), ("checkpoint", 0)]


def test_who_is_asked_to_end_does_not_wait_for_a_savepoint_of_a_job_that_is_complete(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_its_end(job)
    after_the_first(job, monkeypatch, lambda: job.ask("one"))
    drained = threading.Thread(target=drain, args=(job,))
    drained.start()
    drained.join(1.5)
    assert drained.is_alive() and job.status("one").status == SavepointPhase.IN_PROGRESS
    job.running.requests.terminated.set()
    drained.join(5)
    assert not drained.is_alive()
    assert job.records() == [("checkpoint", 0)]
    left = job.running.checkpoints._current
    assert left is not None
    job.running.checkpoints.abandon()
    left.ended.wait(30)


@pytest.mark.fault_on("a folder")
@pytest.mark.fault(
    broken="the checkpoint that comes with a savepoint fails ({how})",
    when="at the end of bounded input, when the job's last checkpoint is complete",
    expected="before its record the job is complete and the savepoint has failed; with its record, or with a newer "
    "owner, it is the job's failure",
)
@pytest.mark.parametrize("how", ["before its record", "after its record", "there is a newer owner"])
def test_a_complete_job_stays_complete_when_a_savepoint_of_its_end_fails(
    job: Job, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    at_its_end(job)
    job.may_store.set()
    owner: tuple[Any, str] = {
        "before its record": (companion.Answers, "in_time"),
        "after its record": (job.running.job_storage, "publish"),
        "there is a newer owner": (companion.Answers, "in_time"),
    }[how]
    kind = errors.Fenced if "owner" in how else errors.StorageError

    def refused(*_: object) -> None:
        raise kind("on purpose")

    after_the_first(job, monkeypatch, lambda: (monkeypatch.setattr(*owner, refused), job.ask("one")))
    if how == "before its record":
        drain(job)
    else:
        with pytest.raises(kind, match="on purpose"):
            drain(job)
    told = SavepointPhase.COMPLETED if how == "after its record" else SavepointPhase.FAILED
    assert job.status("one").status == told
    assert job.records()[0] == ("checkpoint", 0)
