"""The decision about a job as a table: what is seen, and what follows."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import DEATH_S, NOW, acts, ended, job, look, pod, revision, running_status, trace

from sparkstate_operator import actions, clock, job_pods, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide


def test_the_intent_comes_before_anything_is_made() -> None:
    first = look(observed.ObservedState(job(finalizers=()), NOW))
    assert first.status["intent"]["action"] == "start"
    assert first.status["attempt"] == 1
    assert not acts(first, actions.StartAttempt)
    second = look(observed.ObservedState(job(first.status), NOW))
    assert [start.attempt for start in acts(second, actions.StartAttempt)] == [1]
    pending = pod(phase="Pending", ready=False)
    third = look(observed.ObservedState(job(second.status), NOW, drivers=(pending,)))
    assert "intent" not in third.status


def test_a_number_that_left_a_trace_is_never_used_again() -> None:
    status = running_status(
        3, phase="Starting", intent={"action": "start", "attempt": 3, "since": clock.text(NOW)}
    )
    seen = observed.ObservedState(job(status), NOW, config_maps=(trace(3),))
    decision = look(seen)
    assert not acts(decision, actions.StartAttempt)
    assert decision.status["attempt"] == 4
    assert clock.parse(decision.status["intent"]["notBefore"]) >= NOW + timedelta(seconds=DEATH_S)  # type: ignore[operator]


def test_a_refused_pod_is_tried_again_under_its_number() -> None:
    status = running_status(
        3, phase="Starting", intent={"action": "start", "attempt": 3, "since": clock.text(NOW)}
    )
    seen = observed.ObservedState(job(status), NOW, config_maps=(trace(3),), never_made=3)
    assert [start.attempt for start in acts(look(seen), actions.StartAttempt)] == [3]


def test_a_wiped_status_is_rebuilt_from_what_is_there() -> None:
    seen = observed.ObservedState(job(), NOW, drivers=(pod(4),), config_maps=(trace(4),))
    status = look(seen).status
    assert (status["attempt"], status["revision"]) == (4, revision().name)
    assert not acts(look(seen), actions.DeletePod)


@pytest.mark.parametrize(
    ("end", "phase", "next_attempt"),
    [
        pytest.param(ended(0, "Finished"), "Finished", None, id="finished"),
        pytest.param(ended(0, "Terminated"), "Failing", 2, id="terminated"),
        pytest.param(
            ended(0, "Fenced", message="attempt 1 may not run: attempt 7 (x) has claimed the lineage"),
            "Failing",
            8,
            id="fenced by a higher attempt",
        ),
        pytest.param(ended(1, "SlotLost"), "Failing", 2, id="crashed"),
        pytest.param(ended(137), "Failing", 2, id="killed"),
        pytest.param(ended(1, "UserCodeError"), "Failed", None, id="the user's code"),
        pytest.param(ended(1, "JobFailed"), "Failed", None, id="the engine gave up"),
        pytest.param(ended(2, "SpecInvalid"), "Failed", None, id="spec invalid"),
        pytest.param(ended(3, "RestoreBlocked"), "RestoreBlocked", None, id="restore blocked"),
        pytest.param(ended(5, "StorageUnavailable"), "Failing", 2, id="storage away"),
        pytest.param(ended(5, "CorruptData"), "Failed", None, id="storage damaged"),
    ],
)
def test_what_a_drivers_end_means(end: observed.Termination, phase: str, next_attempt: int | None) -> None:
    gone = pod(phase="Succeeded" if end.exit_code == 0 else "Failed", ready=False, ended=end)
    status = look(observed.ObservedState(job(running_status()), NOW, drivers=(gone,))).status
    assert status["phase"] == phase
    assert (status.get("intent") or {}).get("attempt") == next_attempt


def test_a_pod_that_ended_without_the_kubelets_word_is_followed_only_after_the_fence() -> None:
    lost = pod(phase="Failed", ready=False, reason="NodeLost")
    status = look(observed.ObservedState(job(running_status()), NOW, drivers=(lost,))).status
    begin = clock.parse(status["intent"]["notBefore"])
    assert begin is not None
    assert begin >= NOW + timedelta(seconds=DEATH_S)


def test_a_pod_that_hangs_in_its_deletion_is_followed_after_grace_and_fence() -> None:
    hanging = pod(deleting_at=NOW - timedelta(seconds=DEATH_S - 5), ready=False)
    waiting = look(observed.ObservedState(job(running_status()), NOW, drivers=(hanging,)))
    assert "intent" not in waiting.status
    later = NOW + timedelta(seconds=6)
    followed = look(observed.ObservedState(job(running_status()), later, drivers=(hanging,)))
    assert followed.status["intent"]["attempt"] == 2


ENDED = pod(1, phase="Failed", ready=False, ended=ended(0, "Terminated"))
LEAVING = {"deleting_at": NOW + timedelta(seconds=120)}
"""A driver that was asked to end a moment ago, by a grace period of two minutes."""


def test_beside_a_driver_that_takes_its_leave_the_next_one_begins_and_is_told_how_long_to_wait() -> None:
    begun = look(observed.ObservedState(job(running_status()), NOW, drivers=(pod(1, **LEAVING),)))
    assert begun.status["intent"]["attempt"] == 2
    assert begun.status["lastFailure"]["reason"] == "PodDeleted"
    later = NOW + timedelta(seconds=0.4)
    made = look(observed.ObservedState(job(begun.status), later, drivers=(pod(1, **LEAVING),)))
    (start,) = acts(made, actions.StartAttempt)
    assert (start.attempt, start.predecessor_s) == (2, 120 + DEATH_S)
    alone = look(observed.ObservedState(job(begun.status), later, sightings={1: ENDED}))
    assert acts(alone, actions.StartAttempt)[0].predecessor_s == 0


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"ready": False}, id="it did not run"),
        pytest.param({"node_lost": True}, id="its node does not answer for it"),
        pytest.param({"waiting": "CrashLoopBackOff"}, id="it has crashed"),
        pytest.param({"ip": ""}, id="it has no address"),
    ],
)
def test_a_driver_that_may_not_be_able_to_say_its_last_word_is_waited_for(fields: dict[str, Any]) -> None:
    leaving = pod(1, **{**LEAVING, **fields})
    decision = look(observed.ObservedState(job(running_status()), NOW, drivers=(leaving,)))
    assert "intent" not in decision.status
    begun = running_status(
        2, phase="Failing", intent={"action": "start", "attempt": 2, "since": clock.text(NOW)}
    )
    assert not acts(look(observed.ObservedState(job(begun), NOW, drivers=(leaving,))), actions.StartAttempt)


def test_a_waiting_driver_is_told_when_those_before_it_have_died_without_a_word() -> None:
    report = observed.Report({"phase": "STARTING", "waits_for_attempt": 1})
    dead = pod(1, phase="Failed", ready=False, ended=ended(137), **LEAVING)

    def told(older: tuple[observed.Pod, ...], sightings: dict[int, observed.Pod]) -> list[int]:
        seen = observed.ObservedState(
            job(running_status(2)), NOW, drivers=(*older, pod(2)), report=report, sightings=sightings
        )
        return [action.pod.attempt for action in acts(look(seen), actions.LetClaim)]

    assert told((pod(1, **LEAVING),), {1: pod(1, **LEAVING)}) == []
    assert told((dead,), {1: dead}) == [2]
    assert told((), {1: dead}) == [2]
    assert told((), {1: pod(1, **LEAVING)}) == [], "it vanished, and nobody has said that its process ended"
    assert told((), {}) == []
    assert told((pod(0, **LEAVING),), {1: dead}) == []
    report = observed.Report({"phase": "STARTING"})
    assert told((dead,), {1: dead}) == []


@pytest.mark.parametrize(
    "spec", [{"state": "suspended"}, {"image": "example/job:2"}], ids=["rest", "upgrade"]
)
def test_a_stop_is_over_when_the_drivers_before_it_have_ended_too(spec: dict[str, Any]) -> None:
    def next_look(status: Any, *drivers: observed.Pod, **seen: Any) -> actions.Decision:
        stopped = job(status, generation=2, **spec)
        return look(observed.ObservedState(stopped, NOW, drivers=drivers, **seen))

    waiting = pod(2, ready=False)
    first = next_look(running_status(2), pod(1, **LEAVING), waiting)
    gone = dataclasses.replace(waiting, phase="Succeeded", ended=ended(0, "Terminated"))
    before = next_look(first.status, pod(1, **LEAVING), gone)
    assert before.status["intent"]["action"] in ("suspend", "upgrade")
    after = next_look(before.status, gone, sightings={1: ENDED})
    assert after.status.get("intent", {}).get("action") in (None, "start")


def test_no_pod_is_made_while_an_older_one_may_live() -> None:
    status = running_status(
        2, phase="Failing", intent={"action": "start", "attempt": 2, "since": clock.text(NOW)}
    )
    decision = look(observed.ObservedState(job(status), NOW, drivers=(pod(1),)))
    assert not acts(decision, actions.StartAttempt)
    assert [action.pod.attempt for action in acts(decision, actions.DeletePod)] == [1]


def test_a_new_default_of_the_chart_changes_nothing_that_runs() -> None:
    seen = observed.ObservedState(job(running_status()), NOW, drivers=(pod(),))
    wanted = revision(image="example/job:2")
    decision = decide(seen, {revision().name: revision()}, wanted, "", Config())
    assert decision.status["revision"] == revision().name
    assert decision.check is None


def test_a_new_generation_is_an_upgrade_that_is_checked_first() -> None:
    seen = observed.ObservedState(
        job(running_status(), generation=2, image="example/job:2"), NOW, drivers=(pod(),)
    )
    decision = look(seen)
    assert decision.check is not None
    assert decision.status["intent"]["action"] == "upgrade"
    refused = look(dataclasses.replace(seen, refused="no such class"))
    assert "intent" not in refused.status
    assert refused.status["revision"] == revision().name


@pytest.mark.parametrize("change", [{"image": "example/job:2"}, {"slots": 3}], ids=["image", "slots"])
def test_a_stateless_upgrade_starts_without_state_once(change: dict[str, Any]) -> None:
    spec = {**change, "upgradeMode": "stateless"}
    seen = observed.ObservedState(job(running_status(), generation=2, **spec), NOW, drivers=(pod(),))
    first = look(seen)
    dead = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    second = look(observed.ObservedState(job(first.status, generation=2, **spec), NOW, drivers=(dead,)))
    assert second.status["attempt"] == 2
    assert second.status["start"] == {"empty": True, "since": 2}


def test_a_start_instruction_is_carried_on_with_the_number_that_it_was_given_to() -> None:
    status = running_status(2, start={"empty": True, "since": 2})
    crashed = pod(2, phase="Failed", ready=False, ended=ended(1, "SlotLost"))
    after = look(observed.ObservedState(job(status), NOW, drivers=(crashed,))).status
    assert after["attempt"] == 3
    assert after["start"] == {"empty": True, "since": 2}


PLACE = {"url": "s3://bucket/out", "doing": "publish the output of checkpoint 7", "failures": 4}


@pytest.mark.parametrize(
    ("phase", "places", "told"),
    [
        pytest.param("RUNNING", [PLACE], "s3://bucket/out (to publish the output", id="runs"),
        pytest.param("STARTING", [PLACE], "s3://bucket/out (to publish the output", id="restores"),
        pytest.param("RUNNING", [{**PLACE, "failures": 0}], "s3://bucket/out", id="no answer at all"),
        pytest.param("PAUSED", [], "pauses until its storage is back", id="paused"),
        pytest.param(
            "PAUSED", [PLACE], "is back; the driver goes on trying to reach s3://bucket/out", id="both"
        ),
        pytest.param("RUNNING", [{**PLACE, "failures": 1}], None, id="one failed call"),
        pytest.param("RUNNING", [], None, id="sound"),
    ],
)
def test_a_storage_that_is_away_is_told_by_its_name(phase: str, places: list[Any], told: str | None) -> None:
    report = observed.Report({"phase": phase, "storage_away": places})
    decision = look(observed.ObservedState(job(running_status()), NOW, drivers=(pod(),), report=report))
    (condition,) = [one for one in decision.status["conditions"] if one["type"] == "Degraded"]
    assert (condition["status"], condition["reason"] == "StorageUnavailable") == (
        ("False", False) if told is None else ("True", True)
    )
    assert told is None or told in condition["message"]


def test_a_completed_checkpoint_makes_the_start_instruction_void() -> None:
    report = observed.Report({"phase": "RUNNING", "checkpoints_completed": 1, "slots": [{}, {}]})
    status = running_status(start={"empty": True, "since": 1})
    after = look(observed.ObservedState(job(status), NOW, drivers=(pod(),), report=report)).status
    assert "start" not in after


def test_progress_alone_is_written_only_when_it_is_time() -> None:
    info = {"id": 3, "epoch": 9, "trigger_ms": 1_767_225_600_000, "duration_ms": 400, "path": "s3://b/chk-3"}
    report = observed.Report({"phase": "RUNNING", "last_checkpoint": info})
    settled = look(observed.ObservedState(job(running_status()), NOW, drivers=(pod(),))).status
    seen = observed.ObservedState(job(settled), NOW, drivers=(pod(),), report=report, progress_due=False)
    assert look(seen).status == settled
    assert look(dataclasses.replace(seen, progress_due=True)).status["lastCheckpoint"]["id"] == 3


def test_a_second_look_at_the_same_changes_nothing() -> None:
    settled = look(observed.ObservedState(job(running_status()), NOW, drivers=(pod(),))).status
    again = look(observed.ObservedState(job(settled), NOW + timedelta(minutes=5), drivers=(pod(),)))
    assert again.status == settled
    assert again.actions == ()


def test_an_invalid_spec_is_told_and_the_running_revision_stays() -> None:
    seen = observed.ObservedState(job(running_status(), generation=2), NOW, drivers=(pod(),))
    decision = look(seen, invalid="spec.slots: too many")
    conditions = {one["type"]: one for one in decision.status["conditions"]}
    assert conditions["Stalled"]["message"] == "spec.slots: too many"
    assert decision.status["phase"] == "Running"
    assert not acts(decision, actions.DeletePod)


@pytest.mark.parametrize("strategy", ["none", "fixed-delay"])
def test_restarts_end_where_the_strategy_says(strategy: str) -> None:
    spec = {
        "restart": {"strategy": strategy, **({"fixedDelay": {"attempts": 2}} if strategy != "none" else {})}
    }
    recent = (
        [clock.text(NOW - timedelta(minutes=minutes)) for minutes in (2, 1)] if strategy != "none" else []
    )
    wanted = revision(**spec)
    status = {**running_status(), "revision": wanted.name, "restarts": {"recent": recent}}
    crashed = pod(phase="Failed", ready=False, ended=ended(1, "SlotLost"))
    seen = observed.ObservedState(job(status, **spec), NOW, drivers=(crashed,))
    after = decide(seen, {wanted.name: wanted}, wanted, "", Config()).status
    assert after["phase"] == "Failed"
    assert "intent" not in after


def test_a_drained_driver_does_not_count_against_the_strategy() -> None:
    spec = {"restart": {"strategy": "none"}}
    wanted = revision(**spec)
    gone = pod(phase="Failed", ready=False, ended=ended(143), disrupted="EvictionByEvictionAPI")
    status = {**running_status(), "revision": wanted.name}
    seen = observed.ObservedState(job(status, **spec), NOW, drivers=(gone,))
    after = decide(seen, {wanted.name: wanted}, wanted, "", Config()).status
    assert after["intent"]["attempt"] == 2


def test_executors_of_a_dead_driver_are_swept() -> None:
    status = running_status(2)
    old, new = pod(1, name="orders-1-exec-1"), pod(2, name="orders-2-exec-1")
    seen = observed.ObservedState(job(status), NOW, drivers=(pod(2),), executors=(old, new))
    assert [action.pod.name for action in acts(look(seen), actions.DeletePod)] == ["orders-1-exec-1"]


def test_executors_of_an_older_life_of_the_driver_go_when_there_is_one_of_a_newer() -> None:
    first = [pod(2, name=f"orders-2-exec-{number}", life=1) for number in (1, 2)]
    second = pod(2, name="orders-2-2-exec-1", life=2)
    silent = pod(2, name="orders-2-exec-3")  # of an image that does not say
    leaving = dataclasses.replace(first[0], deleting_at=NOW)

    def deleted(*executors: observed.Pod) -> list[str]:
        seen = observed.ObservedState(job(running_status(2)), NOW, drivers=(pod(2),), executors=executors)
        return [action.pod.name for action in acts(look(seen), actions.DeletePod)]

    assert deleted(*first, silent) == []
    assert deleted(*first, second, silent) == ["orders-2-exec-1", "orders-2-exec-2"]
    assert deleted(leaving, first[1], second) == ["orders-2-exec-2"]


def test_a_deletion_in_a_closing_namespace_keeps_the_state_and_asks_for_nothing() -> None:
    spec = {"deletion": {"policy": "purge"}}
    seen = observed.ObservedState(
        job(running_status(), deleting=True, **spec), NOW, drivers=(pod(),), namespace_terminating=True
    )
    decision = look(seen)
    assert decision.status["intent"]["policy"] == "retain"
    assert [note.reason for note in decision.notes] == ["DeletionDegraded"]


def abandoned(**fields: Any) -> observed.Pod:
    """Its node was lost some 80 s ago; Kubernetes asks for its deletion now, with two minutes of grace."""
    lost = {
        "deleting_at": NOW + timedelta(seconds=120),
        "grace_s": 120.0,
        "ready": False,
        "node_silent": True,
    }
    return pod(**{**lost, "disrupted": "DeletionByTaintManager", **fields})


@pytest.mark.parametrize(
    ("fields", "after_s"),
    [
        pytest.param({}, DEATH_S - 30, id="a node that does not answer"),
        pytest.param({"disrupted": "EvictionByEvictionAPI"}, 120 + DEATH_S, id="drained, not ready"),
        pytest.param({"disrupted": ""}, 120 + DEATH_S, id="deleted, not ready"),
        pytest.param({"node_silent": False}, 120 + DEATH_S, id="a taint of a node that answers"),
    ],
)
def test_the_grace_period_is_waited_for_where_somebody_hears_of_it(
    fields: dict[str, Any], after_s: float
) -> None:
    hanging = abandoned(**fields)

    def at(seconds: float) -> actions.Decision:
        later = NOW + timedelta(seconds=seconds)
        return look(observed.ObservedState(job(running_status()), later, drivers=(hanging,)))

    assert "intent" not in at(after_s - 1).status
    assert at(after_s + 1).status["intent"]["attempt"] == 2


def test_a_ready_driver_that_a_taint_drives_away_terminates_gracefully() -> None:
    driven_away = abandoned(ready=True, node_silent=False)
    begun = look(observed.ObservedState(job(running_status()), NOW, drivers=(driven_away,)))
    assert begun.status["intent"]["attempt"] == 2


def test_a_deletion_by_a_taint_is_read_from_the_pod() -> None:
    body: dict[str, Any] = {
        "metadata": {
            "name": "orders-driver-1",
            "uid": "u",
            "resourceVersion": "1",
            "deletionTimestamp": "2026-01-01T12:02:00Z",
            "deletionGracePeriodSeconds": 120,
        },
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
            ],
        },
    }
    found = job_pods.read(body)
    assert (found.grace_s, found.abandoned) == (120.0, True)
