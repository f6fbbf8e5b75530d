"""Savepoint folders that nobody owns any more: found in a storage, deleted only on request.

A savepoint belongs to its user, so nothing here goes by itself. A folder is an orphan if all of this holds:

- its ``_metadata`` names the job that is asked for, its cluster and namespace included; one that was never completed
  carries the start of the id of one of that job's lineages in its name;
- none of the objects that the caller knows names its folder or its trigger (StateSnapshots, pinned or not;
  what jobs start from);
- no lineage of the job would restore from it: it is neither the newest completed state nor what a stop closed it with;
- a lineage that began from it has completed a state of its own since, or none has begun from it;
- no driver is writing it, and its newest file is older than the age that was given.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sparkstate import errors
from sparkstate.checkpoint import metadata as codec
from sparkstate.checkpoint import purge
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.checkpoint.savepoint import OpenStore, folder_of
from sparkstate.clock import Clock
from sparkstate.log import lineage
from sparkstate.log.lineage import JobName, Lineage
from sparkstate.log.log import LineageLog
from sparkstate.log.records import SavepointCommitted
from sparkstate.log.state import LogState
from sparkstate.storage import layout, naming
from sparkstate.storage.objectstore import ObjectInfo, ObjectStore

NAMED = "an object names it"
"""Why a folder stays that the list of objects names, by its URL or its trigger."""
_FOLDER = re.compile(r"(savepoint-([0-9a-f]{6})-[0-9A-Za-z._-]+)/.+")


@dataclass(frozen=True)
class Orphan:
    """A folder that nobody owns. ``complete``: a job could be restored from it."""

    url: str
    files: int
    size_bytes: int
    newest_ms: int
    complete: bool
    trigger_id: str


@dataclass(frozen=True)
class SparedFolder:
    """A folder of the job that stays, and why."""

    url: str
    why: str


@dataclass(frozen=True)
class _Folder:
    """The contents of one folder. ``metadata``: what it says of itself; None if it was never completed."""

    url: str
    infos: tuple[ObjectInfo, ...]
    metadata: CheckpointMetadata | None
    damaged: bool

    @property
    def trigger_id(self) -> str:
        return self.metadata.trigger_id if self.metadata is not None else ""

    @property
    def newest_ms(self) -> int:
        return max(info.modified_ms for info in self.infos)

    def orphan(self) -> Orphan:
        size = sum(info.size for info in self.infos)
        complete = self.metadata is not None
        return Orphan(self.url, len(self.infos), size, self.newest_ms, complete, self.trigger_id)


def find(
    root: ObjectStore,
    job: JobName,
    parent_urls: Collection[str],
    opened: OpenStore,
    clock: Clock,
    *,
    kept: Collection[str],
    least_age_s: float,
) -> tuple[list[Orphan], list[SparedFolder]]:
    """The folders that are left of the job's savepoints: the orphans, and those that stay. Deletes nothing.

    It looks in ``parent_urls`` and wherever a log of the job knows one.
    ``kept``: URLs of folders and trigger ids that somebody owns.
    """
    # The lineages of all jobs: one of another job may have begun from a savepoint of this one.
    states = {
        one: LineageLog(one.store, clock).refresh()
        for name in lineage.names(root)
        for one in lineage.all_of(root, name)
    }
    own = {one: state for one, state in states.items() if one.job == job}
    oldest_ms = clock.now_ms() - least_age_s * 1000.0
    orphans, spared = list[Orphan](), list[SparedFolder]()
    for folder in _folders({*parent_urls, *_known_parents(own.values())}, opened):
        if not _is_of(folder, job, own):
            continue
        if why := _spared(folder, set(kept), states, oldest_ms):
            spared.append(SparedFolder(folder.url, why))
        else:
            orphans.append(folder.orphan())
    return orphans, spared


def _known_parents(states: Collection[LogState]) -> Iterator[str]:
    for state in states:
        urls = [*(one.url for one in state.savepoints), *(one.url for one in state.started_savepoints)]
        yield from (naming.split_url(url)[0] for url in urls)


def delete(
    root: ObjectStore, job: JobName, orphans: Collection[Orphan], opened: OpenStore, clock: Clock
) -> None:
    """Delete them, each under a tombstone of the lineage that knows it. One that a restart needs is refused again."""
    for one in orphans:
        if not purge.delete_known(root, job, one.url, opened, clock):
            purge.delete_savepoint(one.url, opened, clock)


def _folders(parent_urls: Collection[str], opened: OpenStore) -> Iterator[_Folder]:
    for url in sorted({naming.normalise_url(one) for one in parent_urls}):
        try:
            parent = opened(url)
            listed = list(parent.list("savepoint-"))
        except errors.NotFound:
            continue
        found: dict[str, list[ObjectInfo]] = {}
        for info in listed:
            if match := _FOLDER.fullmatch(info.key):
                found.setdefault(match[1], []).append(info)
        for name, infos in found.items():
            yield _folder(parent, name, infos)


def _folder(parent: ObjectStore, name: str, infos: list[ObjectInfo]) -> _Folder:
    path = f"{name}/{layout.METADATA}"
    metadata, damaged = None, False
    if any(info.key == path for info in infos):
        try:
            metadata = codec.decode(parent.get(path), f"{parent.url}/{path}")
        except (errors.CorruptData, errors.UnknownFormat):
            damaged = True
    return _Folder(naming.join_url(parent.url, name), tuple(infos), metadata, damaged)


def _is_of(folder: _Folder, job: JobName, own: Collection[Lineage]) -> bool:
    """Whether the folder is this job's: by what it says of itself, or by its name where it says nothing."""
    if folder.metadata is not None:
        return folder.metadata.job == job
    short = naming.split_url(folder.url)[1].split("-")[1]
    return any(one.short_id == short for one in own)


def _spared(folder: _Folder, kept: set[str], states: Mapping[Lineage, LogState], oldest_ms: float) -> str:
    """Why it stays; empty if nothing holds it."""
    if folder.url in kept or (folder.trigger_id and folder.trigger_id in kept):
        return NAMED
    if folder.damaged:
        return "its _metadata cannot be read, so nobody knows whose it is; delete it by its URL"
    for one, state in states.items():
        if why := _needed(folder, state, kept):
            return f"lineage {one.id} of {one.job} {why}"
    return "it is younger than the age that was given" if folder.newest_ms > oldest_ms else ""


def _needed(folder: _Folder, state: LogState, kept: set[str]) -> str:
    point = state.restore_point
    if isinstance(point, SavepointCommitted) and point.url == folder.url:
        return "restores from it"
    if state.closed is not None and state.closed.savepoint_url == folder.url:
        return "was stopped with it"
    # A job may begin from the URL of a ``_metadata``. Compared as it was given, that URL never equalled the folder's,
    # and the sweep could delete the only state of a job.
    began_from = folder_of(state.restored_from) if state.restored_from else ""
    if began_from == folder.url and (point is None or point.incarnation != state.incarnation):
        return "began from it and has completed nothing since"
    for started in state.started_savepoints:
        if started.url == folder.url and (
            started.incarnation == state.incarnation or started.trigger_id in kept
        ):
            return "may still be writing it"
    return ""
