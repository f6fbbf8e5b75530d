"""A job's life on a real API server, with the kubelet played by the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import operator_process
from support.kubelet import Kubelet
from support.kubernetes.cluster import Cluster
from support.operator_process import Operator


def job(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "image": "example/job:1",
            "pythonFile": "/app/job.py",
            "checkpointing": {"storage": "s3://bucket/state"},
            "fenceTimeout": "3s",
            "sinkTimeout": "3s",
            **spec,
        },
    }


@pytest.fixture
def kubelet(cluster: Cluster, namespace: str) -> Kubelet:
    return Kubelet(cluster, namespace)


@pytest.fixture(scope="session", autouse=True)
def _served(cluster: Cluster) -> None:
    """A CRD is established a moment before discovery tells of it."""

    def listed() -> bool:
        said = cluster.kubectl("api-resources", "--api-group=sparkstate.io", "-o", "name")
        return "statefulsparkjobs" in said and "statesnapshots" in said

    cluster.until(listed, "both resources are discovered")


@pytest.fixture
def operator(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    with operator_process.running(cluster.kubeconfig, tmp_path, namespace) as process:
        yield process


def status(cluster: Cluster, namespace: str, name: str = "orders") -> dict[str, Any]:
    return dict((cluster.get("ssj", name, namespace) or {}).get("status") or {})


def until_pod(
    cluster: Cluster, namespace: str, attempt: int, name: str = "orders", timeout_s: float = 30
) -> dict[str, Any]:
    pod = f"{name}-driver-{attempt}"
    return cluster.until(lambda: cluster.get("pod", pod, namespace), f"pod {pod} is there", timeout_s)


def until_phase(
    cluster: Cluster, namespace: str, phase: str, name: str = "orders", timeout_s: float = 30
) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        found = status(cluster, namespace, name)
        return found if found.get("phase") == phase else None

    return cluster.until(reached, f"job {name} is {phase}: {status(cluster, namespace, name)}", timeout_s)


def test_a_job_gets_its_children_and_runs(
    cluster: Cluster, namespace: str, operator: Operator, kubelet: Kubelet
) -> None:
    cluster.apply(job("orders", namespace))
    pod = until_pod(cluster, namespace, 1)
    kubelet.run(pod["metadata"]["name"])
    found = until_phase(cluster, namespace, "Running")
    assert found["attempt"] == 1
    conditions = {one["type"]: one["status"] for one in found["conditions"]}
    assert conditions["Ready"] == "True"
    assert "intent" not in found


def test_a_failed_driver_is_followed_by_the_next_attempt(
    cluster: Cluster, namespace: str, operator: Operator, kubelet: Kubelet
) -> None:
    cluster.apply(job("orders", namespace))
    until_pod(cluster, namespace, 1)
    kubelet.run("orders-driver-1")
    until_phase(cluster, namespace, "Running")
    kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone", "exit_code": 1})
    until_pod(cluster, namespace, 2)
    found = status(cluster, namespace)
    assert found["lastFailure"]["reason"] == "SlotLost"
    assert found["restarts"]["operator"] == 1


def test_a_deleted_job_is_gone_once_its_driver_has_ended(
    cluster: Cluster, namespace: str, operator: Operator, kubelet: Kubelet
) -> None:
    cluster.apply(job("orders", namespace))
    until_pod(cluster, namespace, 1)
    kubelet.run("orders-driver-1")
    until_phase(cluster, namespace, "Running")
    cluster.kubectl("delete", "ssj", "orders", "-n", namespace, "--wait=false")
    cluster.until(
        lambda: (cluster.get("pod", "orders-driver-1", namespace) or {"metadata": {"deletionTimestamp": 1}})[
            "metadata"
        ].get("deletionTimestamp"),
        "the pod is being deleted",
    )
    assert cluster.get("ssj", "orders", namespace)
    kubelet.finish_deletion("orders-driver-1")
    cluster.until_gone("ssj", "orders", namespace)
    for kind in ("pods", "configmaps", "services", "secrets", "serviceaccounts"):
        assert cluster.items(kind, namespace, "sparkstate.io/job=orders") == []
