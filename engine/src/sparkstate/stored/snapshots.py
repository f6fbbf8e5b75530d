"""One checkpoint or savepoint, read from its folder: its ``_metadata``, and whether its files are there."""

from __future__ import annotations

from sparkstate import errors
from sparkstate.checkpoint import metadata as codec
from sparkstate.checkpoint import savepoint
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK
from sparkstate.stored import documents


def read(url: str, opened: savepoint.OpenStore) -> documents.SnapshotInfo:
    """The checkpoint or savepoint in a folder, or its ``_metadata``. Raises ``NotFound``, ``CorruptData``."""
    found = savepoint.open_snapshot(url, opened)
    return described(found.url, found.metadata)


def verified(url: str, opened: savepoint.OpenStore) -> documents.SnapshotInfo:
    """The checkpoint or savepoint in a folder, after a look at every file that it names. Their bytes are not read.

    Raises ``NotFound`` and ``CorruptData``, also for a file that is missing or shorter than it must be.
    """
    found = savepoint.open_snapshot(url, opened)
    needed: dict[str, int] = {}
    for handle in found.metadata.files():
        if handle.path:
            needed[handle.path] = max(needed.get(handle.path, 0), handle.offset + handle.size)
    for path, size in needed.items():
        try:
            there = found.store.head(path).size
        except errors.NotFound:
            raise errors.CorruptData(f"{found.url} names the file {path}, which is not there") from None
        if there < size:
            raise errors.CorruptData(f"{found.url}: the file {path} has {there} bytes of at least {size}")
    return described(found.url, found.metadata)


def described(url: str, metadata: codec.CheckpointMetadata) -> documents.SnapshotInfo:
    """The content of a ``_metadata``, for people and programs."""
    position = metadata.source_position
    known = MIN_WATERMARK < metadata.watermark < MAX_WATERMARK
    return documents.SnapshotInfo(
        kind=metadata.kind,
        id=metadata.checkpoint_id,
        url=url,
        trigger_id=metadata.trigger_id or None,
        job=str(metadata.job),
        lineage=metadata.lineage,
        incarnation=metadata.incarnation,
        epoch=metadata.epoch,
        watermark_ms=metadata.watermark if known else None,
        drained=metadata.drained,
        closed=metadata.closed,
        timestamp_ms=metadata.timestamp_ms,
        duration_ms=metadata.duration_ms,
        backend=metadata.backend,
        slots=metadata.slots,
        max_parallelism=metadata.key_space.max_parallelism,
        shards=metadata.key_space.shards,
        state_bytes=sum(shard.state_size for shard in metadata.shards),
        uploaded_bytes=sum(shard.uploaded for shard in metadata.shards),
        files=sum(1 for _ in metadata.files()),
        source_position_bytes=position.size if position else None,
        committables=len(metadata.committables),
        operators=[_operator(uid, metadata) for uid in metadata.operators],
        sparkstate=metadata.sparkstate,
    )


def _operator(uid: str, metadata: codec.CheckpointMetadata) -> documents.OperatorInfo:
    states = [
        documents.StateInfo(
            name=state.name,
            kind=state.kind,
            key_type=state.key_type,
            namespace_type=state.namespace_type,
            value_type=state.value_type,
        )
        for state in metadata.states
        if state.uid == uid
    ]
    return documents.OperatorInfo(uid=uid, states=states)
