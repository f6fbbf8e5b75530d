"""What single values of the chart do to what is rendered."""

from __future__ import annotations

from typing import Any

import pytest
from support.cluster.chart import Chart

from sparkstate_tools.kubernetes.cluster import CommandFailed


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Chart:
    return Chart(tmp_path_factory.mktemp("chart"))


def test_two_renderings_are_the_same(chart: Chart) -> None:
    """Argo CD renders again and again: what differs is applied, and a new key would cut off every driver."""
    assert chart.render({}) == chart.render({})


def test_the_key_is_made_by_the_operator_or_is_the_named_secret(chart: Chart) -> None:
    made = chart.operator({})
    assert "--key-secret=ours-sparkstate-operator-key" in made["args"]
    assert "key" not in {each["name"] for each in made["volumeMounts"]}
    values = {"operatorKey": {"existingSecret": "theirs"}}
    named = chart.operator(values)
    assert "--key-file=/etc/sparkstate-operator/key/key" in named["args"]
    assert not [each for each in named["args"] if each.startswith("--key-secret")]
    volumes = chart.one("Deployment", values)["spec"]["template"]["spec"]["volumes"]
    assert {"name": "key", "secret": {"secretName": "theirs", "defaultMode": 0o440}} in volumes


def test_variables_volumes_and_mounts_are_added_to_the_operators(chart: Chart) -> None:
    values = {
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "company-ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/company", "readOnly": True}],
    }
    container = chart.operator(values)
    assert container["env"][0]["name"] == "SPARKSTATE_POD_NAME"
    assert container["env"][1:] == values["extraEnv"]
    assert values["extraVolumeMounts"][0] in container["volumeMounts"]
    pod = chart.one("Deployment", values)["spec"]["template"]["spec"]
    assert values["extraVolumes"][0] in pod["volumes"]
    assert {"defaults", "tmp", "ca"} == {each["name"] for each in pod["volumes"]}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "ours-sparkstate-operator"),
        ({"nameOverride": "engine"}, "ours-engine"),
        ({"nameOverride": "ours"}, "ours"),
        ({"fullnameOverride": "state"}, "state"),
        ({"fullnameOverride": "state", "nameOverride": "engine"}, "state"),
    ],
    ids=["as it is", "name", "name of the release", "full name", "both"],
)
def test_names_can_be_chosen(chart: Chart, values: dict[str, Any], name: str) -> None:
    made = chart.one("Deployment", values, name)
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert {f"--lease-name={name}", f"--key-secret={name}-key"} <= set(container["args"])
    assert made["spec"]["template"]["spec"]["serviceAccountName"] == name
    beside = [each for each in chart.render(values) if each["kind"] != "CustomResourceDefinition"]
    assert [each["metadata"]["name"] for each in beside if name not in each["metadata"]["name"]] == []


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ({}, {"runAsUser": 185, "runAsGroup": 185, "fsGroup": 185}),
        ({"runAsUser": 1001}, {"runAsUser": 1001, "runAsGroup": 185, "fsGroup": 185}),
        ({"runAsUser": None, "runAsGroup": None, "fsGroup": None}, {}),
    ],
    ids=["the image's", "another", "the cluster's choice"],
)
def test_the_operators_user_can_be_another_or_nobody_in_particular(
    chart: Chart, user: dict[str, Any], found: dict[str, int]
) -> None:
    always = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pods = [
        each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"]
        for each in chart.render({"podSecurity": user})
        if each["kind"] in ("Pod", "Deployment", "Job")
    ]
    assert [pod["securityContext"] for pod in pods] == [{**always, **found}] * 3


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ({}, ["185", "185", "185"]),
        ({"runAsUser": 1000650000}, ["1000650000", "185", "185"]),
        ({"runAsUser": None, "runAsGroup": None, "fsGroup": None}, ["none", "none", "none"]),
    ],
    ids=["the image's", "another", "the cluster's choice"],
)
def test_the_user_of_jobs_can_be_another_or_nobody_in_particular(
    chart: Chart, user: dict[str, Any], found: list[str]
) -> None:
    arguments = chart.operator({"jobPodSecurity": user})["args"]
    told = dict(one.removeprefix("--").split("=", 1) for one in arguments if one.startswith("--job-"))
    assert [told[name] for name in ("job-user", "job-group", "job-fs-group")] == found


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"podSecurity": {"runAsUser": 0}}, "runAsUser"),
        ({"jobPodSecurity": {"runAsUser": 0}}, "runAsUser"),
        ({"fullnameOverride": "Not A Name"}, "fullnameOverride"),
        ({"extraEnv": [{"value": "x"}]}, "extraEnv"),
        ({"metrics": {"podMonitor": {"every": "30s"}}}, "every"),
    ],
    ids=["root", "root of jobs", "name", "variable", "misspelt"],
)
def test_a_wrong_value_is_refused(chart: Chart, values: dict[str, Any], said: str) -> None:
    with pytest.raises(CommandFailed, match=said):
        chart.render(values)


def test_view_edit_and_admin_get_jobs_and_snapshots(chart: Chart) -> None:
    def roles(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {
            each["metadata"]["name"]: each
            for each in chart.render(values)
            if each["kind"] == "ClusterRole" and "aggregate-to" in str(each["metadata"]["labels"])
        }

    found = roles({})
    assert sorted(found) == ["ops-ours-sparkstate-operator-edit", "ops-ours-sparkstate-operator-view"]
    verbs = {verb for rule in found["ops-ours-sparkstate-operator-view"]["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    assert roles({"rbac": {"aggregate": False}}) == roles({"watchNamespaces": ["shop"]}) == {}
