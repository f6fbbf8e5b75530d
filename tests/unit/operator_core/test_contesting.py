"""Two clusters of one name on one storage: their jobs fence each other, and one of them stops."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, SPEC, acts, ended, job, pod, revision, running_status

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import contesting, decide

WORD = "attempt {} may not run: attempt {} (green/orders-driver-{}) has claimed the lineage"


def fenced(status: dict[str, Any], now: datetime, **spec: Any) -> actions.Decision:
    """The newest attempt's driver has ended by the other cluster's claim, which is one above."""
    attempt = status["attempt"]
    word = ended(0, "Fenced", message=WORD.format(attempt, attempt + 1, attempt + 1))
    gone = pod(attempt, phase="Succeeded", ready=False, ended=word)
    seen, runs = observed.ObservedState(job(status, **spec), now, drivers=(gone,)), revision(**spec)
    return decide(seen, {runs.name: runs}, runs, "", Config())


def running_again(decision: actions.Decision) -> dict[str, Any]:
    status = {name: value for name, value in decision.status.items() if name != "intent"}
    return {**status, "phase": "Running"}


def lives(every: timedelta) -> tuple[list[float], actions.Decision]:
    """The pauses after each fence until the job stops, and the decision that ends it."""
    status, now, pauses = running_status(1), NOW, list[float]()
    for _ in range(50):
        decision = fenced(status, now)
        if decision.status["phase"] != "Failing":
            break
        begun = clock.parse(decision.status["intent"].get("notBefore"))
        pauses.append(round((begun - now).total_seconds()) if begun else 0)
        status, now = running_again(decision), now + every
    return pauses, decision


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="two clusters of one name run a job of one name on one storage",
    when="they fence each other",
    expected="pauses that double; after six fences within an hour the job stops as LineageContested",
)
def test_a_job_that_is_fenced_again_and_again_pauses_longer_and_then_stops() -> None:
    pauses, last = lives(timedelta(minutes=2))
    assert [round(pause, -1) for pause in pauses] == [0, 10, 20, 40, 80]
    assert (last.status["phase"], last.status["lastFailure"]["reason"]) == ("Failed", "LineageContested")
    assert not acts(last, actions.StartAttempt)
    stalled = {one["type"]: one for one in last.status["conditions"]}["Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "LineageContested")
    (told,) = (note for note in last.notes if note.reason == "LineageContested")
    assert told.warning
    assert "clusterName" in told.message
    assert "green/orders-driver-" in told.message, "who the other one is"


def test_fences_that_are_far_apart_never_stop_a_job() -> None:
    pauses, last = lives(timedelta(seconds=contesting.WINDOW_S + 1))
    assert set(pauses) == {0}
    assert last.status["phase"] == "Failing"


def test_a_job_that_was_made_again_goes_above_the_one_before_at_once() -> None:
    first = fenced(running_status(1), NOW)
    assert first.status["attempt"] == 3
    assert "notBefore" not in first.status["intent"]
    assert SPEC["state"] == "running"


def test_a_contested_job_runs_again_when_its_spec_asks_for_it() -> None:
    _, last = lives(timedelta(minutes=2))
    changed = job(dict(last.status), generation=2, restartNonce=7)
    wanted = revision(restartNonce=7)
    again = decide(observed.ObservedState(changed, NOW), {}, wanted, "", Config())
    assert again.status["intent"]["action"] == "start"
    status = {**running_again(again), "attempt": 20, "revision": wanted.name, "observedGeneration": 1}
    one_more = fenced(status, NOW + timedelta(minutes=11), restartNonce=7)
    assert one_more.status["phase"] == "Failing", "one fence is ordinary"
    assert one_more.status["restarts"]["fenced"] == [clock.text(NOW + timedelta(minutes=11))]
