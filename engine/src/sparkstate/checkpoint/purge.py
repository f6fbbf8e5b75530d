"""Deleting for good: all that a job has in storage, or one savepoint's folder. Reads metadata, runs nothing of it.

A purge first claims the lineage for an attempt above every other, so that a driver that still lives, cut off somewhere,
can commit nothing more. Then it names the objects in a tombstone, then it deletes them. A few kilobytes remain, which
keep the order of things: the log, and the name pointer, which now points to a lineage that nothing was written into, so
that a job of the same name begins empty. Every step can be repeated; a purge that was interrupted is run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkstate import errors
from sparkstate.checkpoint import savepoint
from sparkstate.checkpoint.removal import Removal, batches
from sparkstate.checkpoint.savepoint import OpenStore, Savepoints
from sparkstate.clock import Clock
from sparkstate.log import lineage, records
from sparkstate.log.bases import FOLDER as LOG_FOLDER
from sparkstate.log.lineage import JobName, Lineage
from sparkstate.log.log import ClaimedLog, LineageLog
from sparkstate.storage import layout, mounts, naming
from sparkstate.storage.objectstore import ObjectInfo, ObjectStore
from sparkstate.storage.prefixed import PrefixedStore

_SAVEPOINT_FOLDER = re.compile(r"savepoint-[0-9a-f]{6}-[0-9A-Za-z._-]+")


@dataclass(frozen=True)
class PurgeResult:
    """The things that a purge deleted."""

    lineages: tuple[str, ...]
    files: int
    size_bytes: int
    savepoints: tuple[str, ...]
    left: tuple[str, ...] = ()
    """Savepoints that stay: this storage is a copy, and they are those of the original."""


def purge(
    root: ObjectStore,
    job: JobName,
    opened: OpenStore,
    clock: Clock,
    who: str,
    progress: Callable[[int, int], object] = lambda done_bytes, total_bytes: None,
) -> PurgeResult:
    """Delete every checkpoint and savepoint of a job; no effect if there is none.

    Only call it when no driver of the job is meant to run: one that does is fenced. ``progress`` is told the bytes that
    are deleted, and those that were found so far to be deleted.
    """
    known = lineage.all_of(root, job)
    removal = Removal(progress)
    files = size = 0
    touched, savepoints, left = list[str](), list[str](), list[str]()
    for one in known:
        log = LineageLog(one.store, clock)
        state = log.refresh()
        kept = (*(s.url for s in state.savepoints), *(s.url for s in state.started_savepoints))
        # The newest lineage is claimed even where nothing is stored yet: its driver may live, and would go on.
        in_use = one is known[-1] and state.last_number > 0
        if not (in_use or kept or state.doomed_savepoints or any(_data(one))):
            continue
        claimed = log.claim(_above(log), who)
        if log.is_copied:
            left += state.all_savepoints
        else:
            _drop_savepoints(one, claimed, opened, removal)
            savepoints += kept
        for info in _delete_data(one, claimed, removal):
            files, size = files + 1, size + info.size
        savepoint.abort_uploads(one.store)
        touched.append(one.id)
    if known and known[-1].id in touched:
        lineage.begin_anew(root, known[-1], clock)
    return PurgeResult(tuple(touched), files, size, tuple(savepoints), tuple(left))


def _above(log: LineageLog) -> int:
    claim, closed = log.state.claim, log.state.closed
    return max(claim.attempt if claim else 0, closed.attempt if closed else 0) + 1


def _data(one: Lineage) -> Iterator[ObjectInfo]:
    return (info for info in one.store.list("") if not info.key.startswith(f"{LOG_FOLDER}/"))


def _drop_savepoints(one: Lineage, log: ClaimedLog, opened: OpenStore, removal: Removal) -> None:
    kept = Savepoints(one, log, opened, removal=removal)
    for url in [*(s.url for s in log.state.savepoints), *log.state.doomed_savepoints]:
        kept.delete(url, force=True)
    for started in log.state.started_savepoints:
        kept.abandon(started.url)


def _delete_data(one: Lineage, log: ClaimedLog, removal: Removal) -> Iterator[ObjectInfo]:
    """Tombstones first, then files. Asked again after each round: a driver may have been in the middle of an upload."""
    while found := list(_data(one)):
        removal.find(found)
        ids = tuple(committed.checkpoint_id for committed in log.state.checkpoints)
        for number, batch in enumerate(batches(found)):  # a record stays small
            paths = tuple(info.key for info in batch)
            log.append(records.Tombstone(paths=paths, checkpoints=() if number else ids, reason="purged"))
            one.store.delete(paths)
            for info in batch:
                removal.note(info)
                yield info


# -- one savepoint, wherever it lies ---------------------------------------------------------------------------------


def delete_savepoint(
    url: str, opened: OpenStore, clock: Clock, *, force: bool = False, removal: Removal | None = None
) -> bool:
    """Delete the savepoint in that folder; whether anything was there.

    If its lineage lies beside it (``<root>/savepoints/…`` and ``<root>/<lineage>/``) and knows it, the tombstone comes
    first, and what a restart of the job would need is refused unless ``force``; one that was begun and never completed
    is given up. A folder that was moved or copied belongs to no log: its ``_metadata`` goes first, so that no half of
    it can be restored. Raises ``SpecInvalid`` for a URL other than a savepoint's folder, ``StorageError`` for one on a
    volume that is not mounted here.
    """
    wanted = naming.normalise_url(url).removesuffix(f"/{layout.METADATA}")
    parent, name = naming.split_url(wanted)
    if not _SAVEPOINT_FOLDER.fullmatch(name):
        raise errors.SpecInvalid(
            f"{wanted} is not a savepoint's folder (savepoint-<lineage>-<id>); nothing was deleted"
        )
    try:
        folder = PrefixedStore(opened(parent), name)
        infos = list(folder.list(""))
    except errors.NotFound:
        if not _beside_lineages(parent):
            mounts.require_reachable(parent)
        return False
    removal = removal or Removal()
    metadata = [info for info in infos if info.key == layout.METADATA]
    if not _delete_by_its_log(wanted, opened, clock, removal, force=force):
        removal.find(infos)
        removal.delete(folder, metadata)
        removal.delete(folder, [info for info in infos if info.key != layout.METADATA])
    return bool(infos)


def _beside_lineages(parent: str) -> bool:
    """Whether it is the default folder for savepoints in a local checkpoint storage that is there."""
    root, name = naming.split_url(parent)
    return name == layout.SAVEPOINTS and (naming.local_path(root) / lineage.FOLDER).is_dir()


def _delete_by_its_log(
    wanted: str, opened: OpenStore, clock: Clock, removal: Removal, *, force: bool
) -> bool:
    """Delete a savepoint that the log of a lineage names, if it lies where a savepoint's default place tells.

    False if there is no such log.
    """
    parent, name = naming.split_url(wanted)
    try:
        root = opened(naming.split_url(parent)[0])
        jobs = _jobs_of(wanted, root, opened)
    except errors.NotFound:
        return False
    known = [one for job in jobs for one in lineage.all_of(root, job)]
    own = [one for one in known if name.startswith(layout.savepoint_folder(one.id, ""))]
    if any(_delete_by(one, wanted, opened, clock, removal, force=force) for one in own):
        return True
    elsewhere = next(filter(None, (_known_elsewhere(one, name, clock) for one in own)), None)
    if elsewhere is not None and not force:
        raise errors.StorageError(
            f"{wanted} is the savepoint {elsewhere} by another path, or a copy of it: give that URL, so that the job's "
            "log knows of the deletion, or --force to delete these files alone"
        )
    return False


def _known_elsewhere(one: Lineage, name: str, clock: Clock) -> str | None:
    """The URL under which the log of this lineage names a savepoint of that folder's name."""
    known = LineageLog(one.store, clock).refresh().all_savepoints
    return next((url for url in known if naming.split_url(url)[1] == name), None)


