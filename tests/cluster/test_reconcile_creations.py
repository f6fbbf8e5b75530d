"""Pods whose creation fails: the attempt keeps its number, and no fence is waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.cluster.quotas import limit

from sparkstate_tools.kubernetes.api_faults import FaultProxy, Loss
from sparkstate_tools.operating import operator_account
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

SOON_S = 25.0
"""Less than the 14 s of the fence in these jobs, with their waits between two tries, would leave."""


@pytest.fixture
def proxied(operated: OperatedNamespace) -> Iterator[FaultProxy]:
    """The operator's way to the API server; the operator runs."""
    operator_account.make(operated.cluster, operated.namespace)
    with operated.cluster.faults() as proxy:
        account = operator_account.NAME
        kubeconfig = operated.cluster.kubeconfig_of(operated.namespace, account, server=proxy.server)
        operated.start(kubeconfig=kubeconfig)
        yield proxy
        assert operated.operator
        operated.operator.stop()


def one_attempt(operated: OperatedNamespace, within_s: float = SOON_S) -> None:
    begun = time.monotonic()
    operated.running(1)
    assert time.monotonic() - begun < within_s
    assert operated.status()["attempt"] == 1
    assert "AttemptSkipped" not in operated.reasons()


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the API server answers the creation of a ConfigMap and of a pod with {answer}",
    when="an attempt is made",
    expected="the pod is looked for and made under its number, without the wait of a lost node",
)
@pytest.mark.own_cluster
@pytest.mark.parametrize("answer", [429, 500, 503, Loss.BEFORE, Loss.AFTER], ids=str)
def test_a_creation_that_fails_costs_no_attempt(
    operated: OperatedNamespace, proxied: FaultProxy, answer: int | Loss
) -> None:
    for pattern in ("/configmaps$|/configmaps\\?", "/pods$|/pods\\?"):
        if isinstance(answer, Loss):
            proxied.lose(answer, pattern=pattern, method="POST", times=1)
        else:
            proxied.answer(answer, pattern=pattern, method="POST", times=1)
    operated.apply(fenceTimeout="5m")
    one_attempt(operated)


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a webhook that the API server calls does not answer",
    when="an attempt is made",
    expected="an Event says so; the pod is made under its number when the webhook is gone",
)
@pytest.mark.own_cluster
@pytest.mark.usefixtures("running_operator")
def test_a_webhook_that_fails_for_a_while_is_told_and_costs_no_attempt(operated: OperatedNamespace) -> None:
    """The API server calls a webhook that nobody answers, before it would write the pod."""
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": operated.namespace},
        "webhooks": [
            {
                "name": "nobody.answers.here",
                "clientConfig": {"url": "https://127.0.0.1:9/deny"},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operated.namespace}},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
            }
        ],
    }
    operated.cluster.apply(hook)
    try:
        operated.apply(fenceTimeout="5m")
        operated.cluster.until(lambda: "Refused" in operated.reasons(), "the webhook is told", 60)
        assert operated.cluster.get("configmap", "orders-1", operated.namespace)
    finally:
        operated.cluster.kubectl("delete", "validatingwebhookconfiguration", operated.namespace)
    one_attempt(operated, within_s=60)


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the new pod is refused in its dry run",
    when="a job is upgraded",
    expected="the old one runs on, and the dry run is made again until it passes",
)
@pytest.mark.usefixtures("running_operator")
def test_a_refused_upgrade_is_made_when_what_it_lacked_is_there(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    operated.apply(serviceAccountName="mine")
    operated.cluster.until(lambda: "refused" in operated.status(), "the pod is refused")
    assert operated.conditions()["Degraded"]["reason"] == "UpgradeRefused"
    assert "deletionTimestamp" not in operated.until_pod(1)["metadata"]
    account = {"name": "mine", "namespace": operated.namespace}
    operated.cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.running(2)
    assert "refused" not in operated.status()


@pytest.mark.usefixtures("running_operator")
def test_a_job_may_change_to_an_account_that_the_operator_makes(operated: OperatedNamespace) -> None:
    account = {"name": "mine", "namespace": operated.namespace}
    operated.cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    operated.apply(serviceAccountName="mine")
    operated.running()
    operated.apply()
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    assert operated.until_pod(2)["spec"]["serviceAccountName"] == "orders-spark"
    assert "UpgradeRefused" not in operated.reasons()


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a ResourceQuota has room for one driver pod alone",
    when="a job is upgraded",
    expected="the old pod is stopped and the new one made; one that is too large even then is refused",
)
@pytest.mark.usefixtures("running_operator")
def test_a_quota_that_the_old_pod_fills_does_not_refuse_the_new_one(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.running()
    memory = operated.until_pod(1)["spec"]["containers"][0]["resources"]["limits"]["memory"]
    used = limit(operated.cluster, operated.namespace, "full", {"pods": "1", "limits.memory": memory})
    assert used["pods"] == "1"
    operated.apply(image="example/job:2")
    operated.until_deleting("orders-driver-1")
    assert "UpgradeRefused" not in operated.reasons()
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.running(2)
    operated.apply(image="example/job:2", driver={"memory": "8Gi"})
    operated.cluster.until(lambda: "UpgradeRefused" in operated.reasons(), "one that is too large is refused")
    assert "deletionTimestamp" not in operated.until_pod(2)["metadata"]
