"""The API server counts pods against quotas; the operator counts them in the same way, and reads a quota's scopes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster.quotas import apart, limit, near, quota_of, used
from support.scene.decisions import SPEC, job

from sparkstate_operator import plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import pod_usage, quota, settings
from sparkstate_operator.objects import driver, parts
from sparkstate_spec import quantities
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operator_account
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

CRITICAL = "system-cluster-critical"
"""A class that each cluster has."""


def pod(namespace: str, number: int, **template: Any) -> dict[str, Any]:
    """The driver's pod of an attempt, with this template. The API server takes it without volumes being there."""
    given = {"serviceAccountName": "default", "driverTemplate": {"spec": template}}
    wanted = settings.resolve({**SPEC, **given})
    made = driver.pod(parts.Context(job(), plan.Revision("orders-2", wanted), Config()), number)
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def other(namespace: str, **spec: Any) -> dict[str, Any]:
    """Somebody else's pod, which asks for nothing."""
    meta = {"name": "other", "namespace": namespace}
    containers = [{"name": "other", "image": "example/other:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


def created(cluster: Cluster, made: dict[str, Any]) -> dict[str, Any]:
    namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]
    cluster.until(lambda: cluster.get("serviceaccount", "default", namespace), "its account is there")
    cluster.apply(made)
    found = cluster.get("pod", name, namespace)
    assert found is not None
    return found


# -- sums --------------------------------------------------------------------------------------------------------------


def asking(name: str, cpu: str, memory: str, storage: str, **fields: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory, "ephemeral-storage": storage}
    resources = {"requests": requests, "limits": {"cpu": "9", "memory": memory}}
    return {"name": name, "image": "example/beside:1", "resources": resources, **fields}


def sidecar(name: str, cpu: str, memory: str, storage: str) -> dict[str, Any]:
    return asking(name, cpu, memory, storage, restartPolicy="Always")


DRIVER = {"name": "driver", "resources": {"limits": {"cpu": "4"}}}
LARGE = asking("fetch", "7", "1Gi", "3Gi")
TEMPLATES: dict[str, dict[str, Any]] = {
    "the driver": {},
    "a container beside it": {"containers": [DRIVER, asking("logs", "100m", "64Mi", "1Gi")]},
    "init containers": {"initContainers": [LARGE, asking("check", "100m", "48Gi", "1Mi")]},
    "sidecars": {
        "initContainers": [
            sidecar("mesh", "150m", "256Mi", "1Mi"),
            LARGE,
            sidecar("logs", "1500m", "100Mi", "2Gi"),
            asking("check", "100m", "48Gi", "1Mi"),
        ]
    },
    "the pod's own resources": {
        "resources": {"requests": {"cpu": "6", "memory": "20Gi"}, "limits": {"memory": "40Gi"}},
        "initContainers": [sidecar("mesh", "150m", "256Mi", "1Mi")],
    },
}
NAMED = ("cpu", "memory", "ephemeral-storage")
ALL = {
    "pods": "100",
    "count/pods": "100",
    **{f"{prefix}{name}": "1Pi" for prefix in ("", "requests.") for name in NAMED},
    **{f"limits.{name}": "1Pi" for name in ("cpu", "memory")},
}
"""A quota of CPU refuses pods with a container that has no limit of it; one of disk does not."""


def require_counted(cluster: Cluster, namespace: str, made: dict[str, Any]) -> None:
    """A quota counts as much of each resource as the operator finds in the pod."""
    cluster.apply(quota_of(namespace, "all", ALL))
    sums = pod_usage.read(made).sums()
    found = {name: quantities.amount(text) for name, text in used(cluster, namespace, "all").items()}
    assert found.keys() == ALL.keys()
    assert found == {name: sums.get(name, 0) for name in ALL}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_the_operator_counts_a_pod_as_the_api_server_does(
    cluster: Cluster, namespace: str, template: dict[str, Any]
) -> None:
    beside = template.get("containers") or [DRIVER]
    made = created(cluster, pod(namespace, 2, **{**template, "containers": beside}))
    require_counted(cluster, namespace, made)


@pytest.fixture
def sandboxed(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A RuntimeClass whose pods take more than their containers."""
    fixed = {"podFixed": {"cpu": "250m", "memory": "120Mi"}}
    meta = {"name": namespace}
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": meta}
    cluster.apply({**kind, "handler": "runsc", "overhead": fixed})
    yield namespace
    cluster.kubectl("delete", "runtimeclass", namespace)


def test_the_overhead_of_a_runtime_class_counts(cluster: Cluster, namespace: str, sandboxed: str) -> None:
    given = {"containers": [DRIVER], "initContainers": [LARGE], "runtimeClassName": sandboxed}
    made = created(cluster, pod(namespace, 2, **given))
    assert made["spec"]["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    require_counted(cluster, namespace, made)


# -- scopes ------------------------------------------------------------------------------------------------------------


PODS: tuple[dict[str, Any], ...] = (
    {},
    {"priorityClassName": CRITICAL},
    {"priorityClassName": "system-node-critical"},
    {"priorityClassName": CRITICAL, "activeDeadlineSeconds": 3600},
    {"affinity": near()},
    {"affinity": near(namespaces=["kafka"])},
    {"affinity": apart(namespaceSelector={})},
)


def selected(operator: str, *values: str, name: str = "PriorityClass") -> dict[str, Any]:
    one: dict[str, Any] = {"scopeName": name, "operator": operator}
    return {"scopeSelector": {"matchExpressions": [{**one, **({"values": [*values]} if values else {})}]}}


SCOPES: dict[str, dict[str, Any]] = {
    "all": {},
    "terminating": {"scopes": ["Terminating"]},
    "not-terminating": {"scopes": ["NotTerminating"]},
    "best-effort": {"scopes": ["BestEffort"]},
    "not-best-effort": {"scopes": ["NotBestEffort"]},
    "two": {"scopes": ["Terminating", "NotBestEffort"]},
    "two-fields": {"scopes": ["NotTerminating"], **selected("In", CRITICAL)},
    "priority": {"scopes": ["PriorityClass"]},
    "exists": selected("Exists"),
    "in": selected("In", CRITICAL, "other"),
    "not-in": selected("NotIn", CRITICAL),
    "does-not-exist": selected("DoesNotExist"),
    "across": {"scopes": ["CrossNamespacePodAffinity"]},
    "across-selected": selected("Exists", name="CrossNamespacePodAffinity"),
}


def test_the_operator_finds_the_pods_that_a_quota_with_scopes_counts(
    cluster: Cluster, namespace: str
) -> None:
    made = [created(cluster, other(namespace))]
    made += [created(cluster, pod(namespace, number, **given)) for number, given in enumerate(PODS, 2)]
    cluster.apply(*(quota_of(namespace, name, {"pods": "100"}, **spec) for name, spec in SCOPES.items()))
    usages = [pod_usage.read(one) for one in made]
    for name in SCOPES:
        scopes = quota.scopes(cluster.get("resourcequota", name, namespace)["spec"])  # type: ignore[index]
        counted = sum(quota.counts(scopes, usage) for usage in usages)
        assert used(cluster, namespace, name) == {"pods": str(counted)}, name


# -- upgrades ----------------------------------------------------------------------------------------------------------


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a ResourceQuota of another priority is full, and does not count the driver that runs",
    when="a job is upgraded to that priority",
    expected="the old version runs on, and the condition names the quota",
)
def test_a_quota_that_does_not_count_the_old_pod_leaves_it_running(operated: OperatedNamespace) -> None:
    cluster, namespace = operated.cluster, operated.namespace
    operated.start(kubeconfig=operator_account.make(cluster, namespace))
    operated.apply()
    operated.running()
    created(cluster, other(namespace, priorityClassName=CRITICAL))
    assert limit(cluster, namespace, "high", {"pods": "1"}, **selected("In", CRITICAL)) == {"pods": "1"}
    operated.apply(driverTemplate={"spec": {"priorityClassName": CRITICAL}})
    cluster.until(lambda: "UpgradeRefused" in operated.reasons(), "the new pod is refused", 60)
    assert "exceeded quota: high" in operated.conditions()["Degraded"]["message"]
    assert "deletionTimestamp" not in operated.until_pod(1)["metadata"]


@pytest.mark.usefixtures("running_operator")
def test_an_init_container_that_fills_a_quota_does_not_refuse_the_new_one(
    operated: OperatedNamespace,
) -> None:
    """The job's containers alone are far below the quota."""
    fetch = {"resources": {"limits": {"memory": "48Gi"}}, "name": "fetch", "image": "example/fetch:1"}
    template = {"spec": {"initContainers": [fetch]}}
    operated.apply(driverTemplate=template)
    operated.running()
    cluster, namespace = operated.cluster, operated.namespace
    hard = {"limits.memory": "48Gi"}
    assert limit(cluster, namespace, "full", hard) == hard
    operated.apply(driverTemplate=template, image="example/job:2")
    operated.until_deleting("orders-driver-1")
    assert "UpgradeRefused" not in operated.reasons()
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.running(2)