def _delete_by(
    one: Lineage,
    url: str,
    opened: OpenStore,
    clock: Clock,
    removal: Removal | None = None,
    *,
    force: bool = False,
) -> bool:
    """Delete a savepoint that the log of this lineage names, completed or begun; False if it does not."""
    log = LineageLog(one.store, clock)
    state = log.refresh()
    kept = Savepoints(one, log, opened, removal=removal)
    if url in {s.url for s in state.savepoints}:
        kept.delete(url, force=force)
        return True
    if url in {*(s.url for s in state.started_savepoints), *state.doomed_savepoints}:
        # Else its driver, which may live, would complete it without its files. Its slots may write on, also after a
        # second call, so the next incarnation confirms the deletion.
        kept.abandon(url, confirm=False)
        return True
    return False


def _jobs_of(wanted: str, root: ObjectStore, opened: OpenStore) -> list[JobName]:
    """The job that the savepoint's metadata names, or none if they are damaged: nothing can be restored from it. Every
    job in that storage if there are no metadata yet."""
    try:
        return [savepoint.open_snapshot(wanted, opened).metadata.job]
    except errors.CorruptData:
        return []
    except errors.NotFound:
        pass
    try:
        return lineage.names(root)
    except errors.StorageRefused:  # keys for the folder of savepoints alone: no log of it can be read
        return []


def delete_triggered(
    root: ObjectStore,
    job: JobName,
    trigger_id: str,
    opened: OpenStore,
    clock: Clock,
    *,
    force: bool = False,
    removal: Removal | None = None,
) -> list[str]:
    """Delete the savepoint that a trigger id made, wherever it lies, by what the job's logs say; the folders' URLs.

    One that was begun and never completed is given up: a driver that still writes it cannot complete it any more.
    Refuses what a restart of the job would need, unless ``force``. Deletions that were interrupted are finished.
    """
    gone = list[str]()
    for one in lineage.all_of(root, job):
        log = LineageLog(one.store, clock)
        state = log.refresh()
        kept = Savepoints(one, log, opened, removal=removal)
        for committed in state.savepoints:
            if committed.trigger_id == trigger_id:
                kept.delete(committed.url, force=force)
                gone.append(committed.url)
        for started in state.started_savepoints:
            if started.trigger_id == trigger_id:
                kept.abandon(started.url, confirm=False)
                gone.append(started.url)
        kept.finish_deletions()
    return gone


def delete_known(root: ObjectStore, job: JobName, url: str, opened: OpenStore, clock: Clock) -> bool:
    """Delete a savepoint that a log of the job names, completed or begun; False if none does.
    Refuses what a restart would need."""
    return any(_delete_by(one, url, opened, clock) for one in lineage.all_of(root, job))
