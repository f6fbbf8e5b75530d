"""What a driver's pod belongs to: its attempt's ConfigMap, and what follows from that."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate_tools.operating import kubelet
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

pytestmark = pytest.mark.usefixtures("running_operator")


def owners(operated: OperatedNamespace, attempt: int) -> list[tuple[str, str, str, bool]]:
    """Kind, name, uid of those whose the driver's pod is, and whether each is its controller."""
    found = operated.until_pod(attempt)["metadata"].get("ownerReferences") or []
    return [(one["kind"], one["name"], one["uid"], one.get("controller", False)) for one in found]


def test_the_controller_of_a_driver_is_its_attempt_s_config_map(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    uid = (operated.cluster.get("configmap", "orders-1", operated.namespace) or {})["metadata"]["uid"]
    assert owners(operated, 1) == [("ConfigMap", "orders-1", uid, True)]
    drain = ("drain", kubelet.NODE, "--dry-run=server", "--delete-emptydir-data", "--ignore-daemonsets")
    chosen = f"--pod-selector=sparkstate.io/job-uid={operated.job()['metadata']['uid']}"
    assert "orders-driver-1" in operated.cluster.kubectl(*drain, chosen)


def test_a_config_map_deleted_by_hand_ends_its_driver_and_the_next_attempt_follows(
    operated: OperatedNamespace,
) -> None:
    operated.apply()
    operated.running()
    operated.cluster.kubectl("delete", "configmap", "orders-1", "-n", operated.namespace)
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.running(2)
    assert operated.status()["restarts"]["operator"] == 1


def test_a_driver_of_an_earlier_version_has_no_controller_and_is_followed_by_one_that_has(
    operated: OperatedNamespace,
) -> None:
    operated.apply()
    operated.running()
    where = ("orders-driver-1", "-n", operated.namespace, "--type=merge")
    operated.cluster.kubectl("patch", "pod", *where, "-p", '{"metadata":{"ownerReferences":null}}')
    assert operated.operator is not None
    operated.operator.stop()
    operated.start()
    assert owners(operated, 1) == []
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone", "exit_code": 1})
    operated.running(2)
    assert [(kind, name) for kind, name, _, _ in owners(operated, 2)] == [("ConfigMap", "orders-2")]


DRIVERS = {"matchLabels": {"sparkstate.io/role": "driver"}}
OURS_LEFT_OUT = {
    "matchExpressions": [
        {"key": "app.kubernetes.io/managed-by", "operator": "NotIn", "values": ["sparkstate-operator"]}
    ]
}
"""As docs/kubernetes.md has it."""


def web(operated: OperatedNamespace) -> dict[str, Any]:
    """Somebody's Deployment of two pods."""
    labels = {"app": "web"}
    pod = {"containers": [{"name": "web", "image": "web:1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": operated.namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def executor(operated: OperatedNamespace) -> dict[str, Any]:
    """A pod with the driver as its controller, as Spark makes it of the operator's template."""
    driver = operated.until_pod(1)["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": driver["name"],
        "uid": driver["uid"],
        "controller": True,
    }
    marks = {"app.kubernetes.io/managed-by": "sparkstate-operator", "app": "executor"}
    meta = {"name": "exec-1", "namespace": operated.namespace, "labels": marks, "ownerReferences": [owner]}
    spec = {"containers": [{"name": "executor", "image": "job:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def budget(operated: OperatedNamespace, name: str, selector: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """What Kubernetes makes of such a PodDisruptionBudget."""
    meta = {"name": name, "namespace": operated.namespace}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta}
    operated.cluster.apply({**body, "spec": {"selector": selector, **spec}})

    def judged() -> dict[str, Any] | None:
        found = operated.cluster.get("pdb", name, operated.namespace) or {}
        status = found.get("status") or {}
        return status if status.get("conditions") else None

    return dict(operated.cluster.until(judged, f"the budget {name} is judged", 60))


@pytest.mark.parametrize("spec", [{"maxUnavailable": 1}, {"minAvailable": "50%"}], ids=["maximum", "share"])
def test_a_budget_of_a_whole_namespace_works_when_it_leaves_our_pods_out(
    operated: OperatedNamespace, spec: dict[str, Any]
) -> None:
    operated.apply()
    operated.running()
    operated.cluster.apply(web(operated))
    chosen = (operated.namespace, "app=web")
    operated.cluster.until(
        lambda: len(operated.cluster.items("pods", *chosen)) == 2, "the pods are there", 60
    )
    operated.cluster.apply(executor(operated))
    ours = {
        "driver": (DRIVERS, "configmaps"),
        "everything": ({}, ""),
        "executors": ({"matchLabels": {"app": "executor"}}, "pods"),
    }
    for name, (selector, kind) in ours.items():
        stuck = budget(operated, name, selector, **spec)
        (condition,) = stuck["conditions"]
        assert (stuck["disruptionsAllowed"], condition["reason"]) == (0, "SyncFailed")
        assert f"{kind} does not implement the scale subresource" in condition["message"]
    works = budget(operated, "theirs", OURS_LEFT_OUT, **spec)
    assert works["expectedPods"] == 2
    assert works["conditions"][0]["reason"] != "SyncFailed"
