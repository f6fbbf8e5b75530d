"""The first look of a process that begins to lead: three lists instead of a dozen requests for each job (RFC 0024).

Most jobs run, and the operator has nothing to do for them. For those, the result of a look is put together from the
lists and kept as after a look (``kept_look``): their drivers are asked, and their children are compared when their turn
comes. The operator looks at every other job as always. The watches list anew after this, so that a change in between
arrives as an event.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

from sparkstate_operator import custom_resources, errors, job_pods, kept_look, labels, managing, observed
from sparkstate_operator.config import Config
from sparkstate_operator.edges import kube as k

_log = logging.getLogger(__name__)
_Read = TypeVar("_Read")
LONGEST_S = 180.0
"""For the whole inventory: nobody watches before it has ended, and a pod that fails waits. Under a heavy load the lists
of 5,000 jobs took 83 s."""


class _Pod(NamedTuple):
    role: str
    job_uid: str
    pod: observed.Pod


@dataclass(frozen=True)
class FoundJob:
    """One job that runs, as a look would have seen it."""

    namespace: str
    name: str
    uid: str
    version: str
    endpoint: observed.DriverEndpoint
    driver: observed.Pod
    packed: bytes
    pods: tuple[tuple[str, str], ...]
    """Uid and version of each pod."""
    snapshots: tuple[str, ...]
    """Versions of its snapshots."""


async def take(kube: k.Kube, config: Config, now: datetime, longest_s: float = LONGEST_S) -> list[FoundJob]:
    """Of all jobs that run and are this operator's, in its namespaces. Where the lists are refused, every job is looked
    at; one that cannot be read, or whose pods or snapshots cannot, is looked at, and costs the others nothing. After
    ``longest_s`` seconds what has been found is all."""
    found: list[FoundJob] = []
    try:
        async with asyncio.timeout(longest_s):
            for namespace in config.namespaces or (None,):
                await _try(found, kube, namespace, config, now)
    except TimeoutError:
        _log.warning("the inventory was stopped after %.0f s; it had found %d jobs", longest_s, len(found))
    return found


async def _try(
    found: list[FoundJob], kube: k.Kube, namespace: str | None, config: Config, now: datetime
) -> None:
    try:
        await _add(found, kube, namespace, config, now)
    except errors.ApiError as error:
        _log.warning("the inventory of %s failed: %s", namespace or "all namespaces", error)
    except Exception:
        # Whatever the lists hold must not keep the operator from starting.
        _log.exception("the inventory of %s failed: a list cannot be read", namespace or "all namespaces")


async def _add(
    found: list[FoundJob], kube: k.Kube, namespace: str | None, config: Config, now: datetime
) -> None:
    """The jobs of one namespace, one by one: each one found counts, even where the rest of a list is refused."""
    pods: dict[tuple[str, str], list[_Pod | None]] = defaultdict(list)
    async for body in kube.each(k.PODS, namespace, labels.JOB):
        place, marks = body["metadata"]["namespace"], body["metadata"]["labels"]
        pods[place, marks[labels.JOB]].append(_read(_pod_of, "pod", body))
    snapshots: dict[tuple[str, str], list[observed.Snapshot | None]] = defaultdict(list)
    async for body in kube.each(k.SNAPSHOTS, namespace, labels.JOB_UID):
        place, marks = body["metadata"]["namespace"], body["metadata"]["labels"]
        snapshots[place, marks[labels.JOB_UID]].append(_read(custom_resources.snapshot_of, "snapshot", body))
    async for body in kube.each(k.JOBS, namespace, managing.selector(config.operator_class)):
        meta = body["metadata"]
        own = pods.pop((meta["namespace"], meta["name"]), [])
        mine = snapshots.pop((meta["namespace"], meta["uid"]), [])
        of = functools.partial(_found, pods=own, snapshots=mine, config=config, now=now)
        if (running := _read(of, "job", body)) is not None:
            found.append(running)


def _read(of: Callable[[observed.Document], _Read], what: str, body: observed.Document) -> _Read | None:
    """None for an object that this version cannot read, or that is nested too deeply to be kept."""
    try:
        return of(body)
    except Exception as error:
        fields = {"object": body["metadata"]["name"], "namespace": body["metadata"]["namespace"]}
        _log.warning("the inventory skips a %s: %s: %s", what, type(error).__name__, error, extra=fields)
        return None


def _pod_of(body: observed.Document) -> _Pod:
    marks = body["metadata"]["labels"]
    return _Pod(marks.get(labels.ROLE, ""), marks.get(labels.JOB_UID, ""), job_pods.read(body))


def _found(
    body: observed.Document,
    pods: list[_Pod | None],
    snapshots: list[observed.Snapshot | None],
    config: Config,
    now: datetime,
) -> FoundJob | None:
    """None, too, where one of the job's pods or snapshots could not be read."""
    read = [one for one in pods if one is not None]
    mine = tuple(one for one in snapshots if one is not None)
    if len(read) < len(pods) or len(mine) < len(snapshots):
        return None
    return _running(custom_resources.job_of(body), read, mine, config, now)


def _running(
    job: observed.Job,
    pods: list[_Pod],
    snapshots: tuple[observed.Snapshot, ...],
    config: Config,
    now: datetime,
) -> FoundJob | None:
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
    if not settled or len(drivers) != 1 or drivers[0].attempt != attempt or not _works(drivers[0]):
        return None
    if drivers[0].cluster and not job.status.get("cluster"):
        # A wiped status has lost the name in storage, under which alone the job finds its state. A look puts it back.
        return None
    executors = tuple(one.pod for one in pods if one.role == "executor")
    seen = observed.ObservedState(job, now, drivers=drivers, executors=executors, snapshots=snapshots)
    return FoundJob(
        job.namespace, job.name, job.uid, job.resource_version,
        observed.DriverEndpoint(drivers[0].ip, job.uid, drivers[0].attempt), drivers[0], kept_look.pack(seen),
        tuple((one.pod.uid, one.pod.resource_version) for one in pods),
        tuple(one.resource_version for one in snapshots),
    )  # fmt: skip


def _works(driver: observed.Pod) -> bool:
    """Whether a driver's pod needs nothing. One that ends has its successor made beside it at once, and
    one that is not ready pauses, recovers, or is on a node that does not answer."""
    return driver.answers and driver.ready and driver.deleting_at is None and not driver.node_lost
