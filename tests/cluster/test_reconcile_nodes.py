"""The nodes that a job's pods ask for, and a node that stops answering, judged by Kubernetes' own controllers."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest

from sparkstate_tools.operating.kubelet import Kubelet
from sparkstate_tools.operating.operated_namespace import OperatedNamespace


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the driver's node is silent",
    when="the job runs",
    expected="the next attempt is made after the fence, without the grace period",
)
@pytest.mark.slow
@pytest.mark.own_cluster
@pytest.mark.usefixtures("running_operator")
def test_on_a_lost_node_the_grace_period_is_not_waited_for(operated: OperatedNamespace) -> None:
    """Nobody renews the node's lease: the node controller taints it, and the pod is deleted, with 120 s of grace. The
    fence of these jobs is 14 s; the node was silent for longer when the deletion was asked for."""
    at_once = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 1,
        }
        for state in ("not-ready", "unreachable")
    ]
    operated.apply(driverTemplate={"spec": {"tolerations": at_once}})
    operated.until_pod(1)
    node = f"lost-{operated.namespace}"[:63]
    # Where no node at all answers, Kubernetes takes it for its own fault and deletes nothing.
    alive = Kubelet(operated.cluster, operated.namespace)
    kubelet = Kubelet(operated.cluster, operated.namespace, node)
    try:
        kubelet.run("orders-driver-1")
        operated.until_phase("Running")
        begun, deleting = time.monotonic(), False
        while not deleting and time.monotonic() < begun + 150:
            alive.beat()
            time.sleep(2)
            deleting = "deletionTimestamp" in operated.until_pod(1)["metadata"]
        assert deleting, "Kubernetes has not deleted the pod"
        operated.until_pod(2, timeout_s=30)
        old = operated.until_pod(1)
        conditions = {one["type"]: one for one in old["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
        assert conditions["Ready"]["status"] == "False"
        ends = datetime.fromisoformat(old["metadata"]["deletionTimestamp"]).timestamp()
        assert time.time() < ends - 60, "its grace period is not over for long"
        assert operated.status()["lastFailure"]["reason"] == "PodLost"
    finally:
        kubelet.gone("orders-driver-1")
        operated.cluster.kubectl("delete", "node", node, "--ignore-not-found", "--wait=false")


def as_an_earlier_version_made_it(pod: dict[str, Any]) -> dict[str, Any]:
    """The same driver, not placed yet, without a node selector."""
    meta = {
        name: pod["metadata"][name]
        for name in ("name", "namespace", "labels", "annotations", "ownerReferences")
    }
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeSelector"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.mark.usefixtures("running_operator")
def test_a_driver_of_an_earlier_version_runs_on_and_its_successor_asks_for_linux(
    operated: OperatedNamespace,
) -> None:
    operated.apply()
    made = operated.until_pod(1)
    assert operated.operator is not None
    operated.operator.stop()
    operated.kubelet.gone("orders-driver-1")
    operated.cluster.apply(as_an_earlier_version_made_it(made))
    operated.kubelet.run("orders-driver-1")
    uid = operated.until_pod(1)["metadata"]["uid"]
    operated.start()
    operated.until_phase("Running")
    generation = operated.apply(upgradeCheck=False)["metadata"]["generation"]
    operated.cluster.until(
        lambda: operated.status().get("observedGeneration") == generation, "a change without an attempt is in"
    )
    old, status = operated.until_pod(1), operated.status()
    assert (old["metadata"]["uid"], old["metadata"].get("deletionTimestamp")) == (uid, None)
    assert "nodeSelector" not in old["spec"]
    assert (status["phase"], status["attempt"]) == ("Running", 1)
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone", "exit_code": 1})
    assert operated.until_pod(2)["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
