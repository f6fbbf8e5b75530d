"""An engine command whose pod cannot start has not failed: Kubernetes tries on, and whoever waits is told why."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, job, look, pod, running_status

from sparkstate_operator import actions, clock, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.decide import commanding, snapshot

URI = "s3://bucket/savepoints/savepoint-1"
DENIED = "failed to pull image registry/job:1: 401 Unauthorized"
UNPULLED = pod(phase="Pending", waiting="ErrImagePull", waiting_message=DENIED)
UNPLACED = pod(phase="Pending", unschedulable="0/3 nodes are available")
STARTS = pod(phase="Pending", waiting="ContainerCreating")


def command(
    owner: str, uid: str, verb: str, its: observed.Pod | None, refusal: str = "", **result: Any
) -> observed.Command:
    name = naming.command_job(owner, uid, verb)
    return observed.Command(name, "t", "1", verb, False, False, result, pod=its, refusal=refusal)


def degraded(decision: actions.Decision) -> tuple[str, str, str]:
    (found,) = (one for one in decision.status["conditions"] if one["type"] == "Degraded")
    return found["status"], found["reason"], found["message"]


def purged(its: observed.Pod | None, ago_s: float = 0, refusal: str = "") -> actions.Decision:
    since = NOW - timedelta(seconds=ago_s)
    intent = {"action": "delete", "attempt": 1, "since": clock.text(since), "policy": "purge"}
    going = job(running_status(phase="Deleting", intent=intent), deleting=True, deletion={"policy": "purge"})
    going = dataclasses.replace(going, deleting_at=since)
    purge = command("orders", "uid-1", "purge", its, refusal)
    return look(observed.ObservedState(going, NOW, commands=(purge,)))


def recovered(its: observed.Pod | None, refusal: str = "") -> actions.Decision:
    lost = job(running_status(phase="Pending", intent={"action": "recover", "since": clock.text(NOW)}))
    asked = command("orders", "uid-1", "restore-info", its, refusal)
    return look(observed.ObservedState(lost, NOW, commands=(asked,)))


@pytest.mark.parametrize("decided", [purged, recovered])
@pytest.mark.parametrize(
    ("its", "reason", "message"),
    [
        pytest.param(UNPULLED, "ErrImagePull", DENIED, id="its image cannot be pulled"),
        pytest.param(UNPLACED, "Unschedulable", "0/3 nodes are available", id="no node takes it"),
    ],
)
def test_the_job_is_degraded_while_its_command_cannot_start(
    decided: Any, its: observed.Pod, reason: str, message: str
) -> None:
    status, why, told = degraded(decided(its))
    assert (status, why) == ("True", reason)
    assert message in told
    assert "of the Job orders-" in told


@pytest.mark.parametrize("decided", [purged, recovered])
@pytest.mark.parametrize("its", [STARTS, None])
def test_a_command_that_starts_is_no_trouble(decided: Any, its: observed.Pod | None) -> None:
    assert degraded(decided(its))[:2] == ("False", "AsWanted")


def test_the_last_event_of_a_job_tells_why_it_was_not_purged() -> None:
    late = purged(UNPULLED, ago_s=301)
    assert [act for act in late.actions if isinstance(act, actions.RemoveFinalizer)]
    (note,) = (note for note in late.notes if note.reason == "DeletionDegraded")
    assert DENIED in note.message
    (note,) = (note for note in purged(STARTS, ago_s=301).notes if note.reason == "DeletionDegraded")
    assert "()" not in note.message


def snapped(
    its: observed.Pod | None, ago_s: float = 0, *, deleting: bool, refusal: str = ""
) -> actions.Decision:
    since = clock.text(NOW - timedelta(seconds=ago_s))
    going = {"phase": "Deleting", "uri": URI, "deletionStartedTime": since}
    one = observed.Snapshot(
        name="one",
        uid="s-1",
        resource_version="1",
        generation=1,
        created=NOW,
        spec={"uri": URI, "deletionPolicy": "Delete"},
        status=going if deleting else {"phase": "Pending"},
        labels={},
        annotations={},
        finalizers=(labels.FINALIZER,),
        deleting_at=NOW - timedelta(seconds=ago_s) if deleting else None,
    )
    tasks = (command("one", "s-1", "delete" if deleting else "verify", its, refusal),)
    return snapshot.decide(observed.ObservedSnapshot(one, NOW, commands=tasks), None, Config())


@pytest.mark.parametrize("deleting", [True, False])
def test_a_snapshot_tells_why_its_command_cannot_start(deleting: bool) -> None:
    assert DENIED in snapped(UNPULLED, deleting=deleting).status["message"]
    assert DENIED not in str(snapped(STARTS, deleting=deleting).status)


def test_a_registration_goes_back_to_its_sentence_when_the_command_starts() -> None:
    assert snapped(STARTS, deleting=False).status["message"] == f"the engine reads {URI}"


def test_the_last_event_of_a_snapshot_tells_why_its_data_was_kept() -> None:
    late = snapped(UNPULLED, ago_s=301, deleting=True)
    (note,) = (note for note in late.notes if note.reason == "DataKept")
    assert DENIED in note.message


# -- its Job has no pod ------------------------------------------------------------------------------------------------

FULL = "the API server refuses it: the pod is forbidden: exceeded quota: small; raise the ResourceQuota"


@pytest.mark.parametrize("decided", [purged, recovered])
def test_the_job_is_degraded_while_its_command_gets_no_pod(decided: Any) -> None:
    """No pod, and so no condition: nobody learned what the job waited for."""
    status, why, told = degraded(decided(None, refusal=FULL))
    assert (status, why) == ("True", "NoPod")
    assert told.startswith("the Job orders-")
    assert told.endswith(f" has no pod: {FULL}")


@pytest.mark.parametrize("deleting", [True, False])
def test_a_snapshot_tells_why_its_command_gets_no_pod(deleting: bool) -> None:
    assert FULL in snapped(None, deleting=deleting, refusal=FULL).status["message"]


def test_the_last_events_tell_that_the_command_got_no_pod() -> None:
    (note,) = (note for note in purged(None, 301, FULL).notes if note.reason == "DeletionDegraded")
    assert FULL in note.message
    kept = snapped(None, 301, deleting=True, refusal=FULL)
    (note,) = (note for note in kept.notes if note.reason == "DataKept")
    assert FULL in note.message


def test_a_command_that_is_stopped_without_ever_having_a_pod_is_not_said_to_need_more_time() -> None:
    cut_off = dataclasses.replace(
        command("orders", "uid-1", "purge", None, FULL), failed=True, cut_off_s=600, ended_at=NOW
    )
    assert commanding.why(cut_off) == f"it had no pod: {FULL}"
