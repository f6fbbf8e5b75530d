"""Letting go of very many objects when the chart is uninstalled."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from sparkstate_operator import errors, labels, release
from sparkstate_operator.edges import kube as k
from sparkstate_operator.lease import LeaseSettings
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operator_account

pytestmark = pytest.mark.fault_on("the operator")
MANY = 600
"""More than a page."""
GROUP = ("sparkstate.io", "v1alpha1")


def let_go(namespace: str, kubeconfig: Path) -> int:
    lease = LeaseSettings("default", namespace, "tests")
    return asyncio.run(release.release(lease, [namespace], str(kubeconfig)))


def make(cluster: Cluster, namespace: str, count: int, theirs: list[str]) -> None:
    objects = client.CustomObjectsApi(cluster.api())

    def one(number: int) -> None:
        meta: dict[str, Any] = {"name": f"s-{number}", "finalizers": [labels.FINALIZER, *theirs]}
        body = {
            "apiVersion": "/".join(GROUP),
            "kind": "StateSnapshot",
            "metadata": meta,
            "spec": {"uri": "s3://b/s"},
        }
        objects.create_namespaced_custom_object(*GROUP, namespace, "statesnapshots", body)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(count)))


def held(cluster: Cluster, namespace: str) -> list[str]:
    """Names of what still has our finalizer."""
    found = [each["metadata"] for each in cluster.items("snap", namespace)]
    return [each["name"] for each in found if labels.FINALIZER in each.get("finalizers", ())]


def remove_all(cluster: Cluster, namespace: str) -> None:
    """The other's finalizer too, so that the namespace can go."""
    for each in cluster.items("snap", namespace):
        name, nothing = each["metadata"]["name"], '{"metadata":{"finalizers":[]}}'
        cluster.kubectl("patch", "snap", name, "-n", namespace, "--type=merge", "-p", nothing)


@pytest.mark.own_cluster
@pytest.mark.usefixtures("crds")
def test_each_object_costs_one_request(cluster: Cluster, namespace: str) -> None:
    make(cluster, namespace, MANY, theirs=[])
    mark = cluster.audit.mark()
    count = let_go(namespace, cluster.kubeconfig)
    assert count == MANY
    assert held(cluster, namespace) == []
    asked = [one for one in cluster.audit.since(mark) if one.user_agent == k.FIELD_MANAGER]
    verbs = Counter(one.verb for one in asked if one.resource == "statesnapshots")
    assert verbs == {"patch": MANY, "list": 2}


@pytest.mark.own_cluster
@pytest.mark.usefixtures("crds")
@pytest.mark.fault(
    broken="the API server refuses to let one object go",
    when="the chart is uninstalled",
    expected="all others are let go, many at a time, and the command fails so that it is run again",
)
def test_many_are_under_way_and_one_that_is_refused_holds_none_up(cluster: Cluster, namespace: str) -> None:
    make(cluster, namespace, release.AT_ONCE + 8, theirs=["example.org/theirs"])
    operator_account.make(cluster, namespace)
    everybody = threading.Barrier(release.AT_ONCE)
    with cluster.faults() as proxy:
        proxy.call(
            lambda: everybody.wait(20), pattern="statesnapshots/s-", method="PATCH", times=release.AT_ONCE
        )
        proxy.answer(500, pattern="statesnapshots/s-", method="PATCH", times=1)
        kubeconfig = cluster.kubeconfig_of(namespace, operator_account.NAME, server=proxy.server)
        with pytest.raises(errors.ApiError, match="1 objects could not be let go"):
            let_go(namespace, kubeconfig)
    assert not everybody.broken
    assert len(held(cluster, namespace)) == 1
    assert let_go(namespace, cluster.kubeconfig) == 1
    left = [each["metadata"]["finalizers"] for each in cluster.items("snap", namespace)]
    assert left == [["example.org/theirs"]] * (release.AT_ONCE + 8)
    remove_all(cluster, namespace)


@pytest.mark.usefixtures("crds")
def test_only_what_this_operator_looks_after_is_let_go(cluster: Cluster, namespace: str) -> None:
    whose = {
        "ours": ({labels.MANAGER: f"default/{namespace}"}, {}),
        "theirs": ({labels.MANAGER: "default/theirs"}, {}),
        "of-before": ({}, {}),
        "of-another-class": ({}, {labels.OPERATOR_CLASS: "blue"}),
    }
    for name, (notes, marks) in whose.items():
        meta = {"name": name, "namespace": namespace, "annotations": notes, "labels": marks}
        cluster.apply(
            {
                "apiVersion": "/".join(GROUP),
                "kind": "StateSnapshot",
                "metadata": {**meta, "finalizers": [labels.FINALIZER]},
                "spec": {"uri": "s3://b/s"},
            }
        )
    assert let_go(namespace, cluster.kubeconfig) == 2
    assert sorted(held(cluster, namespace)) == ["of-another-class", "theirs"]
    found = cluster.get("snap", "ours", namespace)
    assert found is not None
    assert labels.MANAGER not in (found["metadata"].get("annotations") or {})
    remove_all(cluster, namespace)
