"""One job's lineage, its checkpoints and savepoints, as its storage has them."""

from __future__ import annotations

from collections.abc import Iterator

from sparkstate import clock as clocks
from sparkstate import errors
from sparkstate.checkpoint.savepoint import OpenStore
from sparkstate.log import lineage, records
from sparkstate.log.log import LineageLog
from sparkstate.log.state import LogState
from sparkstate.storage import naming
from sparkstate.storage.objectstore import ObjectStore
from sparkstate.stored import snapshots
from sparkstate.stored.documents import JobInfo, SavepointInfo, SnapshotInfo


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
        return snapshots.read(url, opened), None
    except errors.StorageError as exc:
        return None, f"{exc}: a restart is blocked"


def _checkpoints(state: LogState, found: lineage.Lineage, opened: OpenStore) -> Iterator[SnapshotInfo]:
    for record in state.checkpoints:
        try:
            yield snapshots.read(_url(record, found), opened)
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
