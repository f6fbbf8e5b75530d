"""The driver's pod and the executors' template, which make up one attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sparkstate_operator import labels
from sparkstate_operator.config import DRIVER_PORT
from sparkstate_operator.core import keys, memory, naming, templates
from sparkstate_operator.decide import restarts
from sparkstate_operator.objects import merging, parts
from sparkstate_operator.objects.parts import Context, Object
from sparkstate_operator.plan import AWAY_S, TERMINATION_GRACE_S
from sparkstate_spec import units

EVICTABLE: Object = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
"""Without this annotation, the cluster autoscaler keeps a node for the sake of a pod with local volumes, or one whose
controller it does not know. Our pods come back elsewhere with their state. A template's own annotation wins."""


def pod(context: Context, attempt: int, predecessor_s: int = 0) -> Object:
    """The driver's pod of one attempt, without its controller, which :func:`controlled` adds when it exists.
    ``predecessor_s``: as ``actions.StartAttempt`` has it."""
    revision, job = context.revision, context.job
    theirs = parts.as_user(context.config.ids, templates.of(revision.resolved, "driver"))
    ours: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": parts.metadata(context, naming.driver_pod(job.name, attempt), "driver", attempt),
        "spec": {**_spec(context, "driver"), "containers": [_container(context, attempt)]},
    }
    ours["metadata"]["labels"][labels.REVISION] = revision.name
    ours["spec"]["restartPolicy"] = "OnFailure" if restarts.kubelet_restarts(revision) else "Never"
    ours["spec"]["volumes"] += _volumes(context, attempt)
    defaults = {
        "metadata": {"annotations": EVICTABLE},
        "spec": {"terminationGracePeriodSeconds": TERMINATION_GRACE_S, "tolerations": tolerations()},
    }
    merged: Object = merging.merge(with_tolerations(merging.merge(defaults, theirs)), ours)
    (container,) = (one for one in merged["spec"]["containers"] if one["name"] == "driver")
    # The engine has to know the grace period that the pod really has: its last checkpoint after SIGTERM must fit into
    # it.
    grace = merged["spec"]["terminationGracePeriodSeconds"]
    container["env"] = [*container["env"], {"name": "SPARKSTATE_GRACE_PERIOD_S", "value": str(grace)}]
    if predecessor_s:
        container["env"].append({"name": "SPARKSTATE_PREDECESSOR_S", "value": str(predecessor_s)})
    return merged


def controlled(made: Object, config_map: Object) -> Object:
    """A driver's pod with its attempt's ConfigMap, as the API server has it, as controller. ``kubectl drain`` refuses
    pods without one, and the descheduler passes them over. The operator deletes an attempt's ConfigMap only when the
    pod is gone, so the garbage collector finds nothing to do; docs/rfcs/0021 tells why the job is not the owner."""
    meta = config_map["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}}


def _spec(context: Context, role: memory.Role) -> Object:
    revision = context.revision
    volumes, _ = parts.working_volumes(revision)
    spec: Object = {
        "serviceAccountName": parts.service_account(context),
        "automountServiceAccountToken": revision.cluster and role == "driver",
        "enableServiceLinks": False,
        "securityContext": dict(parts.POD_SECURITY),
        "volumes": volumes,
    }
    if secrets := revision.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(secret) for secret in secrets]
    return spec


def _container(context: Context, attempt: int) -> Object:
    container = _any_container(context, "driver")
    container["args"] = arguments(context, attempt)
    container["command"] = ["sparkstate-driver"]
    container["env"] = parts.environment(context, attempt)
    container["ports"] = _ports(context)
    container["readinessProbe"] = _probe("/readyz", period=5, failures=3)
    # Generous, because this must only end a process that hangs. An engine whose storage is away pauses, and is alive.
    container["livenessProbe"] = {**_probe("/livez", period=20, failures=6), "initialDelaySeconds": 120}
    container["terminationMessagePolicy"] = "File"
    container["volumeMounts"] += [
        {"name": "job", "mountPath": parts.JOB_DIR, "readOnly": True},
        {"name": "token", "mountPath": parts.TOKEN_DIR, "readOnly": True},
    ]
    if context.revision.get("configMapRef"):
        container["volumeMounts"].append({"name": "code", "mountPath": parts.CODE_DIR, "readOnly": True})
    return container


def _ports(context: Context) -> list[Object]:
    """By name, for probes, scrapers and policies: ``http``, and ``metrics`` where the job has one."""
    numbers = {"http": DRIVER_PORT, "metrics": context.revision.get("metricsPort")}
    return [
        {"name": name, "containerPort": number, "protocol": "TCP"}
        for name, number in numbers.items()
        if number
    ]


def arguments(context: Context, attempt: int) -> list[str]:
    """Of the engine's driver; docs/formats.md, "In the cluster"."""
    return [
        f"--manifest={parts.JOB_DIR}/job.yaml",
        f"--work-dir={parts.work_dir(context, attempt)}",
        f"--attempt={attempt}",
        f"--listen=:{DRIVER_PORT}",
        f"--token-file={parts.TOKEN_DIR}/token",
        f"--status-file={parts.WORK_DIR}/status.json",
        "--termination-log=/dev/termination-log",
        "--fenced-exit-zero",
        "--in-cluster",
    ]


