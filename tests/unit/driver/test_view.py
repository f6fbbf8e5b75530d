"""What a job says of itself while it goes from one incarnation to the next."""

from __future__ import annotations

import msgspec
import pytest
from support.storage.stores import ManualClock

from sparkstate import clock, errors
from sparkstate.control import driver_life, port
from sparkstate.control.documents import CheckpointInfo, CheckpointKind, CheckpointStatus, JobIdentity
from sparkstate.driver.control import DriverControl, progress_timeout_s
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.settings import TriggerSettings
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress

REPLY = protocol.SlotStatus(
    slot=0, pid=7, shards=(0,), state_bytes=9, state_rows=1, rss_bytes=10, memory={}, metrics={}
)


def test_the_slots_of_an_incarnation_are_never_said_to_be_the_next_one_s() -> None:
    view = JobView(JobIdentity(job_uid="u", attempt=1), "job", "shop", "rocksdb", clock.SystemClock())
    view.note_incarnation(1, None, None)
    view.note_slots([SlotAddress(0, "executor-1", 7, "/s", 0)], [REPLY])
    assert [(slot.host, slot.alive) for slot in view.status().slots] == [("executor-1", True)]
    view.note_failure("SlotLost", "gone", recovering=True)
    assert [(slot.host, slot.alive) for slot in view.status().slots] == [("executor-1", False)]
    view.note_incarnation(2, None, None)
    assert view.status().slots == ()


def test_the_gauges_of_an_incarnation_s_slots_end_with_it() -> None:
    view, control = running(ManualClock())
    view.note_incarnation(1, None, None)
    reply = msgspec.structs.replace(REPLY, metrics={"estimate-num-keys": 3.0})
    view.note_slots([SlotAddress(0, "executor-1", 7, "/s", 0)], [reply])
    assert list(control.metrics()) == [port.Sample("estimate-num-keys", 3.0, {"slot": "0"})]
    view.note_incarnation(2, None, None)
    assert list(control.metrics()) == []


def test_no_checkpoint_is_under_way_after_its_incarnation() -> None:
    """A request for a checkpoint is answered with the number of the one under way."""
    view, control = running(ManualClock())
    for number in (4, 5):
        view.note_checkpoint(under_way(number))
    view.note_incarnation(2, "file:///state/chk-4", 4, 4)
    restored, failed = view.checkpoints()
    assert (restored.status, restored.path) == (CheckpointStatus.COMPLETED, "file:///state/chk-4")
    assert failed.status == CheckpointStatus.FAILED and "its incarnation ended" in (failed.failure or "")
    assert control.trigger_checkpoint() == 1, "the next number"
    view.note_checkpoint(failed.model_copy(update={"failure": "its thread says so too"}))
    status = view.status()
    assert (status.checkpoints_completed, status.checkpoints_failed) == (1, 1)


@pytest.mark.parametrize(
    "end", [driver_life.STOPS, driver_life.FAILS, driver_life.FINISHES], ids=lambda row: str(row.to)
)
def test_no_checkpoint_is_promised_that_cannot_come(end: driver_life.Transition) -> None:
    view, control = running(ManualClock())
    for step in (driver_life.RESTORES, driver_life.FILLED):
        view.happened(step)
    view.note_checkpoint(under_way(4))
    assert control.trigger_checkpoint() == 4
    view.happened(end)
    with pytest.raises(port.NotRunning, match=f"the job is {end.to}; no checkpoint can be started"):
        control.trigger_checkpoint()


def test_a_savepoint_is_the_last_one_however_many_checkpoints_came_later() -> None:
    """With a checkpoint every 10 s, 500 of them have come after 83 minutes."""
    view, _ = running(ManualClock())
    view.note_checkpoint(completed(1, CheckpointKind.SAVEPOINT))
    view.note_checkpoint(completed(2, CheckpointKind.SAVEPOINT))
    for number in range(3, 1003):
        view.note_checkpoint(completed(number))
    last = view.status().last_savepoint
    assert last is not None and last.id == 2
    assert [info.id for info in view.checkpoints()] == [2, *range(504, 1003)]


def test_the_last_completed_checkpoint_is_known_throughout_an_outage() -> None:
    view, _ = running(ManualClock())
    view.note_checkpoint(completed(1))
    for number in range(2, 1002):
        view.note_checkpoint(under_way(number).model_copy(update={"status": CheckpointStatus.FAILED}))
    last = view.status().last_checkpoint
    assert last is not None and last.id == 1
    assert view.checkpoints()[0].id == 1


