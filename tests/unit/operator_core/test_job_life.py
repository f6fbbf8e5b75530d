"""The life of a job goes by its table: whatever is seen, and through nothing that the table does not have."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scene import tables
from support.scene.decisions import NOW, job, pod
from support.scene.job_lives import REVISIONS, WANTED, Life
from support.scene.kept_scene import SETTLED, Scene

from sparkstate_operator import observed, steps
from sparkstate_operator.config import Config
from sparkstate_operator.core import job_life, transitions
from sparkstate_operator.core.phases import JOB
from sparkstate_operator.core.transitions import Step
from sparkstate_operator.decide import decide

T = TypeVar("T")


@pytest.mark.parametrize("forgets", [False, True], ids=["in order", "its status is lost, or from a backup"])
@given(data=st.data())
def test_no_life_takes_a_step_that_the_table_does_not_have(forgets: bool, data: st.DataObject) -> None:
    def pick(of: Sequence[T]) -> T:
        return data.draw(st.sampled_from(of))

    phase = ""
    for step in Life(pick, forgets).steps(12):
        assert step.known, f"{step.before or 'new'} -> {step.after}: {step.cause.when}"
        if not forgets:
            assert step.before == phase and step.before not in step.cause.stale
        phase = step.after


RARE = (
    *(
        0,
        4,
        8,
        9,
        11,
        14,
        39,
        50,
        52,
        53,
        70,
        71,
        78,
        82,
        92,
        99,
        101,
        107,
        120,
        145,
        149,
        159,
        164,
        179,
        198,
        221,
    ),
    *(276, 326, 330, 383, 398, 483, 543, 549, 704, 846, 886, 971),
)
"""Those of a thousand forgetful lives that together take every step that none of a hundred ordinary ones takes."""


def test_the_table_has_nothing_that_does_not_happen() -> None:
    ordinary = {step for seed in range(100) for step in Life(random.Random(seed).choice, False).steps(12)}
    # All thousand only where the table has changed: they take a minute, so find the seeds anew then.
    forgetful = (Life(random.Random(seed).choice, True).steps(12) for seed in (*RARE, *range(1000)))
    missing = tables.untaken(set(tables.every(job_life.TABLE)) - ordinary, forgetful)
    assert {told(step) for step in missing} == set()
    late = {step for step in ordinary if step.before in step.cause.stale}
    assert {told(step) for step in late} == set(), "no lost status is needed for it"
    rebuilt = {job_life.TRACED, job_life.ASKED_STORAGE, job_life.STORAGE_ANSWERED, job_life.WORKED_THROUGH}
    assert set(job_life.TABLE) - {step.cause for step in ordinary} == rebuilt


def told(step: Step) -> str:
    return f"{step.before or 'new'} -> {step.after}: {step.cause.when}"


def test_the_table_has_every_phase_and_each_can_be_reached_and_left() -> None:
    every = list(tables.every(job_life.TABLE))
    assert {step.after for step in every} == set(JOB)
    assert {step.before for step in every} == {*JOB, transitions.NEW} - {"Deleting"}


def test_a_job_that_is_deleted_before_we_ever_held_it_is_left_to_its_other_holders() -> None:
    """It has no phase and gets none, and looking at it does not fail."""
    others = job(deleting=True, finalizers=("foregroundDeletion",))
    decision = decide(observed.ObservedState(others, NOW), REVISIONS, WANTED[0][1], "", Config())
    assert (decision.status, decision.before, decision.actions, decision.steps) == ({}, (), (), ())


# -- what the table does not have --------------------------------------------------------------------------------------

EDITED = {**SETTLED, "phase": "Deleting"}
"""Somebody wrote it into the status of a job that runs."""


def test_a_step_that_the_table_does_not_have_ends_a_test() -> None:
    with pytest.raises(LookupError, match="no table has Deleting -> Running"):
        decide(
            observed.ObservedState(job(EDITED), NOW, drivers=(pod(),)), REVISIONS, WANTED[0][1], "", Config()
        )


def test_a_job_is_not_left_alone_because_of_a_phase_that_nobody_expected(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transitions, "STRICT", False)
    scene = Scene()
    scene.world.job = dataclasses.replace(scene.world.job, status=EDITED)
    scene.hear("1234")
    scene.step()
    assert scene.world.job.status["phase"] == "Running"
    (record,) = [record for record in caplog.records if record.name == steps.__name__]
    assert record.levelname == "ERROR"
    assert "phase Deleting -> Running (the driver runs) is in no table of transitions" in record.getMessage()
    counted = (
        'sparkstate_operator_unknown_transitions_total{after="Running",before="Deleting",kind="job"} 1.0'
    )
    assert counted in scene.metrics.text().decode()
    scene.hear("1235")
    scene.step()
    assert counted in scene.metrics.text().decode(), "it is counted once"
