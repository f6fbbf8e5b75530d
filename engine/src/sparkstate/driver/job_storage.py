"""All durable things of a driver: lineage, log, completed checkpoints, savepoints, sinks' published files."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from sparkstate import errors, storage
from sparkstate.checkpoint import restore
from sparkstate.checkpoint.downloader import Downloader
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.checkpoint.savepoint import LoggedPhase
from sparkstate.checkpoint.store import CompletedCheckpointStore
from sparkstate.checkpoint.uploader import Uploader, UploadTarget
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import savepoint_targets, snapshot_parts
from sparkstate.driver.claimed_lineage import ClaimedLineage
from sparkstate.driver.leftovers import Leftovers
from sparkstate.driver.outputs import Outputs
from sparkstate.driver.snapshot_parts import SnapshotParts, StoredJob
from sparkstate.driver.storage_outages import Ending, briefly, heard
from sparkstate.handles import FileHandle
from sparkstate.log.records import SavepointCommitted
from sparkstate.sinks import file_sink
from sparkstate.spark import position
from sparkstate.storage import layout, naming
from sparkstate.storage.objectstore import ObjectStore

_log = logging.getLogger("sparkstate.driver")

_PROBE = "_sparkstate_probe"
"""No object has this name: whether there is one shows whether the storage answers."""


class JobStorage:
    """One lineage, claimed by this driver, and what its declared job stores there.
    Thread-safe as far as its parts are."""

    def __init__(self, claimed: ClaimedLineage, job: StoredJob) -> None:
        self._claimed = claimed
        self._settings = claimed.settings
        self._clock = claimed.clock
        self._job = job
        self.outages = claimed.outages
        self.root = claimed.root
        self.lineage = claimed.lineage
        self.log = claimed.log
        self.savepoints = claimed.savepoints
        self.ids = claimed.ids
        self._stores = claimed.stores
        self._outputs = Outputs(
            self.lineage.id, self.log, self._stores, self.outages, job.sink_paths, self._insist, self._clock
        )
        self.leftovers = Leftovers(
            self.lineage,
            self.log,
            self.savepoints,
            self._stores.get,
            tuple(job.sink_paths.values()),
            self.outages,
        )
        self.completed = CompletedCheckpointStore(
            self.lineage.store, self.log, self._settings.checkpoint.retained, self.leftovers.of_checkpoint
        )
        self._position_files: Mapping[str, FileHandle] = {}
        """Of the newest checkpoint, to which the next may refer: identity → handle."""

    def _open_existing(self, url: str) -> ObjectStore:
        """For reading: a wrong URL must not make a folder."""
        return storage.open_store(url, self._settings.s3, create=False)

    def release(self) -> None:
        """Let the driver go on that waits for this one's end; this one does nothing more. If the storage does not take
        the release, or hangs, the other waits until somebody has seen this process end."""
        with contextlib.suppress(errors.StorageError):
            briefly(self.log.release, self._clock)

    # -- restoring ----------------------------------------------------------------------------------------------

    def restore_point(self) -> restore.RestoredSnapshot:
        """The snapshot that the next incarnation starts from, if any. Raises ``RestoreBlocked``."""
        plan = restore.decide_restore(
            self.log.check(), self.lineage.store.url, self._settings.restore_from, self._settings.start_empty
        )
        return restore.carry_out(plan, self.lineage, self._open_existing)

    def seed_position(self, restored: restore.RestoredSnapshot, directory: Path, *, heartbeat: bool) -> None:
        """Let a query in ``directory`` go on where the snapshot's did; without a position it begins at the beginning.

        Raises ``RestoreBlocked`` for one that this version cannot read: trying again would not help.
        """
        metadata = restored.metadata
        if metadata is None or restored.store is None or metadata.source_position is None:
            return
        parts = {handle.name: handle for handle in metadata.source_files}
        with (
            contextlib.closing(Downloader(restored.store, 1)) as downloader,
            restore.blocked_by_damage(restored.plan),
        ):
            archive = downloader.read(metadata.source_position)
            if archive:

                def part(name: str) -> bytes:
                    if name not in parts:
                        raise errors.CorruptData(f"the source position names {name!r}, which is not stored")
                    return downloader.read(parts[name])

                position.seed(directory, archive, heartbeat=heartbeat, part=part)

    def begin_incarnation(
        self,
        restored: restore.RestoredSnapshot,
        recorded: Callable[[int], None],
        given_up: Callable[[], bool] = lambda: False,
    ) -> int:
        """Its number, from the log; then ``recorded`` is called, and what older incarnations left is settled.

        Goes on trying while the sinks' storage is away, until ``given_up``. Raises ``StorageUnavailable`` if the log
        names something else to restore by now: a checkpoint of the incarnation before may have its record late.
        """
        self._outputs.make_folders(restored, given_up)
        require = partial(restore.require_newest, restored.plan)
        number = self.log.begin_incarnation(restored.plan.url, self._settings.slots, require)
        entry = self.log.state.last_number
        recorded(number)
        self._outputs.begin(number, given_up)
        own = (
            restored.same_lineage and restored.metadata is not None and restored.metadata.kind == "checkpoint"
        )
        self._position_files = _by_identity(restored.metadata) if own and restored.metadata else {}
        # Published before the sweep, which takes everything that older incarnations staged for uncommitted.
        if restored.metadata is not None and restored.same_lineage:
            self.publish(restored.metadata, given_up)
        self._outputs.sweep(number)
        self._sweep()
        self.log.sweep()
        former = () if self.log.began_as_copy else self._outputs.former(restored)
        self.leftovers.of_older_incarnations(number, entry, former)
        return number

    def _sweep(self) -> None:
        """A damaged older checkpoint keeps nobody from starting: what the restored one needs was read well."""
        try:
            self.completed.sweep()
        except errors.CorruptData as error:
            _log.warning(
                "what older incarnations left is not deleted, because a retained checkpoint is damaged: %s",
                error,
            )

    # -- checkpoints --------------------------------------------------------------------------------------------

    def url_of(self, checkpoint_id: int) -> str:
        """The folder of a checkpoint."""
        return naming.join_url(self.lineage.store.url, layout.checkpoint_folder(checkpoint_id))

    def commit_checkpoint(
        self, parts: SnapshotParts, given_up: Callable[[], bool], before_record: Callable[[], None]
    ) -> CheckpointMetadata:
        """``_metadata``, then the log record. Goes on trying while the storage is away, until given up."""
        target = UploadTarget.checkpoint(parts.incarnation, parts.checkpoint_id)
        metadata = self._metadata(parts, "checkpoint", self.lineage.store, target)
        doing = f"commit checkpoint {parts.checkpoint_id}"
        self._insist(doing, lambda: self.completed.commit(metadata, before_record), given_up)
        self._position_files = _by_identity(metadata)
        return metadata

    def write_savepoint(
        self, parts: SnapshotParts, url: str, given_up: Callable[[], bool]
    ) -> SavepointCommitted:
        """The savepoint's ``_metadata``; what it raises is the failure of that savepoint alone."""
        target = UploadTarget.savepoint(parts.incarnation, parts.checkpoint_id)
        metadata = self._metadata(parts, "savepoint", self.savepoints.folder(url), target)
        written: list[SavepointCommitted] = []
        doing, write = f"write savepoint {parts.trigger_id}", self.savepoints.write
        self.outages.insist(url, doing, lambda: written.append(write(url, metadata)), given_up, needed=False)
        return written[-1]

    def record_savepoint(self, record: SavepointCommitted, given_up: Callable[[], bool]) -> None:
        """Its record in the log: the savepoint is complete. Given up, that is open until a restart reads the log."""
        doing = f"record savepoint {record.trigger_id}"
        self._insist(doing, lambda: self.savepoints.record(record), given_up)
        self.leftovers.confirm_savepoints()

    def begin_savepoint(self, request: SavepointTrigger, checkpoint_id: int, incarnation: int) -> str:
        """Name the savepoint's folder in the log; :meth:`make_savepoint_folder` makes it."""
        parent = request.target_directory or self._settings.savepoint.storage or self._default_savepoints()
        if naming.is_memory(parent):
            raise errors.StorageError(
                "a savepoint in the driver's memory would end with the driver; name a folder or a bucket with the "
                "request, or by spec.savepoints.storage"
            )
        logged = self.savepoints.begin(request.trigger_id, parent, checkpoint_id, incarnation)
        if logged.phase != LoggedPhase.IN_PROGRESS:
            raise errors.StorageError(
                f"savepoint {request.trigger_id!r} is {logged.phase} already at {logged.url}"
            )
        return logged.url

    def make_savepoint_folder(self, url: str, within_s: float, given_up: Callable[[], bool]) -> None:
        """The folder that :meth:`begin_savepoint` has named, which slots write into and never make. Without effect for
        a bucket's. The folder above it is made, if it never was.

        Raises ``StorageUnavailable`` if the storage is away, or does not answer within so many seconds.
        """
        if not naming.is_local(url):
            return
        until = self._clock.monotonic() + within_s
        doing = "make the folder of a savepoint"

        def make() -> None:
            self.outages.insist(url, doing, partial(self._make_folder, url), lambda: True, needed=False)

        try:
            heard(make, lambda: given_up() or self._clock.monotonic() > until)
        except Ending as error:
            raise errors.StorageUnavailable(
                f"cannot {doing}: {url} has not answered for {within_s:g} s; is its volume there?"
            ) from error

    def _make_folder(self, url: str) -> None:
        parent, name = naming.split_url(url)
        storage.open_within(self.open_target(parent, besides=url), name, self._settings.s3)

    def open_target(self, url: str, besides: str = "") -> ObjectStore:
        """The folder that savepoints go to, in one of its own each. ``besides`` as in ``may_be_made``."""
        if savepoint_targets.may_be_made(url, self.root, self.log.state, besides):
            return self._stores.make(url, again=savepoint_targets.is_within(url, self.root))
        return self._stores.get(url)

    def _default_savepoints(self) -> str:
        return naming.join_url(self.root.url, layout.SAVEPOINTS)

    def close_lineage(self, url: str, trigger_id: str, given_up: Callable[[], bool]) -> None:
        """No epoch commits after the savepoint at ``url``. Goes on trying while the storage is away, until given up."""

        def close() -> None:
            committed = self._claimed.find_savepoint(trigger_id)
            if committed is None or committed.url != url:
                raise errors.StateError(
                    f"the savepoint {url} is not in the log. This is a bug. Please report."
                )
            self.log.close_lineage(committed)

        self._insist(f"end with savepoint {trigger_id}", close, given_up)

    @property
    def stopped_with(self) -> SavepointCommitted | None:
        """The savepoint that this attempt was stopped with, by the newest entry that was read; None: it goes on."""
        state = self.log.state
        if state.closed is None or state.closed.attempt != self.log.token.attempt:
            return None
        return next((one for one in state.savepoints if one.url == state.closed.savepoint_url), None)

    def discard(self, checkpoint_id: int) -> None:
        """Delete what a failed checkpoint left; if that fails (storage away, fenced), a later sweep does it."""
        try:
            self.completed.discard(checkpoint_id)
        except errors.SparkstateError:
            return

    def subsume(self) -> None:
        """Drop checkpoints beyond those retained; if the storage is away, later ones do it."""
        try:
            self.completed.subsume()
        except errors.CorruptData as error:
            _log.warning("older checkpoints are not deleted, because a retained one is damaged: %s", error)
            return
        except (errors.StorageError, errors.Fenced):
            return
        self.leftovers.look_again()

    def publish(self, metadata: CheckpointMetadata, given_up: Callable[[], bool]) -> None:
        """Make the output of a committed checkpoint visible. Idempotent; goes on trying while a storage is away."""
        self._outputs.publish(metadata, given_up)

    def end_outputs(self) -> None:
        """The job has ended in order, its slots with it. A storage that hangs holds up no end: the
        next incarnation sweeps."""
        briefly(lambda: self._outputs.end(self.log.own_incarnation), self._clock)

    def _insist(self, doing: str, action: Callable[[], object], given_up: Callable[[], bool]) -> None:
        """At the lineage's own storage."""
        self.outages.insist(self.lineage.store.url, doing, action, given_up)

    # -- storages that are away ---------------------------------------------------------------------------------

    def note_away(self, doing: str, error: errors.StorageUnavailable) -> None:
        """A slot could not store something: its message begins with the URL of what it wanted to store."""
        named = [url for url in self._outputs.urls if url.removeprefix("file://") in str(error)]
        url = max(named, key=len, default=self.lineage.store.url)
        self.outages.failed(url, doing, error)
        if named and f"{file_sink.BEGUN} is not there" in str(error):
            # Somebody has emptied the folder: the next checkpoint finds it marked again. On the disk under an unmounted
            # volume this store makes no mark.
            with contextlib.suppress(errors.StorageError):
                self._outputs.mark(url, self.log.own_incarnation)

    def probe(self) -> bool:
        """Whether every place answers now that fails and that checkpoints need. Makes no folder: on the disk under an
        unmounted volume the lineage would go on beside its own log."""
        for place in self.outages.failing():
            try:
                lineage = self.lineage.store
                store = lineage if place.url == lineage.url else self._stores.get(place.url)
                with contextlib.suppress(errors.NotFound):
                    store.head(_PROBE)
                if place.url in self._outputs.urls:
                    self._outputs.mark(place.url, self.log.own_incarnation)
            except errors.StorageUnavailable as error:
                self.outages.failed(place.url, place.doing, error)
                return False
        return True

    def _metadata(
        self,
        parts: SnapshotParts,
        kind: Literal["checkpoint", "savepoint"],
        store: ObjectStore,
        target: UploadTarget,
    ) -> CheckpointMetadata:
        uploader = Uploader(
            store, threads=1, inline_threshold_bytes=self._settings.checkpoint.inline_threshold_bytes
        )
        known = self._position_files if kind == "checkpoint" else {}
        stored = snapshot_parts.store_position(parts.position, uploader, target, known)
        return snapshot_parts.metadata_of(
            parts, kind, self.lineage, self._job, stored, self._outputs.urls, self._clock.monotonic
        )


def _by_identity(metadata: CheckpointMetadata) -> Mapping[str, FileHandle]:
    return {handle.identity: handle for handle in metadata.source_files}
