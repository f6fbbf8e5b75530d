"""The parts of the spec about checkpoints, savepoints, triggers, and the state to start from or to leave behind."""

from __future__ import annotations

from typing import Literal

from sparkstate_operator.model.base import ChangeKind, Model, spec_field
from sparkstate_operator.model.entry import LocalObjectRef
from sparkstate_operator.model.values import Cron, Duration, Location, Quantity, Text

UPGRADE = ChangeKind.UPGRADE
IGNORE = ChangeKind.IGNORE
SAVEPOINT = ChangeKind.SAVEPOINT


class Checkpointing(Model):
    """When checkpoints are taken and where they go."""

    interval: Duration | None = spec_field(
        "Time from the start of one checkpoint to the start of the next, e.g. 30s; checked between epochs. Built-in: "
        "{built_in}.",
        UPGRADE,
        path="checkpointing.interval",
    )
    mode: Literal["interval", "changelog"] | None = spec_field(
        "interval: state becomes durable at each checkpoint. changelog is not in this version. Built-in: "
        "{built_in}.",
        UPGRADE,
        path="checkpointing.mode",
    )
    timeout: Duration | None = spec_field(
        "A checkpoint that takes longer is abandoned. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.timeout",
    )
    min_pause: Duration | None = spec_field(
        "Shortest time from the end of one checkpoint to the start of the next. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.minPause",
    )
    tolerable_failures: int | None = spec_field(
        "Failed checkpoints in a row that are tolerated before the job fails; failures while storage is away do not "
        "count. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.tolerableFailures",
        ge=0,
        le=1000000,
    )
    storage: Location | None = spec_field(
        "URL of the checkpoint storage: s3://bucket/prefix or file:///path; with deployment local a path is allowed "
        "too (relative to the manifest). Helm value: defaults.checkpointing.storage.",
        UPGRADE,
        path="checkpointing.storage",
    )
    storage_type: Literal["filesystem", "jobmanager"] | None = spec_field(
        "filesystem: checkpoints go to storage. jobmanager: they lie in the memory of the driver and end with its "
        "process; for tests, with the runner only. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.storageType",
    )
    max_state_size: Quantity | None = spec_field(
        "Largest state of a slot in a checkpoint that lies in the driver's memory; a larger one fails the checkpoint. "
        "At most 64Mi. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.maxStateSize",
    )
    retained: int | None = spec_field(
        "Completed checkpoints to keep. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.retained",
        ge=1,
        le=1000,
    )
    inline_threshold: Quantity | None = spec_field(
        "Files up to this size are stored inside the checkpoint's metadata; at most 1Mi. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.inlineThreshold",
    )
    write_buffer_size: Quantity | None = spec_field(
        "Size of the buffer of a stream to the checkpoint storage. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.writeBufferSize",
    )
    max_held_output: Quantity | None = spec_field(
        "Output of file sinks that a slot may keep on its disk until a checkpoint completes. At half of this size a "
        "checkpoint begins before its interval is over; at the full size the job takes in no more rows until a "
        "checkpoint has completed. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.maxHeldOutput",
    )
    max_time_without_checkpoint: Duration | None = spec_field(
        "While a storage is away (of checkpoints or of a sink), the job takes in no more rows once changes have waited "
        "this long for a checkpoint. Built-in: {built_in}.",
        UPGRADE,
        path="checkpointing.maxTimeWithoutCheckpoint",
    )


class Savepoints(Model):
    """Periodic savepoints, and how long they are kept."""

    storage: Location | None = spec_field(
        "URL of the folder for savepoints. Built-in: savepoints/ under the checkpoint storage.",
        UPGRADE,
        path="savepoints.storage",
    )
    interval: Duration | None = spec_field(
        "Time between periodic savepoints, e.g. 6h. Not together with schedule. Built-in: none.",
        IGNORE,
        path="savepoints.interval",
    )
    schedule: Cron | None = spec_field(
        "Cron line of five fields in UTC, e.g. '0 3 * * *', or @daily. Not together with interval. "
        "Built-in: none.",
        IGNORE,
    )
    max_age: Duration | None = spec_field(
        "Periodic savepoints that are older are deleted with their data, except the newest one. Built-in: none, they "
        "are kept.",
        IGNORE,
        path="savepoints.maxAge",
    )
    max_count: int | None = spec_field(
        "Number of periodic savepoints to keep. Built-in: none, all are kept.",
        IGNORE,
        path="savepoints.maxCount",
        ge=1,
        le=10000,
    )
    format_type: Literal["canonical", "native"] | None = spec_field(
        "The form of periodic savepoints. canonical: any state backend restores it. native: the state backend's own "
        "files, which are taken and restored faster, by the same backend alone. Built-in: {built_in}.",
        IGNORE,
        path="savepoints.formatType",
    )
    on_stop: bool | None = spec_field(
        "Take a savepoint when the job is stopped from outside (SIGTERM, Ctrl-C). Built-in: {built_in}.",
        UPGRADE,
        path="savepoints.onStop",
    )


class Trigger(Model):
    """When epochs start. Give one of processingTime and availableNow."""

    processing_time: Duration | None = spec_field(
        "Shortest time from the start of one epoch to the start of the next, e.g. 1s. Built-in: {built_in}, each epoch "
        "starts as soon as the last one has ended.",
        UPGRADE,
        path="trigger.processingTime",
    )
    available_now: bool | None = spec_field(
        "Process all data that is available now, in epochs as large as the source's bound, then fire all timers and "
        "end. Built-in: {built_in}.",
        UPGRADE,
        path="trigger.availableNow",
    )
    schedule: Cron | None = spec_field(
        "With availableNow: a job that has ended runs again, from its state, at these times. Cron line of five fields "
        "in UTC, e.g. '0 3 * * *', or @daily. Built-in: none, it runs once.",
        IGNORE,
    )


class RestoreSource(Model):
    """The state to start from. Give one of the fields. Without effect once the attempt that used it has
    completed a checkpoint."""

    snapshot_ref: LocalObjectRef | None = spec_field("A StateSnapshot of this namespace.", SAVEPOINT)
    latest: Literal[True] | None = spec_field(
        "The newest completed checkpoint or savepoint of the job with this name.", SAVEPOINT
    )
    uri: Location | None = spec_field(
        "Folder of a savepoint or checkpoint (the one that holds _metadata).",
        SAVEPOINT,
        path="restoreFrom.uri",
    )
    before_time: Text | None = spec_field("The newest state before a time. Not in this version.", SAVEPOINT)


class Deletion(Model):
    """The fate of state when the job object is deleted."""

    policy: Literal["savepoint", "retain", "purge"] | None = spec_field(
        "savepoint: take a last savepoint and keep everything. retain: keep everything as it is. purge: delete "
        "checkpoints and savepoints. Built-in: {built_in}.",
        IGNORE,
        path="deletion.policy",
    )
    deadline: Duration | None = spec_field(
        "After this time the deletion continues as with retain, so that it always ends. Built-in: {built_in}.",
        IGNORE,
        path="deletion.deadline",
    )
