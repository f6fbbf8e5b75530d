"""Watches that kopf gives up, and definitions that are not there or go away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.repository import tree

from sparkstate_tools.kubernetes import control_plane
from sparkstate_tools.kubernetes.cluster import Cluster
from sparkstate_tools.operating import operator_account
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

CRDS = tree.ROOT / "crds"
DEFINITION = "statefulsparkjobs.sparkstate.io"
pytestmark = pytest.mark.own_cluster


def said(operated: OperatedNamespace, words: str) -> int:
    """How many lines of the operator's log say so."""
    assert operated.operator
    return sum(words in line["message"] for line in operated.operator.lines())


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a watch is answered with a status that ends it for good (404, 410)",
    when="jobs run, and the other watches are live",
    expected="all watches begin anew within seconds, and the operator hears of every change",
)
def test_after_one_final_answer_all_watches_begin_anew(operated: OperatedNamespace) -> None:
    cluster = operated.cluster
    operator_account.make(cluster, operated.namespace)
    with cluster.faults() as proxy:
        kubeconfig = cluster.kubeconfig_of(operated.namespace, operator_account.NAME, server=proxy.server)
        operated.start(kubeconfig=kubeconfig)
        operated.apply()
        operated.until_pod(1)
        proxy.answer(410, "pods.*watch=true")
        proxy.drop_watches()
        cluster.until(lambda: said(operated, "failed and begin anew"), "the watches have failed", 20)
        operated.apply("second")
        operated.until_pod(1, "second", 20)
        assert operated.operator
        operated.operator.stop()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without our definitions, for these tests alone."""
    with control_plane.running() as plane:
        found = Cluster(plane.admin, tmp_path_factory.mktemp("bare"), plane)
        yield found
        found.close()


@pytest.mark.extra
@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the resource definitions are not installed, or are deleted",
    when="the operator starts, or runs",
    expected="its log says so, and it goes on once they are there",
)
def test_definitions_may_come_later_and_may_be_made_again(bare: Cluster, tmp_path: Path) -> None:
    with bare.namespace() as namespace:
        operated = OperatedNamespace(bare, namespace, tmp_path)
        operated.start()
        bare.until(lambda: said(operated, "does not serve statefulsparkjobs"), "it says so", 20)
        bare.install_crds(CRDS)
        operated.apply()
        operated.running()
        first = operated.job()["metadata"]["uid"]
        bare.kubectl("delete", "crd", DEFINITION, "--wait=false")
        operated.until_deleting("orders-driver-1")
        operated.kubelet.finish_deletion("orders-driver-1")
        bare.until_gone("crd", DEFINITION)
        seen = said(operated, "does not serve statefulsparkjobs;")
        bare.until(lambda: said(operated, "does not serve statefulsparkjobs;") > seen, "it says so", 20)
        bare.install_crds(CRDS)
        operated.apply()
        operated.running()
        assert operated.job()["metadata"]["uid"] != first
        operated.end()
