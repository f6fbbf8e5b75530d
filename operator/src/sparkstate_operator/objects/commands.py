"""Engine commands as Jobs, for work on storage while no driver runs. The operator itself never touches a bucket.

A command runs under the job's ServiceAccount and credentials, on nodes where the job's pods may run, and with the
volumes that hold its data (:mod:`core.placing`). It runs in the chart's own image, because the user's may be gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparkstate_operator import actions, kept_name, labels, observed
from sparkstate_operator.config import DRIVER_PORT
from sparkstate_operator.core import keys, placing
from sparkstate_operator.objects import merging, parts, pods
from sparkstate_operator.objects.parts import Context, Object
from sparkstate_spec import quantities

TTL_S = 3600
MEMORY = "512Mi"
_ASKED = {"cpu": "100m", "memory": MEMORY, "ephemeral-storage": "100Mi"}


@dataclass(frozen=True)
class Command:
    """One command. ``owner`` labels it; ``secret``, ``service_account``, ``template`` are how the data is reached."""

    name: str
    namespace: str
    does: str
    arguments: Sequence[str]
    image: str
    owner: Mapping[str, str]
    limit_s: int
    service_account: str | None = None
    secret: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    progress_digest: str = ""
    """SHA-256 of the key by which the operator asks for progress; empty: the command answers nothing."""
    manifest_from: str | None = None
    """ConfigMap whose ``job.yaml`` the command reads."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """Pod template under what is set here; its container is named as :data:`placing.CONTAINER`."""


def of_job(context: Context, action: actions.CreateCommand, manifest_from: str) -> Command:
    """A command about the whole job, whose manifest is in the ConfigMap ``manifest_from``."""
    job_, revision, config = context.job, context.revision, context.config
    cluster = kept_name.of_state if action.does == actions.PURGE else kept_name.of_job
    return Command(
        name=action.name,
        namespace=job_.namespace,
        does=action.does,
        arguments=action.arguments,
        image=config.engine_image or str(revision.get("image")),
        owner=labels.of_job(job_.name, job_.uid),
        limit_s=action.limit_s,
        service_account=parts.service_account(context),
        secret=revision.get("s3.secretRef.name"),
        environment=(
            (labels.CLUSTER_VARIABLE, cluster(config, job_)),
            ("SPARKSTATE_JOB_UID", job_.uid),
        ),
        manifest_from=manifest_from,
        template=placing.of_job(revision.resolved, placing.urls_of(revision.resolved)),
    )


def of_snapshot(
    action: actions.CreateCommand,
    snapshot: observed.Snapshot,
    namespace: str,
    image: str,
    account: str | None,
) -> Command:
    """A command about one savepoint's data, which is reached as its snapshot wrote down."""
    s3 = (snapshot.status.get("access") or {}).get("s3") or {}
    return Command(
        name=action.name,
        namespace=namespace,
        does=action.does,
        arguments=(*action.arguments, *_s3_options(s3)),
        image=image,
        owner=labels.of_snapshot(snapshot.name, snapshot.uid),
        limit_s=action.limit_s,
        service_account=account,
        secret=(s3.get("secretRef") or {}).get("name"),
        template=action.template,
    )


def with_progress(command: Command, key: bytes) -> Command:
    """The command that answers the operator, whose own ``key`` this is, how far it is."""
    own = keys.of_command(key, command.namespace, command.name)
    return replace(command, progress_digest=keys.digest(own))


def _s3_options(s3: Mapping[str, Any]) -> list[str]:
    options = []
    for name, option in (("endpoint", "--s3-endpoint"), ("region", "--s3-region")):
        if s3.get(name):
            options += [option, str(s3[name])]
    return [*options, "--s3-path-style"] if s3.get("pathStyle") else options


def job(command: Command, ids: Mapping[str, int]) -> Object:
    """The Kubernetes Job. ``ids``: users and groups, where the command's template names none."""
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
                "args": [parts.literal(argument) for argument in arguments],
                "env": _environment(command),
                "securityContext": dict(parts.CONTAINER_SECURITY),
                "resources": _resources(command.template),
                "volumeMounts": mounts,
            }
        ],
    }
    if command.service_account:
        spec["serviceAccountName"] = command.service_account
    theirs = parts.as_user(ids, pods.placed({"metadata": {}, "spec": {}, **command.template}))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": command.name,
            "namespace": command.namespace,
            "labels": marks,
            "annotations": {labels.COMMAND: command.does},
        },
        "spec": {
            "backoffLimit": 2,
            "activeDeadlineSeconds": command.limit_s,
            "ttlSecondsAfterFinished": TTL_S,
            "template": merging.merge(theirs, {"metadata": {"labels": marks}, "spec": spec}),
        },
    }


def _resources(template: Mapping[str, Any]) -> Object:
    containers = (template.get("spec") or {}).get("containers") or ()
    own: Object = next((one for one in containers if one.get("name") == placing.CONTAINER), {})
    limits = (own.get("resources") or {}).get("limits") or {}
    return {"requests": requests(limits), "limits": {"memory": MEMORY}}


def requests(limits: Mapping[str, Any]) -> Object:
    """Requests of a command's container, and of the check's: small ones, and none above its limit, which the API server
    would refuse. Disk is asked for only where it has a limit. Kubernetes takes a limit without a request as the
    request, and few nodes have room for the disk of a second driver."""
    wanted = {name: asked for name, asked in _ASKED.items() if name in limits or name != "ephemeral-storage"}
    return {name: _capped(asked, limits.get(name, asked)) for name, asked in wanted.items()}


def _capped(asked: str, limit: Any) -> str:
    """The request, or the limit if that is less."""
    try:
        return min(asked, str(limit), key=lambda text: quantities.amount(text.removeprefix("+")))
    except ValueError:
        return asked  # a limit that cannot be read is for the API server to refuse


def _environment(command: Command) -> list[Any]:
    plain = [("HOME", parts.WORK_DIR), *command.environment]
    told = []
    if command.does in actions.LONG and command.progress_digest:
        # It answers there how far it is; an older engine knows nothing of it.
        told = [
            ("SPARKSTATE_PROGRESS_PORT", str(DRIVER_PORT)),
            ("SPARKSTATE_PROGRESS_DIGEST", command.progress_digest),
            ("SPARKSTATE_COMMAND", command.name),
        ]
    return [*_plain(plain), *parts.s3_environment(command.secret), *_plain(told)]


def _plain(variables: Sequence[tuple[str, str]]) -> list[Any]:
    return [{"name": name, "value": value} for name, value in variables]
