"""Which job of a namespace has to start from data that is about to be deleted.

Read before the command that deletes is made, and not after: it is a list of all jobs. No earlier list will do, because
a job may have been created directly before the deletion, to be handed the data over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkstate_operator import custom_resources, dependants, labels, observed
from sparkstate_operator.edges import kube as k
from sparkstate_operator.observed import Death


async def of_snapshot(kube: k.Kube, namespace: str, snapshot: observed.Snapshot) -> str:
    """The name of a job that needs the snapshot's data; empty if none does, or the data is not about to go."""
    uri = snapshot.status.get("uri")
    if snapshot.phase != "Deleting" or snapshot.spec.get("deletionPolicy") != "Delete" or not uri:
        return ""
    return await _first(kube, namespace, lambda job: dependants.needs(job, snapshot.name, str(uri)))


async def of_purge(
    kube: k.Kube,
    source: observed.Job,
    snapshots: Sequence[observed.Snapshot],
    drivers: Sequence[observed.Pod],
    commands: Sequence[observed.Command],
) -> str:
    """The same of the data of a job that is deleted with ``purge``, once its drivers have ended or were asked to."""
    lives = any(pod.death is not Death.CONFIRMED and pod.deleting_at is None for pod in drivers)
    if lives or not dependants.is_whole(source, commands):
        return ""
    own = [one for one in snapshots if one.labels.get(labels.JOB_UID) == source.uid]
    return await _first(kube, source.namespace, lambda job: dependants.needs_data_of(job, source, own))


async def _first(kube: k.Kube, namespace: str, needs: Callable[[custom_resources.Job], bool]) -> str:
    async for body in kube.each(k.JOBS, namespace):
        job = custom_resources.job_of(body)
        if needs(job):
            return job.name
    return ""
