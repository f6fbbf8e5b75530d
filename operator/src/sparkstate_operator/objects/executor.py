"""The executors' part of one attempt: the template of their pods."""

from __future__ import annotations

from sparkstate_operator import labels
from sparkstate_operator.core import keys, templates
from sparkstate_operator.objects import merging, parts, pods
from sparkstate_operator.objects.parts import Context, Object


def template(context: Context, attempt: int) -> Object:
    """The pod template that Spark's Kubernetes backend starts executors from; their container is named ``executor``."""
    theirs = parts.as_user(context.config.ids, templates.of(context.revision.resolved, "executor"))
    container = pods.container(context, "executor")
    container["env"] = parts.environment(context, attempt)
    # Spark reads its own secret between driver and executors from there. By default it would appear in the pod's spec.
    container["volumeMounts"].append({"name": "token", "mountPath": parts.TOKEN_DIR, "readOnly": True})
    container["volumeMounts"] += pods.code_mounts(context)
    spec = pods.spec(context, "executor")
    spec["volumes"] += [pods.keys_volume(context, attempt, keys.EXECUTOR), *pods.code_volumes(context)]
    ours: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": labels.of_job(context.job.name, context.job.uid, "executor", attempt)},
        "spec": {**spec, "restartPolicy": "Never", "containers": [container]},
    }
    defaults = {"metadata": {"annotations": pods.EVICTABLE}, "spec": {}}
    merged: Object = merging.merge(pods.placed(merging.merge(defaults, theirs)), ours)
    return merged
