"""A job's life on a real API server, with the kubelet and the driver played by the test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cluster.quotas import limit
from support.storage import stored_job

from sparkstate.control.documents import DriverPhase
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

pytestmark = pytest.mark.usefixtures("running_operator")
FINISHED = {"reason": "Finished", "message": "all is committed"}


def test_a_job_gets_its_children_and_runs(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    status = operated.until_phase("Running")
    assert status["attempt"] == 1
    assert operated.conditions()["Ready"]["status"] == "True"
    assert "intent" not in status
    assert status["memory"]["total"]
    names = {
        kind: sorted(
            one["metadata"]["name"]
            for one in operated.cluster.items(kind, operated.namespace, "sparkstate.io/job=orders")
        )
        for kind in ("pods", "configmaps", "services", "secrets", "serviceaccounts", "roles", "rolebindings")
    }
    uid = operated.job()["metadata"]["uid"]
    assert names == {
        "pods": ["orders-driver-1"],
        "configmaps": ["orders-1"],
        "services": ["orders-driver"],
        "secrets": [f"sparkstate-{uid}-1"],
        "serviceaccounts": ["orders-spark"],
        "roles": [],
        "rolebindings": [],
    }


def test_a_cluster_deployment_gets_rights_and_an_executor_template(operated: OperatedNamespace) -> None:
    operated.apply(deployment="cluster", slots=4)
    operated.until_pod(1)
    data = operated.cluster.get("configmap", "orders-1", operated.namespace)["data"]
    assert set(data) == {"job.yaml", "executor.yaml"}
    (binding,) = operated.cluster.items("rolebinding", operated.namespace)
    assert binding["roleRef"]["name"] == "driver"  # the installation's; the job has none of its own
    assert operated.cluster.get("role", "orders-spark", operated.namespace) is None
    assert binding["subjects"][0]["name"] == "orders-spark"


def test_a_failed_driver_is_followed_by_the_next_attempt(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone", "exit_code": 1})
    operated.until_pod(2)
    status = operated.status()
    assert status["lastFailure"]["reason"] == "SlotLost"
    assert status["restarts"]["operator"] == 1
    operated.running(2)
    operated.cluster.until_gone("pod", "orders-driver-1", operated.namespace)


def test_a_deleted_driver_pod_is_followed_at_once_when_its_end_was_seen(operated: OperatedNamespace) -> None:
    operated.apply(fenceTimeout="10m")
    operated.running()
    operated.cluster.kubectl("delete", "pod", "orders-driver-1", "-n", operated.namespace, "--wait=false")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.until_pod(2)


def test_the_next_pod_is_made_beside_the_end_of_a_deleted_one_and_hears_of_its_death(
    operated: OperatedNamespace,
) -> None:
    operated.apply(fenceTimeout="10m")
    operated.running()
    operated.cluster.kubectl("delete", "pod", "orders-driver-1", "-n", operated.namespace, "--wait=false")
    container = operated.until_pod(2)["spec"]["containers"][0]
    assert "deletionTimestamp" in operated.until_pod(1)["metadata"], "it has not ended"
    told = {one["name"]: one.get("value") for one in container["env"]}
    grace_s, harm_s = 120, 600 + 1 + 10
    assert harm_s + grace_s - 60 < int(told["SPARKSTATE_PREDECESSOR_S"]) <= harm_s + grace_s
    with operated.driver(2) as driver:
        driver.update(phase=DriverPhase.STARTING, waits_for_attempt=1)
        operated.kubelet.run("orders-driver-2", ready=False)
        operated.until_phase("Starting")
        assert not driver.alone
        operated.kubelet.end("orders-driver-1", 137)
        operated.kubelet.gone("orders-driver-1")
        operated.cluster.until(lambda: driver.alone, "the driver is told that it is alone")


def test_a_pod_that_vanishes_is_replaced_only_after_the_fence(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    operated.kubelet.gone("orders-driver-1")
    status = operated.until_phase("Failing")
    assert status["intent"]["action"] == "start"
    assert "notBefore" in status["intent"]
    assert operated.cluster.get("pod", "orders-driver-2", operated.namespace) is None
    operated.until_pod(2)


def test_crash_loops_become_a_new_attempt(operated: OperatedNamespace) -> None:
    operated.apply(restart={"strategy": "fixed-delay", "fixedDelay": {"attempts": 10, "delay": "1s"}})
    operated.running()
    operated.kubelet.crash_loop(
        "orders-driver-1", 1, 2, {"reason": "StorageUnavailable", "message": "no bucket"}
    )
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.until_pod(2)
    restarts = operated.status()["restarts"]
    assert (restarts["kubelet"], restarts["operator"]) == (2, 1)


def test_a_blocked_restore_waits_for_a_person(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    operated.kubelet.end(
        "orders-driver-1", 3, {"reason": "RestoreBlocked", "message": "chk-7 is gone", "exit_code": 3}
    )
    operated.until_phase("RestoreBlocked")
    condition = operated.conditions()["RestoreBlocked"]
    assert (condition["status"], condition["message"]) == ("True", "chk-7 is gone")
    operated.apply(startEmpty=True)
    operated.until_pod(2)
    data = operated.cluster.get("configmap", "orders-2", operated.namespace)["data"]["job.yaml"]
    assert '"startEmpty": true' in data


SIDECAR = {"name": "logs", "image": "example/logs:1"}


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a sidecar runs on when the driver has ended",
    when="the driver has finished",
    expected="the job is Finished, and the pod is ended",
)
def test_a_sidecar_does_not_hold_the_end_of_the_driver(operated: OperatedNamespace) -> None:
    operated.apply(driverTemplate={"spec": {"containers": [SIDECAR]}})
    operated.running()
    operated.kubelet.end("orders-driver-1", 0, FINISHED, beside="logs")
    operated.until_phase("Finished")
    operated.until_deleting("orders-driver-1")
    operated.kubelet.gone("orders-driver-1")
    assert operated.status()["message"] == "all is committed"


def test_a_driver_that_fails_beside_a_sidecar_is_followed_by_the_next_attempt(
    operated: OperatedNamespace,
) -> None:
    operated.apply(
        driverTemplate={"spec": {"containers": [SIDECAR]}},
        restart={"strategy": "fixed-delay", "fixedDelay": {"attempts": 3, "delay": "1s"}},
    )
    operated.running()
    never = operated.until_pod(1)["spec"]["restartPolicy"] == "Never"
    told = (
        {"reason": "SlotLost", "message": "gone"} if never else {"reason": "Terminated", "message": "SIGTERM"}
    )
    operated.kubelet.end("orders-driver-1", 1 if never else 0, told, beside="logs")
    operated.until_pod(2)
    operated.until_deleting("orders-driver-1")


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="an init container of the driver's pod fails again and again",
    when="an attempt is made",
    expected="the condition Degraded has its name, exit code and message; the job runs when it succeeds",
)
def test_an_init_container_that_fails_is_told_with_its_reason(operated: OperatedNamespace) -> None:
    operated.apply(
        driverTemplate={"spec": {"initContainers": [{"name": "fetch", "image": "example/fetch:1"}]}}
    )
    operated.until_pod(1)
    operated.kubelet.init_fails("orders-driver-1", "fetch", 7)

    def told() -> bool:  # a pod without a node is told as Unschedulable before
        return operated.conditions().get("Degraded", {}).get("reason") == "CrashLoopBackOff"

    operated.cluster.until(told, "the init container is told")
    degraded = operated.conditions()["Degraded"]
    assert degraded["status"] == "True"
    assert "init container fetch waits: back-off" in degraded["message"]
    assert "exit code 7 (Error): no such bucket" in degraded["message"]
    assert operated.status()["phase"] == "Starting"
    operated.kubelet.run("orders-driver-1")
    operated.until_phase("Running")


def test_a_spec_that_cannot_run_leaves_the_last_valid_revision_running(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    template = {"spec": {"containers": [{"name": "driver", "resources": {"limits": {"memory": "64Mi"}}}]}}
    operated.apply(driverTemplate=template)
    operated.cluster.until(lambda: "Stalled" in operated.conditions(), "the spec is told to be invalid")
    assert operated.conditions()["Stalled"]["reason"] == "SpecInvalid"
    assert "MiB" in operated.conditions()["Stalled"]["message"]
    assert operated.status()["phase"] == "Running"
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
    operated.until_pod(2)


def test_a_new_pod_that_is_refused_leaves_the_old_one_running(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    operated.apply(driverTemplate={"spec": {"nodeSelector": {"a": "not a label value"}}})
    operated.cluster.until(lambda: operated.status().get("refused"), "the refusal is told")
    assert operated.status()["phase"] == "Running"
    assert operated.conditions()["Degraded"]["reason"] == "UpgradeRefused"
    assert "deletionTimestamp" not in operated.until_pod(1)["metadata"]


def test_a_nonce_is_a_restart_and_nothing_else(operated: OperatedNamespace) -> None:
    operated.apply(restartNonce=1)
    operated.running()
    before = operated.until_pod(1)["spec"]["containers"][0]
    operated.apply(restartNonce=2)
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    after = operated.until_pod(2)["spec"]["containers"][0]
    assert (after["image"], after["resources"]) == (before["image"], before["resources"])


def test_a_new_image_is_taken_over_from_the_last_checkpoint(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    operated.apply(image="example/job:2")
    operated.until_deleting("orders-driver-1")
    assert operated.status()["phase"] == "Upgrading"
    operated.kubelet.finish_deletion("orders-driver-1")
    pod = operated.until_pod(2)
    assert pod["spec"]["containers"][0]["image"] == "example/job:2"


def test_an_upgrade_with_savepoint_stops_the_driver_by_it(operated: OperatedNamespace) -> None:
    operated.apply(upgradeMode="savepoint")
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.running()
        operated.apply(upgradeMode="savepoint", image="example/job:2")
        request = driver.until_asked()
        assert request.stop
        driver.complete(request, "s3://bucket/state/savepoints/savepoint-1")
        operated.cluster.until(lambda: operated.status().get("lastSavepoint"), "the savepoint is told")
        operated.kubelet.end("orders-driver-1", 0, {"reason": "Suspended", "message": "stopped"})
        operated.until_pod(2)
        assert len(driver.requests()) == 1
    assert operated.status()["lastSavepoint"]["uri"] == "s3://bucket/state/savepoints/savepoint-1"


def test_scale_is_a_rescale(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver():
        operated.running()
        operated.cluster.until(lambda: operated.status().get("slots") == 2, "two slots are told")
    operated.cluster.kubectl("scale", "ssj", "orders", "--replicas=3", "-n", operated.namespace)
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.until_pod(2)
    data = operated.cluster.get("configmap", "orders-2", operated.namespace)["data"]["job.yaml"]
    assert '"slots": 3' in data


def test_suspend_and_resume(operated: OperatedNamespace) -> None:
    """Nothing of the state is touched or forgotten, and the next attempt is told to go on from the lineage."""
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        driver.checkpoints_done(3)
        operated.running()
        operated.cluster.until(lambda: operated.status().get("lastCheckpoint"), "the checkpoint is told")
        operated.apply(state="suspended")
        operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    status = operated.until_phase("Suspended")
    assert (status["lastCheckpoint"]["id"], status["lineage"]) == (3, "00aa11bb22cc33dd")
    assert operated.conditions()["Ready"]["status"] == "True"
    assert operated.cluster.items("jobs", operated.namespace) == [], "no command of the engine"
    operated.apply(state="running")
    operated.running(2)
    data = operated.cluster.get("configmap", "orders-2", operated.namespace)["data"]["job.yaml"]
    spec = json.loads(data)["spec"]
    assert {"restoreFrom", "startEmpty"}.isdisjoint(spec), "the lineage says what to go on from"


def test_a_change_that_needs_no_restart_is_taken_over_in_place(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    before = operated.status()["revision"]
    operated.apply(savepoints={"interval": "6h", "maxCount": 3})
    operated.cluster.until(lambda: operated.status()["revision"] != before, "the revision is taken over")
    assert "deletionTimestamp" not in operated.until_pod(1)["metadata"]


def test_restore_from_a_snapshot_waits_for_it(operated: OperatedNamespace) -> None:
    """Until the engine has read the savepoint; one that was made up is waited for without end."""
    url = stored_job.StoredJob((operated.folder / "state").as_uri(), "old", 1).take_savepoint("a", 5)
    operated.apply(restoreFrom={"snapshotRef": {"name": "old"}})
    operated.until_phase("RestoreBlocked")
    operated.register("old", f"{url}-made-up")
    assert operated.run_next_command("savepoints verify")["ok"] is False
    failed = operated.until_snapshot("old", "Failed")
    assert (failed["reason"], "uri" in failed) == ("NotRestorable", False)
    assert operated.cluster.get("pod", "orders-driver-1", operated.namespace) is None
    operated.cluster.kubectl("delete", "snap", "old", "-n", operated.namespace)
    operated.register("old", url)
    assert operated.run_next_command("savepoints verify")["ok"] is True
    assert operated.until_snapshot("old", "Completed")["epoch"] == 5
    operated.until_pod(1, timeout_s=60)
    data = operated.cluster.get("configmap", "orders-1", operated.namespace)["data"]["job.yaml"]
    assert json.dumps(url) in data


def test_all_pods_pass_pod_security_restricted(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        operated = OperatedNamespace(cluster, namespace, tmp_path)
        operated.start()
        operated.apply(deployment="cluster", localStorage={"sizeLimit": "1Gi"})
        operated.until_pod(1)
        data = operated.cluster.get("configmap", "orders-1", namespace)["data"]
        template = json.loads(data["executor.yaml"])
        template["metadata"]["name"] = "orders-1-exec-1"
        template["spec"]["containers"][0]["image"] = "example/job:1"
        cluster.kubectl("create", "-n", namespace, "--dry-run=server", "-f", "-", text=json.dumps(template))
        snapshot = {
            "apiVersion": "sparkstate.io/v1alpha1",
            "kind": "StateSnapshot",
            "metadata": {"name": "old", "namespace": namespace},
            "spec": {"uri": "s3://bucket/old", "deletionPolicy": "Delete"},
        }
        cluster.apply(snapshot)
        chosen = "sparkstate.io/role=command"
        cluster.until(lambda: cluster.items("pods", namespace, chosen), "the engine's command has a pod")
        operated.end()


def test_a_quota_is_told_and_the_attempt_keeps_its_number(operated: OperatedNamespace) -> None:
    limit(operated.cluster, operated.namespace, "none", {"pods": "0"})
    operated.apply()
    operated.cluster.until(lambda: "Forbidden" in operated.reasons(), "the quota is told", 60)
    operated.cluster.kubectl("delete", "resourcequota", "none", "-n", operated.namespace)
    operated.until_pod(1)
    assert operated.status()["attempt"] == 1
