"""The status of a StatefulSparkJob: a write-ahead log of the operator's acts, and the facts that
a person wants to see."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from sparkstate_operator.model.base import Model, status_field

JobPhase = Literal[
    "Pending", "Starting", "Running", "Upgrading", "Suspending", "Suspended", "Failing",
    "RestoreBlocked", "Failed", "Finished", "Deleting",
]  # fmt: skip
PROGRESS_FIELDS = ("lastCheckpoint", "lastSavepoint", "stateSize", "restarts", "lineage", "progress")
"""The report of a driver that runs. Written at most once a minute unless something else changes too."""


class Condition(Model):
    """As metav1.Condition."""

    type: str = status_field(
        "Ready, Progressing, Degraded, RestoreBlocked, MemoryPressure, Reconciling or Stalled.", default=...
    )
    status: Literal["True", "False", "Unknown"] = status_field("True, False or Unknown.", default=...)
    reason: str = status_field("One stable word.", default=...)
    # The limit of metav1.Condition. The API server refuses the whole status for a longer one, so ``core.conditions``
    # cuts it.
    message: str = status_field("A sentence for people.", default="", max_length=32768)
    last_transition_time: datetime = status_field("When status last changed.", default=..., strict=False)
    observed_generation: int | None = status_field("Generation of the spec to which this applies.")


class Checkpoint(Model):
    """One completed checkpoint or savepoint."""

    id: int | None = status_field("Its number within the lineage.")
    uri: str | None = status_field("Its folder.")
    epoch: int | None = status_field("The epoch whose end it holds.")
    time: datetime | None = status_field("When it completed.", strict=False)
    duration: str | None = status_field("How long it took.")
    size: str | None = status_field("Size of the whole state.")
    uploaded: str | None = status_field("Bytes that this one had to upload.")
    trigger_id: str | None = status_field("Id of the trigger that asked for it (savepoints).")


class Failure(Model):
    """The last failure."""

    time: datetime | None = status_field("When it was seen.", strict=False)
    attempt: int | None = status_field("The attempt that failed.")
    reason: str | None = status_field("One stable word, e.g. UserCodeError, OOMKilled.")
    message: str | None = status_field("The pod's termination message.", max_length=32768)
    exit_code: int | None = status_field("Exit code of the driver.")


MOST_FAILURES = 1000
"""Failure times that the status keeps at most, 25 kB of it."""


class Restarts(Model):
    """Restarts, counted by the component that made them."""

    engine: int = status_field("Restarts by the engine itself, within a driver.", default=0)
    kubelet: int = status_field("Restarts of the driver's container, by the kubelet.", default=0)
    operator: int = status_field("Restarts by the operator, each as a new attempt.", default=0)
    total: int = status_field("The sum.", default=0)
    attempt_kubelet: int | None = status_field("Restarts by the kubelet in the newest attempt.")
    attempt_engine: int | None = status_field("Restarts by the engine in the newest attempt's driver.")
    fenced: tuple[datetime, ...] | None = status_field(
        "When the newest attempts were fenced by another job of this name, oldest first.",
        strict=False,
        max_length=100,
    )
    recent: tuple[datetime, ...] | None = status_field(
        "Failures that the restart strategy counts, oldest first.", strict=False, max_length=MOST_FAILURES
    )


class Intent(Model):
    """An act that has been decided and may not be done yet. It is written before the act begins."""

    action: str = status_field("The act, in one word.", default=...)
    attempt: int | None = status_field("The attempt that it is about.")
    trigger_id: str | None = status_field(
        "Trigger id of a savepoint, so that a repetition asks for no second one."
    )
    revision: str | None = status_field("The ControllerRevision that will run.")
    since: datetime | None = status_field("When it was decided.", strict=False)
    not_before: datetime | None = status_field("It does not begin before this time.", strict=False)
    policy: str | None = status_field("The fate of the state on deletion.")
    purging: bool | None = status_field(
        "Whether a part of the data may be deleted already: no job can wait for it any more."
    )


class UnconfirmedDriver(Model):
    """A driver whose end nobody has confirmed."""

    attempt: int = status_field("Its attempt.", default=...)
    harmless_at: datetime | None = status_field(
        "It can do no more harm after this time. Absent while its pod is there.", strict=False
    )


class StartInstruction(Model):
    """How an attempt has to start; removed once the lineage has completed a checkpoint."""

    since: int | None = status_field("The attempt that the instruction was first given to.")
    uri: str | None = status_field("Restore from here.")
    latest: bool | None = status_field("Restore what the job's name has in storage, and nothing else.")
    empty: bool | None = status_field("Start without state.")
    fresh: bool | None = status_field("Start a new lineage from uri although there is one with state.")


class Refusal(Model):
    """A revision that was refused: the API server refused its pod in a dry run, or it does not take up the state."""

    revision: str = status_field("The ControllerRevision.", default=...)
    message: str = status_field("Why it was refused.", default="", max_length=32768)
    tries: int | None = status_field("How often it was tried.")
    next_time: datetime | None = status_field("The operator tries again after this time.", strict=False)
    dry_run: bool | None = status_field(
        "Whether the API server alone has refused it, in a dry run. A revision that the check of the state has refused "
        "is tried again only while the old one runs."
    )
    verdict: str | None = status_field(
        "Why the last check that judged the state refused it. The revision stays refused until a check says otherwise, "
        "even if no later check can be made.",
        max_length=32768,
    )


class MemoryItem(Model):
    """One line of the memory sum."""

    name: str = status_field("The purpose of the memory.", default=...)
    size: str = status_field("How much memory.", default=...)


class PodMemory(Model):
    """One kind of pod of the job."""

    name: str = status_field("driver or executor.", default=...)
    count: int = status_field("How many such pods there are.", default=1)
    total: str = status_field("The container's memory request and limit.", default=...)
    storage: str | None = status_field("Ephemeral storage that the pod requests for the working volume.")
    items: tuple[MemoryItem, ...] = status_field("The lines of the sum.", default=(), strict=False)


class Memory(Model):
    """How the pods' memory is made up."""

    total: str | None = status_field("The sum of all pods.")
    pods: tuple[PodMemory, ...] = status_field("The sum for each kind of pod.", default=(), strict=False)


