"""Whether a job still needs the data of a savepoint: it has to start from it, and has no newer state of its own.

The pattern is that of Kubernetes for claims in use (``kubernetes.io/pvc-protection``): the object stays as long
as somebody needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparkstate_operator import actions, custom_resources, observed
from sparkstate_operator.core import locations
from sparkstate_spec import layers
from sparkstate_spec.given import JOB

IN_USE = "InUse"
"""The reason of a snapshot whose deletion waits for a job. Its data stays until that job has state of its own."""
GOES = "DataIsDeleted"
"""The reason once a command may have deleted a part of it. From then on the data serves nobody."""


def needs(job: custom_resources.Job, name: str, uri: str) -> bool:
    """Whether the job could not start, or start again, without the savepoint."""
    needed = _NeededState.of(job)
    return name == needed.name or locations.folder(uri) in needed.folders


def needs_data_of(
    job: custom_resources.Job, source: custom_resources.Job, snapshots: Iterable[custom_resources.Snapshot]
) -> bool:
    """Whether it could not without what a purge of ``source`` deletes: the data of its ``snapshots``, its last
    savepoint, the checkpoints of its lineage."""
    needed = _NeededState.of(job)
    uris = {one.name: str(one.status.get("uri") or "") for one in snapshots}
    if uris.get(needed.name):
        return True
    checkpoint, savepoint = (
        str((source.status.get(name) or {}).get("uri") or "") for name in ("lastCheckpoint", "lastSavepoint")
    )
    places = {locations.folder(uri) for uri in (*uris.values(), savepoint)}
    lineage = locations.folder(checkpoint).rpartition("/")[0]
    return any(one in places or (lineage and one.startswith(f"{lineage}/")) for one in needed.folders)


def is_whole(source: custom_resources.Job, commands: Iterable[observed.Command]) -> bool:
    """Whether the data of a job that is deleted with ``purge`` is all there yet, so that another job may start from it.
    Between two tries of the purge there is no command."""
    intent = source.status.get("intent") or {}
    begun = intent.get("purging") or any(command.does == actions.PURGE for command in commands)
    return source.deleting_at is not None and intent.get("policy") == actions.PURGE and not begun


def restored_uri(spec: custom_resources.Document) -> str:
    """The URL that a spec restores from, by the field, or by one of Flink's keys that mean it
    (``execution.state-recovery.path``); empty if it names none."""
    try:
        leaf = layers.fold(spec, JOB).get("restoreFrom.uri")
    except (ValueError, TypeError, LookupError, AttributeError):  # a spec that nobody has judged
        return custom_resources.told(spec, "restoreFrom.uri")
    return str(leaf.value) if leaf is not None else ""


def can_be_restored(snapshot: custom_resources.Snapshot) -> bool:
    """Whether its data is there, and stays for a job that has to start from it. Without the second case, a job that is
    created beside the deletion would wait for the snapshot, and the snapshot for the job."""
    waits = snapshot.phase == "Deleting" and snapshot.status.get("reason") == IN_USE
    return snapshot.phase == "Completed" or waits


@dataclass(frozen=True)
class _NeededState:
    """The data that a job has to start from. ``name``: of a StateSnapshot; empty if it needs none by name."""

    name: str
    folders: frozenset[str]

    @classmethod
    def of(cls, job: custom_resources.Job) -> _NeededState:
        if job.deleting_at is not None:
            return cls("", frozenset())
        # The instruction is void once the job has completed a checkpoint of its own (``StartInstruction``).
        name, uris = "", [str((job.status.get("start") or {}).get("uri") or "")]
        if _is_not_carried_out(job):
            name = custom_resources.told(job.spec, "restoreFrom.snapshotRef.name")
            uris.append(restored_uri(job.spec))
        return cls(name, frozenset(locations.folder(uri) for uri in uris if uri))


def _is_not_carried_out(job: custom_resources.Job) -> bool:
    """Whether the spec's instruction may still be ahead. A job that went on from it long ago keeps naming it."""
    status = job.status
    return (
        not status.get("attempt")
        or status.get("observedGeneration") != job.generation
        or any(status.get(under_way) for under_way in ("intent", "refused", "start"))
    )
