"""A new attempt, step by step: of two that a look might take, the one that comes first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, look, pod, running_status, trace

from sparkstate_operator import actions, clock, observed

PAUSES = {"notBefore": clock.text(NOW + timedelta(seconds=40))}
CHANGED = {"image": "example/job:2"}
TRACE = (trace(2),)
OLDER = pod(1)
ENDING = pod(1, deleting_at=NOW + timedelta(seconds=30))
ENDED = pod(2, phase="Succeeded", ready=False, ended=ended(0))
LOST = pod(1, deleting_at=NOW + timedelta(seconds=30), ready=False)


def starting(
    intent: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **seen: Any
) -> observed.ObservedState:
    """A look while attempt 2 is made."""
    begun = {"action": "start", "attempt": 2, "since": clock.text(NOW), **(intent or {})}
    status = running_status(2, phase="Failing", intent=begun)
    return observed.ObservedState(job(status, generation=2 if spec else 1, **(spec or {})), NOW, **seen)


def taken(decision: actions.Decision) -> str:
    """Which step it was, by what it does."""
    if acts(decision, actions.StartAttempt):
        return "made"
    if acts(decision, actions.DeletePod):
        return "older ones end"
    if "intent" not in decision.status:
        return "settled"
    if decision.status["attempt"] == 3:
        return "skipped" if any(note.reason == "AttemptSkipped" for note in decision.notes) else "begun anew"
    return "waits for older ones" if decision.status.get("message") else "pauses"


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        pytest.param(
            starting(spec=CHANGED, drivers=(pod(2),), never_made=2, config_maps=TRACE),
            "settled",
            id="made, changed",
        ),
        pytest.param(
            starting(drivers=(pod(2), OLDER), config_maps=TRACE), "settled", id="made, an older one lives"
        ),
        pytest.param(
            starting(PAUSES, drivers=(pod(2),), config_maps=TRACE),
            "settled",
            id="made, before the pause is over",
        ),
        pytest.param(
            starting(spec=CHANGED, drivers=(OLDER,), never_made=2, config_maps=TRACE),
            "begun anew",
            id="refused and changed, an older one lives",
        ),
        pytest.param(
            starting(PAUSES, CHANGED, never_made=2, config_maps=TRACE),
            "begun anew",
            id="refused and changed, a pause",
        ),
        pytest.param(
            starting(drivers=(OLDER,), config_maps=TRACE), "skipped", id="may have lived, an older one lives"
        ),
        pytest.param(starting(PAUSES, config_maps=TRACE), "skipped", id="may have lived, a pause"),
        pytest.param(starting(PAUSES, drivers=(OLDER,)), "older ones end", id="an older one lives, a pause"),
        pytest.param(
            starting(PAUSES, drivers=(LOST,)), "waits for older ones", id="an older one is lost, a pause"
        ),
        pytest.param(starting(PAUSES, drivers=(ENDING,)), "pauses", id="a pause"),
        pytest.param(starting(drivers=(ENDING,)), "made", id="beside one that is about to end"),
        pytest.param(starting(never_made=2, config_maps=TRACE), "made", id="refused, and not changed"),
    ],
)
def test_of_two_steps_of_a_start_the_first_is_taken(seen: observed.ObservedState, step: str) -> None:
    assert taken(look(seen)) == step


@pytest.mark.parametrize(
    ("drivers", "traces", "secrets"),
    [((), (), [2]), ((), TRACE, []), ((ENDED,), (), [])],
    ids=["nothing made", "a trace", "a pod"],
)
def test_a_job_that_is_suspended_before_its_config_map_exists_keeps_no_secret(
    drivers: tuple[observed.Pod, ...], traces: tuple[observed.Child, ...], secrets: list[int]
) -> None:
    """Nothing that can be listed leads to the Secret. It goes before the status says that the job is suspended, because
    the job goes on under another number."""
    begun = {"action": "suspend", "attempt": 2, "since": clock.text(NOW - timedelta(hours=1))}
    over = {"attempt": 2, "harmlessAt": clock.text(NOW - timedelta(seconds=1))}
    status = running_status(2, phase="Suspending", intent=begun, unconfirmed=[over] if traces else None)
    seen = observed.ObservedState(job(status, state="suspended"), NOW, drivers=drivers, config_maps=traces)
    decision = look(seen)
    assert decision.status["phase"] == "Suspended"
    assert [one.attempt for one in decision.before if isinstance(one, actions.DeleteSecret)] == secrets


@pytest.mark.parametrize("older", [(), (OLDER,)], ids=["alone", "while an older one lives"])
def test_an_attempt_of_which_nothing_is_made_follows_the_newest_spec(older: tuple[observed.Pod, ...]) -> None:
    before = starting(spec=CHANGED, drivers=older)
    decision = look(before)
    assert decision.status["attempt"] == 2
    assert decision.status["revision"] == decision.status["intent"]["revision"]
    assert decision.status["revision"] != before.job.status["revision"]
