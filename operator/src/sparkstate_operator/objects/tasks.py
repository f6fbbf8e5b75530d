"""Engine commands as Jobs: what must be done to storage while no driver runs.

Under the job's ServiceAccount and credentials, where its pods may run and with the volumes that hold its data
(:mod:`core.placing`), with the chart's own image: the user's may be gone. The operator never touches a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkstate_operator import labels
from sparkstate_operator.core import placing
from sparkstate_operator.objects import driver, merging, parts
from sparkstate_operator.objects.parts import Object

TTL_S = 3600
MEMORY = "512Mi"


@dataclass(frozen=True)
class Command:
    """One command. ``owner`` labels it; ``secret``, ``service_account``, ``template`` are how the data is reached."""

    name: str
    namespace: str
    does: str
    arguments: Sequence[str]
    image: str
    owner: Mapping[str, str]
    service_account: str | None = None
    secret: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    deadline_s: int = 600
    manifest_from: str | None = None
    """ConfigMap whose ``job.yaml`` the command reads."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """Pod template under what is set here; its container is named as :data:`placing.CONTAINER`."""


def job(command: Command) -> Object:
    """The Kubernetes Job."""
    marks = {**command.owner, labels.ROLE: "command"}
    volumes: list[Object] = [{"name": "tmp", "emptyDir": {}}, {"name": "work", "emptyDir": {}}]
    mounts: list[Object] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "work", "mountPath": parts.WORK_DIR},
    ]
    arguments = list(command.arguments)
    if command.manifest_from:
        volumes.append({"name": "job", "configMap": {"name": command.manifest_from}})
        mounts.append({"name": "job", "mountPath": parts.JOB_DIR, "readOnly": True})
        arguments += ["--manifest", f"{parts.JOB_DIR}/job.yaml"]
    spec: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": dict(parts.POD_SECURITY),
        "volumes": volumes,
        "containers": [
            {
                "name": placing.CONTAINER,
                "image": command.image,
                "command": ["sparkstate"],
                "args": arguments,
                "env": _environment(command),
                "securityContext": dict(parts.CONTAINER_SECURITY),
                "resources": {"requests": {"cpu": "100m", "memory": MEMORY}, "limits": {"memory": MEMORY}},
                "volumeMounts": mounts,
            }
        ],
    }
    if command.service_account:
        spec["serviceAccountName"] = command.service_account
    theirs = driver.with_tolerations({"metadata": {}, "spec": {}, **command.template})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": command.name,
            "namespace": command.namespace,
            "labels": marks,
            "annotations": {labels.TASK: command.does},
        },
        "spec": {
            "backoffLimit": 2,
            "activeDeadlineSeconds": command.deadline_s,
            "ttlSecondsAfterFinished": TTL_S,
            "template": merging.merge(theirs, {"metadata": {"labels": marks}, "spec": spec}),
        },
    }


def _environment(command: Command) -> list[Any]:
    plain = [("HOME", parts.WORK_DIR), *command.environment]
    return [{"name": name, "value": value} for name, value in plain] + parts.s3_environment(command.secret)
