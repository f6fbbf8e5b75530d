"""Savepoints: self-contained folders that belong to the user, and what the log knows of them.

A folder is named in the log (``SavepointStarted``) before anything is written into it, so that a crash leaves
no folder that nobody knows. All files lie inside and all paths are relative to it: the folder can be moved or
copied and opened where it is then. The log finds a savepoint by its trigger id, also for a driver that
started after it was taken.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from sparkstate import errors
from sparkstate.checkpoint import metadata as codec
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.checkpoint.removal import Removal
from sparkstate.log import records
from sparkstate.log.lineage import Lineage
from sparkstate.log.log import ClaimedLog, LineageLog
from sparkstate.log.records import SavepointCommitted, SavepointStarted
from sparkstate.log.state import LogState
from sparkstate.storage import layout, mounts, naming
from sparkstate.storage.location import CheckpointStorageLocation
from sparkstate.storage.objectstore import ObjectStore
from sparkstate.storage.prefixed import PrefixedStore

_log = logging.getLogger("sparkstate.checkpoint")
OpenStore = Callable[[str], ObjectStore]
"""Opens a URL that must exist: ``lambda url: open_store(url, s3, create=False)``."""
Deleting = Callable[[str, Callable[[], None]], None]
"""Called with a savepoint's URL and what deletes its folder, which may hang as long as that storage does."""


class LoggedPhase(enum.StrEnum):
    """The outcome of a trigger id, as the log has it."""

    UNKNOWN = "unknown"
    IN_PROGRESS = "in-progress"
    COMPLETED = "completed"
    FAILED = "failed"
    """Begun by an incarnation that is over; triggering it again with the same id begins anew."""


@dataclass(frozen=True)
class LoggedSavepoint:
    """The log's answer for one trigger id. ``url`` is empty while it is unknown."""

    phase: LoggedPhase
    url: str = ""
    committed: SavepointCommitted | None = None


@dataclass(frozen=True)
class OpenedSnapshot:
    """A savepoint (or checkpoint) opened by its URL. The paths of its handles are relative to ``store``."""

    url: str
    store: ObjectStore
    metadata: CheckpointMetadata


