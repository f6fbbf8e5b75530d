"""What the ServiceAccount of a driver with executors may ask of the API server, tried from the wrong side."""

from __future__ import annotations

import dataclasses

import pytest
from support import in_cluster
from support.kubernetes.cluster import Cluster, CommandFailed

from sparkstate_operator.core import naming
from sparkstate_operator.objects import children, parts

ACCOUNT = naming.service_account("rotations")


def context_in(namespace: str) -> parts.Context:
    found = in_cluster.context()
    return dataclasses.replace(found, job=dataclasses.replace(found.job, namespace=namespace))


def test_what_is_not_granted_is_refused(cluster: Cluster, namespace: str) -> None:
    cluster.apply(*(each for each in children.standing(context_in(namespace)) if each["kind"] != "Service"))
    account = cluster.kubeconfig_of(namespace, ACCOUNT)
    for words in (
        ("delete", "configmap", "--all"),
        ("delete", "persistentvolumeclaim", "--all"),
        ("get", "secrets"),
        ("get", "pods", "--all-namespaces"),
        ("create", "configmap", "one"),
        ("create", "token", ACCOUNT),
        ("delete", "service", "--all"),
    ):
        with pytest.raises(CommandFailed, match="cannot"):
            cluster.kubectl(*words, kubeconfig=account)
    cluster.kubectl("get", "pods", kubeconfig=account)
