"""The parts that all children share: metadata, pod security, environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_operator import kept_name, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.plan import Revision

Object = dict[str, Any]
WORK_DIR = "/var/lib/sparkstate"
TERMINATION_LOG = "/dev/termination-log"
"""The kubelet's own default. A template's would take the last word away from where the driver writes it."""
JOB_DIR = "/etc/sparkstate/job"
TOKEN_DIR = "/etc/sparkstate/token"
CODE_DIR = "/etc/sparkstate/code"

POD_SECURITY: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class Context:
    """The job for which objects are built, its revision, and the operator's settings."""

    job: observed.Job
    revision: Revision
    config: Config


def metadata(
    context: Context, name: str, role: labels.Role | None = None, attempt: int | None = None
) -> Object:
    """Name, namespace and labels of a child. The job owns none of its children (RFC 0006, RFC 0021)."""
    return {
        "name": name,
        "namespace": context.job.namespace,
        "labels": labels.of_job(context.job.name, context.job.uid, role, attempt),
    }


def literal(text: str) -> str:
    """A text as an argument of a container that means just that. Kubernetes fills ``$(NAME)`` with a variable of the
    container, which may hold a key of S3, and reads ``$$`` as one ``$``."""
    return text.replace("$", "$$")


def as_user(ids: Mapping[str, int], template: Object) -> Object:
    """A template with the users and groups of ``ids`` where it names none of its own. The template's
    own win, because some clusters give each namespace users of its own. Root does not count: no pod of
    ours may be root (``runAsNonRoot``)."""
    spec = template.get("spec") or {}
    theirs = spec.get("securityContext")
    told = dict(theirs) if isinstance(theirs, Mapping) else {}
    if told.get("runAsUser") == 0:
        del told["runAsUser"]
    return {**template, "spec": {**spec, "securityContext": {**ids, **told}}}


def service_account(context: Context) -> str:
    """The ServiceAccount of the job's pods."""
    return context.revision.service_account or naming.service_account(context.job.name)


def s3_environment(secret: str | None) -> list[Object]:
    """The keys of the Secret that ``s3.secretRef`` names, as boto3 reads them."""
    if not secret:
        return []
    names = (("AWS_ACCESS_KEY_ID", False), ("AWS_SECRET_ACCESS_KEY", False), ("AWS_SESSION_TOKEN", True))
    return [
        {
            "name": name,
            "valueFrom": {
                "secretKeyRef": {"name": secret, "key": name, **({"optional": True} if optional else {})}
            },
        }
        for name, optional in names
    ]


def environment(context: Context, attempt: int | None = None) -> list[Object]:
    """The variables that the engine's processes read."""
    fields = (
        ("SPARKSTATE_POD_NAME", "metadata.name"),
        ("SPARKSTATE_POD_NAMESPACE", "metadata.namespace"),
        ("SPARKSTATE_POD_UID", "metadata.uid"),
        ("SPARKSTATE_POD_IP", "status.podIP"),
    )
    found: list[Object] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields
    ]
    found += [
        {"name": "SPARKSTATE_JOB_UID", "value": context.job.uid},
        {"name": labels.CLUSTER_VARIABLE, "value": kept_name.of_job(context.config, context.job)},
        {"name": "HOME", "value": WORK_DIR},
    ]
    if attempt is not None:
        found.append({"name": "SPARKSTATE_ATTEMPT", "value": str(attempt)})
    return found + s3_environment(context.revision.get("s3.secretRef.name"))


def work_dir(context: Context, attempt: int) -> str:
    """The driver's working directory: with slots beside it, and ``localStorage.paths``, a folder of this attempt below
    the first path, where the next attempt finds it if the volume outlives the pod; else in the pod's own volume."""
    paths = context.revision.get("localStorage.paths")
    if context.revision.cluster or not paths:
        return WORK_DIR
    return f"{paths[0].rstrip('/')}/sparkstate-{context.job.name}/{attempt}"


def working_volumes(revision: Revision) -> tuple[list[Object], list[Object]]:
    """The writable places: /tmp, the working volume (``localStorage.paths`` come with the pod template)."""
    claim = revision.get("localStorage.volumeClaimTemplate")
    limit = revision.get("localStorage.sizeLimit")
    volumes: list[Object] = [{"name": "tmp", "emptyDir": {}}]
    mounts: list[Object] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "work", "mountPath": WORK_DIR},
    ]
    if claim:
        volumes.append({"name": "work", "ephemeral": {"volumeClaimTemplate": claim}})
    else:
        volumes.append({"name": "work", "emptyDir": {"sizeLimit": limit} if limit else {}})
    return volumes, mounts


def as_text(document: Object) -> str:
    """JSON, which a YAML reader reads as well, in one stable spelling."""
    return json.dumps(document, indent=1, sort_keys=True)
