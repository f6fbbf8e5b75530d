"""A node that stops answering, judged by Kubernetes' own controllers."""

from __future__ import annotations

import time
from datetime import datetime

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
