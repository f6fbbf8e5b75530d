"""The status is wiped at every phase, with what the job's children know and without any of them. Nothing starts empty
by it: where no driver is left to ask, the storage is asked, by a command of the engine whose answer the test gives."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from support.faults import extras

from sparkstate_tools.kubernetes.cluster import CommandFailed
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

QUICK = ["--resync-seconds", "2"]
KINDS = (
    "pods",
    "configmaps",
    "secrets",
    "services",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "controllerrevisions",
)
POINT: dict[str, Any] = {
    "kind": "checkpoint",
    "id": 7,
    "url": "s3://bucket/state/00aa11bb22cc33dd/chk-7",
    "epoch": 70,
    "timestamp_ms": 1_767_268_800_000,
    "state_bytes": 20 * 2**20,
    "backend": "hashmap",
    "shards": 16,
    "trigger_id": None,
}
STORED: dict[str, Any] = {
    "ok": True,
    "found": True,
    "lineage": "00aa11bb22cc33dd",
    "attempt": 3,
    "problem": None,
    "restore_point": POINT,
}
NOTHING: dict[str, Any] = {"ok": True, "found": False, "message": "no lineage of the job"}


def wipe(operated: OperatedNamespace) -> None:
    """Take the whole status away; the operator may write at the same moment."""
    for _ in range(20):
        body = operated.job()
        body.pop("status", None)
        path = f"/apis/sparkstate.io/v1alpha1/namespaces/{operated.namespace}/statefulsparkjobs/orders/status"
        with contextlib.suppress(CommandFailed):
            operated.cluster.kubectl("replace", "--raw", path, "-f", "-", text=json.dumps(body))
            return
    raise AssertionError("the operator wrote between each read and write")


def forget(operated: OperatedNamespace) -> None:
    """Whatever a job has is gone, its status too."""
    for kind in KINDS:
        where = ["-n", operated.namespace, "-l", "sparkstate.io/job=orders"]
        force = ["--force", "--grace-period=0"] if kind == "pods" else []
        operated.cluster.kubectl("delete", kind, *where, *force)
    wipe(operated)


def answer(operated: OperatedNamespace, word: dict[str, Any]) -> None:
    """The engine's look into the storage ends with this answer. Nothing is started before."""
    commands = operated.cluster.until(
        lambda: operated.cluster.items("jobs", operated.namespace), "the storage is asked"
    )
    container = commands[0]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["restore-info", "--json", "--manifest", "/etc/sparkstate/job/job.yaml"]
    assert operated.status()["intent"]["action"] == "recover"
    operated.finish_command(commands[0]["metadata"]["name"], word)


def manifest(operated: OperatedNamespace, attempt: int) -> dict[str, Any]:
    """What that attempt is told."""
    operated.until_pod(attempt)
    found = operated.cluster.get("configmap", f"orders-{attempt}", operated.namespace)
    assert found is not None
    return dict(json.loads(found["data"]["job.yaml"]))


def ran_and_lost(operated: OperatedNamespace, **spec: Any) -> None:
    """A job that ran, and of which nothing is left in the cluster but its object; the operator was away."""
    first = operated.start()
    operated.apply(**spec)
    operated.running()
    first.stop()
    forget(operated)
    operated.start(options=QUICK)


def test_without_status_and_children_the_newest_state_counts_and_no_old_instruction(
    operated: OperatedNamespace,
) -> None:
    ran_and_lost(operated, startEmpty=True)
    answer(operated, STORED)
    told = manifest(operated, 4)
    assert "startEmpty" not in told["spec"]
    assert "empty" not in json.loads(told["metadata"]["annotations"]["sparkstate.io/start"])
    status = operated.status()
    assert (status["lastCheckpoint"]["uri"], status["shards"]) == (POINT["url"], 16)
    assert (status["lineage"], status["stateSize"]) == (STORED["lineage"], "20Mi")
    assert "StatusRebuilt" in operated.reasons()
    operated.running(4)
    assert operated.cluster.items("jobs", operated.namespace) == []
    operated.cluster.until_gone("configmap", "orders-0", operated.namespace)


def test_without_status_and_children_a_job_that_stored_nothing_starts_as_its_spec_says(
    operated: OperatedNamespace,
) -> None:
    ran_and_lost(operated, restoreFrom={"uri": "s3://bucket/old"})
    answer(operated, NOTHING)
    assert manifest(operated, 1)["spec"]["restoreFrom"] == {"uri": "s3://bucket/old"}


