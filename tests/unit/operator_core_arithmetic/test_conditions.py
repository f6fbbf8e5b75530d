"""Conditions: what each phase says, what kstatus reads, and when a transition time moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from sparkstate_operator.core import conditions, phases
from sparkstate_operator.core.conditions import Facts, Trouble
from sparkstate_operator.model.status import Condition, JobPhase

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def said(facts: Facts) -> dict[str, Condition]:
    return {condition.type: condition for condition in conditions.of_job(facts, None, NOW)}


def true(facts: Facts) -> set[str]:
    return {name for name, condition in said(facts).items() if condition.status == "True"}


@pytest.mark.parametrize(
    ("phase", "wanted"),
    [
        ("Pending", {"Progressing", "Reconciling"}),
        ("Starting", {"Progressing", "Reconciling"}),
        ("Running", {"Ready"}),
        ("Upgrading", {"Progressing", "Reconciling"}),
        ("Suspending", {"Progressing", "Reconciling"}),
        ("Suspended", {"Ready"}),
        ("Failing", {"Progressing", "Reconciling"}),
        ("RestoreBlocked", {"RestoreBlocked", "Stalled"}),
        ("Failed", {"Stalled"}),
        ("Finished", {"Ready"}),
        ("Deleting", {"Progressing", "Reconciling"}),
    ],
)
def test_each_phase_says_what_it_means(phase: JobPhase, wanted: set[str]) -> None:
    assert true(Facts(phase, 1)) == wanted


@pytest.mark.parametrize("phase", get_args(JobPhase))
def test_kstatus_reads_exactly_one_thing(phase: JobPhase) -> None:
    found = said(Facts(phase, 1))
    assert sum((found["Ready"].status == "True", "Reconciling" in found, "Stalled" in found)) == 1
    assert set(found) >= {"Ready", "Progressing", "Degraded", "RestoreBlocked"}


def test_a_spec_that_cannot_run_is_told_while_the_last_one_runs() -> None:
    found = said(Facts("Running", 3, invalid=Trouble("SpecInvalid", "spec.slots: too many")))
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "SpecInvalid")
    assert found["Degraded"].status == "True"
    assert found["Stalled"].message == "spec.slots: too many"
    assert {condition.observed_generation for condition in found.values()} == {3}


def test_a_spec_that_cannot_run_does_not_stop_a_recovery_from_being_seen() -> None:
    found = true(Facts("Failing", 3, invalid=Trouble("SpecInvalid", "x")))
    assert found == {"Progressing", "Reconciling", "Degraded"}


def test_what_runs_badly_is_degraded_and_still_ready() -> None:
    found = said(Facts("Running", 1, degraded=Trouble("CheckpointsFail", "storage is away")))
    assert found["Ready"].status == "True"
    assert (found["Degraded"].status, found["Degraded"].reason) == ("True", "CheckpointsFail")


def test_a_failure_gives_its_reason_and_message() -> None:
    found = said(Facts("Failed", 1, failure=Trouble("UserCodeError", "KeyError: 'x'")))
    assert found["Ready"].message == found["Stalled"].message == "KeyError: 'x'"
    assert found["Stalled"].reason == found["Degraded"].reason == "UserCodeError"


def test_an_old_failure_is_not_told_of_a_running_job() -> None:
    found = said(Facts("Running", 1, message="epoch 7", failure=Trouble("UserCodeError", "KeyError")))
    assert found["Ready"].message == "epoch 7"
    assert found["Degraded"].status == "False"


def test_a_transition_time_moves_only_with_the_status() -> None:
    first = conditions.of_job(Facts("Starting", 1), None, NOW)
    second = conditions.of_job(Facts("Upgrading", 2), first, LATER)
    third = conditions.of_job(Facts("Running", 2), second, LATER)
    assert {condition.last_transition_time for condition in second} == {NOW}
    moved = {c.type for c in third if c.last_transition_time == LATER}
    assert moved == {"Ready", "Progressing"}
    assert {c.type for c in third} == {"Ready", "Progressing", "Degraded", "RestoreBlocked"}


def test_the_same_facts_give_the_same_conditions() -> None:
    facts = Facts("Running", 1, message="fine")
    once = conditions.of_job(facts, None, NOW)
    assert conditions.of_job(facts, once, LATER) == once


def test_a_snapshot_is_ready_when_it_is_complete() -> None:
    for phase, meaning in phases.SNAPSHOT.items():
        found = {c.type: c.status for c in conditions.of_snapshot(phase, 1, None, NOW)}
        assert found["Ready"] == ("True" if meaning.as_wanted else "False")
        assert ("Reconciling" in found, "Stalled" in found) == (meaning.progressing, meaning.stuck)
    (ready, stalled) = conditions.of_snapshot("Failed", 1, None, NOW, "no answer", "SavepointTimeout")
    assert (ready.reason, stalled.reason, stalled.message) == (
        "SavepointTimeout",
        "SavepointTimeout",
        "no answer",
    )
