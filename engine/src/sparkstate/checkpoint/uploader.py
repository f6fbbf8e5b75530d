"""From a slot's shard snapshots to handles: the slow, asynchronous part of a checkpoint, in transfer threads.

Small exclusive files stay inline up to the threshold; larger ones up to ``MERGE_LIMIT`` are laid one after
another into one object per slot, because requests to an object store cost more than bytes. Everything else is
one object each. After an upload the stored size is asked for; the content is verified by SHA-256 when it is
read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import msgspec

from sparkstate import errors
from sparkstate.backends.base import ShardSnapshot, SnapshotFile
from sparkstate.handles import FileHandle, ShardHandle
from sparkstate.settings import MIB
from sparkstate.storage import layout, naming, streams
from sparkstate.storage.arriving import file_checksum
from sparkstate.storage.objectstore import ObjectStore

MERGE_LIMIT = MIB
"""Exclusive files up to this size, in bytes, are merged."""


@dataclass(frozen=True, kw_only=True)
class UploadTarget:
    """Where one snapshot goes, under the root of the uploader's store.

    A checkpoint has ``chk-N`` and ``shared``; a self-contained savepoint has its own folder for both: ``""``.
    """

    incarnation: int
    checkpoint_id: int
    exclusive: str
    shared: str

    @classmethod
    def checkpoint(cls, incarnation: int, checkpoint_id: int) -> UploadTarget:
        """Into the lineage's folders."""
        return cls(
            incarnation=incarnation,
            checkpoint_id=checkpoint_id,
            exclusive=layout.checkpoint_folder(checkpoint_id),
            shared=layout.SHARED,
        )

    @classmethod
    def savepoint(cls, incarnation: int, checkpoint_id: int) -> UploadTarget:
        """Into the savepoint's own folder; the uploader's store must be rooted there."""
        return cls(incarnation=incarnation, checkpoint_id=checkpoint_id, exclusive="", shared="")


@dataclass
class _Plan:
    """What is to be done with the files of one shard."""

    shard: int
    format: str
    files: dict[str, FileHandle | Future[FileHandle]] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)


