"""Which job of a namespace has to start from data that is about to be deleted.

Read before the command that deletes is made, and not after: it is a list of all jobs. No earlier list will do, because
a job may have been created directly before the deletion, to be handed the data over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sparkstate_operator import custom_resources, dependants, labels, observed, plan
from sparkstate_operator.edges import kube as k
from sparkstate_operator.observed import Death


async def of_snapshot(kube: k.Kube, namespace: str, snapshot: observed.Snapshot) -> str:
    """The name of a job that needs the snapshot's data; empty if none does, or the data is not about to go."""
    uri = snapshot.status.get("uri")
    if snapshot.phase != "Deleting" or snapshot.spec.get("deletionPolicy") != "Delete" or not uri:
        return ""
    jobs, _ = await _with_needs(kube, namespace)
    named = await _named(kube, namespace, jobs)
    return _first(jobs, lambda job: dependants.needs(job, snapshot.name, str(uri), named))


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
    named = await _named(kube, source.namespace, jobs)
    purged = dependants.PurgedData.of(
        source,
        [one for one in snapshots if one.labels.get(labels.JOB_UID) == source.uid],
        revision.get("checkpointing.storage") if revision is not None else None,
        revision.get("savepoints.storage") if revision is not None else None,
        lineages,
    )
    return _first(jobs, lambda job: purged.is_needed_by(job, named))


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


async def _named(kube: k.Kube, namespace: str, jobs: Iterable[observed.Job]) -> dict[str, observed.Snapshot]:
    """The StateSnapshots that the jobs have to start from, by name."""
    found = dict[str, observed.Snapshot]()
    for name in sorted({dependants.NeededState.of(job).name for job in jobs} - {""}):
        body = await kube.get(k.SNAPSHOTS, namespace, name)
        if body is not None:
            found[name] = custom_resources.snapshot_of(body)
    return found


def _first(jobs: Iterable[observed.Job], needs: Callable[[observed.Job], bool]) -> str:
    return next((job.name for job in jobs if needs(job)), "")
