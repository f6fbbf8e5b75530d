"""The pods of an attempt: what the user's templates say reaches them, and what the operator needs stays its own."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.scene import in_cluster
from support.scene.decisions import NOW, SPEC, job

from sparkstate_operator import actions, observed, plan
from sparkstate_operator.config import DRIVER_PORT, Config
from sparkstate_operator.core import settings
from sparkstate_operator.objects import check, commands, driver, executor, parts, pods

SIDECAR = {"name": "logs", "image": "example/logs:1", "volumeMounts": [{"name": "cache", "mountPath": "/c"}]}


def template(container: str) -> dict[str, Any]:
    """A pod template that adds to the container of that name, puts another beside it, and reaches for ours."""
    ours = {
        "name": container,
        "image": "example/other:1",
        "env": [{"name": "REGION", "value": "eu"}, {"name": "HOME", "value": "/root"}],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        "securityContext": {"readOnlyRootFilesystem": False, "runAsNonRoot": False},
    }
    return {
        "metadata": {
            "labels": {"team": "air", "sparkstate.io/job": "other"},
            "annotations": {"note": "why"},
        },
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "schedulerName": "volcano",
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "serviceAccountName": "admin",
            "containers": [SIDECAR, ours],
            "volumes": [{"name": "cache", "emptyDir": {}}],
        },
    }


def made(role: str, **spec: Any) -> dict[str, Any]:
    """The pod of attempt 3 (of the driver) or the template of its executors."""
    wanted = settings.resolve({**SPEC, "deployment": "cluster", **spec})
    context = parts.Context(job(), plan.Revision("orders-1", wanted), Config())
    return driver.pod(context, 3) if role == "driver" else executor.template(context, 3)


def by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in entries}


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_the_modules_in_the_config_map_of_the_code_are_in_the_pods_of_slots_too(role: str) -> None:
    pod = made(role, pythonFile=None, configMapRef={"name": "orders", "key": "job.py"})
    assert by_name(pod["spec"]["volumes"])["code"] == {"name": "code", "configMap": {"name": "orders"}}
    (container,) = pod["spec"]["containers"]
    mount = by_name(container["volumeMounts"])["code"]
    assert mount == {"name": "code", "mountPath": parts.CODE_DIR, "readOnly": True}
    assert "code" not in by_name(made(role)["spec"]["volumes"])


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_pod_template_adds_by_name_and_takes_nothing_away(role: str) -> None:
    plain, pod = made(role), made(role, **{f"{role}Template": template(role)})
    assert pod["metadata"]["labels"] == {**plain["metadata"]["labels"], "team": "air"}
    assert pod["metadata"]["annotations"] == {**pods.EVICTABLE, "note": "why"}
    spec = pod["spec"]
    assert (spec["nodeSelector"], spec["schedulerName"]) == ({**pods.LINUX, "disk": "ssd"}, "volcano")
    assert spec["tolerations"] == [{"key": "spot", "operator": "Exists"}, *pods.tolerations()]
    assert spec["serviceAccountName"] == plain["spec"]["serviceAccountName"]
    assert by_name(spec["volumes"]) == {
        **by_name(plain["spec"]["volumes"]),
        "cache": {"name": "cache", "emptyDir": {}},
    }
    assert by_name(spec["containers"])["logs"] == SIDECAR
    (before,) = plain["spec"]["containers"]
    after = by_name(spec["containers"])[role]
    assert (after["image"], after["resources"]) == (before["image"], before["resources"])
    assert after["securityContext"] == before["securityContext"]
    assert by_name(after["env"]) == {**by_name(before["env"]), "REGION": {"name": "REGION", "value": "eu"}}
    added = {"name": "cache", "mountPath": "/cache"}
    assert [one for one in after["volumeMounts"] if one not in before["volumeMounts"]] == [added]


@pytest.mark.parametrize(
    ("spec", "work_dir"),
    [
        ({"deployment": "local"}, "/var/lib/sparkstate"),
        ({"deployment": "local", "localStorage": {"paths": ["/disk/", "/b"]}}, "/disk/sparkstate-orders/3"),
        ({"deployment": "cluster", "localStorage": {"paths": ["/disk"]}}, "/var/lib/sparkstate"),
    ],
)
def test_the_first_path_holds_a_folder_of_each_attempt_where_the_slots_are_the_drivers(
    spec: dict[str, Any], work_dir: str
) -> None:
    (container,) = made("driver", **spec)["spec"]["containers"]
    assert f"--work-dir={work_dir}" in container["args"]
    assert "--status-file=/var/lib/sparkstate/status.json" in container["args"]


def test_a_template_of_the_driver_leaves_the_executors_alone() -> None:
    assert made("executor", driverTemplate=template("driver")) == made("executor")
    assert made("driver", executorTemplate=template("executor")) == made("driver")


def test_the_kubelet_asks_the_driver_whether_epochs_make_progress() -> None:
    (container,) = made("driver")["spec"]["containers"]
    asked = container["livenessProbe"]["httpGet"]
    assert (asked["path"], asked["port"]) == ("/livez", DRIVER_PORT)


def test_the_kubelet_ends_a_driver_only_after_two_minutes_without_an_answer() -> None:
    (container,) = made("driver")["spec"]["containers"]
    times = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold")
    assert [container["livenessProbe"][name] for name in times] == [120, 20, 5, 6]
    assert [container["readinessProbe"].get(name) for name in times] == [None, 5, 5, 3]


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_an_autoscaler_may_take_a_pod_s_node_unless_its_template_says_otherwise(role: str) -> None:
    (name,) = pods.EVICTABLE
    assert name == "cluster-autoscaler.kubernetes.io/safe-to-evict"
    assert made(role)["metadata"]["annotations"] == {name: "true"}
    kept = {f"{role}Template": {"metadata": {"annotations": {name: "false"}}}}
    assert made(role, **kept)["metadata"]["annotations"] == {name: "false"}


def test_the_controller_of_a_driver_is_its_attempt_s_config_map_and_nothing_else() -> None:
    config_map = {"metadata": {"name": "orders-3", "uid": "u-3", "labels": {}}}
    theirs = {"metadata": {"ownerReferences": [{"kind": "Job", "name": "x", "uid": "y", "controller": True}]}}
    pod = driver.controlled(made("driver", driverTemplate=theirs), config_map)
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ConfigMap", "orders-3", "u-3")
    assert owner["controller"] is True
    # True would need a right of its own where owner references are guarded, as on OpenShift.
    assert not owner.get("blockOwnerDeletion")


IDS = {"runAsUser": 185, "runAsGroup": 185, "fsGroup": 185}


@pytest.mark.parametrize(
    ("ids", "theirs", "found"),
    [
        (IDS, {}, IDS),
        (IDS, {"runAsUser": 1001, "fsGroup": 0}, {**IDS, "runAsUser": 1001, "fsGroup": 0}),
        ({}, {}, {}),
        ({}, {"runAsUser": 1001}, {"runAsUser": 1001}),
        (IDS, {"runAsUser": 0, "runAsGroup": 0}, {**IDS, "runAsGroup": 0}),
    ],
    ids=["the image's", "the template's", "the cluster's choice", "the template's over that", "root"],
)
def test_the_users_of_all_pods_are_the_template_s_or_the_chart_s_or_the_cluster_s(
    ids: dict[str, int], theirs: dict[str, int], found: dict[str, int]
) -> None:
    context = in_cluster.context(
        **{f"{role}Template": {"spec": {"securityContext": theirs}} for role in ("driver", "executor")}
    )
    context = dataclasses.replace(context, config=dataclasses.replace(context.config, ids=ids))
    command = commands.of_job(
        context, actions.CreateCommand("purge", "purge", ("purge",), 600), "rotations-3"
    )
    for spec in (
        driver.pod(context, 3)["spec"],
        executor.template(context, 3)["spec"],
        commands.job(command, ids)["spec"]["template"]["spec"],
    ):
        security = spec["securityContext"]
        assert {name: security[name] for name in IDS if name in security} == found
        assert security["runAsNonRoot"] is True
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}


LINUX = {"kubernetes.io/os": "linux"}


def all_pods(selector: Any) -> dict[str, dict[str, Any]]:
    """The spec of every kind of pod that the operator makes for a job whose templates have this node selector."""
    template = {"spec": {"nodeSelector": selector}}
    context = in_cluster.context(driverTemplate=template, executorTemplate=template)
    purge = actions.CreateCommand("purge", "purge", ("purge",), 600)
    delete = actions.CreateCommand("delete", "delete", ("savepoints", "delete"), 600, template)
    snapshot = observed.Snapshot("one", "s-1", "1", 1, NOW, {}, {}, {}, {}, ())
    jobs = {
        "the job's command": commands.job(commands.of_job(context, purge, "rotations-3"), IDS),
        "the snapshot's command": commands.job(
            commands.of_snapshot(delete, snapshot, "shop", "engine:1", None), IDS
        ),
        "the check": check.job(
            context, actions.CreateCheck("check", "rotations-1", actions.Start(), (), 600)
        ),
    }
    return {
        "driver": driver.pod(context, 3)["spec"],
        "executor": executor.template(context, 3)["spec"],
        **{name: one["spec"]["template"]["spec"] for name, one in jobs.items()},
    }


@pytest.mark.parametrize(
    ("theirs", "found"),
    [
        ({}, LINUX),
        ({"disk": "ssd"}, {**LINUX, "disk": "ssd"}),
        ({"kubernetes.io/os": "our-linux"}, {"kubernetes.io/os": "our-linux"}),
        (["not", "a", "map"], ["not", "a", "map"]),
    ],
    ids=["none", "of another label", "of the same label", "one that the API server refuses"],
)
def test_no_pod_runs_on_a_node_of_another_system_unless_its_template_says_so(theirs: Any, found: Any) -> None:
    """A Windows node cannot run the image."""
    specs = all_pods(theirs)
    assert {name: spec["nodeSelector"] for name, spec in specs.items()} == dict.fromkeys(specs, found)