class Uploader:
    """Uploads for one slot. ``threads``: transfers at once. Thread-safe; one snapshot at a time is the
    driver's rule.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        threads: int = 4,
        inline_threshold_bytes: int = streams.DEFAULT_FILE_STATE_THRESHOLD,
        write_buffer_bytes: int = streams.DEFAULT_WRITE_BUFFER_SIZE,
        ids: Callable[[], str] = naming.random_id,
    ) -> None:
        self._store = store
        self._threshold = inline_threshold_bytes
        self._write_buffer = write_buffer_bytes
        self._ids = ids
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="upload")

    def upload(
        self,
        target: UploadTarget,
        snapshots: Mapping[int, ShardSnapshot],
        base: Mapping[str, FileHandle] | None = None,
    ) -> list[ShardHandle]:
        """Store the snapshots (by shard) and return their handles, in order of shards.

        ``base``: shared files by identity that are known to be complete (``KnownFiles.base``); they are
        referred to, not stored again. The snapshots are not released here. On an error all transfers have
        ended when it is raised; what they stored is a leftover of this checkpoint's id, which the driver
        discards.
        """
        plans, small = [], []
        for shard, snapshot in sorted(snapshots.items()):
            plan = _Plan(shard, snapshot.format)
            plans.append(plan)
            for file in snapshot.files():
                known = (base or {}).get(file.identity) if file.shared and file.identity else None
                if known is not None and known.size == file.size:
                    plan.files[file.name] = msgspec.structs.replace(known, name=file.name)
                    plan.reused.add(file.name)
                elif not file.shared and file.size <= MERGE_LIMIT:
                    small.append((plan, file))
                else:
                    plan.files[file.name] = self._pool.submit(self._upload_file, target, file)
        try:
            self._upload_small(target, small)
            return [_result(plan) for plan in plans]
        finally:
            _settle(plans)

    def put_bytes(self, target: UploadTarget, name: str, data: bytes) -> FileHandle:
        """Store a few bytes (the source position) as an exclusive file, inline up to the threshold."""
        stream = self._streams(target).create_checkpoint_state_output_stream(
            streams.StateScope.EXCLUSIVE, name
        )
        stream.write(data)
        handle = stream.close_and_get_handle()
        return handle or FileHandle(name=name, size=0, checksum=_EMPTY, inline=b"")

    def close(self) -> None:
        """Wait for what is under way and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _upload_small(self, target: UploadTarget, small: Sequence[tuple[_Plan, SnapshotFile]]) -> None:
        """Inline, or one after another into one stream, which decides by its length whether it becomes an
        object.
        """
        to_merge = []
        for plan, file in small:
            if file.size <= self._threshold:
                data = file.path.read_bytes()
                plan.files[file.name] = FileHandle(
                    name=file.name,
                    size=len(data),
                    checksum=_checksum(data),
                    inline=data,
                    identity=file.identity,
                )
            else:
                to_merge.append((plan, file))
        if not to_merge:
            return
        stream = self._streams(target, inline=False).create_checkpoint_state_output_stream(
            streams.StateScope.EXCLUSIVE, "merged"
        )
        parts = []
        for plan, file in to_merge:
            data = file.path.read_bytes()
            parts.append((plan, file, stream.get_pos(), len(data), _checksum(data)))
            stream.write(data)
        merged = stream.close_and_get_handle()
        if merged is None:
            raise AssertionError("a merged file is empty. This is a bug. Please report.")
        self._require_size(merged.path, merged.size)
        for plan, file, offset, size, checksum in parts:
            plan.files[file.name] = FileHandle(
                name=file.name,
                size=size,
                checksum=checksum,
                path=merged.path,
                offset=offset,
                identity=file.identity,
            )

    def _upload_file(self, target: UploadTarget, file: SnapshotFile) -> FileHandle:
        path = _join(target.shared if file.shared else target.exclusive, self._new_name(target))
        checksum = file_checksum(file.path)
        self._store.put_file(path, file.path)
        self._require_size(path, file.size)
        return FileHandle(
            name=file.name,
            size=file.size,
            checksum=checksum,
            path=path,
            shared=file.shared,
            identity=file.identity,
        )

    def _require_size(self, path: str, size: int) -> None:
        stored = self._store.head(path).size
        if stored != size:
            # An answer that was cut may have shown the first digits only.
            stored = self._store.head(path).size
        if stored != size:
            raise errors.CorruptData(
                f"{self._store.url}/{path} has {stored} bytes after the upload of {size}; the file was "
                "changed while it "
                "was read, or the storage cut it. The checkpoint is not taken"
            )

    def _streams(self, target: UploadTarget, *, inline: bool = True) -> streams.CheckpointStreamFactory:
        return streams.CheckpointStreamFactory(
            self._store,
            target.exclusive,
            target.shared,
            lambda: self._new_name(target),
            threshold=self._threshold if inline else 0,
            write_buffer_size=self._write_buffer,
        )

    def _new_name(self, target: UploadTarget) -> str:
        return layout.data_name(target.incarnation, target.checkpoint_id, self._ids())


_EMPTY = "sha256:" + hashlib.sha256(b"").hexdigest()


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _checksum(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _result(plan: _Plan) -> ShardHandle:
    files = tuple(
        future.result() if isinstance(future, Future) else future for _, future in sorted(plan.files.items())
    )
    return ShardHandle(
        shard=plan.shard,
        format=plan.format,
        files=files,
        state_size=sum(handle.size for handle in files),
        uploaded=sum(handle.size for handle in files if handle.name not in plan.reused),
    )


def _settle(plans: Sequence[_Plan]) -> None:
    """No transfer may go on after the caller was told that it failed: cancel what waits, wait for what
    runs.
    """
    pending = [entry for plan in plans for entry in plan.files.values() if isinstance(entry, Future)]
    for future in pending:
        future.cancel()
    wait(pending)
