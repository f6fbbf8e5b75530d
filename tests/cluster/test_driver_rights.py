"""What the ServiceAccount of a driver with executors may ask of the API server, and how it comes to that."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.scene import in_cluster

from sparkstate_operator import labels, rbac
from sparkstate_operator.core import naming
from sparkstate_operator.objects import children, parts
from sparkstate_tools.kubernetes.cluster import Cluster, CommandFailed
from sparkstate_tools.operating import operator_account
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

ACCOUNT = naming.service_account("rotations")
GROUP = "rbac.authorization.k8s.io"


def context_in(namespace: str) -> parts.Context:
    found = in_cluster.context()
    config = dataclasses.replace(found.config, driver_role=operator_account.ROLE)
    return dataclasses.replace(found, job=dataclasses.replace(found.job, namespace=namespace), config=config)


def role(namespace: str, name: str, rules: list[rbac.Rule], **marks: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "labels": marks}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": meta, "rules": rules}


def test_what_is_not_granted_is_refused(cluster: Cluster, namespace: str) -> None:
    cluster.apply(
        role(namespace, operator_account.ROLE.name, rbac.driver_rules()),
        *(each for each in children.standing(context_in(namespace)) if each["kind"] != "Service"),
    )
    account = cluster.kubeconfig_of(namespace, ACCOUNT)
    for words in (
        ("delete", "configmap", "--all"),
        ("delete", "persistentvolumeclaim", "--all"),
        ("get", "secrets"),
        ("get", "pods", "--all-namespaces"),
        ("create", "configmap", "one"),
        ("create", "token", ACCOUNT),
        ("create", "rolebinding", "more", "--clusterrole=admin", f"--serviceaccount={namespace}:{ACCOUNT}"),
        ("delete", "service", "--all"),
    ):
        with pytest.raises(CommandFailed, match="cannot"):
            cluster.kubectl(*words, kubeconfig=account)
    cluster.kubectl("get", "pods", kubeconfig=account)


@pytest.mark.own_cluster
def test_the_operator_can_neither_make_a_role_nor_bind_one_that_holds_more(
    operated: OperatedNamespace,
) -> None:
    cluster, namespace = operated.cluster, operated.namespace
    account = operator_account.make(cluster, namespace)
    cluster.apply(
        role(namespace, "more", [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}])
    )
    for words, said in (
        (("create", "role", "mine", "--verb=get", "--resource=pods"), 'cannot create resource "roles"'),
        (
            ("create", "rolebinding", "a", "--role=more", f"--serviceaccount={namespace}:default"),
            "attempting to grant",
        ),
        (
            ("create", "rolebinding", "b", "--clusterrole=admin", f"--serviceaccount={namespace}:default"),
            "attempting to grant",
        ),
    ):
        with pytest.raises(CommandFailed, match=said):
            cluster.kubectl(*words, "-n", namespace, kubeconfig=account)


@contextmanager
def always_allowed(cluster: Cluster, namespace: str, account: Path) -> Iterator[list[str]]:
    """Whoever this is may list pods all the time; what was refused is in the list."""
    over, refused = threading.Event(), list[str]()

    def ask() -> None:
        while not over.is_set():
            try:
                cluster.kubectl("get", "pods", "-n", namespace, kubeconfig=account)
            except CommandFailed as error:
                refused.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield refused
    finally:
        over.set()
        asking.join()


@pytest.mark.own_cluster
@pytest.mark.extra
@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the operator is replaced by one that gives drivers their rights in another way",
    when="a driver with executors runs",
    expected="the driver may see its executors at any moment; what gave it the right before goes",
)
def test_a_driver_of_an_older_operator_is_never_without_rights_and_its_role_goes(
    operated: OperatedNamespace,
) -> None:
    cluster, namespace = operated.cluster, operated.namespace
    name = naming.service_account(operated.name)
    kubeconfig = operator_account.make(cluster, namespace)
    cluster.apply(role(namespace, operator_account.ROLE.name, rbac.driver_rules()))
    first = operated.start(kubeconfig=kubeconfig)
    operated.apply(deployment="cluster")
    operated.running()
    first.stop()
    marks = {labels.JOB: operated.name, labels.JOB_UID: operated.job()["metadata"]["uid"]}
    # As operators before made them: a Role of the job's own, and the RoleBinding that names it.
    cluster.apply(role(namespace, name, rbac.driver_rules(), **marks))
    (present,) = cluster.items("rolebindings", namespace, f"{labels.JOB}={operated.name}")
    meta = {"name": name, "namespace": namespace, "labels": marks}
    older = {"roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name}, "subjects": present["subjects"]}
    cluster.apply({"apiVersion": f"{GROUP}/v1", "kind": "RoleBinding", "metadata": meta, **older})
    cluster.kubectl("delete", "rolebinding", present["metadata"]["name"], "-n", namespace)

    def roles() -> set[str]:
        """Of the job's bindings."""
        found = cluster.items("rolebindings", namespace, f"{labels.JOB}={operated.name}")
        return {each["roleRef"]["name"] for each in found}

    driver = cluster.kubeconfig_of(namespace, name)
    with always_allowed(cluster, namespace, driver) as refused:
        second = operated.start(kubeconfig=kubeconfig)
        cluster.until(lambda: roles() == {operator_account.ROLE.name}, "the chart's role is bound alone", 40)
        cluster.until(lambda: cluster.get("role", name, namespace) is None, "the job's own Role is gone", 20)
        second.stop()
    assert refused == []
    assert operated.status()["attempt"] == 1
    assert second.errors() == []

    # Where the role has another name (watchNamespaces set or taken away, another release) nothing is missing either.
    other = dataclasses.replace(operator_account.ROLE, name="other")
    cluster.apply(role(namespace, other.name, rbac.driver_rules()))
    with always_allowed(cluster, namespace, driver) as refused:
        operated.start(options=["--driver-role", f"{other.kind}/{other.name}"])
        cluster.until(lambda: roles() == {other.name}, "the other role is bound alone", 40)
    assert refused == []
