"""The thread in which an epoch ends while the next one begins."""

from __future__ import annotations

import threading

import pytest

from sparkstate.driver.aside import Aside


def test_work_runs_beside_its_starter_and_settling_waits_for_it() -> None:
    aside, gate, done = Aside(), threading.Event(), list[int]()

    def work() -> None:
        gate.wait(10)
        done.append(1)

    aside.start(work)
    assert done == []
    gate.set()
    aside.settle()
    assert done == [1]
    aside.start(lambda: done.append(2))
    aside.settle()
    assert done == [1, 2]
    aside.close(1)


def test_a_failure_is_seen_without_waiting_and_raised_each_time_it_is_asked_for() -> None:
    aside = Aside()

    def work() -> None:
        raise ValueError("no")

    aside.start(work)
    with pytest.raises(ValueError, match="no"):
        aside.settle()
    assert isinstance(aside.failure, ValueError)
    with pytest.raises(ValueError, match="no"):
        aside.settle()
    aside.close(1)


def test_nothing_runs_nothing_failed() -> None:
    aside = Aside()
    aside.settle()
    assert aside.failure is None
    aside.close(1)