def test_a_savepoint_under_way_counts_as_such_while_many_checkpoints_complete() -> None:
    view, _ = running(ManualClock())
    view.note_checkpoint(under_way(1).model_copy(update={"kind": CheckpointKind.SAVEPOINT}))
    for number in range(2, 1002):
        view.note_checkpoint(completed(number))
    assert (view.status().checkpoints_in_progress, view.checkpoints()[0].id) == (1, 1)
    view.note_incarnation(2, None, None)
    assert view.status().checkpoints_failed == 1


def completed(number: int, kind: CheckpointKind = CheckpointKind.CHECKPOINT) -> CheckpointInfo:
    return under_way(number).model_copy(update={"status": CheckpointStatus.COMPLETED, "kind": kind})


def under_way(number: int) -> CheckpointInfo:
    return CheckpointInfo(id=number, status=CheckpointStatus.IN_PROGRESS, epoch=number, trigger_ms=0)


def running(tick: ManualClock, **trigger: int) -> tuple[JobView, DriverControl]:
    view = JobView(JobIdentity(job_uid="u", attempt=1), "job", "shop", "rocksdb", tick)
    limit_s = progress_timeout_s({}, TriggerSettings(**trigger))
    return view, DriverControl(
        view, Requests(), lambda _: None, lambda: None, lambda: 1, progress_timeout_s=limit_s
    )


@pytest.mark.fault(
    broken="a restore takes an hour, and the first epoch after it nine minutes",
    when="the kubelet asks whether the driver is live",
    expected="it is: the time runs from the change of the phase on",
)
@pytest.mark.fault_on("a driver")
@pytest.mark.parametrize(
    "before", [driver_life.RESTORES, driver_life.STORAGE_AWAY], ids=lambda row: str(row.to)
)
def test_a_long_restore_or_pause_takes_nothing_from_the_time_of_the_first_epoch(
    before: driver_life.Transition,
) -> None:
    tick = ManualClock()
    view, control = running(tick)
    view.happened(before)
    tick.sleep(3600)
    assert control.is_live()
    view.happened(driver_life.FILLED)
    tick.sleep(540)
    view.happened(driver_life.FILLED)
    assert control.is_live()
    tick.sleep(61)
    assert not control.is_live()
    view.note_epoch(1, 1, 1, 601.0)
    assert control.is_live()


def test_an_epoch_that_takes_rows_in_is_live_and_one_that_does_nothing_is_not() -> None:
    tick = ManualClock()
    view, control = running(tick)
    view.happened(driver_life.RESTORES)
    view.happened(driver_life.FILLED)
    address = SlotAddress(0, "executor-1", 7, "/s", 0)
    for weight in range(10):
        tick.sleep(300)
        view.note_slots([address], [msgspec.structs.replace(REPLY, memory={"overlays": weight})])
        assert control.is_live()
    for _ in range(3):
        tick.sleep(300)
        view.note_slots([address], [msgspec.structs.replace(REPLY, memory={"overlays": 9})])
    assert not control.is_live()


def test_a_trigger_above_the_limit_is_live() -> None:
    tick = ManualClock()
    view, control = running(tick, processing_time_ms=30 * 60_000)
    view.happened(driver_life.RESTORES)
    view.happened(driver_life.FILLED)
    tick.sleep(30 * 60 + 599)
    assert control.is_live()
    tick.sleep(2)
    assert not control.is_live()


def test_the_limit_can_be_set_and_a_wrong_one_is_refused() -> None:
    assert progress_timeout_s({"SPARKSTATE_PROGRESS_TIMEOUT": "1800"}, TriggerSettings()) == 1800
    for wrong in ("", "0", "-1", "nan", "ten"):
        with pytest.raises(errors.SpecInvalid, match="SPARKSTATE_PROGRESS_TIMEOUT"):
            progress_timeout_s({"SPARKSTATE_PROGRESS_TIMEOUT": wrong}, TriggerSettings())


def test_the_status_carries_the_newest_recoveries_and_counts_all_restarts() -> None:
    tick = ManualClock()
    view, _ = running(tick)
    for number in range(250):
        view.note_failure("SlotLost", f"loss {number}", recovering=True)
        view.note_epoch(number, rows=1, watermark=0, seconds=0.1)
    status = view.status()
    assert status.restarts == 250
    assert [recovery.cause for recovery in status.recoveries[::99]] == [
        "SlotLost: loss 150",
        "SlotLost: loss 249",
    ]
