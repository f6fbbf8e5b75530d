"""What the chart renders, for several sets of values."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from support.cluster.chart import CHART, Chart, helm
from support.repository import tree

from sparkstate_operator import rbac
from sparkstate_operator.config import DriverRole
from sparkstate_operator.core import memory, settings
from sparkstate_operator.metrics import Metrics
from sparkstate_spec.units import MIB
from sparkstate_tools.kubernetes.cluster import CommandFailed

DIGEST = "sha256:" + "a" * 64
EVERYTHING = {
    "replicas": 2,
    "watchNamespaces": ["shop", "bank"],
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "networkPolicy": {"enabled": True},
    "podDisruptionBudget": {"enabled": True},
    "imagePullSecrets": [{"name": "pull"}],
    "priorityClassName": "high",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "podLabels": {"team": "x"},
    "podAnnotations": {"note": "why"},
    "serviceAccount": {"name": "own", "annotations": {"role": "z"}},
    "extraArgs": ["--progress-seconds=30"],
    "defaults": {
        "checkpointing": {"storage": "s3://bucket/state"},
        "operatorStateMemoryPerSlot": "48Mi",
        "s3": {"pathStyle": True},
    },
}
NOTHING = {
    "serviceAccount": {"create": False, "name": "theirs"},
    "rbac": {"create": False},
    "operatorKey": {"existingSecret": "their-key"},
    "crds": {"install": False},
    "metrics": {"service": False},
    "uninstall": {"release": False},
}
NOTHING_BUT_RIGHTS = {"operatorKey": {"existingSecret": "their-key"}}
SETS: dict[str, dict[str, Any]] = {"defaults": {}, "everything": EVERYTHING, "nothing": NOTHING}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Chart:
    return Chart(tmp_path_factory.mktemp("chart"))


def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_each_set_of_values_renders(chart: Chart, values: dict[str, Any]) -> None:
    kinds = [each["kind"] for each in chart.render(values)]
    assert kinds.count("Deployment") == 1
    assert kinds.count("ServiceMonitor") == kinds.count("PrometheusRule") == (values is EVERYTHING)
    assert kinds.count("NetworkPolicy") == kinds.count("PodDisruptionBudget") == (values is EVERYTHING)
    assert kinds.count("CustomResourceDefinition") == (0 if values is NOTHING else 2)
    assert kinds.count("PodMonitor") == (values is EVERYTHING)
    assert kinds.count("ConfigMap") == (3 if values is EVERYTHING else 1)
    assert kinds.count("Secret") == 0
    cluster_wide = {"ClusterRole", "ClusterRoleBinding"} & set(kinds)
    assert bool(cluster_wide) == (values == {})
    assert (kinds.count("RoleBinding") > 0) == (values is not NOTHING)


def test_an_autoscaler_may_take_the_operator_s_node(chart: Chart) -> None:
    for values in ({}, {"podAnnotations": {"note": "why"}}):
        (deployment,) = [each for each in chart.render(values) if each["kind"] == "Deployment"]
        annotations = deployment["spec"]["template"]["metadata"]["annotations"]
        assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (None, {"kubernetes.io/os": "linux"}),
        ({"disk": "ssd"}, {"kubernetes.io/os": "linux", "disk": "ssd"}),
        ({"kubernetes.io/os": "our-linux"}, {"kubernetes.io/os": "our-linux"}),
        ({"kubernetes.io/os": None}, None),
    ],
    ids=["none", "another label", "the same label", "the label taken out"],
)
def test_the_operator_runs_on_linux_unless_the_values_say_otherwise(
    chart: Chart, selector: dict[str, Any] | None, found: dict[str, Any] | None
) -> None:
    pod = chart.one("Deployment", {"nodeSelector": selector} if selector else {})["spec"]["template"]["spec"]
    assert pod.get("nodeSelector") == found


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_every_pod_meets_pod_security_restricted_and_writes_to_volumes_only(
    chart: Chart, values: dict[str, Any]
) -> None:
    pods = [
        each["spec"] if each["kind"] == "Pod" else each["spec"]["template"]["spec"]
        for each in chart.render(values)
        if each["kind"] in ("Pod", "Deployment", "Job")
    ]
    assert len(pods) == (1 if values is NOTHING else 3)
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_the_rights_are_the_operators_own_table(chart: Chart) -> None:
    whole = chart.one("ClusterRole", {}, "ops-ours-sparkstate-operator")
    role = "ops-ours-sparkstate-operator-driver"
    assert whole["rules"] == rbac.rules() + rbac.bind_rules(DriverRole("ClusterRole", role))
    assert chart.one("ClusterRole", {}, role)["rules"] == rbac.driver_rules()
    assert f"--driver-role=ClusterRole/{role}" in chart.operator({})["args"]
    lease = chart.one("Role", NOTHING_BUT_RIGHTS, "ours-sparkstate-operator-lease")["rules"]
    assert lease == rbac.lease_rules()
    own = chart.one("Role", {}, "ours-sparkstate-operator-lease")["rules"]
    assert own == rbac.lease_rules() + rbac.key_rules("ours-sparkstate-operator-key")
    role = "ours-sparkstate-operator-driver"
    wanted = {
        "ours-sparkstate-operator": rbac.rules() + rbac.bind_rules(DriverRole("Role", role)),
        role: rbac.driver_rules(),
    }
    for name, rules in wanted.items():
        found = [
            each
            for each in chart.render(EVERYTHING)
            if each["kind"] == "Role" and each["metadata"]["name"] == name
        ]
        assert {each["metadata"]["namespace"]: each["rules"] for each in found} == {
            "shop": rules,
            "bank": rules,
        }
    assert f"--driver-role=Role/{role}" in chart.operator(EVERYTHING)["args"]


def test_the_operator_makes_no_role_and_binds_one(chart: Chart) -> None:
    for values in ({}, EVERYTHING):
        rules = [rule for each in chart.render(values) for rule in each.get("rules") or ()]
        about = [rule for rule in rules if {"roles", "clusterroles"} & set(rule["resources"])]
        # get: for the operator of before, which leads while Helm has its new rights in place already.
        assert {verb for rule in about for verb in rule["verbs"]} == {"get", "list", "delete", "bind"}
        assert all(len(rule["resourceNames"]) == 1 for rule in about if "bind" in rule["verbs"])


def test_no_secret_is_read_but_the_operators_own_key(chart: Chart) -> None:
    verbs = {
        verb
        for rule in [*rbac.rules(), *rbac.lease_rules(), *rbac.release_rules()]
        if "secrets" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert verbs == {"create", "delete"}
    rendered = [
        (rule["verbs"], rule.get("resourceNames"))
        for each in chart.render({})
        for rule in each.get("rules") or ()
        if "secrets" in rule["resources"] and {"get", "list", "watch", "*"} & set(rule["verbs"])
    ]
    assert rendered == [(["get"], ["ours-sparkstate-operator-key"])]


def test_every_right_is_bound_to_the_operators_account(chart: Chart) -> None:
    account = chart.one("Deployment", EVERYTHING)["spec"]["template"]["spec"]["serviceAccountName"]
    assert account == "own"
    assert chart.one("ServiceAccount", EVERYTHING, "own")["metadata"]["annotations"] == {"role": "z"}
    bindings = [each for each in chart.render(EVERYTHING) if each["kind"] == "RoleBinding"]
    told = {(each["metadata"]["name"], each["subjects"][0]["name"]) for each in bindings}
    assert told == {
        ("ours-sparkstate-operator", "own"),
        ("ours-sparkstate-operator-lease", "own"),
        ("ours-sparkstate-operator-release", "ours-sparkstate-operator-release"),
        ("ours-sparkstate-operator-release-lease", "ours-sparkstate-operator-release"),
    }


@pytest.mark.parametrize(
    ("values", "operator", "job"),
    [
        ({}, "sparkstate/operator:0.1.0", "sparkstate/job:0.1.0"),
        (
            {"global": {"imageRegistry": "mirror:5000"}, "image": {"tag": "x"}},
            "mirror:5000/sparkstate/operator:x",
            "mirror:5000/sparkstate/job:0.1.0",
        ),
        (
            {"image": {"registry": "", "tag": "x", "digest": DIGEST}, "jobImage": {"registry": "docker.io"}},
            f"sparkstate/operator@{DIGEST}",
            "docker.io/sparkstate/job:0.1.0",
        ),
    ],
    ids=["defaults", "mirror", "digest"],
)
def test_images_come_from_registry_tag_or_digest(
    chart: Chart, values: dict[str, Any], operator: str, job: str
) -> None:
    container = chart.operator(values)
    assert container["image"] == operator
    assert f"--engine-image={job}" in container["args"]


def test_the_arguments_say_what_the_values_say(chart: Chart) -> None:
    assert "--all-namespaces" in chart.operator({})["args"]
    assert not any(one.startswith("--cluster") for one in chart.operator({})["args"]), "the operator finds it"
    arguments = chart.operator({**EVERYTHING, "clusterName": "blue", "logLevel": "debug"})["args"]
    assert "--all-namespaces" not in arguments
    assert {"--namespace=shop", "--namespace=bank", "--cluster=blue", "--log-level=debug"} <= set(arguments)
    assert arguments[-1] == "--progress-seconds=30"
    assert not any(one.startswith("--operator-class") for one in arguments)
    blue = {"operatorClass": "blue"}
    released = chart.one("Job", blue, "ours-sparkstate-operator-release")["spec"]["template"]["spec"]
    for container in (chart.operator(blue), *released["containers"]):
        assert "--operator-class=blue" in container["args"]


def test_the_defaults_reach_the_operator_and_new_ones_are_a_new_pod(chart: Chart) -> None:
    def both(values: dict[str, Any]) -> tuple[Any, str]:
        text = chart.one("ConfigMap", values)["data"]["defaults.yaml"]
        marks = chart.one("Deployment", values)["spec"]["template"]["metadata"]["annotations"]
        return yaml.safe_load(text), marks["checksum/defaults"]

    none, first = both({})
    some, second = both(EVERYTHING)
    assert not none
    assert some == EVERYTHING["defaults"]
    assert first != second


def test_a_default_of_the_chart_is_in_the_memory_of_a_jobs_pods(chart: Chart) -> None:
    defaults = yaml.safe_load(chart.one("ConfigMap", EVERYTHING)["data"]["defaults.yaml"])
    settings.check_defaults(defaults)
    job = {"image": "shop:1", "pythonFile": "/job.py", "slots": 3}
    pod = memory.sums(settings.resolve(job, defaults)).of("driver")
    name = "slots: operator state (operatorStateMemoryPerSlot)"
    assert [(item.count, item.each) for item in pod.items if item.name == name] == [(3, 48 * MIB)]


def test_definitions_and_the_rights_of_drivers_outlive_the_release(chart: Chart) -> None:
    for values in ({}, EVERYTHING):
        for each in chart.render(values):
            kept = (each["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep"
            of_drivers = each["kind"].endswith("Role") and each["metadata"]["name"].endswith("-driver")
            assert kept == (each["kind"] == "CustomResourceDefinition" or of_drivers), each["metadata"]


def test_the_definitions_are_the_repositorys(chart: Chart) -> None:
    for each in chart.render({}):
        if each["kind"] == "CustomResourceDefinition":
            plural = each["spec"]["names"]["plural"]
            assert each["spec"] == yaml.safe_load((tree.ROOT / f"crds/{plural}.yaml").read_text())["spec"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replica": 2}, "replica"),
        ({"defaults": {"slots": "3"}}, "defaults/slots"),
        ({"defaults": {"slotz": 3}}, "slotz"),
        ({"defaults": {"pythonFile": "/a.py"}}, "pythonFile"),
        ({"defaults": {"s3": {"accessKey": "x"}}}, "accessKey"),
        ({"defaults": {"checkpointing": {"interval": "soon"}}}, "interval"),
        ({"image": {"digest": "abc"}}, "image/digest"),
        ({"watchNamespaces": ["Not A Name"]}, "watchNamespaces/0"),
        ({"clusterName": "a/b"}, "clusterName"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"operatorClass": "Blue"}, "operatorClass"),
        ({"leaderElection": {"leaseSeconds": 1}}, "leaseSeconds"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_value_is_refused_by_its_path(chart: Chart, values: dict[str, Any], said: str) -> None:
    with pytest.raises(CommandFailed, match=said):
        chart.render(values)


def test_an_account_that_nobody_names_and_a_monitor_without_a_service_are_refused(chart: Chart) -> None:
    with pytest.raises(CommandFailed, match=r"serviceAccount\.name is empty"):
        chart.render({"serviceAccount": {"create": False}})
    with pytest.raises(CommandFailed, match=r"needs metrics\.service"):
        chart.render({"metrics": {"service": False, "serviceMonitor": {"enabled": True}}})


def test_every_metric_of_an_alert_is_one_that_the_operator_has(chart: Chart) -> None:
    known = {line.split()[2] for line in Metrics().text().decode().splitlines() if line.startswith("# TYPE")}
    rules = chart.one("PrometheusRule", EVERYTHING)["spec"]["groups"][0]["rules"]
    named = {name for rule in rules for name in re.findall(r"sparkstate_\w+", rule["expr"])}
    assert named
    assert named <= known | {f"{name}_total" for name in known}
