"""How an upgrade takes its state over: with a savepoint, without it when that cannot be had, from a named place."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, look, pod, running_status

from sparkstate_operator import actions, observed

UPGRADE: dict[str, Any] = {"image": "example/job:2", "upgradeMode": "savepoint"}
RUNNING = observed.Report({"phase": "RUNNING", "slots": [{}, {}]})


def answered(**savepoint: Any) -> observed.Report:
    """The driver runs, and says this of the savepoint that it was asked for."""
    return dataclasses.replace(RUNNING, savepoint=savepoint or None)


def upgrading(report: observed.Report | None) -> actions.Decision:
    """The look that finds another image wanted, by a savepoint."""
    seen = observed.ObservedState(
        job(running_status(), generation=2, **UPGRADE), NOW, drivers=(pod(),), report=report
    )
    return look(seen)


def next_look(
    before: actions.Decision, after_s: float = 1.0, **seen: Any
) -> tuple[actions.Decision, observed.ObservedState]:
    around = observed.ObservedState(
        job(before.status, generation=2, **UPGRADE), NOW + timedelta(seconds=after_s), **seen
    )
    return look(around), around


def follows(before: actions.Decision) -> dict[str, Any]:
    """The status once the stopped driver has ended."""
    dead = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    decision, _ = next_look(before, 5.0, drivers=(dead,))
    return dict(decision.status)


def test_the_driver_is_asked_for_its_savepoint_and_stays_until_it_has_answered() -> None:
    first = upgrading(RUNNING)
    asked, _ = next_look(first, drivers=(pod(),), report=answered())
    (trigger,) = acts(asked, actions.TriggerSavepoint)
    assert (trigger.trigger_id, trigger.stop) == (first.status["intent"]["triggerId"], True)
    under_way, _ = next_look(asked, drivers=(pod(),), report=answered(status="IN_PROGRESS"))
    assert not acts(under_way, actions.TriggerSavepoint)
    assert not acts(under_way, actions.DeletePod)


def test_a_driver_that_does_not_run_is_followed_from_its_last_checkpoint() -> None:
    first = upgrading(observed.Report({"phase": "RECOVERING"}))
    assert "SavepointNotPossible" in [note.reason for note in first.notes]
    stopping, _ = next_look(first, drivers=(pod(),))
    assert [action.pod.attempt for action in acts(stopping, actions.DeletePod)] == [1]
    after = follows(stopping)
    assert (after["attempt"], after.get("start")) == (2, None), "no start instruction: the newest state"


@pytest.mark.parametrize(
    ("savepoint", "after_s"),
    [
        pytest.param({"status": "FAILED", "failure": "no space"}, 2.0, id="it failed"),
        pytest.param({"status": "IN_PROGRESS"}, 601.0, id="it took longer than checkpointing.timeout"),
    ],
)
def test_a_savepoint_that_does_not_come_gives_way_to_the_last_checkpoint(
    savepoint: dict[str, Any], after_s: float
) -> None:
    first = upgrading(RUNNING)
    given_up, _ = next_look(first, after_s, drivers=(pod(),), report=answered(**savepoint))
    assert "SavepointFailed" in [note.reason for note in given_up.notes]
    assert [action.pod.attempt for action in acts(given_up, actions.DeletePod)] == [1]
    after = follows(given_up)
    assert (after["attempt"], after.get("start")) == (2, None), "no start instruction: the newest state"


def test_a_changed_restore_from_begins_anew_from_there_once() -> None:
    spec = {"restoreFrom": {"uri": "s3://bucket/old"}}
    first = look(observed.ObservedState(job(running_status(), generation=2, **spec), NOW, drivers=(pod(),)))
    dead = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    second = look(observed.ObservedState(job(first.status, generation=2, **spec), NOW, drivers=(dead,)))
    wanted = {"uri": "s3://bucket/old", "fresh": True, "since": 2}
    assert (second.status["attempt"], second.status["start"]) == (2, wanted)
    assert second.status["intent"]["action"] == "start"
