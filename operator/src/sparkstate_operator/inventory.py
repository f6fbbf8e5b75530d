"""What a process that begins to lead finds, read in three lists instead of a dozen requests for each job.

Most jobs run, and nothing is to be done about them. For those, what a look would see is put together from the lists,
and kept as after a look (``kept``): their drivers are asked, and their children are compared in their turn. Every other
job is looked at as always. The watches list anew after this, so that whatever happens meanwhile is an event.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sparkstate_operator import errors, kept, labels, managing, observed
from sparkstate_operator.config import Config
from sparkstate_operator.edges import kube as k

_log = logging.getLogger(__name__)


class _Pod(NamedTuple):
    role: str
    job_uid: str
    pod: observed.Pod


@dataclass(frozen=True)
class Found:
    """One job that runs, as a look would have seen it."""

    namespace: str
    name: str
    uid: str
    version: str
    speaker: observed.Speaker
    driver: observed.Pod
    packed: bytes
    pods: tuple[tuple[str, str], ...]
    """Uid and version of each pod."""


async def take(kube: k.Kube, config: Config, now: datetime) -> list[Found]:
    """Of all jobs that run and are this operator's, in its namespaces. Where the lists are refused, or cannot
    be read, nothing is found, and every job is looked at."""
    found: list[Found] = []
    for namespace in config.namespaces or (None,):
        try:
            found += [one async for one in _of(kube, namespace, config, now)]
        except errors.ApiError as error:
            _log.warning("no inventory of %s: %s", namespace or "all namespaces", error)
        except (LookupError, ValueError, TypeError, AttributeError):
            # An object that this version cannot read must not keep the operator from starting: its own look fails.
            _log.exception("no inventory of %s: an object cannot be read", namespace or "all namespaces")
    return found


async def _of(kube: k.Kube, namespace: str | None, config: Config, now: datetime) -> AsyncIterator[Found]:
    pods: dict[tuple[str, str], list[_Pod]] = defaultdict(list)
    async for body in kube.each(k.PODS, namespace, labels.JOB):
        marks = body["metadata"]["labels"]
        one = _Pod(marks.get(labels.ROLE, ""), marks.get(labels.JOB_UID, ""), observed.pod_of(body))
        pods[body["metadata"]["namespace"], marks[labels.JOB]].append(one)
    snapshots: dict[tuple[str, str], list[observed.Snapshot]] = defaultdict(list)
    async for body in kube.each(k.SNAPSHOTS, namespace, labels.JOB_UID):
        snapshot = observed.snapshot_of(body)
        snapshots[body["metadata"]["namespace"], snapshot.labels[labels.JOB_UID]].append(snapshot)
    async for body in kube.each(k.JOBS, namespace, managing.selector(config.operator_class)):
        job = observed.job_of(body)
        own = pods.pop((job.namespace, job.name), [])
        mine = tuple(snapshots.pop((job.namespace, job.uid), ()))
        running = _running(job, own, mine, config, now)
        if running is not None:
            yield running


def _running(
    job: observed.Job,
    pods: list[_Pod],
    snapshots: tuple[observed.Snapshot, ...],
    config: Config,
    now: datetime,
) -> Found | None:
    """None where anything is under way, or not as it usually is; a job that does not bear our mark is looked at, which
    finds out whose it is."""
    drivers = tuple(one.pod for one in pods if one.role == "driver")
    attempt = job.status.get("attempt")
    settled = (
        job.status.get("phase") == "Running"
        and not job.status.get("intent")
        and job.status.get("observedGeneration") == job.generation
        and job.deleting_at is None
        and managing.is_own(job, config.operator_class, config.mark)
        and all(one.job_uid == job.uid for one in pods)
    )
    if not settled or len(drivers) != 1 or drivers[0].attempt != attempt or not drivers[0].answers:
        return None
    if drivers[0].cluster and not job.status.get("cluster"):
        return None  # its name in storage was wiped from the status: a look puts it back
    executors = tuple(one.pod for one in pods if one.role == "executor")
    seen = observed.Observed(job, now, drivers=drivers, executors=executors, snapshots=snapshots)
    return Found(
        job.namespace, job.name, job.uid, job.resource_version,
        observed.Speaker(drivers[0].ip, job.uid, drivers[0].attempt), drivers[0], kept.pack(seen),
        tuple((one.pod.uid, one.pod.resource_version) for one in pods),
    )  # fmt: skip
