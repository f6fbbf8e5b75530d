"""Runs of a job that ends by itself, at the times of its schedule, as decisions."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, look, pod, revision, running_status

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.core import schedule

NIGHTLY: dict[str, Any] = {"trigger": {"availableNow": True, "schedule": "0 3 * * *"}}
LATE = timedelta(seconds=schedule.MAX_CRON_JITTER_S)
NEXT = datetime(2026, 1, 2, 3, tzinfo=NOW.tzinfo)
"""The first time after ``NOW``, which is noon."""


def over(
    now: datetime, phase: str = "Finished", spec: dict[str, Any] | None = None, **fields: Any
) -> actions.Decision:
    """A look at a job whose run was over at ``NOW``."""
    spec = NIGHTLY if spec is None else spec
    times = {"completionTime": clock.text(NOW)} if phase in ("Finished", "Failed") else {}
    status = running_status(4, phase=phase, revision=revision(**spec).name, **times, **fields)
    return look(observed.ObservedState(job(status, **spec), now))


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_the_next_run_begins_at_its_time_and_not_before(phase: str) -> None:
    early = over(NEXT - timedelta(seconds=100), phase)
    assert early.status["phase"] == phase
    assert early.wait_s is not None
    assert 100 <= early.wait_s <= 100 + LATE.total_seconds()
    due = over(NEXT + LATE, phase)
    assert (due.status["phase"], due.status["attempt"], due.status["intent"]["action"]) == (
        "Starting",
        5,
        "start",
    )
    assert "completionTime" not in due.status
    assert [note.reason for note in due.notes] == ["RunDue"]


def test_times_that_passed_unseen_make_one_run() -> None:
    assert over(NEXT + timedelta(days=9, hours=5)).status["attempt"] == 5


def test_a_time_that_passed_while_the_job_ran_is_left_out() -> None:
    status = running_status(
        4,
        phase="Finished",
        revision=revision(**NIGHTLY).name,
        completionTime=clock.text(NEXT + timedelta(hours=1)),
    )
    rests = look(observed.ObservedState(job(status, **NIGHTLY), NEXT + timedelta(hours=2)))
    assert rests.status["phase"] == "Finished"


@pytest.mark.parametrize("phase", ["Running", "RestoreBlocked", "Suspended"])
def test_no_run_begins_in_any_other_phase(phase: str) -> None:
    spec = {**NIGHTLY, "state": "suspended"} if phase == "Suspended" else NIGHTLY
    found = over(NEXT + LATE, phase, spec)
    assert "RunDue" not in [note.reason for note in found.notes]


def test_a_suspended_job_does_not_run_by_its_schedule() -> None:
    assert over(NEXT + LATE, spec={**NIGHTLY, "state": "suspended"}).status["phase"] == "Finished"


def test_a_job_without_a_schedule_runs_once_and_one_with_a_schedule_is_never_deleted() -> None:
    once = {"trigger": {"availableNow": True}}
    assert over(NEXT + timedelta(days=400), spec=once).status["phase"] == "Finished"
    kept = over(NOW + timedelta(hours=1), spec={**NIGHTLY, "ttlSecondsAfterFinished": 0})
    assert not acts(kept, actions.DeleteJob)


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_a_status_without_the_time_of_the_end_counts_from_the_first_look(phase: str) -> None:
    status = running_status(4, phase=phase, revision=revision(**NIGHTLY).name)
    first = look(observed.ObservedState(job(status, **NIGHTLY), NEXT + LATE))
    assert (first.status["phase"], first.status["completionTime"]) == (phase, clock.text(NEXT + LATE))


@pytest.mark.parametrize("ahead", [timedelta(hours=-2), timedelta(days=30)])
def test_the_clock_of_the_node_on_which_a_run_fails_decides_nothing(ahead: timedelta) -> None:
    """By a clock that was behind, a run that fails at once was repeated for as long as that; by one that was ahead, no
    run came until then."""
    spec = {**NIGHTLY, "restart": {"strategy": "none"}}
    word = dataclasses.replace(ended(1, "UserCodeError"), at=NEXT + LATE + ahead)
    over_ = pod(4, revision=revision(**spec).name, phase="Failed", ended=word)
    status = running_status(4, revision=over_.revision)
    fails = look(observed.ObservedState(job(status, **spec), NEXT + LATE, drivers=(over_,)))
    assert fails.status["phase"] == "Failed"
    soon = look(observed.ObservedState(job(fails.status, **spec), NEXT + 2 * LATE, drivers=(over_,)))
    assert (soon.status["phase"], soon.status["attempt"]) == ("Failed", 4)
    later = NEXT + LATE + timedelta(days=1)
    again = look(observed.ObservedState(job(soon.status, **spec), later, drivers=(over_,)))
    assert (again.status["phase"], again.status["attempt"]) == ("Starting", 5)


def test_a_run_that_ends_within_the_spread_of_the_next_time_does_not_cost_that_time() -> None:
    """A job that ran for half of each minute was run in every other minute only."""
    spec = {"trigger": {"availableNow": True, "schedule": "* * * * *"}}
    spread = timedelta(seconds=schedule.jitter_s(schedule.Plan("uid-1", NOW, cron="* * * * *")))
    assert spread >= timedelta(seconds=2)
    status = running_status(
        4,
        phase="Finished",
        revision=revision(**spec).name,
        completionTime=clock.text(NOW + timedelta(seconds=1)),
    )
    early = look(observed.ObservedState(job(status, **spec), NOW + spread - timedelta(seconds=1)))
    assert (early.status["phase"], early.wait_s) == ("Finished", 1.0)
    due = look(observed.ObservedState(job(status, **spec), NOW + spread))
    assert due.status["phase"] == "Starting"
    at_once = {**status, "completionTime": clock.text(NOW + spread)}
    rests = look(observed.ObservedState(job(at_once, **spec), NOW + spread + timedelta(seconds=30)))
    assert rests.status["phase"] == "Finished", "the same time makes no second run"


def test_each_run_has_all_its_restarts() -> None:
    """With the failures of earlier nights, a job with three restarts had none left after the third of them."""
    recent = [clock.text(NOW - timedelta(days=days)) for days in (3, 2, 1)]
    due = over(NEXT + LATE, restarts={"engine": 0, "kubelet": 0, "operator": 3, "total": 3, "recent": recent})
    assert due.status["restarts"] == {"engine": 0, "kubelet": 0, "operator": 3, "total": 3}


def test_an_end_by_a_clock_that_is_a_little_ahead_makes_no_second_run() -> None:
    """Another operator's clock may be ahead by less than a minute. Its run of this time has ended already."""
    ended_at = NEXT + LATE + timedelta(seconds=5)
    status = running_status(
        4, phase="Finished", revision=revision(**NIGHTLY).name, completionTime=clock.text(ended_at)
    )
    behind = look(observed.ObservedState(job(status, **NIGHTLY), NEXT + LATE - timedelta(seconds=50)))
    found = look(observed.ObservedState(job(behind.status, **NIGHTLY), NEXT + LATE))
    assert found.status["phase"] == "Finished"
