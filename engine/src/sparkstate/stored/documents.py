"""Stored jobs, checkpoints and savepoints as documents: what ``sparkstate restore-info --json`` prints.

Fields are only ever added, times are milliseconds since the Unix epoch, sizes are bytes, null means unknown.
"""

from __future__ import annotations

from dataclasses import dataclass


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
