"""The Job that checks, before an upgrade, whether the new version takes up the job's state (RFC 0044).

Its pod is the driver's pod of the new revision, because the job's own code runs in it: the image, the template, the
account, the volumes. It differs where it has to run beside the driver that it may replace: it asks for less memory,
has a working volume of its own, no keys of an attempt, no container beside its own, and may run on any node.
"""

from __future__ import annotations

import copy
from typing import Any

from sparkstate_operator import actions, labels
from sparkstate_operator.core import job_life, naming, placing
from sparkstate_operator.objects import children, commands, driver, parts
from sparkstate_operator.objects.parts import Context, Object

MANIFEST = f"{labels.PREFIX}/manifest"
"""Annotation of the pod: the manifest, which the pod mounts as a file. A ConfigMap would be the trace of an attempt.
There is room for it, because larger specs are not checked (``decide.checking.SPEC_BYTES``)."""
_LIMITED = ("cpu", "memory", "ephemeral-storage")
"""Of the driver's limits. Devices are left out: the running driver may hold the last one."""
_ATTEMPTS = ("job", "token")
"""Volumes of an attempt."""


def job(context: Context, action: actions.CreateCheck) -> Object:
    """The Kubernetes Job."""
    marks = {**labels.of_job(context.job.name, context.job.uid), labels.ROLE: "command"}
    pod = driver.pod(context, naming.TRACE)
    manifest = parts.as_text(children.manifest(context, action.start))
    theirs = pod["metadata"]
    kept = {
        name: value
        for name, value in theirs["labels"].items()
        if name not in (labels.ATTEMPT, labels.REVISION)
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": action.name,
            "namespace": context.job.namespace,
            "labels": marks,
            "annotations": {labels.COMMAND: job_life.CHECK},
        },
        "spec": {
            # Once: an answer that refuses the state is an exit code too, and the decision knows when to ask again.
            "backoffLimit": 0,
            "activeDeadlineSeconds": action.limit_s,
            "ttlSecondsAfterFinished": commands.TTL_S,
            "template": {
                "metadata": {
                    "labels": {**kept, **marks},
                    "annotations": {**(theirs.get("annotations") or {}), MANIFEST: manifest},
                },
                "spec": _spec(context, action, pod["spec"]),
            },
        },
    }


def _spec(context: Context, action: actions.CreateCheck, given: Object) -> Object:
    spec = copy.deepcopy(given)
    (container,) = (one for one in spec["containers"] if one["name"] == "driver")
    manifest = {"path": "job.yaml", "fieldRef": {"fieldPath": f"metadata.annotations['{MANIFEST}']"}}
    spec["containers"] = [_container(container, action)]
    spec["volumes"] = [
        *(_own(one, context) for one in spec["volumes"] if one["name"] not in _ATTEMPTS),
        {"name": "job", "downwardAPI": {"items": [manifest]}},
    ]
    spec["restartPolicy"] = "Never"
    spec["automountServiceAccountToken"] = False
    if affinity := spec.get("affinity"):
        spec["affinity"] = {name: value for name, value in affinity.items() if name != "podAntiAffinity"}
    return spec


def _own(volume: Object, context: Context) -> Object:
    """A working volume is not shared with the driver, and needs no disk that is provisioned for it."""
    local = _working(context)
    return {"name": volume["name"], "emptyDir": {}} if volume["name"] in local else volume


def _working(context: Context) -> set[str]:
    """The names of the working volumes: ours, and those that ``localStorage.paths`` lie on."""
    paths = context.revision.get("localStorage.paths") or ()
    template: Any = context.revision.get("driverTemplate") or {}
    mounts = [
        mount
        for container in (template.get("spec") or {}).get("containers") or ()
        if container.get("name") == "driver"
        for mount in container.get("volumeMounts") or ()
    ]
    return {"work", *(m["name"] for m in mounts if any(_lies_on(path, m["mountPath"]) for path in paths))}


def _lies_on(path: str, mount: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{mount.rstrip('/')}/")


def _container(given: Object, action: actions.CreateCheck) -> Object:
    dropped = ("ports", "readinessProbe", "livenessProbe", "startupProbe", "lifecycle")
    kept = {name: value for name, value in given.items() if name not in dropped}
    limits = {
        name: value
        for name, value in (given.get("resources", {}).get("limits") or {}).items()
        if name in _LIMITED
    }
    return {
        **kept,
        "name": placing.CONTAINER,
        "command": ["sparkstate"],
        "args": ["check", f"{parts.JOB_DIR}/job.yaml", "--json", *map(parts.literal, action.arguments)],
        "env": [one for one in given["env"] if one["name"] != "SPARKSTATE_ATTEMPT"],
        "resources": {"requests": commands.requests(limits), "limits": limits},
        "volumeMounts": [one for one in given["volumeMounts"] if one["name"] != "token"],
        # An image without the command leaves no answer, and its last line says so.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
