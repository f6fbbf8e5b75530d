"""Pods with more than one container: the driver's own counts, and what is wrong beside it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, job, look, revision, running_status

from sparkstate_operator import actions, clock, job_pods, labels, observed

RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def ended(code: int, **word: Any) -> dict[str, Any]:
    message = json.dumps(word) if word else ""
    return {
        "terminated": {"exitCode": code, "reason": "Error", "message": message, "finishedAt": clock.text(NOW)}
    }


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def seen(
    driver: dict[str, Any] | None,
    *,
    sidecar: dict[str, Any] | None = None,
    init: dict[str, Any] | None = None,
    phase: str = "Running",
    policy: str = "Never",
) -> observed.Pod:
    """A driver pod as the API server tells it; the sidecar comes first in the list."""
    found = [
        {"name": name, "state": state, "restartCount": 0}
        for name, state in (("logs", sidecar), ("driver", driver))
        if state is not None
    ]
    inits = [{"name": "fetch", "state": init}] if init is not None else []
    marks = {labels.ROLE: "driver", labels.ATTEMPT: "1", labels.REVISION: revision().name}
    return job_pods.read(
        {
            "metadata": {"name": "orders-driver-1", "uid": "pod-1", "resourceVersion": "1", "labels": marks},
            "spec": {"nodeName": "node-1", "restartPolicy": policy},
            "status": {"phase": phase, "containerStatuses": found, "initContainerStatuses": inits},
        }
    )


def looked(pod: observed.Pod, **status: Any) -> actions.Decision:
    return look(observed.ObservedState(job(running_status(**status)), NOW, drivers=(pod,)))


@pytest.mark.parametrize(
    ("state", "policy", "phase", "attempt"),
    [
        pytest.param(ended(0, reason="Finished"), "Never", "Finished", None, id="finished"),
        pytest.param(
            ended(0, reason="Finished"), "OnFailure", "Finished", None, id="finished, by the kubelet"
        ),
        pytest.param(ended(1, reason="SlotLost"), "Never", "Failing", 2, id="crashed"),
        pytest.param(ended(1, reason="UserCodeError"), "Never", "Failed", None, id="failed"),
        pytest.param(ended(137), "Never", "Failing", 2, id="killed"),
    ],
)
def test_the_drivers_end_counts_while_a_sidecar_runs_and_the_pod_is_ended(
    state: dict[str, Any], policy: str, phase: str, attempt: int | None
) -> None:
    pod = seen(state, sidecar=RUNS, policy=policy)
    decision = looked(pod)
    assert decision.status["phase"] == phase
    assert (decision.status.get("intent") or {}).get("attempt") == attempt
    (deleted,) = acts(decision, actions.DeletePod)
    assert deleted.pod is pod
    # The operator may die between the status and the deletion: the next look asks again.
    again = look(observed.ObservedState(job(decision.status), NOW, drivers=(pod,)))
    assert len(acts(again, actions.DeletePod)) == 1
    assert again.status["phase"] == phase


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(seen(ended(1), sidecar=RUNS, policy="OnFailure"), id="the kubelet starts it again"),
        pytest.param(seen(RUNS, sidecar=ended(0)), id="the sidecar has ended"),
        pytest.param(seen(None, sidecar=ended(1)), id="the driver has no status yet"),
    ],
)
def test_a_driver_that_has_not_ended_for_good_is_left_alone(pod: observed.Pod) -> None:
    decision = looked(pod)
    assert not acts(decision, actions.DeletePod)
    assert decision.status["phase"] in ("Running", "Starting")
    assert decision.status["attempt"] == 1


def test_a_stop_is_over_with_the_driver_whatever_its_sidecar_does() -> None:
    intent = {"action": "suspend", "attempt": 1, "since": clock.text(NOW)}
    pod = seen(ended(0, reason="Suspended"), sidecar=RUNS)
    held = job(running_status(phase="Suspending", intent=intent), state="suspended")
    decision = look(observed.ObservedState(held, NOW, drivers=(pod,)))
    assert decision.status["phase"] == "Suspended"
    assert acts(decision, actions.DeletePod)


def degraded(pod: observed.Pod) -> tuple[str, str] | None:
    told = {one["type"]: one for one in looked(pod, phase="Starting").status["conditions"]}["Degraded"]
    return (told["reason"], told["message"]) if told["status"] == "True" else None


BEGINS = waits("PodInitializing")


@pytest.mark.parametrize(
    ("pod", "reason", "told"),
    [
        pytest.param(
            seen(BEGINS, init=waits("CrashLoopBackOff", "back-off 10s"), phase="Pending"),
            "CrashLoopBackOff",
            "init container fetch waits: back-off 10s",
            id="an init container that crashes",
        ),
        pytest.param(
            seen(BEGINS, init=waits("ImagePullBackOff"), phase="Pending"),
            "ImagePullBackOff",
            "init container fetch waits: ImagePullBackOff",
            id="its image",
        ),
        pytest.param(
            seen(BEGINS, init=ended(7), phase="Pending", policy="OnFailure"),
            "InitContainerFailed",
            "init container fetch ended with exit code 7",
            id="an init container that has failed",
        ),
        pytest.param(
            seen(RUNS, sidecar=waits("CrashLoopBackOff")),
            "CrashLoopBackOff",
            "container logs waits: CrashLoopBackOff",
            id="a sidecar that crashes",
        ),
    ],
)
def test_what_is_wrong_beside_the_driver_is_told_with_its_reason(
    pod: observed.Pod, reason: str, told: str
) -> None:
    found = degraded(pod)
    assert found is not None
    assert found[0] == reason
    assert told in found[1]


@pytest.mark.parametrize("init", [RUNS, ended(0), waits("PodInitializing")], ids=["runs", "done", "begins"])
def test_an_init_container_that_works_is_no_trouble(init: dict[str, Any]) -> None:
    assert degraded(seen(BEGINS, init=init, phase="Pending")) is None


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5])
def test_an_init_container_that_ends_the_pod_counts_as_a_failure_of_the_attempt(code: int) -> None:
    pod = seen(BEGINS, init=ended(code), phase="Failed")
    assert pod.death is observed.Death.CONFIRMED
    status = looked(pod).status
    assert (status["phase"], status["attempt"]) == ("Failing", 2)
    assert status["lastFailure"]["reason"] == "InitContainerFailed"
    assert f"init container fetch ended with exit code {code}" in status["lastFailure"]["message"]
    assert len(status["restarts"]["recent"]) == 1


def test_a_driver_that_waits_for_an_init_container_says_for_which() -> None:
    waiting = seen(BEGINS, init=RUNS, phase="Pending")
    assert looked(waiting).status["message"] == "the driver waits for init container fetch"
    begun = looked(seen(RUNS, init=ended(0)), message="the driver waits for init container fetch")
    assert not begun.status.get("message")


@pytest.mark.parametrize(("started", "waits_for"), [(False, "fetch"), (True, "")])
def test_a_sidecar_among_the_init_containers_is_waited_for_until_it_has_started(
    started: bool, waits_for: str
) -> None:
    body = {
        "metadata": {"name": "orders-driver-1", "uid": "pod-1", "resourceVersion": "1"},
        "spec": {"initContainers": [{"name": "fetch", "restartPolicy": "Always"}]},
        "status": {
            "phase": "Running" if started else "Pending",
            "initContainerStatuses": [{"name": "fetch", "state": RUNS, "started": started}],
            "containerStatuses": [{"name": "driver", "state": RUNS if started else BEGINS}],
        },
    }
    assert job_pods.read(body).preparing == waits_for


@pytest.mark.parametrize(
    ("condition", "driver_ready", "leaves"),
    [
        pytest.param({"status": "True"}, True, True, id="all are ready"),
        pytest.param({"status": "False", "reason": "ContainersNotReady"}, True, True, id="a sidecar is not"),
        pytest.param(
            {"status": "False", "reason": "ContainersNotReady"}, False, False, id="the driver is not"
        ),
        pytest.param({"status": "False"}, True, False, id="its node is silent"),
        pytest.param({"status": "False", "reason": "NodeLost"}, True, False, id="its node is lost"),
    ],
)
def test_whether_a_deleted_driver_is_about_to_end_is_its_own_container_s_and_its_node_s_word(
    condition: dict[str, str], driver_ready: bool, leaves: bool
) -> None:
    """A sidecar that has ended, or crashes, makes the pod unready for good; a silent node makes it so too."""
    body = {
        "metadata": {
            "name": "orders-driver-1",
            "uid": "pod-1",
            "resourceVersion": "1",
            "deletionTimestamp": clock.text(NOW),
        },
        "spec": {"nodeName": "node-1", "restartPolicy": "OnFailure"},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", **condition}],
            "containerStatuses": [
                {"name": "logs", "state": ended(0), "ready": False},
                {"name": "driver", "state": RUNS, "ready": driver_ready},
            ],
        },
    }
    assert job_pods.read(body).terminating_gracefully == leaves
