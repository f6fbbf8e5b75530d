"""Engine commands run where the job's own pods may run, with what opens its storage."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, job, look, revision, running_status

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming, placing
from sparkstate_operator.objects import driver, parts, tasks

TEMPLATE: dict[str, Any] = {
    "spec": {
        "nodeSelector": {"pool": "spark"},
        "tolerations": [{"key": "pool", "operator": "Equal", "value": "spark", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
        },
        "priorityClassName": "low",
        "imagePullSecrets": [{"name": "mirror"}],
        "securityContext": {"supplementalGroups": [4000], "runAsUser": 0},
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "state"}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "fast"}},
            {"name": "certs", "configMap": {"name": "certs"}},
            {"name": "token", "projected": {"sources": []}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "containers": [
            {
                "name": "driver",
                "image": "ours:1",
                "resources": {"limits": {"memory": "8Gi"}},
                "env": [
                    {"name": "AWS_CA_BUNDLE", "value": "/certs/ca.pem"},
                    {"name": "PASSWORD", "value": "hunter2"},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "envFrom": [{"secretRef": {"name": "keys"}}],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "disk", "mountPath": "/disk"},
                    {"name": "certs", "mountPath": "/certs", "readOnly": True},
                    {"name": "token", "mountPath": "/token"},
                    {"name": "scratch", "mountPath": "/data/scratch"},
                ],
            },
            {"name": "sidecar", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        ],
    }
}


def pod_of(**spec: Any) -> dict[str, Any]:
    """The pod that purges the job."""
    made = revision(**{"driverTemplate": TEMPLATE, **spec})
    context = parts.Context(job(), made, Config(cluster="blue", engine_image="engine:1"))
    purge = actions.CreateTask("purge", "purge", ("purge", "--json"))
    found: dict[str, Any] = tasks.job(tasks.of_job(context, purge, "orders-1"), Config().ids)["spec"][
        "template"
    ]["spec"]
    return found


def test_a_command_about_a_snapshot_has_the_template_that_it_wrote_down() -> None:
    delete = actions.CreateTask(
        "delete", "delete", ("savepoints", "delete"), {"spec": {"nodeSelector": {"a": "b"}}}
    )
    access = {"s3": {"endpoint": "http://minio", "pathStyle": True, "secretRef": {"name": "keys"}}}
    one = observed.Snapshot("one", "s-1", "1", 1, NOW, {}, {"access": access}, {}, {}, ())
    pod = tasks.job(tasks.of_snapshot(delete, one, "shop", "engine:1", "mine"), Config().ids)["spec"][
        "template"
    ]["spec"]
    assert (pod["nodeSelector"], pod["serviceAccountName"]) == ({"a": "b"}, "mine")
    (container,) = pod["containers"]
    assert container["args"][2:] == ["--s3-endpoint", "http://minio", "--s3-path-style"]
    assert container["env"][1]["valueFrom"]["secretKeyRef"]["name"] == "keys"


def test_a_command_may_run_where_the_driver_may() -> None:
    pod = pod_of(imagePullSecrets=[{"name": "pull"}])
    assert pod["nodeSelector"] == {"pool": "spark"}
    assert pod["tolerations"] == [*TEMPLATE["spec"]["tolerations"], *driver.tolerations()]
    assert set(pod["affinity"]) == {"nodeAffinity"}, (
        "what spreads drivers does not keep a command from running"
    )
    assert pod["priorityClassName"] == "low"
    assert pod["imagePullSecrets"] == [{"name": "mirror"}, {"name": "pull"}]
    assert pod["securityContext"] == {"supplementalGroups": [4000], **Config().ids, **parts.POD_SECURITY}


def test_a_command_has_the_driver_s_credentials_and_nothing_else_of_its_container() -> None:
    (container,) = pod_of()["containers"]
    assert (container["name"], container["image"]) == ("command", "engine:1")
    assert [one["name"] for one in container["env"]] == [
        "HOME",
        "SPARKSTATE_CLUSTER",
        "SPARKSTATE_JOB_UID",
        "AWS_CA_BUNDLE",
        "KEY",
    ]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert container["resources"]["limits"] == {"memory": tasks.MEMORY}


@pytest.mark.parametrize(
    ("storage", "savepoints", "claims"),
    [
        ("s3://bucket/state", None, set()),
        ("file:///data/state", None, {"data"}),
        ("file:///database", None, set()),
        ("s3://bucket/state", "file:///data/savepoints", {"data"}),
        ("file:///data", "file:///disk/savepoints", {"data", "disk"}),
    ],
)
def test_a_command_has_the_volumes_that_hold_the_data(
    storage: str, savepoints: str | None, claims: set[str]
) -> None:
    saved = {"savepoints": {"storage": savepoints}} if savepoints else {}
    pod = pod_of(checkpointing={"storage": storage}, **saved)
    ours = {"tmp", "work", "job"}
    assert {one["name"] for one in pod["volumes"]} == claims | {"certs", "token"} | ours
    (container,) = pod["containers"]
    assert {one["name"] for one in container["volumeMounts"]} == claims | {"certs", "token"} | ours


def test_a_job_that_asks_for_nothing_has_a_plain_command() -> None:
    resolved = revision().resolved
    assert placing.of_job(resolved, placing.urls_of(resolved)) == {}
    pod = pod_of(driverTemplate={})
    assert pod["tolerations"] == driver.tolerations()
    assert "imagePullSecrets" not in pod


@pytest.mark.parametrize("affinity", ["here", {}, {"podAntiAffinity": {}}, []])
def test_an_affinity_that_says_nothing_of_nodes_is_left_out(affinity: Any) -> None:
    assert "affinity" not in pod_of(driverTemplate={"spec": {"affinity": affinity}})


def purging(task: observed.Task | None, ago_s: float = 0) -> actions.Decision:
    """A job whose driver is gone is being deleted with its data, since so many seconds."""
    intent = {"action": "delete", "attempt": 1, "since": clock.text(NOW), "policy": "purge"}
    going = job(running_status(phase="Deleting", intent=intent), deleting=True, deletion={"policy": "purge"})
    going = dataclasses.replace(going, deleting_at=NOW - timedelta(seconds=ago_s))
    return look(observed.ObservedState(going, NOW, tasks=(task,) if task else ()))


def purge(*, failed_ago_s: float | None) -> observed.Task:
    ended = None if failed_ago_s is None else NOW - timedelta(seconds=failed_ago_s)
    name = naming.command_job("orders", "uid-1", "purge")
    return observed.Task(
        name, "t", "1", "purge", ended is None, ended is not None, {"message": "denied"}, ended
    )


def test_a_purge_that_fails_is_made_again_until_the_deadline_of_the_deletion() -> None:
    assert [act.does for act in acts(purging(None), actions.CreateTask)] == ["purge"]
    pauses = purging(purge(failed_ago_s=10), 60)
    assert not acts(pauses, actions.RemoveFinalizer)
    assert not acts(pauses, actions.DeleteTask)
    assert [note.reason for note in pauses.notes] == ["PurgeFailed"]
    assert "denied" in pauses.status["message"]
    assert acts(purging(purge(failed_ago_s=31), 60), actions.DeleteTask)
    assert acts(purging(purge(failed_ago_s=None), 60), actions.RemoveFinalizer)
    late = purging(purge(failed_ago_s=10), 301)
    assert acts(late, actions.RemoveFinalizer)
    assert "DeletionDegraded" in [note.reason for note in late.notes]
