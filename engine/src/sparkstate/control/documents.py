"""The documents of the REST endpoint: what goes over the wire, and nothing else.

Read by the page, the command line, the runner and (through ``docs/openapi.json``) the Kubernetes operator.
Fields are only ever added; a reader ignores what it does not know. Times are milliseconds since the Unix
epoch, durations are milliseconds, sizes are bytes; units stand last in the names. Null means "not known yet"
or "has not happened".
"""

from __future__ import annotations

import enum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, field_validator, model_validator

NO_WATERMARK = -(2**63)
"""Inside the engine the watermark before the first one; it leaves as null."""
END_OF_INPUT_WATERMARK = 2**63 - 1
"""The watermark of a bounded input that was read to its end: every timer is due."""

TriggerId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""The caller's name for one savepoint request; it becomes part of names in the storage."""


class Document(BaseModel):
    """An immutable answer. Unknown fields of a newer server are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class DriverPhase(enum.StrEnum):
    """Where the job is in its life."""

    STARTING = "STARTING"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RECOVERING = "RECOVERING"
    STOPPING = "STOPPING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


class CheckpointKind(enum.StrEnum):
    """A checkpoint belongs to the engine, which deletes it; a savepoint belongs to whoever asked for it."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"


class CheckpointStatus(enum.StrEnum):
    """The fate of a checkpoint. One that ran into its timeout has failed."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class SavepointPhase(enum.StrEnum):
    """``PENDING``: accepted, waits for the end of an epoch or for its turn."""

    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class JobIdentity(Document):
    """The job that answers. Other jobs use addresses again, so a caller compares this with the job that it meant."""

    job_uid: str
    attempt: int = 0


class SlotMemory(Document):
    """The memory that the state backend holds, against what it was promised."""

    budget: int | None = Field(
        default=None, description="Managed or fixed memory of the slot in bytes; null: unmanaged."
    )
    cache: int = 0
    write_buffers: int = 0
    tables: int = Field(
        default=0, description="Index and filter blocks outside the cache, or the state itself on the heap."
    )
    overlays: int = Field(
        default=0,
        description="State that running epochs have read and changed; beyond its share it goes to disk.",
    )
    operator_state: int = Field(
        default=0,
        description="Operator state of all operators, in the heap of the slot's Python; an estimate.",
    )
    operator_state_limit: int | None = Field(
        default=None,
        description="`operatorStateMemoryPerSlot` in bytes. A job that needs more ends with `OperatorStateTooLarge`.",
    )


class OperatorStateSize(Document):
    """A list or a broadcast map of operator state, as of the last commit."""

    operator: str
    state: str
    kind: str = Field(description="split, union or broadcast.")
    elements: int = Field(description="Elements of a list, entries of a map.")
    size_bytes: int = Field(description="Memory that it takes, an estimate.")


class SlotStatus(Document):
    """One slot: a process that owns a contiguous run of shards."""

    index: int
    pid: int | None = None
    host: str | None = None
    shards: tuple[int, ...] = Field(default=(), description="Numbers of the shards that the slot owns.")
    state_bytes: int = 0
    rows: int = Field(default=0, description="Rows of state (values, list elements, map entries, timers).")
    held_bytes: int = Field(
        default=0,
        description="Output of file sinks on the slot's disk, which the next checkpoints publish.",
    )
    memory: SlotMemory = SlotMemory()
    operator_states: tuple[OperatorStateSize, ...] = Field(
        default=(), description="Operator state in the slot, which is in its memory and not in `state_bytes`."
    )
    rss_bytes: int | None = Field(
        default=None, description="Resident memory of the process, as the system counts it."
    )
    alive: bool = True


class UserMetric(Document):
    """A metric that an operator's function made by ``get_metrics_group``; null fields are not of its kind.

    Slots count since they started: after a restore they begin anew.
    """

    operator: str
    name: str = Field(description="The names of its groups and its own name, joined by dots.")
    kind: str = Field(description="counter, gauge, meter or distribution.")
    count: float | None = Field(
        default=None,
        description="A counter's value, or the number of events or values of another kind; over all slots.",
    )
    rate: float | None = Field(default=None, description="A meter's events per second, over all slots.")
    sum: float | None = Field(default=None, description="The sum of a distribution's values, over all slots.")
    least: float | None = Field(
        default=None, description="The smallest value of a gauge in any slot, or of a distribution."
    )
    largest: float | None = Field(
        default=None, description="The largest value of a gauge in any slot, or of a distribution."
    )


class CheckpointInfo(Document):
    """One checkpoint or savepoint, running or ended."""

    id: int
    kind: CheckpointKind = CheckpointKind.CHECKPOINT
    status: CheckpointStatus
    epoch: int = Field(description="The last epoch that it contains.")
    trigger_ms: int
    duration_ms: int | None = Field(
        default=None, description="Time from the trigger to the commit in the log."
    )
    sync_pause_ms: int | None = Field(default=None, description="How long an epoch had to wait for it.")
    state_bytes: int | None = Field(default=None, description="Size of the whole state that it represents.")
    uploaded_bytes: int | None = Field(
        default=None, description="Bytes that had to be uploaded for it (the delta)."
    )
    path: str | None = Field(default=None, description="URL of its folder.")
    trigger_id: str | None = Field(default=None, description="Trigger id of the request, for savepoints.")
    failure: str | None = None


class Recovery(Document):
    """One return from a failure inside the life of this driver."""

    at_ms: int
    cause: str
    restored_from: str | None = None
    duration_ms: int | None = Field(
        default=None,
        description="Time from the failure to the first running epoch; null while the recovery is under way.",
    )
    incarnation: int


class Failure(Document):
    """Why the job, or one of its attempts to run, ended."""

    at_ms: int
    reason: str = Field(description="The error's class, one word.")
    message: str


class StorageAway(Document):
    """A storage that does not answer while the job needs it. The job goes on trying."""

    url: str = Field(description="The place: a bucket or folder, without credentials.")
    doing: str = Field(description="The purpose for which the job needs it.")
    since_ms: int
    failures: int = Field(default=1, description="Calls that failed since then.")
    message: str = Field(default="", description="Error of the last call.")


class LongWorkKind(enum.StrEnum):
    """The work that may take long: slots read their state, or store a savepoint."""

    RESTORE = "restore"
    SAVEPOINT = "savepoint"


class Progress(Document):
    """Work under way that may take long. A rescale is a savepoint or checkpoint, and then a restore."""

    kind: LongWorkKind
    name: str = Field(default="", description="Of a savepoint its trigger id.")
    since_ms: int
    done_bytes: int
    total_bytes: int = Field(
        description="Of a restore what the slots have to read; of a savepoint the size of the state, an estimate."
    )
    left_ms: int | None = Field(
        default=None, description="Time left at the pace so far; null while that is not known."
    )
    slots_before: int | None = Field(default=None, description="Of a rescale's restore: slots before it.")
    slots_after: int | None = Field(default=None, description="Of a rescale's restore: slots after it.")


class OperatorStateNotice(Document):
    """A slot is about to run out of memory for operator state. The figures are those of the slot that was fullest since
    the notice began; they are estimates."""

    slot: int
    operator: str = Field(description="The operator of the slot's largest operator state.")
    state: str = Field(description="Name of that state.")
    used_bytes: int = Field(description="Memory of all operator state in the slot.")
    limit_bytes: int = Field(
        description="`operatorStateMemoryPerSlot`. A job that needs more ends with `OperatorStateTooLarge`."
    )
    since_ms: int
    seen_ms: int = Field(description="When a slot was last seen nearly full.")


class JobStatus(Document):
    """The whole state of a job at one moment."""

    job_uid: str
    name: str
    namespace: str = "default"
    lineage: str | None = None
    incarnation: int | None = None
    attempt: int = 0
    phase: DriverPhase
    waits_for_attempt: int | None = Field(
        default=None,
        description="The earlier attempt whose driver has to end before this one claims the state.",
    )
    started_ms: int | None = None
    backend: str | None = None
    epoch: int | None = Field(default=None, description="The last committed epoch.")
    rows_total: int = Field(
        default=0, description="Rows fed into the first keyed operators since this driver started."
    )
    late_rows_total: int = Field(
        default=0,
        description="Rows whose event time was not after the watermark, since this driver started, whether a late "
        "output took them or not.",
    )
    dropped_rows_total: int = Field(
        default=0,
        description="Rows for side outputs that nothing in the job reads, since this driver started.",
    )
    rows_per_s: float = 0.0
    watermark_ms: int | None = Field(
        default=None,
        description=f"Null before the first watermark; {END_OF_INPUT_WATERMARK} once a bounded input has ended.",
    )
    lag_ms: int | None = Field(default=None, description="Wall time minus watermark.")
    next_event_timer_ms: int | None = Field(
        default=None, description="The earliest armed event-time timer, as of the last committed epoch."
    )
    next_processing_timer_ms: int | None = Field(
        default=None, description="The earliest armed processing-time timer, as of the last committed epoch."
    )
    state_bytes: int = 0
    slots: tuple[SlotStatus, ...] = ()
    last_checkpoint: CheckpointInfo | None = Field(
        default=None, description="The newest completed checkpoint."
    )
    last_savepoint: CheckpointInfo | None = None
    checkpoints_completed: int = 0
    checkpoints_failed: int = 0
    checkpoints_in_progress: int = 0
    restarts: int = 0
    recoveries: tuple[Recovery, ...] = Field(default=(), description="The newest hundred, oldest first.")
    last_failure: Failure | None = None
    storage_away: tuple[StorageAway, ...] = Field(
        default=(), description="Storages that do not answer now. They may be why a job is `PAUSED`."
    )
    storage_failures_total: int = Field(
        default=0, description="Calls that failed because a storage was away, since this driver started."
    )
    progress: tuple[Progress, ...] = Field(default=(), description="Long work under way.")
    restored_from: str | None = None
    sinks: tuple[str, ...] = ()
    user_metrics: tuple[UserMetric, ...] = Field(
        default=(),
        description="Metrics of the job's own functions, over all slots; at most 500. /metrics has all by slot.",
    )
    notices: tuple[str, ...] = Field(
        default=(), description="Notices for people, e.g. settings without effect here."
    )
    operator_state_notice: OperatorStateNotice | None = Field(
        default=None,
        description="Operator state takes more than 80 % of its memory in a slot, or did within the last five minutes.",
    )

    @field_validator("watermark_ms")
    @classmethod
    def _no_watermark_is_null(cls, value: int | None) -> int | None:
        return None if value == NO_WATERMARK else value


class CheckpointTriggered(Document):
    """Answer to a triggered checkpoint: the id of the one that runs already, or of the one to come."""

    checkpoint_id: int


class SavepointRequest(BaseModel):
    """Ask for a savepoint. Sent again with the same ``trigger_id`` it starts nothing new."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trigger_id: TriggerId | None = Field(default=None, description="Default: made by the server.")
    target_directory: str | None = Field(
        default=None,
        min_length=1,
        max_length=2048,
        description="URL of the folder for savepoints. Default: the job's own.",
    )
    stop: StrictBool = Field(default=False, description="Stop the job with it: no epoch commits after it.")
    drain: StrictBool = Field(
        default=False, description="With stop: fire all event-time timers first (watermark +∞)."
    )
    format_type: Literal["canonical", "native"] = Field(
        default="canonical", description="native: the state backend's own files, for the same backend."
    )

    @model_validator(mode="after")
    def _drain_needs_stop(self) -> Self:
        if self.drain and not self.stop:
            raise ValueError(
                "drain is true and stop is false; a job that goes on cannot be drained: set stop too"
            )
        return self


class SavepointStatus(Document):
    """The fate of a savepoint request."""

    trigger_id: str
    status: SavepointPhase
    location: str | None = Field(default=None, description="URL of the savepoint, once completed.")
    epoch: int | None = None
    stop: bool = False
    drain: bool = False
    failure: str | None = None


class KeyState(Document):
    """The committed value of one state under one key, or of one operator state in one slot."""

    operator: str
    state: str
    kind: str = Field(
        description="value, list, map, reducing or aggregating; operator list, operator union list or broadcast."
    )
    key: JsonValue = None
    slot: int | None = Field(default=None, description="Of operator state, which has no key.")
    namespace: JsonValue = None
    value: JsonValue = None
    epoch: int | None = Field(default=None, description="The last epoch contained in the value.")


class Accepted(Document):
    """The request was taken; its effect is seen in the status."""

    accepted: bool = True


class Problem(Document):
    """Every error answer of an authorised request."""

    error: str = Field(description="The fault, with the value.")
    reason: str = Field(description="One stable CamelCase word.")
    remedy: str = Field(description="The way to put it right.")
