"""Snapshots of a slot: prepared in order, uploaded beside the epochs, their outcome asked for by the driver."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from sparkstate import clock, disposal, errors, local_disk, phases, storage
from sparkstate.backends.base import ShardSnapshot, ShardStore
from sparkstate.checkpoint import operator_parts
from sparkstate.checkpoint.inline_uploader import InlineUploader
from sparkstate.checkpoint.known_files import KnownFiles
from sparkstate.checkpoint.metadata import Committable
from sparkstate.checkpoint.operator_parts import OperatorPart
from sparkstate.checkpoint.transfer import Transfer
from sparkstate.checkpoint.uploader import Uploader, UploadTarget
from sparkstate.handles import FileHandle, ShardHandle, StateMeta
from sparkstate.local_state import folders
from sparkstate.local_state.local_copy import LocalCopy
from sparkstate.operators.base import StateImage
from sparkstate.sinks.file_sink import FileSinkWriter, RotatedOutput
from sparkstate.slots import protocol
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.restoring import operator_metas
from sparkstate.storage import naming
from sparkstate.storage.objectstore import ObjectStore

_SHARDS_AT_ONCE = 8
_FOLDER_S = 90.0
"""For the folder of a savepoint: longer than the driver tries to make it, and longer than a shared file system may go
on to answer from its cache that there is none (NFS: 60 s, where opening the folder above does not help)."""
_FOLDER_LOOK_S = 0.2
_TRIM_S = 10.0
"""How often a slot looks for files that compactions have replaced since the newest checkpoint."""


class SnapshotJob:
    """One snapshot of one slot, from its acceptance to its result."""

    def __init__(
        self,
        request: protocol.Snapshot,
        stores: Mapping[int, ShardStore],
        sinks: Mapping[str, FileSinkWriter],
        rotated: Mapping[str, tuple[RotatedOutput, ...]],
        states: Sequence[StateMeta],
    ) -> None:
        self.request = request
        self.stores = stores
        self.sinks = sinks
        self.rotated = rotated
        self.states = tuple(states)
        self.operator_images: Sequence[StateImage] | None = None
        """None: no operator has operator state."""
        self.operator_state: FileHandle | None = None
        self.prepared = False
        self.shards: tuple[ShardHandle, ...] = ()
        self.committables: tuple[Committable, ...] = ()
        self.sync_ms = 0.0
        self.upload_ms = 0.0
        self.failure: errors.SparkstateError | None = None
        self.ended = threading.Event()
        self.transfer = Transfer(
            sum(store.stats().bytes for store in stores.values()) if request.target_url else 0
        )
        """Of a savepoint. Its size is known only at its end, so the total is that of the state."""
        self.given_up = threading.Event()
        """The driver no longer wants it: the rest of it is not sent."""

    def forget_output(self) -> None:
        """The checkpoint has committed: its output is no longer ours to keep."""
        for uid, rotated in self.rotated.items():
            self.sinks[uid].forget(rotated)

    def state(self) -> protocol.SnapshotState:
        """The answer to the driver."""
        return protocol.SnapshotState(
            done=self.ended.is_set(),
            shards=self.shards,
            committables=self.committables,
            sync_ms=self.sync_ms,
            upload_ms=self.upload_ms,
            failure=str(self.failure) if self.failure else "",
            failure_reason=self.failure.reason if self.failure else "",
            states=self.states,
            operator_state=self.operator_state,
            done_bytes=self.transfer.done_bytes,
            total_bytes=self.transfer.total_bytes,
        )


class SnapshotWorker:
    """One thread prepares (short, commits wait for it), one uploads checkpoints, and one uploads savepoints, so that
    those delay no checkpoint.
    """

    def __init__(self, plan: SlotPlan, directory: Path, clock_: clock.Clock, phases_: phases.Phases) -> None:
        self._plan = plan
        self._directory = directory
        self._clock = clock_
        self._phases = phases_
        self._known = KnownFiles()
        self.local_copy = LocalCopy(directory.with_name(folders.LOCAL_COPY))
        self._trimmed = clock_.monotonic()
        self._inline = naming.is_memory(plan.storage_url)
        """Whether checkpoints lie in the driver's memory, and so travel there inside their handles."""
        # The driver has claimed the lineage, so its folder is there: a slot makes none.
        self._uploader: Uploader | InlineUploader = (
            InlineUploader(plan.max_state_bytes)
            if self._inline
            else self._new_uploader(storage.open_made(f"{plan.storage_url}/{plan.lineage}", plan.s3))
        )
        self._prepare = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._shards = ThreadPoolExecutor(_SHARDS_AT_ONCE, thread_name_prefix="shard")
        self._upload = ThreadPoolExecutor(1, thread_name_prefix="snapshot")
        # To storage that somebody else has named: it may take its time, and no checkpoint waits for it.
        self._upload_savepoint = ThreadPoolExecutor(1, thread_name_prefix="savepoint")

    def submit(self, job: SnapshotJob, prepared: Callable[[], None]) -> None:
        """Prepare and upload in the background; ``prepared`` is called when commits may go on."""
        self._prepare.submit(self._run_prepare, job, prepared)

    def restored(self, checkpoint_id: int, shards: Sequence[ShardHandle]) -> None:
        """The files of the checkpoint that was restored are a base for increments."""
        self._known.uploaded(checkpoint_id, shards)
        self._known.complete(checkpoint_id)

    def ended(self, checkpoint_id: int, completed: bool) -> None:
        """The driver's word on a checkpoint."""
        if completed:
            self._known.complete(checkpoint_id)
            self.local_copy.confirm(checkpoint_id)
        else:
            self._known.abort(checkpoint_id)
            self.local_copy.abort(checkpoint_id)

    def committed(self) -> None:
        """An epoch has committed, so the stores have changed."""
        if self._clock.monotonic() - self._trimmed > _TRIM_S:
            self._trimmed = self._clock.monotonic()
            self._upload.submit(self.local_copy.trim)

    def close(self) -> None:
        """End the threads; what is under way is dropped with the process."""
        self._prepare.shutdown(wait=False, cancel_futures=True)
        self._shards.shutdown(wait=False, cancel_futures=True)
        self._upload.shutdown(wait=False, cancel_futures=True)
        self._upload_savepoint.shutdown(wait=False, cancel_futures=True)

    def _run_prepare(self, job: SnapshotJob, prepared: Callable[[], None]) -> None:
        request = job.request
        started = self._clock.monotonic()
        snapshots: dict[int, ShardSnapshot] = {}
        self._enter(phases.ProcessPhase.CHECKPOINT_SYNC, request)
        folder = self._directory / str(request.checkpoint_id)
        try:
            if job.given_up.is_set():  # commits wait for it
                raise errors.StorageError(f"snapshot {request.checkpoint_id} was given up")
            if job.failure is None:
                self._prepare_all(job, snapshots, folder)
        except (Exception, SystemExit) as error:  # a backend's code may be the user's
            job.failure = self._ours(error, f"preparing snapshot {request.checkpoint_id}")
        finally:
            job.sync_ms = (self._clock.monotonic() - started) * 1000
            job.prepared = True
            prepared()
            pool = self._upload_savepoint if request.target_url else self._upload
            pool.submit(self._run_upload, job, snapshots, folder)

    def _prepare_all(self, job: SnapshotJob, snapshots: dict[int, ShardSnapshot], folder: Path) -> None:
        """All shards side by side, since each waits for the disk several times. ``snapshots`` has those that were
        prepared even when another one failed."""

        request = job.request
        canonical = request.canonical or (self._inline and not request.target_url)

        def prepare(shard: int) -> None:
            directory = folders.shard_folder(folder, shard)
            directory.mkdir(parents=True)
            snapshots[shard] = job.stores[shard].prepare_snapshot(request.checkpoint_id, directory, canonical)

        prepared = [self._shards.submit(prepare, shard) for shard in job.stores]
        wait(prepared)
        for future in prepared:
            future.result()

    def _run_upload(self, job: SnapshotJob, snapshots: dict[int, ShardSnapshot], folder: Path) -> None:
        started = self._clock.monotonic()
        try:
            if job.failure is None:
                self._enter(phases.ProcessPhase.CHECKPOINT_UPLOAD, job.request)
                job.committables = tuple(
                    job.sinks[uid].stage(rotated, job.request.checkpoint_id, job.request.epoch)
                    for uid, rotated in job.rotated.items()
                )
                job.shards = tuple(self._store_snapshots(job, snapshots))
        except (Exception, SystemExit) as error:  # a backend's code may be the user's
            job.failure = self._ours(error, f"storing snapshot {job.request.checkpoint_id}")
        finally:
            self._let_go(job, snapshots, folder)
            job.upload_ms = (self._clock.monotonic() - started) * 1000
            job.ended.set()

    def _let_go(self, job: SnapshotJob, snapshots: Mapping[int, ShardSnapshot], folder: Path) -> None:
        """Every view is released, whatever one of them raises: a view that is held keeps its layers or files. An error
        fails the snapshot, because the driver would wait in vain for the end of one that tells nothing."""
        keep = [lambda: self.local_copy.store(job.request.checkpoint_id, folder)] if self._keeps(job) else []
        try:
            disposal.close_all([*keep, *(snapshot.release for snapshot in snapshots.values())])
        except (Exception, SystemExit) as error:
            job.failure = job.failure or self._ours(error, f"releasing snapshot {job.request.checkpoint_id}")
        shutil.rmtree(folder, ignore_errors=True)

    def _keeps(self, job: SnapshotJob) -> bool:
        backend = self._plan.backend
        may_be_restored = job.failure is None and not job.request.target_url and not self._inline
        return may_be_restored and backend.local_recovery and backend.type == "rocksdb"

    def _store_snapshots(self, job: SnapshotJob, snapshots: Mapping[int, ShardSnapshot]) -> list[ShardHandle]:
        request = job.request
        if request.target_url:
            uploader = self._new_uploader(self._savepoint_folder(job))
            try:
                target = UploadTarget.savepoint(request.incarnation, request.checkpoint_id)
                shards = uploader.upload(target, snapshots, given_up=job.given_up, transfer=job.transfer)
                self._store_operator_state(job, uploader, target)
                return shards
            finally:
                uploader.close()
        base = self._known.base(request.base) if request.base >= 0 else {}
        target = UploadTarget.checkpoint(request.incarnation, request.checkpoint_id)
        shards = self._uploader.upload(target, snapshots, base, job.given_up)
        self._store_operator_state(job, self._uploader, target)
        self._known.uploaded(request.checkpoint_id, shards)
        return shards

    def _store_operator_state(
        self, job: SnapshotJob, uploader: Uploader | InlineUploader, target: UploadTarget
    ) -> None:
        """As one file of this slot, in a form that no backend owns."""
        if job.operator_images is None:
            return
        plan = self._plan
        states = tuple(image.encode() for image in job.operator_images)
        data = operator_parts.encode(OperatorPart(slot=plan.slot, slots=plan.slots, states=states))
        job.operator_state = uploader.put_bytes(target, f"operator-state-{plan.slot}", data)
        job.states += tuple(operator_metas(states))

    def _savepoint_folder(self, job: SnapshotJob) -> ObjectStore:
        """The driver makes it meanwhile: its storage may take its time, and no epoch waits for it."""
        until = self._clock.monotonic() + _FOLDER_S
        while True:
            try:
                return storage.open_inside(job.request.target_url, self._plan.s3)
            except errors.StorageUnavailable:
                if job.given_up.wait(_FOLDER_LOOK_S) or self._clock.monotonic() > until:
                    raise

    def _new_uploader(self, store: ObjectStore) -> Uploader:
        return Uploader(
            store,
            threads=self._plan.backend.transfer_threads,
            inline_threshold_bytes=self._plan.inline_threshold_bytes,
            write_buffer_bytes=self._plan.write_buffer_bytes,
        )

    def _enter(self, phase: phases.ProcessPhase, request: protocol.Snapshot) -> None:
        self._phases.enter(
            phase, epoch=request.epoch, checkpoint=request.checkpoint_id, incarnation=request.incarnation
        )

    def _ours(self, error: BaseException, what: str) -> errors.SparkstateError:
        if isinstance(error, errors.SparkstateError):
            return error
        if isinstance(error, OSError) and local_disk.is_full(str(error)):
            return local_disk.translated(error, f"{what} in {self._directory}")
        return errors.StorageError(f"{what} failed: {type(error).__name__}: {error}")
