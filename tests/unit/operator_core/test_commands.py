"""Engine commands run where the job's own pods may run, with what opens its storage."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, job, look, revision, running_status

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming, placing
from sparkstate_operator.objects import commands, driver, parts, pods

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
    purge = actions.CreateCommand("purge", "purge", ("purge", "--json"), 600)
    command = commands.with_progress(commands.of_job(context, purge, "orders-1"), b"the operator's own key")
    found: dict[str, Any] = commands.job(command, Config().ids)["spec"]["template"]["spec"]
    return found


def test_a_command_about_a_snapshot_has_the_template_that_it_wrote_down() -> None:
    delete = actions.CreateCommand(
        "delete", "delete", ("savepoints", "delete"), 600, {"spec": {"nodeSelector": {"a": "b"}}}
    )
    access = {"s3": {"endpoint": "http://minio", "pathStyle": True, "secretRef": {"name": "keys"}}}
    one = observed.Snapshot("one", "s-1", "1", 1, NOW, {}, {"access": access}, {}, {}, ())
    pod = commands.job(commands.of_snapshot(delete, one, "shop", "engine:1", "mine"), Config().ids)["spec"][
        "template"
    ]["spec"]
    assert (pod["nodeSelector"], pod["serviceAccountName"]) == ({**pods.LINUX, "a": "b"}, "mine")
    (container,) = pod["containers"]
    assert container["args"][2:] == ["--s3-endpoint", "http://minio", "--s3-path-style"]
    assert container["env"][1]["valueFrom"]["secretKeyRef"]["name"] == "keys"


def test_kubernetes_removes_the_job_of_a_command_after_an_hour() -> None:
    verify = actions.CreateCommand("verify", "verify", ("savepoints", "verify", "--json", "s3://b/s"), 600)
    one = observed.Snapshot("one", "s-1", "1", 1, NOW, {}, {}, {}, {}, ())
    made = commands.job(commands.of_snapshot(verify, one, "shop", "engine:1", None), Config().ids)
    assert made["spec"]["ttlSecondsAfterFinished"] == 3600


def test_no_variable_of_the_container_is_filled_into_an_argument() -> None:
    """A URL that says so would otherwise show a key of S3 in the status, as a place where there is no savepoint."""
    uri = "s3://bucket/$(AWS_SECRET_ACCESS_KEY)/$$/$x"
    verify = actions.CreateCommand("verify", "verify", ("savepoints", "verify", "--json", uri), 600)
    one = observed.Snapshot("one", "s-1", "1", 1, NOW, {}, {}, {}, {}, ())
    made = commands.job(commands.of_snapshot(verify, one, "shop", "engine:1", None), Config().ids)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["args"][3] == "s3://bucket/$$(AWS_SECRET_ACCESS_KEY)/$$$$/$$x"
    context = parts.Context(job(), revision(localStorage={"paths": ["/$(HOME)"]}), Config())
    assert "--work-dir=/$$(HOME)/sparkstate-orders/1" in driver.arguments(context, 1)


def test_a_command_may_run_where_the_driver_may() -> None:
    pod = pod_of(imagePullSecrets=[{"name": "pull"}])
    assert pod["nodeSelector"] == {**pods.LINUX, "pool": "spark"}
    assert pod["tolerations"] == [*TEMPLATE["spec"]["tolerations"], *pods.tolerations()]
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
        "SPARKSTATE_PROGRESS_PORT",
        "SPARKSTATE_PROGRESS_DIGEST",
        "SPARKSTATE_COMMAND",
        "AWS_CA_BUNDLE",
        "KEY",
    ]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert container["resources"] == {
        "requests": {"cpu": "100m", "memory": commands.MEMORY},
        "limits": {"memory": commands.MEMORY},
    }


def test_a_command_meets_the_limits_and_policies_that_the_driver_meets() -> None:
    """A quota of limits refuses pods without them, and a policy those without its labels: the command had no pod."""
    limits = {"cpu": "50m", "ephemeral-storage": "1Gi", "memory": "8Gi", "nvidia.com/gpu": 1}
    template = {
        "metadata": {
            "labels": {"team": "air", "sparkstate.io/role": "driver"},
            "annotations": {"sidecar.istio.io/inject": "false"},
        },
        "spec": {"containers": [{"name": "driver", "resources": {"limits": limits}}]},
    }
    made = revision(driverTemplate=template)
    context = parts.Context(job(), made, Config(cluster="blue", engine_image="engine:1"))
    purge = actions.CreateCommand("purge", "purge", ("purge", "--json"), 600)
    pod = commands.job(commands.of_job(context, purge, "orders-1"), Config().ids)["spec"]["template"]
    assert pod["metadata"]["labels"]["team"] == "air"
    assert pod["metadata"]["labels"]["sparkstate.io/role"] == "command"
    assert pod["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "50m", "memory": commands.MEMORY, "ephemeral-storage": "100Mi"},
        "limits": {"cpu": "50m", "ephemeral-storage": "1Gi", "memory": commands.MEMORY},
    }


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
    assert pod["tolerations"] == pods.tolerations()
    assert "imagePullSecrets" not in pod


@pytest.mark.parametrize("affinity", ["here", {}, {"podAntiAffinity": {}}, []])
def test_an_affinity_that_says_nothing_of_nodes_is_left_out(affinity: Any) -> None:
    assert "affinity" not in pod_of(driverTemplate={"spec": {"affinity": affinity}})


def purging(command: observed.Command | None, ago_s: float = 0, **deletion: str) -> actions.Decision:
    """A job whose driver is gone is being deleted with its data, since so many seconds."""
    since = NOW - timedelta(seconds=ago_s)
    intent = {"action": "delete", "attempt": 1, "since": clock.text(since), "policy": "purge"}
    going = job(
        running_status(phase="Deleting", intent=intent),
        deleting=True,
        deletion={"policy": "purge", **deletion},
    )
    going = dataclasses.replace(going, deleting_at=since)
    return look(observed.ObservedState(going, NOW, commands=(command,) if command else ()))


def purge(*, failed_ago_s: float | None) -> observed.Command:
    ended = None if failed_ago_s is None else NOW - timedelta(seconds=failed_ago_s)
    name = naming.command_job("orders", "uid-1", "purge")
    return observed.Command(
        name, "t", "1", "purge", ended is None, ended is not None, {"message": "denied"}, ended
    )


def test_a_purge_that_fails_is_made_again_until_the_deadline_of_the_deletion() -> None:
    assert [act.does for act in acts(purging(None), actions.CreateCommand)] == ["purge"]
    pauses = purging(purge(failed_ago_s=10), 60)
    assert not acts(pauses, actions.RemoveFinalizer)
    assert not acts(pauses, actions.DeleteCommand)
    assert [note.reason for note in pauses.notes] == ["PurgeFailed"]
    assert "denied" in pauses.status["message"]
    assert acts(purging(purge(failed_ago_s=31), 60), actions.DeleteCommand)
    assert acts(purging(purge(failed_ago_s=None), 60), actions.RemoveFinalizer)
    late = purging(purge(failed_ago_s=10), 301)
    assert acts(late, actions.RemoveFinalizer)
    assert "DeletionDegraded" in [note.reason for note in late.notes]


# -- the time that a command has --------------------------------------------------------------------------------------


def test_kubernetes_stops_a_command_at_its_limit() -> None:
    context = parts.Context(job(), revision(), Config(engine_image="engine:1"))
    made = commands.of_job(context, actions.CreateCommand("purge", "purge", ("purge",), 1200), "orders-1")
    assert commands.job(made, Config().ids)["spec"]["activeDeadlineSeconds"] == 1200


@pytest.mark.parametrize(
    ("tried_s", "limit_s"), [(0, 600), (599, 600), (1260.5, 1260), (90_000, 86_400)], ids=str
)
def test_a_command_has_as_long_as_it_has_been_tried(tried_s: float, limit_s: int) -> None:
    (made,) = acts(purging(None, tried_s, deadline="100h"), actions.CreateCommand)
    assert made.limit_s == limit_s


def stopped(ended: datetime, limit_s: int = 600, reason: str = "DeadlineExceeded") -> observed.Command:
    """The purge, as the API server has its Job after Kubernetes has ended it."""
    name = naming.command_job("orders", "uid-1", "purge")
    failed = {"type": "Failed", "status": "True", "reason": reason, "lastTransitionTime": clock.text(ended)}
    return observed.command_of(
        {
            "metadata": {"name": name, "uid": "t", "resourceVersion": "1"},
            "spec": {"activeDeadlineSeconds": limit_s},
            "status": {"conditions": [failed]},
        },
        {},
    )


def test_a_command_that_was_stopped_at_its_limit_is_soon_tried_again_with_more_time() -> None:
    """It had begun to work, and may be all that its object waits for: a pause as long as its run would be wasted."""
    told = purging(stopped(NOW - timedelta(seconds=29)), 629, deadline="1h")
    assert "had not ended after 600 s" in told.status["message"]
    assert not acts(told, actions.DeleteCommand)
    ended = NOW - timedelta(seconds=31)
    assert acts(purging(stopped(ended), 631, deadline="1h"), actions.DeleteCommand)
    (again,) = acts(purging(None, 632, deadline="1h"), actions.CreateCommand)
    assert again.limit_s == 632
    refused = stopped(ended, reason="BackoffLimitExceeded")
    assert not acts(purging(refused, 631, deadline="1h"), actions.DeleteCommand), (
        "it is refused, and waits longer"
    )
