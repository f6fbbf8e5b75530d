"""What lies in a storage folder: jobs, their lineages, checkpoints and savepoints. Reads, and writes nothing.

The documents below are what ``sparkstate restore-info --json`` prints: fields are only ever added, times are
milliseconds since the Unix epoch, sizes are bytes, null means unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkstate import clock as clocks
from sparkstate import errors
from sparkstate.checkpoint import metadata as codec
from sparkstate.checkpoint import savepoint
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK
from sparkstate.log import lineage, records
from sparkstate.log.log import LineageLog
from sparkstate.log.state import LogState
from sparkstate.storage import naming
from sparkstate.storage.objectstore import ObjectStore

OpenStore = Callable[[str], ObjectStore]


@dataclass(frozen=True, kw_only=True)
class StateInfo:
    """One state of one operator, as it is stored."""

    name: str
    kind: str
    key_type: str
    namespace_type: str
    value_type: str


@dataclass(frozen=True, kw_only=True)
class OperatorInfo:
    """One operator and its states."""

    uid: str
    states: list[StateInfo]


@dataclass(frozen=True, kw_only=True)
class SnapshotInfo:
    """One completed checkpoint or savepoint, from its ``_metadata``."""

    kind: str
    id: int
    url: str
    trigger_id: str | None
    job: str
    lineage: str
    incarnation: int
    epoch: int
    watermark_ms: int | None
    """Null before the first one, and once the input has ended (then ``drained`` is true)."""
    drained: bool
    closed: bool
    timestamp_ms: int
    duration_ms: int
    backend: str
    slots: int
    max_parallelism: int
    shards: int
    state_bytes: int
    uploaded_bytes: int
    files: int
    source_position_bytes: int | None
    committables: int
    operators: list[OperatorInfo]
    sparkstate: str


@dataclass(frozen=True, kw_only=True)
class SavepointInfo:
    """One completed savepoint, as the log names it."""

    url: str
    trigger_id: str
    epoch: int
    incarnation: int
    timestamp_ms: int


@dataclass(frozen=True, kw_only=True)
class JobInfo:
    """One job's lineage. ``restore_point`` is what a restart goes back to; ``problem`` says why it cannot."""

    cluster: str
    namespace: str
    name: str
    lineage: str
    url: str
    created_ms: int
    attempt: int | None
    life: int | None
    incarnation: int
    log_entries: int
    closed_by: str | None
    restore_point: SnapshotInfo | None
    problem: str | None
    checkpoints: list[SnapshotInfo]
    savepoints: list[SavepointInfo]
    unfinished_savepoints: list[str]


def snapshot_info(url: str, metadata: codec.CheckpointMetadata) -> SnapshotInfo:
    """What a ``_metadata`` says, for people and programs."""
    position = metadata.source_position
    known = MIN_WATERMARK < metadata.watermark < MAX_WATERMARK
    return SnapshotInfo(
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


def _operator(uid: str, metadata: codec.CheckpointMetadata) -> OperatorInfo:
    states = [
        StateInfo(
            name=state.name,
            kind=state.kind,
            key_type=state.key_type,
            namespace_type=state.namespace_type,
            value_type=state.value_type,
        )
        for state in metadata.states
        if state.uid == uid
    ]
    return OperatorInfo(uid=uid, states=states)


def job_info(
    root: ObjectStore, name: lineage.JobName, opened: OpenStore, clock: clocks.Clock
) -> JobInfo | None:
    """All that the storage says about one job; None if it has no lineage there."""
    found = lineage.find(root, name)
    if found is None:
        return None
    state = LineageLog(found.store, clock).refresh()
    point, problem = _restore_point(state, found, opened)
    return JobInfo(
        cluster=name.cluster,
        namespace=name.namespace,
        name=name.name,
        lineage=found.id,
        url=found.store.url,
        created_ms=found.pointer.created_ms,
        attempt=state.claim.attempt if state.claim else None,
        life=state.claim.life if state.claim else None,
        incarnation=state.incarnation,
        log_entries=state.last_number,
        closed_by=state.closed.savepoint_url if state.closed else None,
        restore_point=point,
        problem=problem,
        checkpoints=list(_checkpoints(state, found, opened)),
        savepoints=[_savepoint(record) for record in state.savepoints],
        unfinished_savepoints=[started.url for started in state.started_savepoints],
    )


def _restore_point(
    state: LogState, found: lineage.Lineage, opened: OpenStore
) -> tuple[SnapshotInfo | None, str | None]:
    point = state.restore_point
    if point is None:
        return None, None
    url = _url(point, found)
    if state.restore_point_deleted:
        return None, f"the newest completed snapshot, {url}, was deleted: a restart is blocked"
    try:
        return read_snapshot(url, opened), None
    except errors.StorageError as exc:
        return None, f"{exc}: a restart is blocked"


def _checkpoints(state: LogState, found: lineage.Lineage, opened: OpenStore) -> Iterator[SnapshotInfo]:
    for record in state.checkpoints:
        try:
            yield read_snapshot(_url(record, found), opened)
        except errors.StorageUnavailable:
            raise
        except errors.StorageError:
            continue  # said as the problem of the restore point if it matters; else it was deleted just now


def _url(record: records.CheckpointCommitted | records.SavepointCommitted, found: lineage.Lineage) -> str:
    if isinstance(record, records.SavepointCommitted):
        return record.url
    return naming.split_url(naming.join_url(found.store.url, record.path))[0]


def _savepoint(record: records.SavepointCommitted) -> SavepointInfo:
    return SavepointInfo(
        url=record.url,
        trigger_id=record.trigger_id,
        epoch=record.epoch,
        incarnation=record.incarnation,
        timestamp_ms=record.timestamp_ms,
    )


def read_snapshot(url: str, opened: OpenStore) -> SnapshotInfo:
    """The checkpoint or savepoint in a folder, or its ``_metadata``. Raises ``NotFound``, ``CorruptData``."""
    found = savepoint.open_snapshot(url, opened)
    return snapshot_info(found.url, found.metadata)


def verified(url: str, opened: OpenStore) -> SnapshotInfo:
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
    return snapshot_info(found.url, found.metadata)
