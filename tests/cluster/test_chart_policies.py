"""What the chart's NetworkPolicy and PodDisruptionBudget do to the operator's pods, on a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from support.repository import tree

from sparkstate_tools.kubernetes.cluster import Cluster, CommandFailed
from sparkstate_tools.operating.kubelet import Kubelet

CHART = tree.ROOT / "charts" / "sparkstate-operator"
NAME = "ours-sparkstate-operator"
VALUES = "replicas=2,podDisruptionBudget.enabled=true,networkPolicy.enabled=true"


@pytest.fixture
def installed(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """The chart's objects that concern its pods, by kind; two pods run and are ready."""
    more = ("--no-hooks", "--kube-version", "1.36.3")
    text = cluster.helm("template", "ours", CHART, "-n", namespace, "--set", VALUES, *more)
    kinds = ("ServiceAccount", "Deployment", "NetworkPolicy", "PodDisruptionBudget")
    found = {one["kind"]: one for one in yaml.safe_load_all(text) if one and one["kind"] in kinds}
    cluster.apply(*(found[kind] for kind in kinds))
    pods = cluster.until(
        lambda: len(cluster.items("pods", namespace)) == 2 and cluster.items("pods", namespace), "two"
    )
    for pod in pods:
        Kubelet(cluster, namespace).run(pod["metadata"]["name"])
    return found


def selected(cluster: Cluster, namespace: str, selector: dict[str, Any]) -> set[str]:
    (labels,) = selector.values()
    chosen = ",".join(f"{name}={value}" for name, value in labels.items())
    return {pod["metadata"]["name"] for pod in cluster.items("pods", namespace, chosen)}


def evict(cluster: Cluster, namespace: str, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(body))


def test_a_drain_takes_one_operator_and_leaves_the_other(
    cluster: Cluster, namespace: str, installed: dict[str, dict[str, Any]]
) -> None:
    def counted() -> bool:
        found = cluster.get("poddisruptionbudget", NAME, namespace) or {}
        status = found.get("status") or {}
        return (status.get("expectedPods"), status.get("disruptionsAllowed")) == (2, 1)

    cluster.until(counted, "the budget counts both pods")
    first, second = sorted(selected(cluster, namespace, installed["PodDisruptionBudget"]["spec"]["selector"]))
    evict(cluster, namespace, first)
    with pytest.raises(CommandFailed, match="disruption budget"):
        evict(cluster, namespace, second)


def test_nothing_but_probes_and_scrapes_reaches_the_operator_and_it_reaches_everything(
    cluster: Cluster, namespace: str, installed: dict[str, dict[str, Any]]
) -> None:
    policy = (cluster.get("networkpolicy", NAME, namespace) or {})["spec"]
    assert len(selected(cluster, namespace, policy["podSelector"])) == 2
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    (port,) = rule["ports"]
    (container,) = installed["Deployment"]["spec"]["template"]["spec"]["containers"]
    named = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert named == {"http": port["port"]}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in (*named, port["port"])
