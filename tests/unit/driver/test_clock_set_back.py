"""A wall clock that is set back: Spark's query would stand still for as long, so another one is begun."""

from __future__ import annotations

import threading

import pytest
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.driver import watching
from sparkstate.driver.watching import Loss, WallClock


class TwoClocks(ManualClock):
    """The wall clock is ``ahead_s`` before the monotonic one. ``sleeps_s``: the process sleeps so long between a look
    at one and at the other."""

    ahead_s, sleeps_s = 1_000_000.0, 0.0

    def now_ms(self) -> int:
        self.now += self.sleeps_s
        told = round((self.now + self.ahead_s) * 1000)
        self.now += self.sleeps_s
        return told


def test_only_a_step_back_counts_and_each_of_them_once() -> None:
    clock = TwoClocks()
    wall_clock = WallClock(clock)
    told = []
    for step_s in (0, -3600, 0, +7200, 0, -4, -15):
        clock.ahead_s += step_s
        clock.sleep(1)
        told.append(round(wall_clock.set_back_s()))
    assert told == [0, 3600, 0, -7200, 0, 4, 15]


def test_a_process_that_sleeps_between_two_looks_sees_no_step() -> None:
    clock = TwoClocks()
    wall_clock = WallClock(clock)
    for sleeps_s in (3600.0, 0.0, 0.0, 3600.0, 3600.0, 0.0):
        clock.sleeps_s = sleeps_s
        assert wall_clock.set_back_s() <= 0
    clock.sleeps_s, clock.ahead_s = 0.0, clock.ahead_s - 20
    assert wall_clock.set_back_s() == pytest.approx(20)


@pytest.mark.parametrize(("step_s", "is_lost"), [(-3600.0, True), (-9.0, False), (3600.0, False)])
def test_an_incarnation_ends_once_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch, step_s: float, is_lost: bool
) -> None:
    """Idle epochs, savepoints, timers and a stop waited for an hour."""
    monkeypatch.setattr(watching, "_WATCH_S", 0.01)
    clock, over = TwoClocks(), threading.Event()
    loss, wall_clock = Loss(over), WallClock(clock)
    watch = threading.Thread(target=watching.watch_clock, args=(wall_clock, over, loss))
    clock.ahead_s += step_s
    watch.start()
    if not is_lost:
        over.wait(0.1)
        over.set()
    watch.join(10)
    assert not watch.is_alive()
    assert isinstance(loss.error, errors.ClockSetBack) == is_lost
    if is_lost:
        assert "was set back by 3,600 s" in str(loss.error)
