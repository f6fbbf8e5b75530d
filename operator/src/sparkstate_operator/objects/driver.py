"""The driver's pod, the heart of one attempt."""

from __future__ import annotations

from sparkstate_operator import labels
from sparkstate_operator.config import DRIVER_PORT
from sparkstate_operator.core import keys, naming, templates
from sparkstate_operator.objects import merging, parts, pods
from sparkstate_operator.objects.parts import Context, Object
from sparkstate_operator.plan import TERMINATION_GRACE_S

PROBE_S = 5
READY_PERIOD_S = 5
LIVE_DELAY_S, LIVE_PERIOD_S = 120, 20
"""Generous, because the probe must only end a process that hangs. An engine whose storage is away pauses, and lives."""


def pod(context: Context, attempt: int, predecessor_s: int = 0) -> Object:
    """The driver's pod of one attempt, without its controller, which :func:`controlled` adds when it exists.
    ``predecessor_s``: as ``actions.StartAttempt`` has it."""
    revision, job = context.revision, context.job
    theirs = parts.as_user(context.config.ids, templates.of(revision.resolved, "driver"))
    ours: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": parts.metadata(context, naming.driver_pod(job.name, attempt), "driver", attempt),
        "spec": {**pods.spec(context, "driver"), "containers": [_container(context, attempt)]},
    }
    ours["metadata"]["labels"][labels.REVISION] = revision.name
    ours["spec"]["restartPolicy"] = "OnFailure" if revision.kubelet_restarts else "Never"
    ours["spec"]["volumes"] += _volumes(context, attempt)
    defaults = {
        "metadata": {"annotations": pods.EVICTABLE},
        "spec": {"terminationGracePeriodSeconds": TERMINATION_GRACE_S, "tolerations": pods.tolerations()},
    }
    merged: Object = merging.merge(pods.placed(merging.merge(defaults, theirs)), ours)
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


def _container(context: Context, attempt: int) -> Object:
    container = pods.container(context, "driver")
    container["args"] = arguments(context, attempt)
    container["command"] = ["sparkstate-driver"]
    container["env"] = parts.environment(context, attempt)
    container["ports"] = _ports(context)
    container["readinessProbe"] = _probe("/readyz", period_s=READY_PERIOD_S, failures=3)
    live = _probe("/livez", period_s=LIVE_PERIOD_S, failures=6)
    container["livenessProbe"] = {**live, "initialDelaySeconds": LIVE_DELAY_S}
    container["terminationMessagePolicy"] = "File"
    container["terminationMessagePath"] = parts.TERMINATION_LOG
    container["volumeMounts"] += [
        {"name": "job", "mountPath": parts.JOB_DIR, "readOnly": True},
        {"name": "token", "mountPath": parts.TOKEN_DIR, "readOnly": True},
        *pods.code_mounts(context),
    ]
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
        f"--work-dir={parts.literal(parts.work_dir(context, attempt))}",
        f"--attempt={attempt}",
        f"--listen=:{DRIVER_PORT}",
        f"--token-file={parts.TOKEN_DIR}/token",
        f"--status-file={parts.WORK_DIR}/status.json",
        f"--termination-log={parts.TERMINATION_LOG}",
        "--fenced-exit-zero",
        "--in-cluster",
    ]


def _probe(path: str, *, period_s: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": DRIVER_PORT},
        "periodSeconds": period_s,
        "timeoutSeconds": PROBE_S,
        "failureThreshold": failures,
    }


def _volumes(context: Context, attempt: int) -> list[Object]:
    job = context.job
    return [
        {"name": "job", "configMap": {"name": naming.config_map(job.name, attempt)}},
        pods.keys_volume(context, attempt, keys.DRIVER),
        *pods.code_volumes(context),
    ]
