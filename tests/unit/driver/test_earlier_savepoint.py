"""A trigger id comes again, to a driver or an incarnation that knows it from the log alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slots import slots
from support.slots.running import Running, settings

from sparkstate import clock, errors, phases
from sparkstate.control import documents, driver_life, port
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.control import DriverControl
from sparkstate.driver.current_parts import CurrentParts
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.log.log import ClaimedLog
from sparkstate.log.records import SavepointCommitted, SavepointStarted
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks

URL = "s3://keep/nightly/savepoint-1"


class Driver:
    """Its log has the savepoint ``nightly`` of an earlier driver."""

    def __init__(self, folder: Path) -> None:
        time = clock.SystemClock()
        earlier = claim(settings(folder), time, 1, "the earlier driver").log
        earlier.begin_incarnation("", 1)
        earlier.append(SavepointStarted(trigger_id="nightly", url=URL, checkpoint_id=1, incarnation=1))
        self.record = SavepointCommitted(
            trigger_id="nightly", url=URL, checksum="", checkpoint_id=1, epoch=7, incarnation=1
        )
        earlier.append(self.record)
        self.earlier: ClaimedLog = earlier
        view = JobView(documents.JobIdentity(job_uid="u"), "job", "default", "hashmap", time)
        for step in (driver_life.RESTORES, driver_life.FILLED):
            view.happened(step)
        self.current = CurrentParts(view, time)
        self.requests = Requests()
        self.control = DriverControl(
            view, self.requests, self.current.find_savepoint, lambda: None, lambda: 1
        )

    def begin(self, folder: Path) -> None:
        """Claims the lineage, and has no incarnation yet."""
        self.current.claimed = claim(settings(folder), clock.SystemClock(), 2, "this driver")

    def ask(self, **asked: object) -> documents.SavepointStatus:
        return self.control.trigger_savepoint(SavepointTrigger(trigger_id="nightly", **asked))  # type: ignore[arg-type]


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    made = Driver(tmp_path)
    made.begin(tmp_path)
    return made


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"target_directory": "s3://keep/nightly"},
        {"target_directory": "s3a://keep/nightly/"},
        {"format_type": "native"},
    ],
    ids=["no-target", "its-folder", "its-folder-by-another-name", "a-format-that-the-log-does-not-keep"],
)
def test_the_same_request_again_is_completed(driver: Driver, asked: dict[str, object]) -> None:
    """The operator repeats it to each driver until one has the savepoint."""
    found = driver.ask(**asked)
    assert (found.status, found.location, found.epoch) == (documents.SavepointPhase.COMPLETED, URL, 7)
    assert not found.stop
    assert driver.requests.next_open() is None


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"stop": True}, "the job was not stopped with it"),
        ({"stop": True, "drain": True}, "the job was not stopped with it"),
        ({"target_directory": "s3://elsewhere"}, "not in target_directory 's3://elsewhere'"),
        ({"target_directory": "s3://keep"}, "not in target_directory 's3://keep'"),
    ],
    ids=["stop", "drain", "another-bucket", "the-folder-above"],
)
def test_a_request_for_something_else_is_refused(driver: Driver, asked: dict[str, object], told: str) -> None:
    """A caller who asked for a stop was told that all is done, while the job ran on."""
    with pytest.raises(port.TriggerConflict, match=told) as refused:
        driver.ask(**asked)
    assert URL in str(refused.value)
    assert driver.requests.next_open() is None
    assert driver.control.savepoint("nightly") is not None


def test_a_stop_is_completed_while_the_lineage_is_closed_with_it(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.earlier.close_lineage(driver.record)
    driver.begin(tmp_path)
    for asked in ({"stop": True}, {"stop": True, "drain": True, "target_directory": "s3://keep/nightly"}):
        found = driver.ask(**asked)
        assert (found.status, found.location, found.stop) == (documents.SavepointPhase.COMPLETED, URL, True)
    claimed = driver.current.claimed
    assert claimed is not None
    claimed.log.begin_incarnation(URL, 2)
    with pytest.raises(port.TriggerConflict, match="or was started again"):
        driver.ask(stop=True)


def test_a_target_that_is_no_url_is_refused_by_its_name(driver: Driver) -> None:
    with pytest.raises(errors.SpecInvalid, match="ftp"):
        driver.ask(target_directory="ftp://there")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.close()


def begin_anew(running: Running) -> None:
    """The incarnation is over, and the next one begins."""
    running.checkpoints.abandon()
    storage, time = running.job_storage, clock.SystemClock()
    storage.begin_incarnation(storage.restore_point(), lambda number: None)
    Checkpoints(
        running.group, storage, settings(running.out).checkpoint, running.requests, running.view, time,
        phases.Phases("driver", time, {}), slots.KEY_SPACE, base=-1,
    )  # fmt: skip


@pytest.mark.parametrize("stop", [False, True], ids=["goes-on", "stops"])
def test_a_savepoint_with_its_record_is_complete_though_its_incarnation_ended_before_it_was_told(
    running: Running, monkeypatch: pytest.MonkeyPatch, stop: bool
) -> None:
    """The next incarnation took it again, and its request failed, because it was completed already."""
    recorded, answers = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        recorded.set()
        assert answers.wait(30)
        raise errors.StorageError("refused at last")

    monkeypatch.setattr(running.job_storage, "commit_checkpoint", hang)
    running.slot.epoch(0, slots.rows(("a", 1)))
    trigger = SavepointTrigger(trigger_id="one", stop=stop)
    running.requests.add(trigger)
    pending = running.checkpoints.start(0, Watermarks(()), CapturedPosition(), trigger)
    assert recorded.wait(30)
    begin_anew(running)
    told, url = running.requests.find("one"), running.job_storage.savepoints.find("one").url
    assert told is not None
    if stop:
        assert told.status == documents.SavepointPhase.PENDING, "the job has not stopped"
    else:
        assert (told.status, told.location, told.epoch) == (documents.SavepointPhase.COMPLETED, url, 0)
        assert running.requests.next_open() is None
    answers.set()
    pending.wait()
    late = running.requests.find("one")
    assert late is not None and (late == told) != stop


def test_what_an_incarnation_has_left_open_waits_again(running: Running) -> None:
    """It counted as served, so nothing failed it in time while the storage was away."""
    running.requests.add(SavepointTrigger(trigger_id="one"))
    running.requests.update("one", documents.SavepointPhase.IN_PROGRESS, epoch=3)
    running.view.long_work.note(documents.LongWorkKind.SAVEPOINT, 1, 2, "one")
    begin_anew(running)
    assert running.requests.waiting() == ("one",)
    told = running.requests.find("one")
    assert told is not None and told.epoch is None
    assert running.view.status().progress == ()


@pytest.mark.parametrize("fails", ["the record", "the publication"])
def test_a_savepoint_with_its_record_is_complete_whatever_becomes_of_its_checkpoint(
    running: Running, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Its request failed, while a restart went back to it, and a later driver called it completed."""

    def lost(*_: object) -> None:
        raise errors.SlotLost("slot 0 is gone")

    if fails == "the record":
        monkeypatch.setattr(running.job_storage, "commit_checkpoint", lost)
    else:
        running.refuse_publication(0)
    running.slot.epoch(0, slots.rows(("a", 1)))
    trigger = SavepointTrigger(trigger_id="one")
    running.requests.add(trigger)
    running.checkpoints.start(0, Watermarks(()), CapturedPosition(), trigger).wait()
    (saved,) = running.job_storage.log.check().savepoints
    told = running.requests.find("one")
    assert told is not None
    assert (told.status, told.location, told.epoch) == (documents.SavepointPhase.COMPLETED, saved.url, 0)
    assert told.failure is None
    (info,) = [one for one in running.view.checkpoints() if one.kind == documents.CheckpointKind.SAVEPOINT]
    assert (info.status, info.path) == (documents.CheckpointStatus.COMPLETED, saved.url) and info.state_bytes
    running.job_storage.leftovers.settle()
    assert Path(saved.url.removeprefix("file://"), "_metadata").is_file()
    with pytest.raises((errors.StorageError, errors.SlotLost)):
        running.checkpoints.require_sound()


def test_a_stop_whose_checkpoint_is_not_complete_has_failed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its savepoint has its record: the job has not stopped."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.refuse_publication(0)
    request = SavepointTrigger(trigger_id="end", stop=True)
    running.requests.add(request)
    running.checkpoints.start(0, Watermarks(()), CapturedPosition(), request).wait()
    told = running.requests.find("end")
    assert told is not None and told.status == documents.SavepointPhase.FAILED
    assert "Is a directory" in (told.failure or "")