def _any_container(context: Context, role: memory.Role) -> Object:
    revision = context.revision
    _, mounts = parts.working_volumes(revision)
    container: Object = {
        "name": role,
        "image": revision.get("image"),
        "securityContext": dict(parts.CONTAINER_SECURITY),
        "resources": resources(context, role),
        "volumeMounts": mounts,
    }
    if policy := revision.get("imagePullPolicy"):
        container["imagePullPolicy"] = policy
    return container


def resources(context: Context, role: memory.Role) -> Object:
    """The memory sum as both request and limit, so that the pod gets exactly what bounds it.
    A template may raise it."""
    resolved = context.revision.resolved
    found = memory.sums(resolved).of(role)
    theirs = templates.container_resources(resolved, role)
    asked: Object = {"cpu": str(found.cores), "memory": str(found.memory_bytes)}
    limit: Object = {"memory": str(found.memory_bytes)}
    if found.storage_bytes is not None:
        # The volume's size, and room for logs and /tmp beside it.
        asked["ephemeral-storage"] = str(found.storage_bytes)
    return {
        "requests": _larger(asked, theirs.get("requests") or {}),
        "limits": _larger(limit, theirs.get("limits") or {}),
    }


def _larger(ours: Object, theirs: Any) -> Object:
    both = {**theirs, **ours}
    for name in ("memory", "ephemeral-storage"):
        if (
            name in ours
            and name in theirs
            and templates.quantity_bytes(theirs[name]) > units.quantity_bytes(ours[name])
        ):
            both[name] = theirs[name]
    if "cpu" in theirs:
        both["cpu"] = theirs["cpu"]
    return both


def _probe(path: str, *, period: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": DRIVER_PORT},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _volumes(context: Context, attempt: int) -> list[Object]:
    job = context.job
    volumes: list[Object] = [
        {"name": "job", "configMap": {"name": naming.config_map(job.name, attempt)}},
        _keys(context, attempt, keys.DRIVER),
    ]
    if reference := context.revision.get("configMapRef"):
        volumes.append({"name": "code", "configMap": {"name": reference["name"]}})
    return volumes


def _keys(context: Context, attempt: int, names: Sequence[str]) -> Object:
    """The attempt's keys of these names.

    ``token`` is required, so that a kubelet whose cache lags behind waits for the Secret, and a running pod
    keeps its files when somebody deletes it. The volume of an optional Secret is mounted empty, or emptied, in
    these cases. The other keys are optional, because a Secret that an earlier version made just before its
    replacement holds only the token."""
    secret = naming.token_secret(context.job.uid, attempt)
    others = [name for name in names if name != keys.REQUIRED]
    sources = [_source(secret, [keys.REQUIRED], optional=False), _source(secret, others, optional=True)]
    return {"name": "token", "projected": {"defaultMode": 0o440, "sources": sources}}


def _source(secret: str, names: Sequence[str], *, optional: bool) -> Object:
    items = [{"key": name, "path": name} for name in names]
    return {"secret": {"name": secret, "items": items, "optional": optional}}


def tolerations() -> list[Object]:
    """For taints of nodes that do not answer."""
    return [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": int(AWAY_S),
        }
        for state in ("not-ready", "unreachable")
    ]


def with_tolerations(template: Object) -> Object:
    """A template with the user's tolerations, and ours for each taint that the user's do not name."""
    theirs = template["spec"].get("tolerations") or []
    named = {one.get("key") for one in theirs}
    ours = [one for one in tolerations() if one["key"] not in named]
    return {**template, "spec": {**template["spec"], "tolerations": [*theirs, *ours]}}


def executor_template(context: Context, attempt: int) -> Object:
    """The pod template that Spark's Kubernetes backend starts executors from; their container is named ``executor``."""
    theirs = parts.as_user(context.config.ids, templates.of(context.revision.resolved, "executor"))
    container = _any_container(context, "executor")
    container["env"] = parts.environment(context, attempt)
    # Spark reads its own secret between driver and executors from there. By default it would appear in the pod's spec.
    container["volumeMounts"].append({"name": "token", "mountPath": parts.TOKEN_DIR, "readOnly": True})
    spec = _spec(context, "executor")
    spec["volumes"].append(_keys(context, attempt, keys.EXECUTOR))
    ours: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": labels.of_job(context.job.name, context.job.uid, "executor", attempt)},
        "spec": {**spec, "restartPolicy": "Never", "containers": [container]},
    }
    defaults = {"metadata": {"annotations": EVICTABLE}, "spec": {}}
    merged: Object = merging.merge(with_tolerations(merging.merge(defaults, theirs)), ours)
    return merged


def as_text(document: Object) -> str:
    """JSON, which a YAML reader reads as well, in one stable spelling."""
    return json.dumps(document, indent=1, sort_keys=True)
