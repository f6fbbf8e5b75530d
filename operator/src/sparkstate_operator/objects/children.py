"""A job's other children: its Service, the driver's rights in cluster deployments,
and one attempt's ConfigMap and Secret."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
from typing import Any

from sparkstate_operator import actions, kept_name, labels
from sparkstate_operator.config import DRIVER_PORT
from sparkstate_operator.core import keys, naming, revisions
from sparkstate_operator.objects import executor, parts
from sparkstate_operator.objects.parts import Context, Object
from sparkstate_spec import built_in

RBAC = "rbac.authorization.k8s.io"


def standing(context: Context) -> list[Object]:
    """Children that outlive an attempt, in the order of their making."""
    found = [service(context)]
    if context.revision.service_account is None:
        found.append(service_account(context))
    if context.revision.cluster:
        found.append(role_binding(context))
    return found


def service(context: Context) -> Object:
    """A stable name for the driver's endpoint, for scrapers and people; headless: there is one pod."""
    name = context.job.name
    selector = {labels.JOB_UID: context.job.uid, labels.ROLE: "driver"}
    port = {"name": "http", "port": DRIVER_PORT, "targetPort": "http", "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": parts.metadata(context, naming.service(name)),
        "spec": {"clusterIP": "None", "selector": selector, "ports": [port]},
    }


def service_account(context: Context) -> Object:
    """The job's own, where the spec names none."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": parts.metadata(context, naming.service_account(context.job.name)),
        "automountServiceAccountToken": False,
    }


def role_binding(context: Context) -> Object:
    """Binds the drivers' role to whichever ServiceAccount the job runs under."""
    role = context.config.driver_role
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": parts.metadata(context, naming.role_binding(context.job.name, role.kind, role.name)),
        "roleRef": {"apiGroup": RBAC, "kind": role.kind, "name": role.name},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": parts.service_account(context),
                "namespace": context.job.namespace,
            }
        ],
    }


OPERATORS_OWN = (
    "restoreFrom", "startEmpty", "state", "driverTemplate", "executorTemplate",
    "progressDeadlineSeconds", "ttlSecondsAfterFinished", "savepoints.formatType", "trigger.schedule",
)  # fmt: skip
"""Fields that are for the operator alone. An engine from before them would refuse the manifest."""


def _leave_out(spec: dict[str, Any], path: list[str]) -> None:
    for name in path[:-1]:
        spec = spec.get(name) or {}
    spec.pop(path[-1], None)


def manifest(context: Context, start: actions.Start) -> Object:
    """The manifest that the engine reads: the revision's spec, with what this attempt starts from."""
    job = context.job
    spec: dict[str, Any] = copy.deepcopy(_plain(context.revision.resolved.spec))
    for name in OPERATORS_OWN:
        _leave_out(spec, name.split("."))
    if reference := spec.pop("configMapRef", None):
        file = reference.get("key", built_in.value("configMapRef.key"))
        spec["pythonFile"] = f"{parts.CODE_DIR}/{file}"
    if start.uri:
        spec["restoreFrom"] = {"uri": start.uri}
    elif start.latest:
        spec["restoreFrom"] = {"latest": True}
    if start.empty:
        spec["startEmpty"] = True
    return {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
            "annotations": {labels.START: json.dumps(start.document(), sort_keys=True)},
        },
        "spec": spec,
    }


def config_map(context: Context, attempt: int, start: actions.Start, *, executors: bool = True) -> Object:
    """One attempt's manifest and executor template; immutable, and the trace that its number is used. Without
    ``executors`` for a command, which starts none."""
    meta = parts.metadata(context, naming.config_map(context.job.name, attempt), None, attempt)
    meta["labels"][labels.REVISION] = context.revision.name
    meta["annotations"] = {
        labels.START: json.dumps(start.document(), sort_keys=True),
        labels.CLUSTER: kept_name.of_job(context.config, context.job),
    }
    data = {"job.yaml": parts.as_text(manifest(context, start))}
    if context.revision.cluster and executors:
        data["executor.yaml"] = parts.as_text(executor.template(context, attempt))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True, "data": data}


def secret(context: Context, attempt: int, key: bytes) -> Object:
    """The attempt's keys, of which each container is given its own; ``key`` is the operator's."""
    found = dataclasses.asdict(keys.of_attempt(key, context.job.uid, attempt))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": parts.metadata(context, naming.token_secret(context.job.uid, attempt), None, attempt),
        "type": "Opaque",
        "immutable": True,
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in found.items()},
    }


def revision(context: Context) -> Object:
    """The ControllerRevision. Like all children, it is not owned by the job: the finalizer removes it (RFC 0006). An
    owner would also make an orphaning deletion hang: the garbage collector's patch sends ``data`` in another spelling,
    and the API server refuses that as a change of immutable data."""
    job = context.job
    meta = parts.metadata(context, context.revision.name)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": meta,
        "revision": job.generation,
        "data": revisions.data(context.revision.resolved),
    }


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=dict))
