"""Labels, annotations and the finalizer, by which the operator finds its objects again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

PREFIX = "sparkstate.io"
FINALIZER = f"{PREFIX}/operator"
"""On jobs and on snapshots; only the operator sets and removes it."""

JOB = f"{PREFIX}/job"
JOB_UID = f"{PREFIX}/job-uid"
ATTEMPT = f"{PREFIX}/attempt"
LIFE = f"{PREFIX}/life"
"""On executors: which life of the attempt's driver made them; the engine's to set."""
ROLE = f"{PREFIX}/role"
REVISION = f"{PREFIX}/revision"
"""On an attempt's pod and ConfigMap: name of the ControllerRevision that it runs."""
SNAPSHOT = f"{PREFIX}/snapshot"
SNAPSHOT_UID = f"{PREFIX}/snapshot-uid"
SNAPSHOT_TYPE = f"{PREFIX}/snapshot-type"
"""``periodic`` on snapshots that the operator makes by the clock."""
PERIODIC = "periodic"
OPERATOR_CLASS = f"{PREFIX}/operator-class"
"""On jobs and snapshots: which operators may look after them; people set it. Annotation of an operator's Lease too."""
MANAGER = f"{PREFIX}/managed-by"
"""Annotation of jobs and snapshots: the operator that looks after them; comes and goes with the finalizer."""
NAMESPACES = f"{PREFIX}/namespaces"
"""Annotation of the operator's Lease: which namespaces it watches, with commas; empty: all."""
MANAGED_BY = "app.kubernetes.io/managed-by"
OPERATOR = "sparkstate-operator"

SCHEDULED = f"{PREFIX}/scheduled"
"""Annotation of a periodic snapshot: the time it was due, RFC 3339 in UTC."""
START = f"{PREFIX}/start"
"""Annotation of an attempt's ConfigMap: the start instruction as JSON, from which the status can be rebuilt."""
CLUSTER = f"{PREFIX}/cluster"
"""Annotation of the operator's Lease: what the cluster is called in storage. Annotation of an attempt's ConfigMap: what
it is called for this job, from which the status can be rebuilt."""
CLUSTER_VARIABLE = "SPARKSTATE_CLUSTER"
"""The engine's variable of the same."""
CLUSTER_KEPT = f"{PREFIX}/cluster-kept"
"""Annotation of a job that came from another operator: ``<uid of the job>/<uid of kube-system>/<name>``, of which the
last is the cluster's name that its state lies under (``kept_name``)."""
COMMAND = f"{PREFIX}/task"
"""Annotation of a command's Job: what it does. The key keeps its first name, because it lies in clusters."""

Role = Literal["driver", "executor", "command"]


def of_job(job: str, uid: str, role: Role | None = None, attempt: int | None = None) -> dict[str, str]:
    """Labels of a job's child."""
    found = {MANAGED_BY: OPERATOR, JOB: job, JOB_UID: uid}
    if role is not None:
        found[ROLE] = role
    if attempt is not None:
        found[ATTEMPT] = str(attempt)
    return found


def of_snapshot(name: str, uid: str) -> dict[str, str]:
    """Labels of the objects that are made for a StateSnapshot."""
    return {MANAGED_BY: OPERATOR, SNAPSHOT: name, SNAPSHOT_UID: uid}


def pods_of(uid: str) -> str:
    """Selector of the pods that hold the job's slots and driver, for the scale subresource too."""
    return f"{JOB_UID}={uid},{ROLE} in (driver,executor)"


def number(meta: Mapping[str, Any], label: str) -> int | None:
    """The number of an attempt or life; None for a number that no operator gives. Otherwise anybody who may label
    objects could use up the numbers: names have room for ``naming.MAX_ATTEMPT``."""
    value = (meta.get("labels") or {}).get(label, "")
    return int(value) if re.fullmatch("[0-9]{1,6}", value) else None
