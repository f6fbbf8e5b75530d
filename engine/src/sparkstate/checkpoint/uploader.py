"""From a slot's shard snapshots to handles: the slow, asynchronous part of a checkpoint, in transfer threads.

Small exclusive files stay inline up to the threshold; larger ones up to ``MERGE_LIMIT`` are laid one after
another into one object per slot, because requests to an object store cost more than bytes. Everything else is
one object each. After an upload the stored size is asked for; the content is verified by SHA-256 when it is read.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

import msgspec

from sparkstate import errors
from sparkstate.backends.base import ShardSnapshot, SnapshotFile, SnapshotStream, StreamedSnapshot
from sparkstate.checkpoint.transfer import Transfer
from sparkstate.handles import FileHandle, ShardHandle
from sparkstate.settings import MIB
from sparkstate.storage import layout, naming, streams
from sparkstate.storage.arriving import data_checksum, file_checksum
from sparkstate.storage.objectstore import ObjectStore
from sparkstate.storage.sending import Sender

MERGE_LIMIT = MIB
"""Exclusive files up to this size, in bytes, are merged."""
STREAMS_AT_ONCE = 2
"""Shards whose rows are read while they are sent: one thread cannot keep the network busy, and more of them would wait
for the interpreter."""


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

    @property
    def shares(self) -> bool:
        """Whether other snapshots may name its shared files again; in a savepoint every file is its own."""
        return self.exclusive != self.shared


@dataclass
class _Plan:
    """The transfer of each file of one shard: inline, merged, uploaded or only named."""

    shard: int
    format: str
    files: dict[str, FileHandle | Future[FileHandle | None]] = field(default_factory=dict)
    """None: the file was laid into the merged object, and its handle comes with that."""
    reused: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Small:
    """A small exclusive file, and where it lies in the merged object."""

    plan: _Plan
    name: str
    identity: str
    offset: int
    size: int
    checksum: str


class _Merged:
    """Small exclusive files of a slot, one after another in one stream, which decides by its length whether it becomes
    an object. Thread-safe until it ends."""

    def __init__(self, stream: streams.CheckpointStateOutputStream) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._files: list[_Small] = []

    def add(self, plan: _Plan, name: str, data: bytes, identity: str = "") -> None:
        """Lay down one file."""
        with self._lock:
            at = self._stream.get_pos()
            self._files.append(_Small(plan, name, identity, at, len(data), data_checksum(data)))
            self._stream.write(data)

    def end(self) -> FileHandle | None:
        """Store the object and put the files' handles into their plans; the object, None if there is none."""
        if not self._files:
            return None
        merged = self._stream.close_and_get_handle()
        if merged is None:
            raise AssertionError("a merged file is empty. This is a bug. Please report.")
        for file in self._files:
            file.plan.files[file.name] = FileHandle(
                name=file.name,
                size=file.size,
                checksum=file.checksum,
                path=merged.path,
                offset=file.offset,
                identity=file.identity,
            )
        return merged

    def close(self) -> None:
        """Drop what was not stored."""
        self._stream.close()


