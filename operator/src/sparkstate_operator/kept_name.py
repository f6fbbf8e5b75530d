"""The cluster's name under which a job's state lies, which may differ from the operator's own (RFC 0023).

A job's name leads to its state by ``by-name/<cluster>/<namespace>/<name>``, so under another cluster's name the job
begins empty. A ``clusterName`` that somebody *tells* a release is meant for the jobs of that release, and not for a job
that comes from another operator. Such a job keeps the name in its status, by a pin: an annotation that is written with
the mark of its new operator, in the same compare-and-set.

A backup that is restored in another cluster brings status and annotations with it, and must not write under the name of
the original. So a pin is valid for one object, or for one cluster, and the status of another object pins nothing.
"""

from __future__ import annotations

import re

from sparkstate_operator import errors, labels, managing, observed
from sparkstate_operator.config import Config

NAME = re.compile(r"(?!\.\.?\Z)[^/$\x00-\x1f\x7f]{1,253}")
"""A name that may be told, and pinned: the engine, ``--job`` and a pod's environment take it as it is. Anybody who may
change the job may write a pin, and the name becomes part of a path."""


def of_job(config: Config, job: observed.Job) -> str:
    """The name for this job's next attempt, and for the questions before it."""
    if pinned := _pinned(config, job):
        return pinned
    noted = _noted(job)
    return noted if noted and (config.cluster_found or _comes(config, job)) else config.cluster


def of_state(config: Config, job: observed.Job) -> str:
    """The name under which this job's state lies now, for commands that delete. Only a start goes over to another name:
    until then, the state of another cluster's job may lie under the new one, and a purge would delete that."""
    noted = _noted(job)
    return noted if noted and job.status.get("selector") == labels.pods_of(job.uid) else of_job(config, job)


def pin(config: Config, job: observed.Job) -> dict[str, str]:
    """Annotations to write with the mark: the pin, where the job comes with a name that differs from ours. Raises
    ``SpecInvalid`` for a name that cannot be pinned, because under ours the job would begin empty."""
    noted = _noted(job)
    if noted in ("", config.cluster) or not _comes(config, job) or _pinned(config, job):
        return {}
    if not NAME.fullmatch(noted):
        raise errors.SpecInvalid(
            f"status.cluster is {noted!r}, which cannot be pinned (at most 253 characters, none of them /, $ or a "
            f"control character). Under {config.cluster!r}, the name of the operator {config.mark}, the job would "
            "begin empty, so this operator does not take it. Give it back to an operator of that name, or create a new "
            "job with restoreFrom"
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
