"""Small real snapshots, and metadata around them, for tests of storage without a backend."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Mapping
from pathlib import Path

from support.storage.stores import ManualClock

from sparkstate.backends.base import SnapshotFile
from sparkstate.checkpoint import (
    CheckpointMetadata,
    CompletedCheckpointStore,
    Downloader,
    Uploader,
    UploadTarget,
    operator_parts,
)
from sparkstate.checkpoint.metadata import checksum
from sparkstate.checkpoint.operator_parts import OperatorPart
from sparkstate.handles import FileHandle, ShardHandle, StateMeta
from sparkstate.keygroups import KeySpace
from sparkstate.log import JobName, LineageLog, open_lineage

JOB = JobName(cluster="local", namespace="default", name="job")
_numbers = itertools.count()


class FolderSnapshot:
    """A shard snapshot of files that are given as bytes; names that end with ``.sst`` are shared and immutable."""

    format = "rocksdb"

    def __init__(self, folder: Path, contents: Mapping[str, bytes]) -> None:
        self.released = False
        self._files = []
        mine = folder / f"snapshot-{next(_numbers)}"
        mine.mkdir(parents=True)
        for name, data in contents.items():
            path = mine / name
            path.write_bytes(data)
            shared = name.endswith(".sst")
            self._files.append(
                SnapshotFile(
                    name=name,
                    path=path,
                    size=len(data),
                    shared=shared,
                    identity=f"{name}-{checksum(data)}" if shared else "",
                )
            )

    def files(self):
        return list(self._files)

    def release(self) -> None:
        self.released = True


def metadata(
    shards, *, checkpoint_id=1, incarnation=1, lineage="0123456789abcdef", kind="checkpoint", **more
) -> CheckpointMetadata:
    """Metadata of a job with as many shards as handles are given."""
    fields = {
        "job": JOB,
        "epoch": checkpoint_id * 10,
        "watermark": 1_000,
        "timestamp_ms": 5_000,
        "key_space": KeySpace(128, len(shards)),
        "slots": 1,
        "backend": "rocksdb",
        "operators": ("op",),
        "states": (
            StateMeta(uid="op", name="s", kind="value", key_type="str", namespace_type="", value_type="int"),
        ),
    }
    return CheckpointMetadata(
        kind=kind,
        checkpoint_id=checkpoint_id,
        lineage=lineage,
        incarnation=incarnation,
        shards=tuple(shards),
        **(fields | more),
    )


def inline_shard(shard: int, data: bytes = b"state") -> ShardHandle:
    """A shard whose whole state is a few bytes."""
    handle = FileHandle(name="canonical", size=len(data), checksum=checksum(data), inline=data)
    return ShardHandle(shard=shard, format="canonical", files=(handle,), state_size=len(data))


def take(
    store,
    folder,
    contents,
    *,
    checkpoint_id,
    incarnation=1,
    base=None,
    lineage="0123456789abcdef",
    parts=(),
    **more,
):
    """Upload one snapshot of ``contents`` (shard → name → bytes) and of the slots' operator state ``parts``; return its
    metadata, not yet committed."""
    uploader = Uploader(store, threads=2, inline_threshold_bytes=16)
    try:
        snapshots = {shard: FolderSnapshot(folder, files) for shard, files in contents.items()}
        target = UploadTarget.checkpoint(incarnation, checkpoint_id)
        shards = uploader.upload(target, snapshots, base)
        position = uploader.put_bytes(target, "position", b"offsets of epoch %d" % checkpoint_id)
        operator_state = tuple(
            uploader.put_bytes(target, f"operator-state-{part.slot}", operator_parts.encode(part))
            for part in parts
        )
    finally:
        uploader.close()
    return metadata(
        shards,
        checkpoint_id=checkpoint_id,
        incarnation=incarnation,
        lineage=lineage,
        source_position=position,
        operator_state=operator_state,
        **more,
    )


class CheckpointedJob(abc.ABC):
    """A claimed lineage in ``root`` whose checkpoints hold the files that :meth:`contents` names."""

    def __init__(self, root, folder: Path, retained: int = 1) -> None:
        self.root, self.folder = root, folder
        self.lineage = open_lineage(root, JOB, ManualClock())
        self.log = LineageLog(self.lineage.store, ManualClock()).claim(1, "a test")
        self.completed = CompletedCheckpointStore(self.lineage.store, self.log, retained=retained)
        self.log.begin_incarnation("")

    @abc.abstractmethod
    def contents(self, number: int) -> Mapping[str, bytes]:
        """The files of checkpoint ``number``; those of one name must not differ between checkpoints."""

    def parts(self, number: int) -> tuple[OperatorPart, ...]:
        """The operator state of checkpoint ``number``, by slot; none unless overridden."""
        return ()

    def checkpoint(self, number: int) -> None:
        """Store and commit."""
        store, files, parts = self.lineage.store, {0: self.contents(number)}, self.parts(number)
        self.completed.commit(
            take(
                store,
                self.folder,
                files,
                checkpoint_id=number,
                lineage=self.lineage.id,
                parts=parts,
                slots=len(parts) or 1,
            )
        )

    def objects(self) -> dict[str, int]:
        """Every object of the storage with its size."""
        return {info.key: info.size for info in self.root.list("")}

    def fetch(self, of: CheckpointMetadata) -> dict[str, Path]:
        """What a restore reads of that checkpoint."""
        downloader = Downloader(self.lineage.store, threads=2)
        try:
            return dict(downloader.fetch(of.shards[0], self.folder / f"restored-{of.checkpoint_id}"))
        finally:
            downloader.close()