@dataclass(frozen=True)
class _Run:
    """One upload. ``over``: it has failed, or nobody wants it any more; what was sent is a leftover then."""

    target: UploadTarget
    base: Mapping[str, FileHandle]
    merged: _Merged
    over: threading.Event
    transfer: Transfer

    def require_wanted(self) -> None:
        """Raises ``StorageError`` once it is over."""
        if self.over.is_set():
            raise errors.StorageError(
                "the snapshot was given up: another part of it failed, or it took too long"
            )

    def until_over(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The chunks, as long as somebody wants them."""
        for data in chunks:
            self.require_wanted()
            yield data
            self.transfer.add(len(data))


class Uploader:
    """Uploads for one slot. ``threads``: transfers at once. Thread-safe;
    one snapshot at a time is the driver's rule.
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
        self._streaming = ThreadPoolExecutor(STREAMS_AT_ONCE, thread_name_prefix="stream")
        self._sender = Sender(max(1, threads))

    def upload(
        self,
        target: UploadTarget,
        snapshots: Mapping[int, ShardSnapshot],
        base: Mapping[str, FileHandle] | None = None,
        given_up: threading.Event | None = None,
        transfer: Transfer | None = None,
    ) -> list[ShardHandle]:
        """Store the snapshots (by shard) and return their handles, in order of shards.

        ``base``: shared files by identity that are known to be complete (``KnownFiles.base``); they are referred to,
        not stored again. A file that a snapshot can make while it is sent is on no disk here. ``given_up`` is set
        when nobody wants the snapshot any more, and here when it fails: the rest is not sent. ``transfer`` counts the
        bytes that are sent. The snapshots are not
        released here. On an error all transfers have ended when it is raised; what they stored is a leftover of this
        checkpoint's id, which the driver discards.
        """
        plans = [_Plan(shard, snapshot.format) for shard, snapshot in sorted(snapshots.items())]
        over = given_up or threading.Event()
        run = _Run(target, base or {}, self._new_merged(target), over, transfer or Transfer())
        try:
            for plan in plans:
                self._begin(run, plan, snapshots[plan.shard])
            futures = [each for plan in plans for each in plan.files.values() if isinstance(each, Future)]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            whole = run.merged.end()
            if whole is not None:
                self._require_size(whole.path, whole.size)
            return [_result(plan) for plan in plans]
        finally:
            run.over.set()  # of no effect where all is done
            _end_transfers(plans)
            run.merged.close()

    def _begin(self, run: _Run, plan: _Plan, snapshot: ShardSnapshot) -> None:
        """Begin the transfers of one shard, and lay its small files down."""
        if isinstance(snapshot, StreamedSnapshot):
            for stream in snapshot.streams():
                plan.files[stream.name] = self._streaming.submit(self._upload_stream, run, plan, stream)
            return
        for found in snapshot.files():
            file = found if run.target.shares else replace(found, shared=False)
            # By identity, never by name: two stores that go on from one snapshot give the same number, and so the same
            # name, to different files (RFC 0011).
            known = run.base.get(file.identity) if file.shared and file.identity else None
            if known is not None and known.size == file.size:
                plan.files[file.name] = msgspec.structs.replace(known, name=file.name)
                plan.reused.add(file.name)
            elif not file.shared and file.size <= MERGE_LIMIT:
                handle = self._lay(plan, file.name, file.path.read_bytes(), run.merged, file.identity)
                run.transfer.add(file.size)
                if handle is not None:
                    plan.files[file.name] = handle
            else:
                plan.files[file.name] = self._pool.submit(self._upload_file, run, file)

    def put_bytes(self, target: UploadTarget, name: str, data: bytes) -> FileHandle:
        """Store a few bytes (the source position) as an exclusive file, inline up to the threshold."""
        stream = self._streams(target).create_checkpoint_state_output_stream(
            streams.StateScope.EXCLUSIVE, name
        )
        stream.write(data)
        handle = stream.close_and_get_handle()
        return handle or FileHandle(name=name, size=0, checksum=_EMPTY, inline=b"")

    def put_shared(self, target: UploadTarget, name: str, data: bytes, identity: str) -> FileHandle:
        """Store bytes that later checkpoints may refer to by ``identity``, inline up to the threshold."""
        stream = self._streams(target).create_checkpoint_state_output_stream(streams.StateScope.SHARED, name)
        stream.write(data)
        handle = stream.close_and_get_handle()
        if handle is None:
            raise AssertionError("a shared file is empty. This is a bug. Please report.")
        return msgspec.structs.replace(handle, identity=identity)

    def close(self) -> None:
        """Wait for the transfers under way and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._streaming.shutdown(wait=True, cancel_futures=True)
        self._sender.close()

    def _new_merged(self, target: UploadTarget) -> _Merged:
        return _Merged(
            self._streams(target, inline=False).create_checkpoint_state_output_stream(
                streams.StateScope.EXCLUSIVE, "merged"
            )
        )

    def _lay(
        self, plan: _Plan, name: str, data: bytes, merged: _Merged, identity: str = ""
    ) -> FileHandle | None:
        """A small file: inline up to the threshold, else into the merged object, whose end brings its handle."""
        if len(data) <= self._threshold:
            return FileHandle(
                name=name, size=len(data), checksum=data_checksum(data), inline=data, identity=identity
            )
        merged.add(plan, name, data, identity)
        return None

    def _upload_stream(self, run: _Run, plan: _Plan, stream: SnapshotStream) -> FileHandle | None:
        with contextlib.closing(stream.chunks()) as made:
            chunks = run.until_over(made)
            head = bytearray()
            for data in chunks:
                head += data
                if len(head) > MERGE_LIMIT:
                    break
            else:
                return self._lay(plan, stream.name, bytes(head), run.merged)
            path = _join(run.target.exclusive, self._new_name(run.target))
            size, checksum = self._sender.send(self._store, path, itertools.chain((head,), chunks))
        self._require_size(path, size)
        return FileHandle(name=stream.name, size=size, checksum=checksum, path=path)

    def _upload_file(self, run: _Run, file: SnapshotFile) -> FileHandle:
        run.require_wanted()
        target = run.target
        path = _join(target.shared if file.shared else target.exclusive, self._new_name(target))
        checksum = file_checksum(file.path)
        self._store.put_file(path, file.path)
        run.transfer.add(file.size)
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
        # Before the commit, while the file is still here: a restore would find the same damage too late.
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


_EMPTY = data_checksum(b"")


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _result(plan: _Plan) -> ShardHandle:
    found = (
        entry.result() if isinstance(entry, Future) else entry for _, entry in sorted(plan.files.items())
    )
    files = tuple(handle for handle in found if handle is not None)
    return ShardHandle(
        shard=plan.shard,
        format=plan.format,
        files=files,
        state_size=sum(handle.size for handle in files),
        uploaded=sum(handle.size for handle in files if handle.name not in plan.reused),
    )


def _end_transfers(plans: Sequence[_Plan]) -> None:
    """No transfer may go on after the caller was told that it failed: cancel what waits, wait for what runs."""
    pending = [entry for plan in plans for entry in plan.files.values() if isinstance(entry, Future)]
    for future in pending:
        future.cancel()
    wait(pending)
