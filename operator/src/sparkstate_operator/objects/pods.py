"""The parts that pods of a driver and of its executors have in common, and on which nodes every pod of ours may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkstate_operator.core import keys, memory, naming, templates
from sparkstate_operator.objects import parts
from sparkstate_operator.objects.parts import Context, Object
from sparkstate_operator.plan import AWAY_S
from sparkstate_spec import units

EVICTABLE: Object = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
"""Without this annotation, the cluster autoscaler keeps a node for the sake of a pod with local volumes, or one whose
controller it does not know. Our pods come back elsewhere with their state. A template's own annotation wins."""
LINUX: Object = {"kubernetes.io/os": "linux"}
"""Every kubelet labels its node so. Without it, the scheduler may choose a Windows node, which cannot run the image.
A template's own value of the label wins."""


def spec(context: Context, role: memory.Role) -> Object:
    """The pod's spec without its containers."""
    revision = context.revision
    volumes, _ = parts.working_volumes(revision)
    found: Object = {
        "serviceAccountName": parts.service_account(context),
        "automountServiceAccountToken": revision.cluster and role == "driver",
        "enableServiceLinks": False,
        "securityContext": dict(parts.POD_SECURITY),
        "volumes": volumes,
    }
    if secrets := revision.get("imagePullSecrets"):
        found["imagePullSecrets"] = [dict(secret) for secret in secrets]
    return found


def container(context: Context, role: memory.Role) -> Object:
    """The container in which the engine runs, with the volumes that it may write to."""
    revision = context.revision
    _, mounts = parts.working_volumes(revision)
    found: Object = {
        "name": role,
        "image": revision.get("image"),
        "securityContext": dict(parts.CONTAINER_SECURITY),
        "resources": resources(context, role),
        "volumeMounts": mounts,
    }
    if policy := revision.get("imagePullPolicy"):
        found["imagePullPolicy"] = policy
    return found


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


def keys_volume(context: Context, attempt: int, names: Sequence[str]) -> Object:
    """The attempt's keys of these names.

    ``token`` is required, so that a kubelet whose cache lags behind waits for the Secret, and a running pod
    keeps its files when somebody deletes it. The volume of an optional Secret is mounted empty, or emptied, in
    these cases. The other keys are optional, because a Secret that an earlier version made just before its
    replacement holds only the token."""
    secret = naming.token_secret(context.job.uid, attempt)
    others = [name for name in names if name != keys.REQUIRED]
    sources = [_source(secret, [keys.REQUIRED], optional=False), _source(secret, others, optional=True)]
    return {"name": "token", "projected": {"defaultMode": 0o440, "sources": sources}}


def code_volumes(context: Context) -> list[Object]:
    """The ConfigMap with the job's file, where the job has one. Executors need it too: slots import the modules beside
    that file, such as a state backend of the job's own."""
    reference = context.revision.get("configMapRef")
    return [{"name": "code", "configMap": {"name": reference["name"]}}] if reference else []


def code_mounts(context: Context) -> list[Object]:
    """The place of that file in a container."""
    if not context.revision.get("configMapRef"):
        return []
    return [{"name": "code", "mountPath": parts.CODE_DIR, "readOnly": True}]


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


def placed(template: Object) -> Object:
    """A template with the user's tolerations and node selector, ours for each taint that the user's do not name, and
    Linux where the user's say nothing of it."""
    spec = template["spec"]
    theirs = spec.get("tolerations") or []
    named = {one.get("key") for one in theirs}
    ours = [one for one in tolerations() if one["key"] not in named]
    return {**template, "spec": {**spec, **_on_linux(spec), "tolerations": [*theirs, *ours]}}


def _on_linux(spec: Object) -> Object:
    """The node selector. One that is not a map is for the API server to refuse."""
    theirs = spec.get("nodeSelector") or {}
    return {"nodeSelector": {**LINUX, **theirs} if isinstance(theirs, Mapping) else theirs}
