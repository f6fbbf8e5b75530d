"""A spec that cannot run, or cannot be kept, changes nothing: it neither resumes a job nor stops one."""

from __future__ import annotations

from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, pod, revision, running_status, stored, trace

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

NEWER: dict[str, Any] = {"image": "example/job:2"}
RESTS = {**NEWER, "state": "suspended"}
KNOWN = {one.name: one for one in (revision(), revision(**NEWER), revision(**RESTS))}
DEAD = pod(phase="Succeeded", ready=False, ended=ended(0, "Suspended"))


def look(status: dict[str, Any], state: str, *drivers: observed.Pod, **seen: Any) -> actions.Decision:
    """A look at a job whose newest spec cannot run."""
    around = observed.ObservedState(
        job(status, generation=3, slots=0, state=state), NOW, drivers=drivers, config_maps=(trace(1),), **seen
    )
    return stored(decide(around, KNOWN, None, "spec.slots is 0", Config()))


def goes_on(status: dict[str, Any], state: str, *drivers: observed.Pod) -> actions.Decision:
    """The look after that one."""
    return look(dict(look(status, state, *drivers).status), state, *drivers)


def test_a_suspended_job_is_not_resumed_by_a_spec_that_cannot_run() -> None:
    """Somebody had suspended the job for the damage that its version did, and a slip in its successor started it."""
    first = look(running_status(phase="Suspended", observedGeneration=2), "running", DEAD)
    assert "SpecInvalid" in [note.reason for note in first.notes]
    after = goes_on(running_status(phase="Suspended", observedGeneration=2), "running", DEAD)
    assert (after.status["phase"], after.status["attempt"], "intent" in after.status) == (
        "Suspended",
        1,
        False,
    )
    stalled = next(one for one in after.status["conditions"] if one["type"] == "Stalled")
    assert (stalled["status"], stalled["message"]) == ("True", "spec.slots is 0")


def test_a_suspension_under_way_is_carried_out() -> None:
    intent = {"action": "suspend", "attempt": 1, "since": clock.text(NOW)}
    after = goes_on(running_status(phase="Suspending", intent=intent), "running", DEAD)
    assert after.status["phase"] == "Suspended"


@pytest.mark.parametrize(
    ("aim", "phase"), [(RESTS, "Suspended"), (NEWER, "Upgrading")], ids=["rest", "go on"]
)
@pytest.mark.parametrize("action", ["upgrade", "suspend"])
def test_a_stop_under_way_leads_to_what_the_last_valid_spec_asks_for(
    action: str, aim: dict[str, Any], phase: str
) -> None:
    intent = {"action": action, "attempt": 1, "since": clock.text(NOW), "revision": revision(**aim).name}
    status = running_status(phase="Upgrading", observedGeneration=2, intent=intent)
    other = "running" if aim is RESTS else "suspended"
    assert look(status, other, DEAD).status["phase"] == phase


def test_a_job_that_runs_is_not_stopped_by_a_spec_that_cannot_run() -> None:
    after = goes_on(running_status(), "suspended", pod())
    assert (after.status["phase"], "intent" in after.status) == ("Running", False)
    assert not acts(after, actions.DeletePod)


def test_an_attempt_that_fails_is_followed_by_another_one() -> None:
    failed = pod(phase="Failed", ready=False, ended=ended(1, "SlotLost"))
    after = look(running_status(), "suspended", failed)
    assert (after.status["phase"], after.status["attempt"]) == ("Failing", 2)
    waits = look(dict(after.status), "suspended", failed)
    assert (waits.status["phase"], waits.status["intent"]["action"]) == ("Failing", "start")


@pytest.mark.parametrize("phase", ["Finished", "Failed", "Starting"])
def test_a_spec_that_cannot_run_and_says_suspended_starts_nothing(phase: str) -> None:
    """The job may have been suspended when it was over, or before its status was lost."""
    status = running_status(phase=phase, completionTime=clock.text(NOW))
    for _ in range(3):
        found = look(status, "suspended", sightings={1: DEAD})
        assert not acts(found, actions.StartAttempt)
        status = dict(found.status)
    assert (status["attempt"], status["phase"]) == (1, "Finished" if phase == "Finished" else "Suspended")


@pytest.mark.parametrize(("state", "phase"), [("running", "Suspended"), ("suspended", "Suspending")])
def test_a_spec_that_cannot_be_kept_stops_a_job_and_resumes_none(state: str, phase: str) -> None:
    """The old version would start: the new one has no revision yet."""
    before = running_status(phase="Suspended") if state == "running" else running_status()
    spec = {**NEWER, "state": state}
    wanted = revision(**spec)
    around = observed.ObservedState(
        job(before, generation=2, **spec),
        NOW,
        drivers=(DEAD if state == "running" else pod(),),
        unkept="the quota is full",
    )
    found = stored(decide(around, {**KNOWN, wanted.name: wanted}, wanted, "", Config()))
    assert (found.status["phase"], found.status["attempt"]) == (phase, 1)
    assert found.status["observedGeneration"] == 1, "the next look tries to keep it again"


def test_a_spec_that_cannot_run_takes_the_place_of_one_that_was_refused() -> None:
    """`Degraded` went on about the version before, and nobody asked for that any more."""
    no = {"revision": revision(**NEWER).name, "message": "no room", "nextTime": clock.text(NOW)}
    after = goes_on(running_status(observedGeneration=2, refused=no), "running", pod())
    assert "refused" not in after.status
    degraded = next(one for one in after.status["conditions"] if one["type"] == "Degraded")
    assert (degraded["reason"], degraded["message"]) == ("SpecInvalid", "spec.slots is 0")


def test_a_refused_spec_that_cannot_run_for_a_while_is_not_forgotten() -> None:
    """An operator with other defaults has judged it. Its generation is as old as before, so nobody would accept it
    again."""
    no = {"revision": revision(**NEWER).name, "message": "no room", "nextTime": clock.text(NOW)}
    after = look(running_status(observedGeneration=3, refused=no), "running", pod())
    assert after.status["refused"]["message"] == "no room"
