"""Which job of a namespace has to start from data that is about to be deleted.

Read before the command that deletes is made, and not after: it is a list of all jobs. No earlier list will do, because
a job may have been created directly before the deletion, to be handed the data over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from typing import Protocol

from sparkstate_operator import custom_resources, dependants, labels, observed, plan
from sparkstate_operator.edges import kube as k
from sparkstate_operator.observed import Death

FEW = 20
"""So many StateSnapshots are read one by one. Where there are more to read, one list of the namespace costs less."""


class Needs(Protocol):
    """Whether a job needs the data that is about to be deleted."""

    def __call__(self, job: observed.Job, *, named: dependants.Named) -> bool: ...


async def of_snapshot(kube: k.Kube, namespace: str, snapshot: observed.Snapshot) -> str:
    """The name of a job that needs the snapshot's data; empty if none does, or the data is not about to go."""
    uri = snapshot.status.get("uri")
    if snapshot.phase != "Deleting" or snapshot.spec.get("deletionPolicy") != "Delete" or not uri:
        return ""
    jobs, _ = await _with_needs(kube, namespace)
    needs = partial(dependants.needs, name=snapshot.name, uri=str(uri))
    return await _first(kube, namespace, jobs, needs)


async def of_purge(
    kube: k.Kube,
    source: observed.Job,
    revision: plan.Revision | None,
    snapshots: Sequence[observed.Snapshot],
    drivers: Sequence[observed.Pod],
    commands: Sequence[observed.Command],
) -> str:
    """The same of the data of a job that is deleted with ``purge``, once its drivers have ended or were asked to.
    ``revision``: the one that runs."""
    lives = any(pod.death is not Death.CONFIRMED and pod.deleting_at is None for pod in drivers)
    if lives or not dependants.is_whole(source, commands):
        return ""
    jobs, lineages = await _with_needs(kube, source.namespace, but=source.uid)
    own = [one for one in snapshots if one.labels.get(labels.JOB_UID) == source.uid]
    purged = dependants.PurgedData.of(
        source,
        own,
        revision.get("checkpointing.storage") if revision is not None else None,
        revision.get("savepoints.storage") if revision is not None else None,
        lineages,
    )
    return await _first(kube, source.namespace, jobs, purged.is_needed_by, own)


async def _with_needs(
    kube: k.Kube, namespace: str, *, but: str = ""
) -> tuple[list[observed.Job], frozenset[str]]:
    """The jobs that have to start from something, which are few, and the lineages of all. ``but``: the uid of a job
    that does not count."""
    found, lineages = list[observed.Job](), set[str]()
    async for body in kube.each(k.JOBS, namespace):
        job = custom_resources.job_of(body)
        if job.uid == but:
            continue
        lineages.add(str(job.status.get("lineage") or ""))
        if dependants.NeededState.of(job):
            found.append(job)
    return found, frozenset(lineages)


async def _first(
    kube: k.Kube,
    namespace: str,
    jobs: Sequence[observed.Job],
    needs: Needs,
    known: Iterable[observed.Snapshot] = (),
) -> str:
    """The name of the first job that needs the data; empty if none does. The StateSnapshots that the jobs name are read
    only if none is found without: read first, as many as there were jobs, they took a request each at every look at
    every snapshot that waits. ``known``: those that were read already."""
    named = {one.name: one for one in known}
    found = next((job for job in jobs if needs(job, named=named)), None)
    if found is None:
        names = {dependants.NeededState.of(job).name for job in jobs} - {"", *named}
        read = {one.name: one async for one in _snapshots(kube, namespace, names)}
        found = next((job for job in jobs if needs(job, named={**named, **read})), None)
    return found.name if found is not None else ""


async def _snapshots(kube: k.Kube, namespace: str, names: set[str]) -> AsyncIterator[observed.Snapshot]:
    """Those of these names that there are."""
    if len(names) > FEW:
        async for body in kube.each(k.SNAPSHOTS, namespace):
            if body["metadata"]["name"] in names:
                yield custom_resources.snapshot_of(body)
        return
    for name in sorted(names):
        found = await kube.get(k.SNAPSHOTS, namespace, name)
        if found is not None:
            yield custom_resources.snapshot_of(found)
