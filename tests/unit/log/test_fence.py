from __future__ import annotations

import threading
import time

import pytest
from support.storage.stores import HookedStore, ManualClock

from sparkstate import errors
from sparkstate.clock import SystemClock, WakefulClock
from sparkstate.log import FenceGuard, LineageLog, Verdict
from sparkstate.storage.local import LocalStore


@pytest.fixture
def store(tmp_path):
    return HookedStore(LocalStore(str(tmp_path)))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def guard(store, clock):
    log = LineageLog(store, clock).claim(1, "me")
    return FenceGuard(log, 30.0, clock)


def test_a_new_guard_lets_the_driver_go(guard):
    assert guard.check() is Verdict.GO


def test_the_log_is_read_every_third_of_the_timeout_and_not_more(guard, store, clock):
    store.calls.clear()
    for _ in range(60):
        clock.now += 1.0
        guard.poll()
    assert [operation for operation, _ in store.calls] == ["get", "list"] * 6
    assert guard.check() is Verdict.GO


def test_an_outage_pauses_the_driver_when_its_last_success_is_too_old(guard, store, clock):
    store.unplug()
    clock.now += 29.0
    guard.poll()
    assert guard.check() is Verdict.GO
    clock.now += 1.0
    assert guard.check() is Verdict.PAUSED
    assert isinstance(guard.cause, errors.StorageUnavailable)


def test_the_driver_goes_on_when_the_storage_is_back(guard, store, clock):
    store.unplug()
    clock.now += 300.0
    guard.poll()
    assert guard.check() is Verdict.PAUSED
    store.heal()
    clock.now += 10.0
    guard.poll()
    assert guard.check() is Verdict.GO
    assert guard.cause is None


def test_a_slow_read_counts_from_its_begin(guard, store, clock):
    def slow(operation, key):
        clock.now += 31.0

    store.before = slow
    guard.read()
    assert guard.check() is Verdict.PAUSED


def test_a_driver_that_polls_no_more_is_paused_by_its_own_clock(guard, clock):
    clock.now += 30.0
    assert guard.check() is Verdict.PAUSED


def test_a_newer_claim_is_found_and_said_for_ever(guard, store, clock):
    LineageLog(store, clock).claim(2, "successor")
    clock.now += 10.0
    with pytest.raises(errors.Fenced, match="successor"):
        guard.poll()
    store.unplug()
    with pytest.raises(errors.Fenced, match="successor"):
        guard.check()


def test_what_a_fenced_driver_finds_missing_is_no_damage(guard, store, clock):
    missing = errors.RestoreBlocked("chk-1/a is missing")
    assert guard.reason_behind(missing) is missing
    store.unplug()
    assert guard.reason_behind(missing) is missing
    store.heal()
    LineageLog(store, clock).claim(2, "the other")
    assert isinstance(guard.reason_behind(missing), errors.Fenced)


def test_a_timeout_of_nothing_is_refused(guard, store, clock):
    with pytest.raises(errors.SpecInvalid, match="fenceTimeout is 0"):
        FenceGuard(LineageLog(store, clock).claim(2, "me"), 0, clock)


def test_the_thread_finds_a_newer_claim_by_itself_and_ends(store):
    log = LineageLog(store, SystemClock()).claim(1, "me")
    guard = FenceGuard(log, 0.3, SystemClock())
    guard.start()
    try:
        LineageLog(store, SystemClock()).claim(2, "successor")
        deadline = time.monotonic() + 10
        while not guard.fenced and time.monotonic() < deadline:
            time.sleep(0.02)
        with pytest.raises(errors.Fenced):
            guard.check()
    finally:
        guard.stop()
    assert not guard._thread.is_alive()


def test_a_read_that_hangs_holds_up_no_end(store, monkeypatch):
    monkeypatch.setattr("sparkstate.log.fence._STOP_S", 0.1, raising=False)
    guard = FenceGuard(LineageLog(store, SystemClock()).claim(1, "me"), 0.3, SystemClock())
    hangs, answer = threading.Event(), threading.Event()

    def hang(operation, key):
        hangs.set()
        answer.wait(20)

    store.before = hang
    guard.start()
    assert hangs.wait(10)
    ended = threading.Thread(target=guard.stop)
    ended.start()
    ended.join(5)
    held_up = ended.is_alive()
    answer.set()
    guard._thread.join(10)
    ended.join(10)
    assert not held_up


@pytest.mark.fault_on("a driver")
@pytest.mark.fault(
    broken="the driver's machine is suspended for an hour",
    when="between two reads of its log",
    expected="that time counts against its fenceTimeout, and it pauses",
)
def test_time_for_which_the_machine_was_suspended_counts(store, monkeypatch):
    clocks = {time.CLOCK_MONOTONIC: 1000.0, time.CLOCK_BOOTTIME: 1000.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    monkeypatch.setattr(time, "monotonic", lambda: clocks[time.CLOCK_MONOTONIC])
    log = LineageLog(store, ManualClock()).claim(1, "me")
    guard = FenceGuard(log, 30.0, WakefulClock())
    clocks[time.CLOCK_MONOTONIC] += 1.0
    clocks[time.CLOCK_BOOTTIME] += 29.0
    assert guard.check() is Verdict.GO
    clocks[time.CLOCK_BOOTTIME] += 3600.0
    assert guard.check() is Verdict.PAUSED
