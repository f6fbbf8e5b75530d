"""Where an incarnation takes nothing in: a real slot, a real storage, a sink's folder that is not there for a while."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.slots.paused import Paused

from sparkstate import clock, errors
from sparkstate.control import driver_life
from sparkstate.control.documents import DriverPhase, SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import storage_outages
from sparkstate.driver.storage_outages import Ending
from sparkstate.log import LineageLog
from sparkstate.log.fence import Verdict
from sparkstate.spark import capture
from sparkstate.spark.watermarks import Watermarks


@pytest.fixture
def paused(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Paused]:
    made = Paused(tmp_path, **getattr(request, "param", {}))
    yield made
    made.over.set()
    made.running.checkpoints.abandon()
    made.running.close()


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_slot_says_how_much_output_it_holds_back(paused: Paused) -> None:
    assert paused.held() == 0
    paused.commit(0, 1)
    first = paused.held()
    paused.commit(1, 2)
    assert paused.held() > first > 0
    paused.running.start(1).settle()
    paused.commit(2, 3)
    assert paused.held() == first


@pytest.mark.parametrize("paused", [{"max_held_bytes": 1}], indirect=True)
def test_held_output_at_its_limit_lets_nothing_in_until_a_checkpoint_has_completed(paused: Paused) -> None:
    paused.commit(0, 1)
    assert "checkpointing.maxHeldOutput" in (paused.running.checkpoints.hold_back() or "")
    paused.hold_back(0).join(60)
    assert [record.epoch for record in paused.running.job_storage.log.state.checkpoints] == [0]
    assert paused.running.checkpoints.hold_back() is None
    assert paused.view.phase is DriverPhase.RUNNING and paused.said == []


@pytest.mark.parametrize("paused", [{"max_held_bytes": 1}], indirect=True)
def test_a_checkpoint_that_ends_the_incarnation_ends_the_wait_for_it(paused: Paused) -> None:
    paused.commit(0, 1)
    paused.running.refuse_publication(0)
    begun: list[object] = []
    raised: list[BaseException] = []

    def hold() -> None:
        try:
            paused.pauses.hold_back(paused.running.checkpoints, lambda: begun.append(paused.running.start(0)))
        except errors.StorageError as error:
            raised.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert "Is a directory" in str(raised[0])
    assert len(begun) == 1


def test_nothing_waits_while_there_is_room(paused: Paused) -> None:
    paused.commit(0, 1)
    paused.hold_back(0).join(10)
    assert paused.running.job_storage.log.state.checkpoints == ()


@pytest.mark.parametrize("paused", [{"max_time_without_s": 0.0}], indirect=True)
def test_a_sink_that_is_away_pauses_the_job_until_it_is_back(paused: Paused) -> None:
    """Its storage is a folder whose volume is not mounted."""
    running = paused.running
    paused.commit(0, 1)
    running.start(0).settle()
    paused.commit(1, 2)
    gone = running.out.with_name("gone")
    running.out.rename(gone)
    with pytest.raises(errors.StorageUnavailable):
        running.start(1).settle()
    (place,) = running.job_storage.outages.away
    assert place.url == f"file://{running.out}" and place.doing.startswith("store checkpoint")
    thread = paused.hold_back(1)
    until(paused.is_paused)
    time.sleep(1.5)
    assert thread.is_alive() and len(paused.said) == 1
    assert "checkpointing.maxTimeWithoutCheckpoint" in paused.said[0]
    gone.rename(running.out)
    thread.join(60)
    assert not thread.is_alive() and paused.view.phase is DriverPhase.RUNNING
    until(
        lambda: [record.epoch for record in running.job_storage.log.state.checkpoints] == [1]
    )  # 0 is subsumed after it
    assert running.job_storage.outages.away == ()


@pytest.mark.parametrize("how", ["cancelled", "terminated", "over", "lost"])
@pytest.mark.parametrize("paused", [{"max_time_without_s": 0.0}], indirect=True)
def test_every_end_is_heard_in_a_pause(paused: Paused, how: str) -> None:
    paused.commit(0, 1)
    paused.running.start(0).settle()
    paused.commit(1, 1)
    shutil.rmtree(paused.running.out)
    with pytest.raises(errors.StorageUnavailable):
        paused.running.start(1).settle()
    ended: list[BaseException | None] = []

    def hold() -> None:
        try:
            paused.pauses.hold_back(paused.running.checkpoints, lambda: None)
            ended.append(None)
        except errors.SlotLost as error:
            ended.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    until(paused.is_paused)
    if how == "lost":
        paused.lost = errors.SlotLost("slot 0 is gone")
    else:
        (paused.over if how == "over" else getattr(paused.running.requests, how)).set()
    thread.join(10)
    assert not thread.is_alive() and ended == [paused.lost]


@pytest.mark.parametrize("paused", [{"timeout_s": 0.3}], indirect=True)
def test_a_stop_that_waits_for_a_storage_fails_after_the_timeout_and_names_the_place(paused: Paused) -> None:
    checkpoints, requests = paused.running.checkpoints, paused.running.requests
    request = SavepointTrigger(trigger_id="end", stop=True)
    requests.add(request)
    paused.commit(0, 1)
    go_on = threading.Event()
    paused.running.job_storage.publish = lambda *_: go_on.wait(60)  # type: ignore[method-assign,assignment]
    begun = paused.running.start(0)
    until(lambda: begun.committed)
    outages = paused.running.job_storage.outages
    outages.failed("s3://bucket/out", "publish the output of checkpoint 1", errors.StorageUnavailable("away"))
    assert not checkpoints.settle_before(request)
    status = requests.find("end")
    assert status is not None and status.status is SavepointPhase.FAILED
    assert "s3://bucket/out" in (status.failure or "")
    requests.cancelled.set()
    with pytest.raises(Ending):
        checkpoints.wait()
    go_on.set()
    begun.ended.wait(60)


@pytest.mark.parametrize("paused", [{"timeout_s": 0.3}], indirect=True)
def test_a_stop_waits_for_a_slow_checkpoint_whatever_hangs_beside_the_job(paused: Paused) -> None:
    checkpoints, request = paused.running.checkpoints, SavepointTrigger(trigger_id="end", stop=True)
    paused.running.requests.add(request)
    paused.commit(0, 1)
    go_on = threading.Event()
    job_storage = paused.running.job_storage
    publish = job_storage.publish
    job_storage.publish = lambda *given: (go_on.wait(60), publish(*given))  # type: ignore[method-assign,assignment]
    begun = paused.running.start(0)
    until(lambda: begun.committed)
    left = storage_outages.Call(
        "file:///gone/savepoint", "delete what is left", time.monotonic() - 60, awaited=False
    )
    job_storage.outages._calls[-1] = left
    threading.Timer(1.0, go_on.set).start()
    assert checkpoints.settle_before(request)
    status = paused.running.requests.find("end")
    assert status is not None and status.status is not SavepointPhase.FAILED


def test_a_driver_that_waits_for_a_checkpoint_before_its_stop_is_not_stuck(paused: Paused) -> None:
    checkpoints, request = paused.running.checkpoints, SavepointTrigger(trigger_id="end", stop=True)
    paused.running.requests.add(request)
    paused.commit(0, 1)
    go_on = threading.Event()
    job_storage, view = paused.running.job_storage, paused.running.view
    publish = job_storage.publish
    job_storage.publish = lambda *given: (go_on.wait(60), publish(*given))  # type: ignore[method-assign,assignment]
    begun = paused.running.start(0)
    until(lambda: begun.committed)
    threading.Timer(1.0, go_on.set).start()
    began = time.monotonic()
    assert checkpoints.settle_before(request)
    assert time.monotonic() - began > 0.9
    assert view.seconds_without_progress() < 0.9


def take_away_the_sink(paused: Paused) -> None:
    """The job is in a pause, and stays there."""
    paused.commit(0, 1)
    paused.running.start(0).settle()
    paused.commit(1, 1)
    shutil.rmtree(paused.running.out)
    with pytest.raises(errors.StorageUnavailable):
        paused.running.start(1).settle()


@pytest.mark.parametrize("paused", [{"max_time_without_s": 0.0}], indirect=True)
def test_a_stop_is_heard_in_a_pause_and_the_next_epoch_takes_it_up(paused: Paused) -> None:
    take_away_the_sink(paused)
    thread = paused.hold_back(1)
    until(paused.is_paused)
    paused.running.requests.add(SavepointTrigger(trigger_id="plain"))
    time.sleep(0.5)
    assert thread.is_alive(), "a savepoint that stops nothing waits for the storage"
    paused.running.requests.update("plain", SavepointPhase.FAILED)
    paused.running.requests.add(SavepointTrigger(trigger_id="end", stop=True))
    thread.join(10)
    assert not thread.is_alive()
    request = paused.running.checkpoints.stop_requested()
    assert request is not None and request.trigger_id == "end"


@pytest.mark.parametrize("paused", [{"max_time_without_s": 0.0}], indirect=True)
def test_a_driver_that_another_has_taken_the_job_from_leaves_its_pause(paused: Paused) -> None:
    take_away_the_sink(paused)
    raised: list[BaseException] = []

    def hold() -> None:
        try:
            paused.pauses.hold_back(paused.running.checkpoints, lambda: None)
        except errors.Fenced as error:
            raised.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    until(paused.is_paused)
    LineageLog(paused.running.job_storage.lineage.store, clock.SystemClock()).claim(2, "the newer one")
    with pytest.raises(errors.Fenced):
        paused.guard.read()
    thread.join(10)
    assert not thread.is_alive() and len(raised) == 1


@pytest.mark.parametrize("paused", [{"max_time_without_s": 0.0}], indirect=True)
def test_neither_the_target_of_a_savepoint_nor_a_slow_call_holds_the_job_back(
    paused: Paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, outages = paused.running, paused.running.job_storage.outages

    def fail(*_: object) -> None:
        raise errors.StorageUnavailable("the user's storage is away")

    monkeypatch.setattr(running.job_storage.savepoints, "write", fail)
    paused.commit(0, 1)
    running.requests.add(SavepointTrigger(trigger_id="one"))
    running.checkpoints.after_commit(0, Watermarks(()), capture.CapturedPosition, changed=True)
    until(lambda: outages.away)
    own = running.job_storage.lineage.store.url
    with outages._lock:
        outages._calls[-1] = storage_outages.Call(own, "copy a file", time.monotonic() - 60, awaited=True)
    assert {place.url == own for place in outages.away} == {True, False}
    assert not running.checkpoints.is_stuck and running.checkpoints.hold_back() is None
    assert not running.checkpoints.is_due()
    assert not running.checkpoints.given_up()
    running.requests.terminated.set()
    assert running.checkpoints.given_up(), "the checkpoint at hand waits for that target"
    begun = running.checkpoints._current
    assert begun is not None
    running.checkpoints.abandon()
    begun.wait()
    with outages._lock:
        del outages._calls[-1]
    outages.failed(own, "read the log", errors.StorageUnavailable("away"))
    assert running.checkpoints.is_stuck and running.checkpoints.hold_back() is not None


def test_who_ends_waits_for_a_slow_call_and_not_for_a_storage_that_fails(paused: Paused) -> None:
    outages, own = paused.running.job_storage.outages, paused.running.job_storage.lineage.store.url
    paused.running.requests.terminated.set()
    with outages._lock:
        outages._calls[-1] = storage_outages.Call(own, "copy a file", time.monotonic() - 60, awaited=True)
    assert [place.url for place in outages.away] == [own]
    assert not paused.running.checkpoints.given_up()
    outages.failed(own, "copy a file", errors.StorageUnavailable("away"))
    assert paused.running.checkpoints.given_up()


@pytest.mark.fault(
    broken="the storage with the job's log is away",
    when="while savepoints are asked for, one of which is to stop the job",
    expected="each fails after checkpointing.timeout with the place that is away; the job waits, and goes on when it "
    "is back",
)
@pytest.mark.fault_on("a folder")
@pytest.mark.parametrize("paused", [{"timeout_s": 1.0}], indirect=True)
def test_a_savepoint_is_refused_in_time_while_the_log_is_away(paused: Paused) -> None:
    requests, log = paused.running.requests, paused.running.job_storage.log
    storage = Path(paused.running.job_storage.root.url.removeprefix("file://"))
    gone = storage.with_name("gone")
    storage.rename(gone)
    time.sleep(1.1)
    thread = threading.Thread(target=paused.pauses.may_go_on)
    thread.start()
    until(paused.is_paused)
    for name, stop in (("one", True), ("two", False)):
        requests.add(SavepointTrigger(trigger_id=name, stop=stop))
    asked = time.monotonic()

    def refused() -> bool:
        found = [requests.find(name) for name in ("one", "two")]
        return all(each is not None and each.status is SavepointPhase.FAILED for each in found)

    until(refused)
    assert time.monotonic() - asked >= 1.0
    found = requests.find("one")
    assert found is not None and found.failure is not None and str(storage) in found.failure
    assert thread.is_alive() and paused.is_paused()
    gone.rename(storage)
    paused.guard.read()
    thread.join(10)
    assert not thread.is_alive() and paused.view.phase is DriverPhase.RUNNING
    assert log.check().incarnation == 1


@pytest.mark.parametrize("paused", [{"timeout_s": 0.2}], indirect=True)
def test_one_thread_may_go_on_while_another_refuses_savepoints(
    paused: Paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's thread begins an epoch while the end of the one before waits in another."""
    requests = paused.running.requests
    for name in ("one", "two"):
        requests.add(SavepointTrigger(trigger_id=name))
    paused.pauses._refuse_in_time()
    time.sleep(0.3)
    update = requests.update

    def go_on_and_update(*args: Any, **changes: Any) -> None:
        paused.guard.read()
        other = threading.Thread(target=paused.pauses.may_go_on)
        other.start()
        other.join(10)
        assert not other.is_alive()
        update(*args, **changes)

    monkeypatch.setattr(requests, "update", go_on_and_update)
    paused.pauses._refuse_in_time()
    assert requests.waiting() == ()


def test_an_epoch_that_outlives_its_incarnation_leaves_the_phase_alone(
    paused: Paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end waited for the log; the incarnation that follows must not look as if it paused, or ran."""
    monkeypatch.setattr(paused.guard, "check", lambda: Verdict.PAUSED)
    raised: list[BaseException] = []

    def epoch() -> None:
        try:
            paused.pauses.may_go_on()
        except errors.SparkstateError as error:
            raised.append(error)

    waits = threading.Thread(target=epoch)
    waits.start()
    until(paused.is_paused)
    paused.over.set()
    waits.join(60)
    assert isinstance(raised[0], errors.StorageUnavailable)
    paused.view.happened(driver_life.RESTORES)
    with pytest.raises(errors.StorageUnavailable):
        paused.pauses.may_go_on()
    assert paused.view.phase is DriverPhase.RESTORING
