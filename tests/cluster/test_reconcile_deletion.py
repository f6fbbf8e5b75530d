"""Deletion of jobs: each policy under each cascade, in a namespace that goes, and always with an end."""

from __future__ import annotations

from typing import Any

import pytest
from support.faults import extras

from sparkstate_tools.operating.operated_namespace import OperatedNamespace

CASCADES = ("background", "foreground", "orphan")
URI = "s3://bucket/state/savepoints/savepoint-9"


pytestmark = pytest.mark.usefixtures("running_operator")


def nothing_is_left(operated: OperatedNamespace) -> None:
    for kind in (
        "pods",
        "configmaps",
        "services",
        "secrets",
        "serviceaccounts",
        "roles",
        "rolebindings",
        "controllerrevisions",
    ):
        found = operated.cluster.items(kind, operated.namespace, "sparkstate.io/job=orders")
        assert [one["metadata"]["name"] for one in found] == [], kind


@pytest.mark.parametrize("cascade", CASCADES)
def test_retain_ends_the_driver_and_keeps_the_state(operated: OperatedNamespace, cascade: str) -> None:
    operated.apply(deletion={"policy": "retain"}, deployment="cluster")
    operated.running()
    operated.delete(cascade=cascade)
    operated.until_deleting("orders-driver-1")
    assert operated.cluster.get("ssj", "orders", operated.namespace)
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.cluster.until_gone("ssj", "orders", operated.namespace)
    nothing_is_left(operated)
    assert operated.cluster.items("jobs", operated.namespace) == []


@pytest.mark.parametrize("cascade", CASCADES)
def test_savepoint_is_taken_before_the_driver_goes(operated: OperatedNamespace, cascade: str) -> None:
    operated.apply(deletion={"policy": "savepoint"})
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        operated.delete(cascade=cascade)
        request = driver.until_asked()
        assert request.stop
        assert "deletionTimestamp" not in operated.until_pod(1)["metadata"]
        driver.complete(request, URI)
        operated.cluster.until(lambda: operated.status().get("lastSavepoint"), "the savepoint is told")
        operated.kubelet.end("orders-driver-1", 0, {"reason": "Suspended", "message": "stopped"})
        operated.until_deleting("orders-driver-1")
        operated.kubelet.gone("orders-driver-1")
        operated.cluster.until_gone("ssj", "orders", operated.namespace)
    nothing_is_left(operated)


@pytest.mark.parametrize("cascade", [CASCADES[0], *extras(*CASCADES[1:])])
def test_purge_runs_the_engine_and_goes_on_without_it_by_the_deadline(
    operated: OperatedNamespace, cascade: str
) -> None:
    operated.apply(deletion={"policy": "purge", "deadline": "12s"})
    operated.running()
    operated.delete(cascade=cascade)
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    commands = operated.cluster.until(
        lambda: operated.cluster.items("jobs", operated.namespace), "the engine purges"
    )
    assert commands[0]["spec"]["template"]["spec"]["containers"][0]["args"][0] == "purge"
    operated.cluster.until_gone("ssj", "orders", operated.namespace)
    nothing_is_left(operated)
    assert "DeletionDegraded" in operated.reasons()


@pytest.mark.parametrize("by", ["place", "snapshot"])
def test_a_purge_waits_for_a_job_that_has_to_start_from_the_data(
    operated: OperatedNamespace, by: str
) -> None:
    """By its place, or by a StateSnapshot that registers it and belongs to no job."""
    operated.apply(deletion={"policy": "purge"})
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        driver.checkpoints_done(1)
        operated.until_checkpoint(1)
    url = operated.status()["lastCheckpoint"]["uri"]
    if by == "snapshot":
        operated.register("old", url)
    operated.apply("copy", restoreFrom={"uri": url} if by == "place" else {"snapshotRef": {"name": "old"}})
    if by == "place":
        operated.until_pod(1, "copy")
    operated.delete()
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.cluster.until(
        lambda: "the job copy has to start from the data" in operated.status().get("message", ""),
        "the status names the job",
    )
    assert operated.cluster.items("jobs", operated.namespace, "sparkstate.io/job=orders") == []
    operated.delete("copy")
    if by == "place":
        operated.until_deleting("copy-driver-1")
    operated.until_command("purge")
    assert "DataInUse" in operated.reasons()


