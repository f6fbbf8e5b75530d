"""A wall clock that is set back: Spark's query would stand still for as long, so another one is begun. No duration is
below 0."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.slots import slots
from support.slots.running import Running
from support.storage.stores import ManualClock

from sparkstate import clock, errors
from sparkstate.checkpoint.savepoint import open_snapshot
from sparkstate.control.documents import CheckpointStatus, JobIdentity
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import watching
from sparkstate.driver.view import JobView
from sparkstate.driver.watching import Loss, WallClock
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks
from sparkstate.storage.opening import open_store


class TwoClocks(ManualClock):
    """The wall clock is ``ahead_s`` before the monotonic one."""

    ahead_s = 1_000_000.0

    def now_ms(self) -> int:
        return round((self.now + self.ahead_s) * 1000)


def test_a_clock_is_set_back_until_it_is_as_late_as_it_was() -> None:
    clocks = TwoClocks()
    wall_clock = WallClock(clocks)
    told = []
    for step_s in (0, -3600, 0, +7200, 0, -15, 0):
        clocks.ahead_s += step_s
        clocks.sleep(1)
        told.append(round(wall_clock.set_back_s()))
    assert told == [0, 3599, 3598, 0, 0, 14, 13]


def test_small_steps_back_add_up_as_far_as_the_clock_has_not_made_them_good() -> None:
    """Each of them was too small to be seen, and Spark stood still all the same."""
    clocks = TwoClocks()
    wall_clock = WallClock(clocks)
    told = []
    for pause_s in (2, 2, 2, 3600, 3600):
        clocks.ahead_s -= 9
        clocks.sleep(pause_s)
        told.append(wall_clock.set_back_s())
    assert told == [7, 14, 21, 0, 0]


@pytest.mark.parametrize(("step_s", "is_lost"), [(-3600.0, True), (-9.0, False), (3600.0, False)])
def test_an_incarnation_ends_once_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch, step_s: float, is_lost: bool
) -> None:
    """Idle epochs, savepoints, timers and a stop waited for an hour."""
    monkeypatch.setattr(watching, "_WATCH_S", 0.01)
    clocks, over = TwoClocks(), threading.Event()
    loss, wall_clock = Loss(over), WallClock(clocks)
    watch = threading.Thread(target=watching.watch_clock, args=(wall_clock, over, loss))
    clocks.ahead_s += step_s
    watch.start()
    if not is_lost:
        over.wait(0.1)
        over.set()
    watch.join(10)
    assert not watch.is_alive()
    assert isinstance(loss.error, errors.ClockStep) == is_lost
    if is_lost:
        assert "was set back by 3,600 s" in str(loss.error)


class FallingClock(clock.SystemClock):
    """At each look it is an hour earlier."""

    looks = 0

    def now_ms(self) -> int:
        self.looks += 1
        return super().now_ms() - self.looks * 3_600_000


def test_a_checkpoint_and_its_savepoint_take_the_time_that_they_take(tmp_path: Path) -> None:
    running = Running(tmp_path, time=FallingClock())
    running.slot.epoch(0, slots.rows(("a", 1)))
    trigger = SavepointTrigger(trigger_id="one")
    running.requests.add(trigger)
    running.checkpoints.start(0, Watermarks(()), CapturedPosition(), trigger).settle()
    infos = running.view.checkpoints()
    assert [info.status for info in infos] == [CheckpointStatus.COMPLETED] * 2
    stored = [open_snapshot(info.path or "", open_store).metadata.duration_ms for info in infos]
    for took_ms in (*stored, *(info.duration_ms for info in infos)):
        assert took_ms is not None and 0 <= took_ms < 60_000
    running.close()


def test_a_recovery_takes_the_time_that_it_takes() -> None:
    clocks = TwoClocks()
    view = JobView(JobIdentity(job_uid="u", attempt=1), "job", "shop", "rocksdb", clocks)
    view.note_failure("SlotLost", "gone", recovering=True)
    clocks.ahead_s -= 3600
    clocks.sleep(5)
    view.note_epoch(1, 0, 0, 0.1)
    (recovery,) = view.status().recoveries
    assert recovery.duration_ms == 5000
