"""How an upgrade takes its state over: with a savepoint, without it when that cannot be had, from a named place."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import DEATH_S, NOW, acts, ended, job, look, pod, running_status, trace

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


COMPLETED = {"status": "COMPLETED", "location": "s3://bucket/sp-1"}
FAILED = {"status": "FAILED", "failure": "no space"}
OVER = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
ENDING = pod(deleting_at=NOW + timedelta(seconds=630))


@pytest.mark.parametrize(
    ("driver", "savepoint", "after_s", "told"),
    [
        pytest.param(OVER, FAILED, 601.0, None, id="it has ended, before the savepoint"),
        pytest.param(ENDING, FAILED, 601.0, None, id="it ends, before the savepoint"),
        pytest.param(pod(), COMPLETED, 601.0, "savepoint s3://bucket/sp-1", id="complete, before too late"),
        pytest.param(pod(), FAILED, 601.0, "failed: no space", id="failed, before too late"),
        pytest.param(pod(), {}, 601.0, "not complete after 600 s", id="too late, before not asked"),
    ],
)
def test_of_two_steps_of_a_stop_the_first_is_taken(
    driver: observed.Pod, savepoint: dict[str, Any], after_s: float, told: str | None
) -> None:
    report = answered(**savepoint)
    decision, _ = next_look(upgrading(RUNNING), after_s, drivers=(driver,), report=report)
    assert not acts(decision, actions.TriggerSavepoint)
    notes = [note.message for note in decision.notes if note.reason.startswith("Savepoint")]
    assert len(notes) == (told is not None)
    assert told is None or told in notes[0]


def test_a_driver_that_ends_is_not_told_so_again() -> None:
    without = upgrading(observed.Report({"phase": "RECOVERING"}))
    decision, _ = next_look(without, drivers=(ENDING,), report=answered(**COMPLETED))
    assert decision.actions == ()


@pytest.mark.parametrize("savepoint", [COMPLETED, FAILED], ids=["complete", "failed"])
def test_without_a_trigger_nothing_counts_that_a_driver_says_of_a_savepoint(
    savepoint: dict[str, Any],
) -> None:
    without = upgrading(observed.Report({"phase": "RECOVERING"}))
    decision, _ = next_look(without, drivers=(pod(),), report=answered(**savepoint))
    assert len(acts(decision, actions.DeletePod)) == 1
    assert (decision.notes, decision.status.get("lastSavepoint")) == ((), None)


def test_the_last_word_counts_also_where_the_pod_was_told_to_end() -> None:
    word = ended(0, "Suspended", savepoint={"location": "s3://bucket/sp-2"})
    over = pod(phase="Succeeded", ready=False, ended=word, deleting_at=NOW + timedelta(seconds=30))
    decision, _ = next_look(upgrading(RUNNING), drivers=(over,), report=answered(**COMPLETED))
    assert decision.status["lastSavepoint"]["uri"] == "s3://bucket/sp-2"


@pytest.mark.parametrize(("after_s", "deleted"), [(659.0, 0), (661.0, 1)])
def test_a_driver_that_stays_after_its_savepoint_is_ended(after_s: float, deleted: int) -> None:
    decision, _ = next_look(upgrading(RUNNING), after_s, drivers=(pod(),), report=answered(**COMPLETED))
    assert len(acts(decision, actions.DeletePod)) == deleted
    assert decision.status["lastSavepoint"]["uri"] == COMPLETED["location"]


def test_a_changed_restore_from_begins_anew_from_there_once() -> None:
    spec = {"restoreFrom": {"uri": "s3://bucket/old"}, "upgradeCheck": False}
    first = look(observed.ObservedState(job(running_status(), generation=2, **spec), NOW, drivers=(pod(),)))
    dead = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    second = look(observed.ObservedState(job(first.status, generation=2, **spec), NOW, drivers=(dead,)))
    wanted = {"uri": "s3://bucket/old", "fresh": True, "since": 2}
    assert (second.status["attempt"], second.status["start"]) == (2, wanted)
    assert second.status["intent"]["action"] == "start"


@pytest.mark.parametrize("after_s", [1.0, 99.0, 101.0, 300.0])
def test_a_driver_that_vanishes_during_its_stop_is_waited_for_from_then_on(after_s: float) -> None:
    """The time counted from the intent: a stop that had lasted longer than that waited for nobody."""
    seen: dict[str, Any] = {"sightings": {1: pod()}, "config_maps": (trace(1),)}
    vanished, _ = next_look(upgrading(RUNNING), after_s, **seen)
    assert vanished.status["intent"]["action"] == "upgrade"
    assert vanished.wait_s is not None
    assert DEATH_S <= vanished.wait_s <= DEATH_S + 2
    early, _ = next_look(vanished, after_s + DEATH_S - 1, **seen)
    assert (early.status["intent"]["action"], early.actions) == ("upgrade", ())
    over, _ = next_look(early, after_s + DEATH_S + 1, **seen)
    assert (over.status["intent"]["action"], over.status["attempt"]) == ("start", 2)
    assert "unconfirmed" not in over.status


def test_the_wait_for_a_driver_that_vanished_ends_when_its_end_is_confirmed() -> None:
    vanished, _ = next_look(upgrading(RUNNING), sightings={1: pod()}, config_maps=(trace(1),))
    over, _ = next_look(vanished, 2.0, sightings={1: OVER}, config_maps=(trace(1),))
    assert over.status["intent"]["action"] == "start"


def test_the_wait_for_a_driver_that_vanished_is_counted_once_while_an_older_one_ends() -> None:
    older = pod(0, ready=False, deleting_at=NOW + timedelta(seconds=3000))
    ended_older = dataclasses.replace(OVER, attempt=0)
    seen: dict[str, Any] = {"config_maps": (trace(1),)}
    status = upgrading(RUNNING)
    for after_s in (1.0, 150.0, 160.0):
        status, _ = next_look(status, after_s, drivers=(older,), sightings={1: pod()}, **seen)
        assert status.status["intent"]["action"] == "upgrade"
    over, _ = next_look(status, 170.0, sightings={0: ended_older, 1: pod()}, **seen)
    assert over.status["attempt"] == 2