class StatefulSparkJobStatus(Model):
    """The observed job. The operator can rebuild it from storage and the job's children."""

    phase: JobPhase | None = status_field("Where the job stands, in one word.")
    observed_generation: int | None = status_field("The newest generation that the operator has judged.")
    attempt: int | None = status_field("Number of the newest driver pod.")
    cluster: str | None = status_field(
        "The cluster's name in storage under which the newest attempt was started."
    )
    lineage: str | None = status_field("Id of the state's lineage in storage.")
    revision: str | None = status_field("ControllerRevision that runs.")
    slots: int | None = status_field("Slots that run.")
    shards: int | None = status_field(
        "Number of stores, fixed by the job's first checkpoint; slots cannot exceed it."
    )
    selector: str | None = status_field("Label selector of the job's pods, for the scale subresource.")
    backend: str | None = status_field("State backend that runs.")
    state_size: str | None = status_field("Size of the whole state at the last checkpoint.")
    progress: str | None = status_field(
        "Long work: a restore, a savepoint or a purge, and the steps of a rescale. Bytes done and in all, and the time "
        "left."
    )
    last_checkpoint: Checkpoint | None = status_field("The newest completed checkpoint.")
    last_savepoint: Checkpoint | None = status_field("The newest completed savepoint.")
    last_schedule_time: datetime | None = status_field(
        "The newest point of the savepoints' schedule for which there was a savepoint.", strict=False
    )
    completion_time: datetime | None = status_field(
        "When the job finished, or failed and was not started again.", strict=False
    )
    last_failure: Failure | None = status_field("The newest failure.")
    restarts: Restarts | None = status_field("Restarts since the job was created.")
    intent: Intent | None = status_field("The act that is under way.")
    unconfirmed: tuple[UnconfirmedDriver, ...] | None = status_field(
        "Drivers that the next attempt waits for, because nobody has confirmed that they have ended.",
        strict=False,
    )
    start: StartInstruction | None = status_field("How the newest attempt has to start.")
    restore_pending: bool | None = status_field(
        "Whether a job that does not run has to start from state that its spec names, and that no attempt was told of."
    )
    refused: Refusal | None = status_field(
        "The newest revision, if the API server refuses its pod, or it does not take up the state; an older one runs."
    )
    memory: Memory | None = status_field("How the pods' memory is made up.")
    message: str | None = status_field("A sentence for people.", max_length=32768)
    conditions: tuple[Condition, ...] | None = status_field(
        "Ready, Progressing, Degraded, RestoreBlocked; MemoryPressure while memory is nearly used up; and Reconciling "
        "and Stalled for kstatus.",
        strict=False,
    )
