"""The parts of a snapshot that driver and slots know, and the ``_metadata`` made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import sparkstate
from sparkstate.checkpoint.key_columns import KeyColumn
from sparkstate.checkpoint.metadata import CheckpointMetadata, Committable
from sparkstate.checkpoint.uploader import Uploader, UploadTarget
from sparkstate.handles import FileHandle, ShardHandle, StateMeta
from sparkstate.keygroups import KeySpace
from sparkstate.log.lineage import Lineage
from sparkstate.spark import capture
from sparkstate.spark.watermarks import Watermarks


@dataclass(frozen=True, kw_only=True)
class SnapshotParts:
    """Of one checkpoint or savepoint, when every slot has stored its shards."""

    checkpoint_id: int
    trigger_id: str
    incarnation: int
    epoch: int
    watermarks: Watermarks
    position: capture.CapturedPosition
    key_space: KeySpace
    shards: tuple[ShardHandle, ...]
    states: tuple[StateMeta, ...]
    operator_state: tuple[FileHandle, ...]
    """One file of each slot, in order; none where the job has no operator state."""
    committables: tuple[Committable, ...]
    slots: int
    drained: bool
    closed: bool
    trigger_ms: int
    began: float
    """By the monotonic clock, s."""


@dataclass(frozen=True, kw_only=True)
class StoredJob:
    """The part of a declared job that its snapshots record."""

    operators: tuple[str, ...]
    """Their uids."""
    premises: Mapping[str, Mapping[str, str]]
    """Of each, empty of those that have none (``checkpoint.premises``)."""
    key_columns: Mapping[str, tuple[KeyColumn, ...]] = field(default_factory=dict)
    """Of those that have keys."""
    sink_paths: Mapping[str, str]
    """The folder of each exact sink, by the sink's uid."""
    backend: str
    """``hashmap``, ``rocksdb`` or ``custom``; the job's code may have chosen it."""
    source_readers: tuple[tuple[str, ...], ...] = ()
    """As in ``CheckpointMetadata``."""


@dataclass(frozen=True)
class StoredPosition:
    """The query position as a snapshot refers to it."""

    archive: FileHandle
    files: tuple[FileHandle, ...]


def store_position(
    captured: capture.CapturedPosition,
    uploader: Uploader,
    target: UploadTarget,
    known: Mapping[str, FileHandle],
) -> StoredPosition:
    """Upload it. ``known``: files that are stored already, by their identity. Closes the ``uploader``."""
    try:
        stored = captured.read()
        archive = uploader.put_bytes(target, "source-position", stored.archive)
        files = tuple(
            known.get(part.identity) or uploader.put_shared(target, part.name, part.packed(), part.identity)
            for part in stored.parts
        )
    finally:
        uploader.close()
    return StoredPosition(archive, files)


def metadata_of(
    parts: SnapshotParts,
    kind: Literal["checkpoint", "savepoint"],
    lineage: Lineage,
    job: StoredJob,
    stored: StoredPosition,
    sinks: tuple[str, ...],
    monotonic: Callable[[], float],
) -> CheckpointMetadata:
    """The content of ``_metadata``. ``sinks``: the URLs of their folders; ``monotonic``: the clock of ``began``."""
    return CheckpointMetadata(
        kind=kind,
        checkpoint_id=parts.checkpoint_id,
        job=lineage.job,
        lineage=lineage.id,
        incarnation=parts.incarnation,
        epoch=parts.epoch,
        watermark=parts.watermarks.current,
        source_watermarks={str(i): v for i, v in parts.watermarks.stored_largest().items()},
        source_parts={str(i): v for i, v in parts.watermarks.stored_parts().items()},
        source_readers=job.source_readers,
        late_at_watermark=True,
        timestamp_ms=parts.trigger_ms,
        duration_ms=round((monotonic() - parts.began) * 1000),
        key_space=parts.key_space,
        slots=parts.slots,
        backend=job.backend,
        operators=job.operators,
        states=parts.states,
        premises={uid: dict(premises) for uid, premises in job.premises.items()},
        key_columns=dict(job.key_columns),
        shards=parts.shards,
        operator_state=parts.operator_state,
        source_position=stored.archive,
        source_files=stored.files,
        committables=parts.committables,
        sinks=sinks,
        trigger_id=parts.trigger_id,
        closed=parts.closed,
        drained=parts.drained,
        watermark_before_end=parts.watermarks.before_end,
        sparkstate=sparkstate.__version__,
    )
