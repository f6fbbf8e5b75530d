"""SIGTERM in a pod, without a pod: what is saved, what is left to the next attempt, and when the process leaves."""

from __future__ import annotations

import threading
import time

import pytest

from sparkstate.control.documents import DriverPhase
from sparkstate.driver import termination_policy
from sparkstate.driver.requests import Requests


class Process:
    """What would have ended."""

    def __init__(self, grace_s: float, phase: DriverPhase) -> None:
        self.requests = Requests()
        self.words: list[str] = []
        self.left = threading.Event()
        self.codes: list[int] = []
        self.grace = termination_policy.Grace(
            grace_s, self.requests, lambda: phase, self.words.append, self._leave
        )

    def _leave(self, code: int) -> None:
        self.codes.append(code)
        self.left.set()


@pytest.mark.parametrize(("grace_s", "patience_s"), [(120, 115), (30, 25), (10, 5), (8, 4), (1, 0.5)])
def test_the_checkpoint_gets_what_the_grace_period_leaves(grace_s: float, patience_s: float) -> None:
    assert termination_policy.patience_s(grace_s) == patience_s


@pytest.mark.parametrize("phase", [DriverPhase.RUNNING, DriverPhase.PAUSED, DriverPhase.STOPPING])
def test_a_running_job_is_asked_to_end_and_leaves_by_itself_in_time(phase: DriverPhase) -> None:
    process = Process(3600, phase)
    process.grace.begin()
    assert process.requests.terminated.is_set()
    assert process.requests.ending()
    assert not process.left.wait(0.1)
    assert process.words == []


def test_a_job_that_does_not_come_to_its_end_is_left_with_a_word_about_it() -> None:
    process = Process(0.1, DriverPhase.RUNNING)
    process.grace.begin()
    assert process.left.wait(10)
    assert process.codes == [0]
    assert "did not complete within 0.05 s" in process.words[0]
    assert "terminationGracePeriodSeconds" in process.words[0]


@pytest.mark.parametrize("phase", [DriverPhase.STARTING, DriverPhase.RESTORING, DriverPhase.RECOVERING])
def test_where_nothing_is_to_be_saved_the_process_leaves_at_once(phase: DriverPhase) -> None:
    process = Process(3600, phase)
    process.grace.begin()
    assert process.left.wait(10)
    assert process.codes == [0]
    assert "nothing to save" in process.words[0]


def test_a_second_signal_does_not_begin_the_grace_period_anew() -> None:
    process = Process(0.2, DriverPhase.RUNNING)
    process.grace.begin()
    process.grace.begin()
    assert process.left.wait(10)
    assert process.codes == [0]


def test_a_job_that_has_saved_everything_leaves_at_once_and_has_the_last_word() -> None:
    process = Process(0.4, DriverPhase.RUNNING)
    process.grace.begin()
    process.grace.saved(0.0)
    assert process.left.is_set()
    assert process.codes == [0]
    assert process.words == [termination_policy.SAVED]
    time.sleep(0.5)  # the time for a checkpoint is over
    assert process.words == [termination_policy.SAVED]