@pytest.mark.extra
def test_a_purge_whose_image_cannot_be_pulled_says_so_until_the_deadline_and_at_it(
    operated: OperatedNamespace,
) -> None:
    operated.apply(deletion={"policy": "purge", "deadline": "20s"})
    operated.running()
    operated.delete()
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    commands = ("pod", operated.namespace, "sparkstate.io/role=command")
    pod = operated.cluster.until(lambda: operated.cluster.items(*commands), "the command has a pod")[0]
    operated.kubelet.unpulled(pod["metadata"]["name"], "401 Unauthorized", container="command")

    def degraded() -> bool:
        conditions = operated.status().get("conditions") or ()
        return any(one["reason"] == "ErrImagePull" and "401" in one["message"] for one in conditions)

    operated.cluster.until(degraded, "the job says why it is still there", 15)
    operated.cluster.until_gone("ssj", "orders", operated.namespace)
    nothing_is_left(operated)
    events = operated.cluster.items("events", operated.namespace)
    (told,) = (event["message"] for event in events if event["reason"] == "DeletionDegraded")
    assert "401 Unauthorized" in told


def test_a_driver_that_nobody_hears_of_does_not_hold_the_job_beyond_its_deadline(
    operated: OperatedNamespace,
) -> None:
    operated.apply(deletion={"policy": "savepoint", "deadline": "5s"}, fenceTimeout="10m")
    operated.running()
    operated.delete()
    operated.cluster.until_gone("ssj", "orders", operated.namespace)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param("retain", marks=pytest.mark.extra),
        pytest.param("savepoint", marks=pytest.mark.extra),
        "purge",
    ],
)
def test_a_namespace_can_be_deleted_with_its_jobs(operated: OperatedNamespace, policy: str) -> None:
    operated.apply(deletion={"policy": policy, "deadline": "10m"})
    operated.running()
    operated.cluster.kubectl("delete", "namespace", operated.namespace, "--wait=false")
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.cluster.until_gone("namespace", operated.namespace, timeout_s=60)


def test_a_job_that_never_ran_is_deleted_at_once(operated: OperatedNamespace) -> None:
    small = {"spec": {"containers": [{"name": "driver", "resources": {"limits": {"memory": "64Mi"}}}]}}
    operated.apply(driverTemplate=small, deletion={"policy": "purge"})
    operated.cluster.until(lambda: operated.status().get("conditions"), "the job is judged")
    operated.delete()
    operated.cluster.until_gone("ssj", "orders", operated.namespace, timeout_s=20)


UNREADABLE = {
    "a quantity": [{"name": "driver", "resources": {"limits": {"memory": "4GB"}}}],
    "no list": {"name": "driver"},
    "no names": [{"image": "example/logs:1"}],
}


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the job's template is replaced by one that cannot be read",
    when="the job runs",
    expected="the condition Stalled says so; the job fails over and is deleted all the same",
)
@pytest.mark.parametrize("containers", UNREADABLE.values(), ids=UNREADABLE)
def test_a_template_that_cannot_be_read_holds_neither_the_failover_nor_the_deletion(
    operated: OperatedNamespace, containers: Any
) -> None:
    operated.apply()
    operated.running()
    operated.apply(driverTemplate={"spec": {"containers": containers}})
    operated.cluster.until(lambda: "Stalled" in operated.conditions(), "the spec is told to be invalid")
    stalled = operated.conditions()["Stalled"]
    assert stalled["reason"] == "SpecInvalid"
    assert "spec.driverTemplate.spec.containers" in stalled["message"]
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
    operated.until_pod(2)
    operated.delete()
    operated.until_deleting("orders-driver-2")
    operated.cluster.until_gone("ssj", "orders", operated.namespace, timeout_s=20)
    nothing_is_left(operated)


def test_a_job_whose_stored_revision_cannot_be_read_is_deleted(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    assert operated.operator
    operated.operator.stop()
    name = operated.status()["revision"]
    kept = operated.cluster.get("controllerrevision", name, operated.namespace)
    assert kept is not None
    meta = {field: kept["metadata"][field] for field in ("name", "namespace", "labels")}
    operated.cluster.kubectl("delete", "controllerrevision", name, "-n", operated.namespace)
    later = {**kept["data"], "format": 99}
    operated.cluster.apply({**kept, "metadata": meta, "data": later})
    operated.delete()
    operated.start()
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.cluster.until_gone("ssj", "orders", operated.namespace, timeout_s=20)
    nothing_is_left(operated)


def test_a_job_of_the_same_name_never_meets_the_pods_of_the_one_before(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    uid = operated.job()["metadata"]["uid"]
    assert operated.operator
    operated.operator.stop()
    operated.cluster.kubectl(
        "patch",
        "ssj",
        "orders",
        "-n",
        operated.namespace,
        "--type=merge",
        "-p",
        '{"metadata":{"finalizers":[]}}',
    )
    operated.delete()
    operated.cluster.until_gone("ssj", "orders", operated.namespace)
    operated.apply()
    operated.start()
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")

    def own() -> bool:
        pod = operated.cluster.get("pod", "orders-driver-1", operated.namespace)
        return pod is not None and pod["metadata"]["labels"]["sparkstate.io/job-uid"] != uid

    operated.cluster.until(own, "the new job's own pod is there")