def test_without_status_and_children_a_suspended_job_rests_on(operated: OperatedNamespace) -> None:
    ran_and_lost(operated, state="running")
    operated.apply(state="suspended")
    answer(operated, STORED)
    status = operated.until_phase("Suspended")
    assert (status["attempt"], status["lastCheckpoint"]["id"]) == (3, 7)
    operated.apply(state="running")
    assert "startEmpty" not in manifest(operated, 4)["spec"]


@pytest.mark.parametrize("phase", ["Suspended", "Finished", "Failed", "RestoreBlocked"])
def test_a_status_wiped_while_the_job_rests_is_rebuilt(operated: OperatedNamespace, phase: str) -> None:
    ends = {
        "Finished": (0, {"reason": "Finished", "message": "all is committed"}),
        "Failed": (1, {"reason": "UserCodeError", "message": "a bug"}),
        "RestoreBlocked": (3, {"reason": "RestoreBlocked", "message": "chk-7 is gone"}),
    }
    operated.start(options=QUICK)
    operated.apply(startEmpty=True)
    operated.running()
    if phase == "Suspended":
        operated.apply(startEmpty=True, state="suspended")
        operated.until_deleting("orders-driver-1")
        operated.kubelet.finish_deletion("orders-driver-1")
    else:
        operated.kubelet.end("orders-driver-1", *ends[phase])
    operated.until_phase(phase)
    wipe(operated)
    if phase == "Suspended":
        answer(operated, {**STORED, "attempt": 1})
        assert operated.until_phase("Suspended")["lastCheckpoint"]["id"] == 7
    status = operated.until_phase(phase)
    assert status["attempt"] == 1
    assert operated.cluster.get("pod", "orders-driver-2", operated.namespace) is None


@pytest.mark.extra
def test_a_status_wiped_when_the_pod_is_gone_leaves_the_wait_for_the_fence(
    operated: OperatedNamespace,
) -> None:
    first = operated.start()
    operated.apply()
    operated.running()
    first.stop()
    operated.kubelet.gone("orders-driver-1")
    operated.apply(image="example/job:2")
    wipe(operated)
    operated.start(options=QUICK)
    answer(operated, {**STORED, "attempt": 1})
    intent = operated.cluster.until(
        lambda: (found := operated.status().get("intent", {})).get("action") == "start" and found,
        "the next attempt is begun",
    )
    assert "notBefore" in intent
    assert manifest(operated, 2)["spec"]["image"] == "example/job:2"


def test_a_wiped_status_of_a_running_job_is_rebuilt(operated: OperatedNamespace) -> None:
    operated.start(options=QUICK)
    operated.apply()
    operated.running()
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
    operated.running(2)
    before = operated.status()
    wipe(operated)
    after = operated.until_phase("Running")
    for name in ("attempt", "revision", "selector", "phase"):
        assert after[name] == before[name], name
    assert "deletionTimestamp" not in operated.until_pod(2)["metadata"]


@pytest.mark.parametrize(
    "phase",
    [
        "Failing",
        "Upgrading",
        *extras("Starting", "Suspending", "Deleting"),
    ],
)
def test_a_status_wiped_at_any_phase_leads_to_the_same_end(operated: OperatedNamespace, phase: str) -> None:
    operated.start(options=QUICK)
    operated.apply()
    operated.until_pod(1)
    if phase != "Starting":
        operated.running()
    if phase == "Failing":
        operated.kubelet.gone("orders-driver-1")
    elif phase == "Upgrading":
        operated.apply(image="example/job:2")
    elif phase == "Suspending":
        operated.apply(state="suspended")
    elif phase == "Deleting":
        operated.delete()
    operated.until_phase(phase)
    wipe(operated)
    if phase == "Failing":
        answer(operated, {**STORED, "attempt": 1})
    if phase in ("Upgrading", "Suspending", "Deleting"):
        operated.until_deleting("orders-driver-1")
        operated.kubelet.finish_deletion("orders-driver-1")
    if phase == "Suspending":
        operated.until_phase("Suspended")
    elif phase == "Deleting":
        operated.cluster.until_gone("ssj", "orders", operated.namespace)
    else:
        attempt = 1 if phase == "Starting" else 2
        operated.until_pod(attempt, timeout_s=60)
        operated.running(attempt)
        assert operated.status()["attempt"] == attempt
