"""What the chart renders for the Job of an uninstall, and for the pod of ``helm test``."""

from __future__ import annotations

from typing import Any

import pytest
from support.cluster.chart import CHART, Chart

from sparkstate_operator import rbac
from sparkstate_tools.kubernetes.cluster import CommandFailed

NAME = "ours-sparkstate-operator"
RELEASE = f"{NAME}-release"
POD: dict[str, Any] = {
    "podLabels": {"team": "x"},
    "podAnnotations": {"note": "why"},
    "priorityClassName": "high",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "imagePullSecrets": [{"name": "pull"}],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
}
PLACING = ("priorityClassName", "nodeSelector", "tolerations", "affinity", "imagePullSecrets")


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Chart:
    return Chart(tmp_path_factory.mktemp("chart"))


def arguments(chart: Chart, values: dict[str, Any]) -> list[str]:
    """The namespaces of the Job."""
    (container,) = chart.one("Job", values, RELEASE)["spec"]["template"]["spec"]["containers"]
    return [one.removeprefix("--namespace=") for one in container["args"] if one.startswith("--namespace=")]


def granted(chart: Chart, values: dict[str, Any]) -> dict[str | None, list[dict[str, Any]]]:
    """The rules that are bound to the account of the Job, by namespace; None: in all of them."""
    made = [each for each in chart.render(values) if each["metadata"]["name"].endswith("-release")]
    roles = {each["metadata"].get("namespace"): each["rules"] for each in made if "rules" in each}
    bound = {each["metadata"].get("namespace") for each in made if each["kind"].endswith("Binding")}
    assert roles.keys() == bound
    return roles


def test_namespaces_that_are_watched_no_more_are_let_go_too(chart: Chart) -> None:
    values = {"watchNamespaces": ["shop"], "uninstall": {"namespaces": ["bank", "shop"]}}
    assert arguments(chart, values) == ["shop", "bank"]
    assert granted(chart, values) == {"shop": rbac.release_rules(), "bank": rbac.release_rules()}
    operated = [one for one in chart.operator(values)["args"] if one.startswith("--namespace=")]
    assert operated == ["--namespace=shop"], "the operator itself leaves it alone"
    of_operator = [each for each in chart.render(values) if each["metadata"]["name"] == NAME]
    assert "bank" not in {each["metadata"].get("namespace") for each in of_operator}


def test_a_release_that_watches_everything_lets_everything_go(chart: Chart) -> None:
    values = {"uninstall": {"namespaces": ["bank"]}}
    assert arguments(chart, values) == []
    assert granted(chart, values) == {None: rbac.release_rules()}


def test_a_namespace_that_no_namespace_can_be_called_is_refused(chart: Chart) -> None:
    with pytest.raises(CommandFailed, match="uninstall/namespaces/0"):
        chart.render({"uninstall": {"namespaces": ["Not A Name"]}})


def account(chart: Chart, values: dict[str, Any]) -> str:
    return str(chart.one("Job", values, RELEASE)["spec"]["template"]["spec"]["serviceAccountName"])


@pytest.mark.parametrize("create", [True, False], ids=["the chart grants the rights", "a person does"])
def test_an_account_that_somebody_brings_is_the_uninstalls_too(chart: Chart, create: bool) -> None:
    values = {"serviceAccount": {"create": False, "name": "theirs"}, "rbac": {"create": create}}
    assert account(chart, values) == "theirs"
    made = chart.render(values)
    assert "ServiceAccount" not in [each["kind"] for each in made]
    subjects = [each["subjects"] for each in made if "subjects" in each]
    theirs = [{"kind": "ServiceAccount", "name": "theirs", "namespace": "ops"}]
    assert bool(subjects) == create
    assert all(one == theirs for one in subjects)


def test_the_account_of_the_uninstall_is_named_to_people_who_grant_its_rights_themselves(
    chart: Chart,
) -> None:
    values = {"rbac": {"create": False}}
    assert account(chart, values) == RELEASE
    assert chart.one("ServiceAccount", values, RELEASE)
    heads = (CHART / "files" / "rules.yaml").read_text().partition("jobs:\n-")[0]
    page = (CHART.parents[1] / "docs" / "helm.md").read_text()
    for text in (heads, page):
        assert "<full name>-release" in text


def pods(chart: Chart, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Metadata and spec of each pod, by the kind of what makes it."""
    made = [each for each in chart.render(values) if each["kind"] in ("Deployment", "Job", "Pod")]
    return {each["kind"]: each if each["kind"] == "Pod" else each["spec"]["template"] for each in made}


def test_every_pod_of_the_release_gets_the_labels_the_place_and_the_variables(chart: Chart) -> None:
    found = pods(chart, POD)
    assert sorted(found) == ["Deployment", "Job", "Pod"]
    for pod in found.values():
        assert pod["metadata"]["labels"]["team"] == "x"
        assert pod["metadata"]["annotations"]["note"] == "why"
        placed = {name: POD[name] for name in PLACING}
        placed["nodeSelector"] = {"kubernetes.io/os": "linux", "disk": "ssd"}
        assert {name: pod["spec"][name] for name in PLACING} == placed
        (container,) = pod["spec"]["containers"]
        assert POD["extraEnv"][0] in container["env"]
    assert found["Pod"]["metadata"]["annotations"]["helm.sh/hook"] == "test"


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a node with an operator, while helm runs a pod of its own",
    when="nodes are drained",
    expected="the budget, the Service and the Deployment mean the operator's pods alone",
)
def test_the_operators_selectors_mean_no_pod_that_helm_runs(chart: Chart) -> None:
    values = {**POD, "podDisruptionBudget": {"enabled": True}, "networkPolicy": {"enabled": True}}
    specs = {one["kind"]: one["spec"] for one in chart.render(values) if one.get("spec")}
    selectors = [specs[kind]["selector"]["matchLabels"] for kind in ("Deployment", "PodDisruptionBudget")]
    selectors += [specs["Service"]["selector"], specs["NetworkPolicy"]["podSelector"]["matchLabels"]]
    found = {kind: pod["metadata"]["labels"].items() for kind, pod in pods(chart, values).items()}
    for selector in selectors:
        assert [kind for kind, labels in found.items() if selector.items() <= labels] == ["Deployment"]
    assert all(("app.kubernetes.io/instance", "ours") in labels for labels in found.values())


def test_a_pod_that_asks_through_the_service_is_rendered_only_with_it(chart: Chart) -> None:
    assert "Pod" in pods(chart, {})
    assert "Pod" not in pods(chart, {"metrics": {"service": False}})