class Savepoints:
    """The savepoints of one lineage. With a claimed log: take them. With any log: find and delete them. Thread-safe."""

    def __init__(
        self,
        lineage: Lineage,
        log: LineageLog | ClaimedLog,
        opened: OpenStore,
        ids: Callable[[], str] = naming.random_id,
        removal: Removal | None = None,
    ) -> None:
        self._lineage = lineage
        self._log = log
        self._open = opened
        self._ids = ids
        self._removal = removal or Removal()

    def find(self, trigger_id: str) -> LoggedSavepoint:
        """The word of the log about ``trigger_id`` now."""
        return logged(self._log.refresh(), trigger_id)

    def begin(
        self, trigger_id: str, parent_url: str, checkpoint_id: int, incarnation: int
    ) -> LoggedSavepoint:
        """Name a new folder under ``parent_url``, unless the trigger id is in progress or completed already.

        Compare the ``phase`` with IN_PROGRESS and the checkpoint id of :meth:`started` to see whose it is.
        """
        parent = naming.normalise_url(parent_url)
        url = naming.join_url(parent, layout.savepoint_folder(self._lineage.id, self._ids()))

        def decide(state: LogState) -> records.Record | None:
            known = logged(state, trigger_id).phase
            if known in (LoggedPhase.COMPLETED, LoggedPhase.IN_PROGRESS):
                return None
            return SavepointStarted(
                trigger_id=trigger_id, url=url, checkpoint_id=checkpoint_id, incarnation=incarnation
            )

        self._log.append_if(decide)
        return logged(self._log.state, trigger_id)

    def started(self, trigger_id: str) -> SavepointStarted | None:
        """The newest begun and uncompleted savepoint of that trigger id."""
        found = [s for s in self._log.state.started_savepoints if s.trigger_id == trigger_id]
        return found[-1] if found else None

    def folder(self, url: str) -> ObjectStore:
        """A store rooted at the folder, which need not exist yet; its parent must."""
        parent, name = naming.split_url(url)
        return PrefixedStore(self._open(parent), name)

    def commit(self, url: str, metadata: CheckpointMetadata) -> SavepointCommitted:
        """Write ``_metadata`` and the log's record. Outcome and errors as ``CompletedCheckpointStore.commit``."""
        record = self.write(url, metadata)
        self.record(record)
        return record

    def write(self, url: str, metadata: CheckpointMetadata) -> SavepointCommitted:
        """The first half of :meth:`commit`, in the folder's own storage: nothing is committed by it."""
        data = codec.encode(metadata)
        stream = CheckpointStorageLocation(self.folder(url), "").create_metadata_output_stream()
        stream.write(data)
        stream.close_and_finalize_checkpoint()
        return SavepointCommitted(
            trigger_id=metadata.trigger_id,
            url=url,
            checksum=codec.checksum(data),
            checkpoint_id=metadata.checkpoint_id,
            epoch=metadata.epoch,
            incarnation=metadata.incarnation,
            timestamp_ms=metadata.timestamp_ms,
        )

    def record(self, record: SavepointCommitted) -> None:
        """The second half of :meth:`commit`, in the log."""
        self._log.append_if(lambda state: _commit_once(state, record))

    def abandon(self, url: str, *, confirm: bool = True) -> None:
        """Give up a savepoint that was begun, and delete its folder; no effect if it was completed.

        Without ``confirm`` the log goes on to say that the folder must be deleted: its writers may not have ended.
        """
        self._condemn([url], lambda state: url not in {s.url for s in state.savepoints})
        if url in self._log.state.doomed_savepoints:
            self._finish([url], confirm=confirm)

    def delete(self, url: str, *, force: bool = False) -> None:
        """Delete a completed savepoint of this lineage: tombstone, files, confirmation.

        Refuses what a restart would need (the newest completed snapshot of the lineage), unless ``force``.
        Raises ``StorageError`` for a folder that this lineage's log does not know.
        """
        wanted = naming.normalise_url(url)
        state = self._log.refresh()
        known = {*(s.url for s in state.savepoints), *state.doomed_savepoints}
        if wanted not in known:
            raise errors.StorageError(
                f"{wanted} is not a savepoint of the lineage {self._lineage.id} ({self._lineage.job}); it has: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        self._delete([wanted], lambda now: force or _may_be_deleted(now, wanted))

    def sweep(self, deleting: Deleting = lambda url, delete: delete()) -> list[str]:
        """Delete the folders that older incarnations began and never completed, and finish deletions begun
        before. Folders in a storage that refuses are left for a later sweep: a folder that somebody named once
        keeps no job from starting.
        """
        # Older incarnations only: slots of the present one may still write into the folder of a savepoint that has
        # just failed.
        state = self._log.refresh()
        dead = [s.url for s in state.started_savepoints if s.incarnation < state.incarnation]
        if dead:
            self._condemn(dead, lambda now: not {s.url for s in now.savepoints} & set(dead))
        for url in self._log.state.doomed_savepoints:
            deleting(url, partial(self._finish, [url], insist=False))
        return dead

    def finish_deletions(self) -> None:
        """Finish deletions that were begun before, except where the storage refuses. They are not confirmed: one of the
        folders may be that of a failed savepoint, into which a slot still writes."""
        if self._log.state.doomed_savepoints:
            self._finish(self._log.state.doomed_savepoints, insist=False, confirm=False)

    def _delete(self, urls: list[str], still_valid: Callable[[LogState], bool]) -> None:
        self._condemn(urls, still_valid)
        self._finish([url for url in urls if url in self._log.state.doomed_savepoints])

    def _condemn(self, urls: list[str], still_valid: Callable[[LogState], bool]) -> None:
        stone = records.Tombstone(savepoints=tuple(urls), reason="savepoint deleted")

        def decide(state: LogState) -> records.Record | None:
            pending = set(urls) <= set(state.doomed_savepoints)
            return None if pending or not still_valid(state) else stone

        self._log.append_if(decide)

    def _has_gone(self, url: str) -> bool:
        """Whether the folder above ``url`` was deleted, with all in it: it is missing, and its volume is plainly there.
        Elsewhere nobody can tell it from one whose volume is not mounted."""
        parent = naming.split_url(url)[0]
        if not naming.is_local(parent):
            return False
        folder = naming.local_path(parent)
        if naming.too_long(folder):
            return True  # nothing was ever stored there
        try:
            if folder.exists():
                return False
        except OSError:
            return False  # whoever may not look there cannot tell
        storage = naming.split_url(self._lineage.store.url)[0]
        return naming.is_within(parent, storage) or mounts.on_a_volume(folder)

    def _finish(self, urls: Iterable[str], *, insist: bool = True, confirm: bool = True) -> None:
        gone = []
        for url in urls:
            try:
                folder = self.folder(url)
                infos = list(folder.list(""))
                if not infos and naming.is_local(folder.url):
                    # On a disk a folder goes with the last name that is deleted in it.
                    folder.delete([layout.METADATA])
                self._removal.find(infos)
                self._removal.delete(folder, infos)
                abort_uploads(folder)
            except errors.NotFound:
                pass  # the parent folder is gone, and so is all in it
            except (errors.StorageError, errors.SpecInvalid):
                if insist:
                    raise
                if not self._has_gone(url):
                    continue
            gone.append(url)
        if gone and confirm:
            self._log.append(records.SavepointsDeleted(savepoints=tuple(gone)))


def abort_uploads(folder: ObjectStore) -> None:
    """Drop the parts of all uploads into a folder that is under a tombstone; where that is refused they stay."""
    try:
        folder.abort_uploads("", lambda key: True)
    except errors.StorageUnavailable:
        raise
    except errors.StorageError as error:
        _log.warning("interrupted uploads into %s cannot be removed: %s", folder.url, error)


def logged(state: LogState, trigger_id: str) -> LoggedSavepoint:
    """The word of ``state`` about a trigger id. Pure."""
    for committed in reversed(state.savepoints):
        if committed.trigger_id == trigger_id:
            return LoggedSavepoint(LoggedPhase.COMPLETED, committed.url, committed)
    for started in reversed(state.started_savepoints):
        if started.trigger_id == trigger_id:
            alive = started.incarnation == state.incarnation
            return LoggedSavepoint(LoggedPhase.IN_PROGRESS if alive else LoggedPhase.FAILED, started.url)
    return LoggedSavepoint(LoggedPhase.UNKNOWN)


def is_left_to_a_newer(state: LogState, url: str, incarnation: int) -> bool:
    """Whether ``incarnation`` can no longer complete its savepoint at ``url`` (empty: not even begun), because a newer
    one has begun, which takes another one for the same request. Pure."""
    return state.incarnation > incarnation and url not in {committed.url for committed in state.savepoints}


def folder_of(url: str) -> str:
    """The folder of a snapshot that is named by its folder or by its ``_metadata``, in the form that we compare."""
    folder = naming.normalise_url(url)
    return naming.split_url(folder)[0] if folder.endswith(f"/{layout.METADATA}") else folder


def open_snapshot(url: str, opened: OpenStore) -> OpenedSnapshot:
    """Open a savepoint or checkpoint by the URL of its folder or of its ``_metadata``.

    Raises ``NotFound`` if there is none, ``CorruptData`` if it cannot be what was written.
    """
    folder = folder_of(url)
    parent_url, name = naming.split_url(folder)
    parent = opened(parent_url)
    path = f"{name}/{layout.METADATA}"
    metadata = codec.decode(parent.get(path), f"{parent.url}/{path}")
    store = PrefixedStore(parent, name) if metadata.kind == "savepoint" else parent
    return OpenedSnapshot(url=folder, store=store, metadata=metadata)


def _may_be_deleted(state: LogState, url: str) -> bool:
    point = state.restore_point
    if isinstance(point, SavepointCommitted) and point.url == url:
        raise errors.StorageError(
            f"{url} is the newest completed snapshot of its job: a restart needs it. Take a newer checkpoint "
            "or savepoint "
            "first, or force the deletion; the job then cannot be restored"
        )
    return True


def _commit_once(state: LogState, record: SavepointCommitted) -> records.Record | None:
    if record in state.savepoints:
        return None  # the answer to an earlier try was lost, and the commit is called again
    if record.incarnation != state.incarnation:
        raise errors.StateError(
            f"the savepoint {record.url} belongs to incarnation {record.incarnation}, the lineage is at "
            f"{state.incarnation}; it is given up"
        )
    if record.url not in {started.url for started in state.started_savepoints}:
        raise errors.StateError(f"the savepoint {record.url} was given up")
    return record
