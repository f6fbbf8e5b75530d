"""Runs of a job that ends by itself, at the times of its schedule, as decisions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, job, look, revision, running_status

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
    ended = {
        "Finished": {"completionTime": clock.text(NOW)},
        "Failed": {"lastFailure": {"time": clock.text(NOW), "reason": "UserCodeError", "message": "no"}},
    }
    status = running_status(4, phase=phase, revision=revision(**spec).name, **ended.get(phase, {}), **fields)
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


def test_a_status_without_the_time_of_the_end_counts_from_the_first_look() -> None:
    status = running_status(4, phase="Finished", revision=revision(**NIGHTLY).name)
    first = look(observed.ObservedState(job(status, **NIGHTLY), NEXT + LATE))
    assert (first.status["phase"], first.status["completionTime"]) == ("Finished", clock.text(NEXT + LATE))
