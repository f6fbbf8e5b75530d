"""Under which cluster's name a job's state lies, where the operator's own name may be another one.

A job's name leads to its state by ``by-name/<cluster>/<namespace>/<name>``: under another cluster's name it begins
empty. A name that is *told* to a release (``clusterName``) is meant for the jobs that this release has. A job that
comes from another operator was not meant. It keeps the name that its status notes: by a pin, an annotation that is
written with the mark of its new operator, in the same compare-and-set.

A backup that is restored in another cluster brings status and annotations with it, and must not write under the name
of the original. So a pin is for one object, or for one cluster, and a status that is another object's pins nothing.
"""

from __future__ import annotations

import re

from sparkstate_operator import errors, labels, managing, observed
from sparkstate_operator.config import Config

NAME = re.compile(r"(?!\.\.?\Z)[^/$\x00-\x1f\x7f]{1,253}")
"""What may be told, and pinned: what the engine, ``--job`` and a pod's environment take as it is. Anybody who may
change the job may write a pin, and the name becomes part of a path."""


def of_job(config: Config, job: observed.Job) -> str:
    """The name for this job's next attempt, and for the questions before it."""
    if pinned := _pinned(config, job):
        return pinned
    noted = _noted(job)
    return noted if noted and (config.cluster_found or _comes(config, job)) else config.cluster


def of_state(config: Config, job: observed.Job) -> str:
    """The name that this job's state lies under, for what deletes of it: only a start goes over to another name. Under
    that one there may be another job, of a cluster that shares the storage."""
    noted = _noted(job)
    return noted if noted and job.status.get("selector") == labels.pods_of(job.uid) else of_job(config, job)


def pin(config: Config, job: observed.Job) -> dict[str, str]:
    """Annotations to write with the mark: the pin, where the job comes with a name that is not ours. Raises
    ``SpecInvalid`` for a name that no pin holds: under ours the job would begin empty."""
    noted = _noted(job)
    if noted in ("", config.cluster) or not _comes(config, job) or _pinned(config, job):
        return {}
    if not NAME.fullmatch(noted):
        raise errors.SpecInvalid(
            f"status.cluster is {noted!r}, which cannot be pinned (at most 253 characters, none of them /, $ or a "
            f"control character). Under {config.cluster!r}, the name of the operator {config.mark}, the job would "
            "begin empty, so it is not taken. Give it back to an operator of that name, or make a new job with "
            "restoreFrom"
        )
    return {labels.CLUSTER_KEPT: pinned(config, job, noted)}


def pinned(config: Config, job: observed.Job, name: str) -> str:
    """The annotation that pins a job to that name; one of the same name in this cluster too, where that is known."""
    return f"{job.uid}/{config.cluster_id}/{name}"


def _noted(job: observed.Job) -> str:
    """The name that its status notes; empty if it notes none."""
    return str(job.status.get("cluster") or "")


def _pinned(config: Config, job: observed.Job) -> str:
    """The name of a pin that holds here; empty if there is none."""
    uid, _, rest = job.annotations.get(labels.CLUSTER_KEPT, "").partition("/")
    cluster_id, _, name = rest.partition("/")
    holds = uid == job.uid or (cluster_id != "" and cluster_id == config.cluster_id)
    return name if holds and NAME.fullmatch(name) else ""


def _comes(config: Config, job: observed.Job) -> bool:
    """Whether the job, with a status of its own, does not bear our mark (yet)."""
    own, holder = managing.Manager.of(config.mark), managing.marked(job)
    if own is None or (holder is not None and holder.is_same(own)):
        return False
    return job.status.get("selector") in (None, "", labels.pods_of(job.uid))
