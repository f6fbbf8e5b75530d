"""A job whose own state backend was refused says why in its conditions."""

from __future__ import annotations

from support.scene.decisions import NOW, ended, job, look, pod, running_status

from sparkstate_operator import observed


def test_the_kits_failure_is_in_the_conditions_of_a_job_on_its_own_backend() -> None:
    why = (
        "the state backend 'm:C' (spec.stateBackend.class): it fails the conformance kit at commit_is_atomic"
    )
    end = ended(2, "BackendRefused", message=why)
    gone = pod(phase="Failed", ready=False, ended=end)
    status = look(observed.ObservedState(job(running_status()), NOW, drivers=(gone,))).status
    assert status["phase"] == "Failed"
    assert (status["lastFailure"]["reason"], status["lastFailure"]["exitCode"]) == ("BackendRefused", 2)
    found = {one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]}
    assert found["Ready"] == ("False", "Failed", why)
    for condition in ("Degraded", "Stalled"):
        assert found[condition] == ("True", "BackendRefused", why)


def test_a_backend_that_is_away_gets_another_attempt() -> None:
    gone = pod(phase="Failed", ready=False, ended=ended(1, "BackendUnavailable"))
    status = look(observed.ObservedState(job(running_status()), NOW, drivers=(gone,))).status
    assert (status["phase"], status["intent"]["attempt"]) == ("Failing", 2)
