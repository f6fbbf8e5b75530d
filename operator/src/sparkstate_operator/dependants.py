"""Whether a job still needs the data of a savepoint: it has to start from it, and has no newer state of its own.

The pattern is that of Kubernetes for claims in use (``kubernetes.io/pvc-protection``): the object stays as long
as somebody needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkstate_operator import actions, custom_resources, observed
from sparkstate_operator.core import locations
from sparkstate_spec import layers
from sparkstate_spec.given import JOB

IN_USE = "InUse"
"""The reason of a snapshot whose deletion waits for a job. Its data stays until that job has state of its own."""
GOES = "DataIsDeleted"
"""The reason once a command may have deleted a part of it. From then on the data serves nobody."""
_SAVEPOINTS = "savepoints"
"""The folder for savepoints below a checkpoint storage, as the engine names it."""
_SAVEPOINT = re.compile(r"savepoint-([0-9a-f]{6})-")
_LINEAGE = re.compile(r"([0-9a-f]+)(?:/|\Z)")


Named = Mapping[str, custom_resources.Snapshot]
"""The StateSnapshots that jobs have to start from, by name."""


def needs(job: custom_resources.Job, name: str, uri: str, named: Named | None = None) -> bool:
    """Whether the job could not start, or start again, without the savepoint. Its spec may name the same data by
    another StateSnapshot, one of ``named``."""
    needed = NeededState.of(job)
    return name == needed.name or locations.folder(uri) in needed.places(named or {})


@dataclass(frozen=True)
class PurgedData:
    """Whatever a purge of a job deletes: the checkpoints of every lineage that its name ever had, and every savepoint
    in their logs. The operator knows the newest lineage, and the savepoints that have an object. Of the rest it knows
    the place alone, which jobs may share: data there counts as this job's unless it is of another job's lineage. A
    needless wait leaves data at the deadline, and says so. A missing one may take the only state of a job."""

    job: str
    known: frozenset[str]
    """Folders of savepoints."""
    storages: frozenset[str]
    """Folders of ``<lineage>/chk-N``."""
    savepoint_storages: frozenset[str]
    """Folders of ``savepoint-<six digits of the lineage>-<id>``."""
    newest: str
    """The folder of the newest lineage."""
    lineage: str
    """The id of that."""
    others: frozenset[str]
    """Those of other jobs."""

    @classmethod
    def of(
        cls,
        source: custom_resources.Job,
        snapshots: Iterable[custom_resources.Snapshot],
        storage: str | None = None,
        savepoint_storage: str | None = None,
        others: Iterable[str] = (),
    ) -> PurgedData:
        """``snapshots``: the job's own. ``storage``, ``savepoint_storage``: those of its revision. ``others``: the
        lineages of other jobs."""
        newest, saved = (
            _folder((source.status.get(name) or {}).get("uri"))
            for name in ("lastCheckpoint", "lastSavepoint")
        )
        known = frozenset(filter(None, (saved, *(_folder(one.status.get("uri")) for one in snapshots))))
        above = _above(newest)
        roots = frozenset(filter(None, (_above(above), _folder(storage))))
        beside = (f"{root}/{_SAVEPOINTS}" for root in roots)
        savepoints = frozenset(filter(None, (*beside, _folder(savepoint_storage), *map(_above, known))))
        own = str(source.status.get("lineage") or above.rpartition("/")[2])
        return cls(source.name, known, roots, savepoints, above, own, frozenset(filter(None, others)))

    def is_needed_by(self, job: custom_resources.Job, named: Named) -> bool:
        """Whether the job could not start, or start again, without it."""
        needed = NeededState.of(job)
        snapshot = named.get(needed.name)
        place = _place(snapshot) if snapshot is not None else ""
        taken_of = custom_resources.told(snapshot.spec, "jobRef.name") if snapshot is not None else ""
        by_name = bool(place) and (taken_of == self.job if taken_of else self._holds(place))
        return by_name or any(self._holds(folder) for folder in needed.folders)

    def _holds(self, folder: str) -> bool:
        if folder in self.known or (self.newest and folder.startswith(f"{self.newest}/")):
            return True
        lineage = self._lineage_of(folder)
        if not lineage:
            return False
        return self.lineage.startswith(lineage) or not any(one.startswith(lineage) for one in self.others)

    def _lineage_of(self, folder: str) -> str:
        """The lineage of the checkpoint or savepoint there, or its first digits; empty if it lies elsewhere."""
        for storages, name in ((self.savepoint_storages, _SAVEPOINT), (self.storages, _LINEAGE)):
            below = (folder.removeprefix(f"{root}/") for root in storages if folder.startswith(f"{root}/"))
            found = [match[1] for one in below if (match := name.match(one))]
            if found:
                return found[0]
        return ""


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
class NeededState:
    """The data that a job has to start from. ``name``: of a StateSnapshot; empty if it needs none by name."""

    name: str
    folders: frozenset[str]
    """Those that are named by their place."""

    def __bool__(self) -> bool:
        return bool(self.name or self.folders)

    def places(self, named: Named) -> frozenset[str]:
        """All folders, that of the StateSnapshot too."""
        told = _place(named[self.name]) if self.name in named else ""
        return self.folders | frozenset(filter(None, (told,)))

    @classmethod
    def of(cls, job: custom_resources.Job) -> NeededState:
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
        or any(status.get(under_way) for under_way in ("intent", "refused", "start", "restorePending"))
    )


def _place(snapshot: custom_resources.Snapshot) -> str:
    """The folder of its data. A registration names it before the engine has found it there."""
    return _folder(snapshot.status.get("uri") or custom_resources.told(snapshot.spec, "uri"))


def _folder(uri: object) -> str:
    return locations.folder(uri) if isinstance(uri, str) else ""


def _above(folder: str) -> str:
    return folder.rpartition("/")[0]
