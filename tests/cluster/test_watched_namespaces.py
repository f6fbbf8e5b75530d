"""One of several watched namespaces is deleted, with the operator's Role in it, and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operated_namespace, operator_account
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

GROUP = "rbac.authorization.k8s.io"
pytestmark = [pytest.mark.own_cluster, pytest.mark.usefixtures("crds")]


@pytest.fixture
def going(cluster: Cluster) -> Iterator[str]:
    """A namespace that the test deletes and makes again."""
    with cluster.namespace() as name:
        yield name


def let_in(cluster: Cluster, namespace: str, home: str) -> None:
    """The chart's Role and RoleBinding for an operator that runs elsewhere."""
    operator_account.make(cluster, namespace)
    cluster.apply(
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "of-home", "namespace": namespace},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": operator_account.NAME},
            "subjects": [{"kind": "ServiceAccount", "name": operator_account.NAME, "namespace": home}],
        }
    )


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a watched namespace is deleted, with the operator's rights in it",
    when="jobs of another namespace run",
    expected="the others are looked after; the namespace's new jobs too, once it is back",
)
def test_the_others_are_looked_after_and_its_new_jobs_too_once_it_is_back(
    cluster: Cluster, namespace: str, going: str, tmp_path: Path
) -> None:
    here = OperatedNamespace(cluster, namespace, tmp_path)
    kubeconfig = operator_account.make(cluster, namespace)
    let_in(cluster, going, namespace)
    here.start(kubeconfig=kubeconfig, options=["--namespace", going])
    there = OperatedNamespace(cluster, going, tmp_path, operator=here.operator)
    here.apply()
    here.running()
    there.apply()
    there.running()
    old = there.job()["metadata"]["uid"]
    there.delete()
    there.until_deleting("orders-driver-1")
    there.kubelet.finish_deletion("orders-driver-1")
    cluster.until_gone("ssj", "orders", going)
    cluster.kubectl("delete", "namespace", going, "--wait=false")
    cluster.until(lambda: cluster.get("namespace", going) is None, "the namespace is gone", 90)

    here.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
    here.running(2)

    cluster.kubectl("create", "namespace", going)
    let_in(cluster, going, namespace)
    cluster.apply(operated_namespace.job(going))
    there.running()
    assert there.job()["metadata"]["uid"] != old
    assert there.status()["attempt"] == 1
    there.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
    there.running(2)
    here.end()
    cluster.kubectl(
        "patch", "ssj", "orders", "-n", going, "--type=merge", "-p", '{"metadata":{"finalizers":[]}}'
    )
