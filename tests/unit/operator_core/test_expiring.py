"""A finished job goes after the time that its spec gives, as decisions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, look, pod, revision, running_status

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

TTL_S = 600


def finished(
    now: datetime = NOW, ttl: int | None = TTL_S, status: dict[str, Any] | None = None, **spec: Any
) -> actions.Decision:
    """A look at a job whose spec and whose revision have this time; ``status``: beside the phase."""
    given = {**spec} if ttl is None else {**spec, "ttlSecondsAfterFinished": ttl}
    kept = {**running_status(phase="Finished", revision=revision(**given).name), **(status or {})}
    return look(observed.ObservedState(job(kept, **given), now))


def test_a_job_that_finishes_is_deleted_after_its_time_and_not_before() -> None:
    over = pod(
        revision=revision(ttlSecondsAfterFinished=TTL_S).name, phase="Succeeded", ended=ended(0, "Finished")
    )
    status = running_status(revision=over.revision)
    first = look(observed.ObservedState(job(status, ttlSecondsAfterFinished=TTL_S), NOW, drivers=(over,)))
    assert (first.status["phase"], first.status["completionTime"]) == ("Finished", clock.text(NOW))
    assert not acts(first, actions.DeleteJob)
    early = finished(NOW + timedelta(seconds=TTL_S - 5), status=dict(first.status))
    assert not acts(early, actions.DeleteJob)
    assert early.wait_s == 5
    due = finished(NOW + timedelta(seconds=TTL_S), status=dict(first.status))
    assert acts(due, actions.DeleteJob) == [actions.DeleteJob()]
    assert due.actions[-1] == actions.DeleteJob(), "a refusal holds up nothing else"


@pytest.mark.parametrize("ttl", [None, 0])
def test_without_a_time_it_stays_and_with_none_to_wait_it_goes_at_once(ttl: int | None) -> None:
    decision = finished(ttl=ttl)
    assert decision.status["completionTime"] == clock.text(NOW)
    assert len(acts(decision, actions.DeleteJob)) == (0 if ttl is None else 1)
    late = finished(NOW + timedelta(days=9000), ttl, dict(decision.status))
    assert len(acts(late, actions.DeleteJob)) == (0 if ttl is None else 1)


@pytest.mark.parametrize("phase", ["Running", "Failed", "RestoreBlocked", "Suspended"])
def test_a_job_that_has_not_finished_stays(phase: str) -> None:
    spec: dict[str, Any] = {"state": "suspended"} if phase == "Suspended" else {}
    old = {"phase": phase, "completionTime": clock.text(NOW)}
    late = finished(NOW + timedelta(days=1), status=old, **spec)
    assert not acts(late, actions.DeleteJob)
    assert ("completionTime" in late.status) == (phase == "Failed"), "a run by the clock counts from it"


def test_a_finished_job_that_is_suspended_goes_too() -> None:
    old = {"completionTime": clock.text(NOW)}
    late = finished(NOW + timedelta(days=1), status=old, state="suspended")
    assert late.status["phase"] == "Finished"
    assert acts(late, actions.DeleteJob)


def test_a_time_that_is_given_later_counts_from_the_end_of_the_job() -> None:
    status = {**running_status(phase="Finished"), "completionTime": clock.text(NOW)}
    changed = job(status, generation=2, ttlSecondsAfterFinished=TTL_S)
    decision = look(observed.ObservedState(changed, NOW + timedelta(days=1)))
    assert decision.status["phase"] == "Finished", "the job is not run again for it"
    assert acts(decision, actions.DeleteJob)


def test_a_job_whose_newest_spec_has_not_run_stays() -> None:
    """Its user wants something of it yet: the object would go with the spec, and with ``purge`` its state too."""
    name = revision(ttlSecondsAfterFinished=TTL_S).name
    status = {**running_status(phase="Finished", revision=name), "completionTime": clock.text(NOW)}
    late = NOW + timedelta(days=1)
    changed = job(status, generation=2, ttlSecondsAfterFinished=TTL_S)
    wrong = decide(
        observed.ObservedState(changed, late),
        {name: revision(ttlSecondsAfterFinished=TTL_S)},
        None,
        "no",
        Config(),
    )
    assert wrong.status["conditions"][0]["reason"] == "SpecInvalid"
    newer = job(status, generation=2, ttlSecondsAfterFinished=TTL_S, image="example/job:2")
    unkept = decide(
        observed.ObservedState(newer, late, unkept="the quota is full"),
        {name: revision(ttlSecondsAfterFinished=TTL_S)},
        revision(ttlSecondsAfterFinished=TTL_S, image="example/job:2"),
        "",
        Config(),
    )
    refused = {"revision": "orders-2", "message": "no", "tries": 1, "nextTime": clock.text(late)}
    not_taken = finished(late, status={"completionTime": clock.text(NOW), "refused": refused})
    waiting = {"ttlSecondsAfterFinished": TTL_S, "image": "example/job:2", "state": "suspended"}
    waits = decide(
        observed.ObservedState(job({**status, "observedGeneration": 2}, generation=2, **waiting), late),
        {name: revision(ttlSecondsAfterFinished=TTL_S)},
        revision(**waiting),
        "",
        Config(),
    )
    for decision in (wrong, unkept, not_taken, waits):
        assert decision.status["phase"] == "Finished"
        assert not acts(decision, actions.DeleteJob)


def test_an_end_by_a_clock_that_was_ahead_counts_from_now() -> None:
    ahead = {"completionTime": clock.text(NOW + timedelta(days=365))}
    decision = finished(status=ahead)
    assert decision.status["completionTime"] == clock.text(NOW)
    assert not acts(decision, actions.DeleteJob)
    assert decision.wait_s is not None
    assert decision.wait_s <= TTL_S
