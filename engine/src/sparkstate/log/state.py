"""The contents of a lineage's log, folded into one value. Pure: entries in, state out."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sparkstate.log import records
from sparkstate.log.records import CheckpointCommitted, Closed, Entry, SavepointCommitted, SavepointStarted
from sparkstate.storage import layout


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """The fold of entries 1 to ``last_number`` (0 = the log is empty)."""

    last_number: int = 0
    claim: records.Claim | None = None
    claim_number: int = 0
    incarnation: int = 0
    restored_from: str = ""
    """Of the newest incarnation."""
    storage: str = ""
    """The URL under which the newest incarnation that says so found this log."""
    checkpoints: tuple[CheckpointCommitted, ...] = ()
    """Completed and not subsumed, oldest first."""
    savepoints: tuple[SavepointCommitted, ...] = ()
    """Completed and not deleted, oldest first."""
    started_savepoints: tuple[SavepointStarted, ...] = ()
    """Begun, neither completed nor deleted, oldest first."""
    doomed_savepoints: tuple[str, ...] = ()
    """URLs under a tombstone whose deletion nobody has confirmed."""
    restore_point: CheckpointCommitted | SavepointCommitted | None = None
    """The completed checkpoint or savepoint of the newest epoch: what a restart must go back to,
    whatever became of its files.
    """
    restore_point_deleted: bool = False
    closed: Closed | None = None
    last_checkpoint_id: int = 0
    """The highest id that any record names."""
    published: int = 0
    """The sinks' output of the checkpoints and savepoints up to this id is visible; 0: nobody has said so."""
    unguarded_until: int = 0
    """The claim that took the lineage from a driver that knows no floor, the newest such; 0: there was none."""

    @property
    def token(self) -> records.Token | None:
        """The token of the newest claim."""
        return self.claim.token if self.claim else None

    @property
    def all_savepoints(self) -> tuple[str, ...]:
        """The URLs of all savepoints that the log knows: completed, begun, and doomed."""
        completed, begun = (s.url for s in self.savepoints), (s.url for s in self.started_savepoints)
        return (*completed, *begun, *self.doomed_savepoints)


def fold(state: LogState, entry: Entry) -> LogState:
    """``state`` after ``entry``, which must be the next one."""
    if entry.number != state.last_number + 1:
        raise AssertionError(f"entry {entry.number} after {state.last_number}. This is a bug. Please report.")
    changes = _changes(state, entry.record, entry.number)
    return msgspec.structs.replace(state, last_number=entry.number, **changes)


def _changes(state: LogState, record: records.Record, number: int) -> dict[str, object]:
    match record:
        case records.Claim():
            before = state.claim
            taken = before is not None and record.knows_floor and not before.knows_floor
            until = number if taken else state.unguarded_until
            return {"claim": record, "claim_number": number, "unguarded_until": until}
        case records.Incarnation():
            return _begin(state, record)
        case CheckpointCommitted():
            return {
                "checkpoints": (*state.checkpoints, record),
                "restore_point": record,
                "restore_point_deleted": False,
                "last_checkpoint_id": max(state.last_checkpoint_id, record.checkpoint_id),
            }
        case SavepointStarted():
            return {
                "started_savepoints": (*state.started_savepoints, record),
                "last_checkpoint_id": max(state.last_checkpoint_id, record.checkpoint_id),
            }
        case SavepointCommitted():
            # One that was stored beside later checkpoints has its record after theirs.
            point = state.restore_point
            older = point is not None and record.epoch <= point.epoch
            restore = {} if older else {"restore_point": record, "restore_point_deleted": False}
            return {
                "savepoints": (*state.savepoints, record),
                "started_savepoints": tuple(s for s in state.started_savepoints if s.url != record.url),
                **restore,
                "last_checkpoint_id": max(state.last_checkpoint_id, record.checkpoint_id),
            }
        case Closed():
            return {"closed": record}
        case records.Tombstone():
            return _bury(state, record)
        case records.SavepointsDeleted():
            gone = set(record.savepoints)
            return {"doomed_savepoints": tuple(url for url in state.doomed_savepoints if url not in gone)}


def _begin(state: LogState, record: records.Incarnation) -> dict[str, object]:
    left = set(record.left)
    return {
        "incarnation": record.number,
        "restored_from": record.restored_from,
        "closed": None,
        "storage": record.storage or state.storage,
        "savepoints": tuple(s for s in state.savepoints if s.url not in left),
        "started_savepoints": tuple(s for s in state.started_savepoints if s.url not in left),
        "doomed_savepoints": tuple(url for url in state.doomed_savepoints if url not in left),
    }


def _bury(state: LogState, record: records.Tombstone) -> dict[str, object]:
    ids, urls = set(record.checkpoints), set(record.savepoints)
    point = state.restore_point
    buried = (isinstance(point, CheckpointCommitted) and point.checkpoint_id in ids) or (
        isinstance(point, SavepointCommitted) and point.url in urls
    )
    known = set(state.doomed_savepoints)
    return {
        "checkpoints": tuple(c for c in state.checkpoints if c.checkpoint_id not in ids),
        "savepoints": tuple(s for s in state.savepoints if s.url not in urls),
        "started_savepoints": tuple(s for s in state.started_savepoints if s.url not in urls),
        "doomed_savepoints": (
            *state.doomed_savepoints,
            *(url for url in record.savepoints if url not in known),
        ),
        "restore_point_deleted": state.restore_point_deleted or buried,
        # A number that was given up is never used again: a delete of its files may still be on its way. So is one whose
        # metadata was swept, as an orphan that no record named before.
        "last_checkpoint_id": max(state.last_checkpoint_id, *record.checkpoints, *_swept(record), 0),
        "published": max(state.published, record.published),
    }


def _swept(record: records.Tombstone) -> Iterator[int]:
    for path in record.paths:
        number = layout.checkpoint_of_metadata(path)
        if number is not None:
            yield number
