"""A StateSnapshot: one savepoint that is taken from a job or registered from storage, and what happens to its data."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from sparkstate_operator.model.base import ChangeKind, Model, spec_field, status_field
from sparkstate_operator.model.entry import S3, PodTemplate, S3Address
from sparkstate_operator.model.status import Condition
from sparkstate_operator.model.values import Duration, Location, ObjectName

IGNORE = ChangeKind.IGNORE
IMMUTABLE = ChangeKind.IMMUTABLE
KIND = "StateSnapshot"
PLURAL = "statesnapshots"
TRIGGER_PATTERN = r"^[A-Za-z0-9][-A-Za-z0-9]*$"
UID_PATTERN = r"^[-a-z0-9]+$"

SnapshotPhase = Literal["Pending", "Triggered", "InProgress", "Completed", "Failed", "Deleting"]


class JobRef(Model):
    """The job that the savepoint is taken from."""

    name: ObjectName = spec_field(
        "Name of the StatefulSparkJob, in the same namespace.", IMMUTABLE, default=...
    )
    uid: str | None = spec_field(
        "Only the job with this uid, and no later one of the same name. Built-in: whichever job has the name.",
        IMMUTABLE,
        pattern=UID_PATTERN,
        max_length=63,
    )


class StateSnapshotSpec(Model):
    """The desired savepoint: one to take from a job (jobRef), or one that exists in storage (uri)."""

    job_ref: JobRef | None = spec_field("Take a savepoint of this job. Not together with uri.", IMMUTABLE)
    uri: Location | None = spec_field(
        "Folder of an existing savepoint (the one that holds _metadata). The object registers it, and may delete it "
        "later. Not together with jobRef.",
        IMMUTABLE,
    )
    storage: Location | None = spec_field(
        "URL below which the savepoint is written; only with jobRef. Built-in: the job's savepoints.storage.",
        IMMUTABLE,
    )
    format_type: Literal["canonical", "native"] | None = spec_field(
        "The form of the state. canonical: any state backend restores it. native: the state backend's own files, which "
        "are taken and restored faster, by the same backend alone; only with jobRef. Built-in: canonical.",
        IMMUTABLE,
    )
    s3: S3 | None = spec_field("How to reach S3. Built-in: as the job of jobRef does.", IMMUTABLE)
    service_account_name: ObjectName | None = spec_field(
        "ServiceAccount of the pods that read and delete the data. Built-in: that of jobRef's job.",
        IMMUTABLE,
    )
    trigger_id: str | None = spec_field(
        "Id of the trigger; the same id never makes a second savepoint. Built-in: derived from the object's uid.",
        IMMUTABLE,
        pattern=TRIGGER_PATTERN,
        max_length=63,
    )
    timeout: Duration | None = spec_field(
        "A savepoint that is not complete after this time counts as failed. Built-in: the job's "
        "checkpointing.timeout.",
        IGNORE,
    )
    backoff_limit: int | None = spec_field(
        "A savepoint that failed is tried again so many times, after pauses of 10s, 20s, 40s and so on up to 6m, as "
        "long as its timeout allows; only with jobRef. Built-in: 0.",
        IGNORE,
        ge=0,
        le=1000,
    )
    template: PodTemplate | None = spec_field(
        "Pod template of the commands that read and delete the data: where they may run, pull secrets, and for file:// "
        "the volumes, with volumeMounts in a container named command. Built-in: taken from the driver of jobRef's job.",
        IGNORE,
    )
    pinned: bool | None = spec_field(
        "true: retention by age and count never deletes it. Built-in: false.", IGNORE
    )
    deletion_policy: Literal["Retain", "Delete"] | None = spec_field(
        "The fate of the data when somebody, or retention, deletes this object. Built-in: Retain.", IGNORE
    )
    deadline: Duration | None = spec_field(
        "If the data could not be deleted for this long, the object goes all the same, and an Event says where the "
        "data is. Built-in: 5m; 168h for a periodic snapshot whose job exists.",
        IGNORE,
    )


class Access(Model):
    """How to reach the data. Written down when the savepoint is taken, because the job may be gone later."""

    s3: S3Address | None = status_field("How to reach S3.")
    service_account_name: str | None = status_field("ServiceAccount of the pods that read or delete it.")
    template: PodTemplate | None = status_field("Pod template of the pods that read or delete it.")
    storage: str | None = status_field("Checkpoint storage of the job that it was taken from.")
    job: str | None = status_field("That job's name in storage: <cluster>/<namespace>/<name>.")


class StateSnapshotStatus(Model):
    """The observed savepoint. The trigger id is written before the trigger is sent."""

    phase: SnapshotPhase | None = status_field("Where the snapshot stands, in one word.")
    observed_generation: int | None = status_field("The newest generation that the operator has judged.")
    trigger_id: str | None = status_field("Id of the trigger by which the driver is asked for it.")
    job_uid: str | None = status_field("uid of the job that it was taken from.")
    attempt: int | None = status_field("Attempt of the job whose driver took it.")
    uri: str | None = status_field("Folder of the savepoint.")
    access: Access | None = status_field("How to reach the data.")
    epoch: int | None = status_field("The epoch whose end it holds.")
    lineage: str | None = status_field("Id of the lineage that it was taken from.")
    slots: int | None = status_field("Slots that the job ran with.")
    size: str | None = status_field("Size of the whole state.")
    failures: int | None = status_field("How many tries have failed and were followed by another one.")
    retry_time: datetime | None = status_field("The next try follows after this time.", strict=False)
    triggered_time: datetime | None = status_field("When it was first asked for.", strict=False)
    completed_time: datetime | None = status_field("When it completed.", strict=False)
    duration: str | None = status_field("How long it took.")
    deletion_started_time: datetime | None = status_field("When its deletion began.", strict=False)
    reason: str | None = status_field("One stable word that says why it failed or waits.")
    message: str | None = status_field(
        "The same in a sentence for people; while the savepoint is taken, how far it is.", max_length=32768
    )
    conditions: tuple[Condition, ...] | None = status_field(
        "Ready, and Reconciling and Stalled for kstatus.", strict=False
    )


class StateSnapshot(Model):
    """One savepoint as an object: taken, registered, kept, deleted."""

    api_version: Literal["sparkstate.io/v1alpha1"]
    kind: Literal["StateSnapshot"]
    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: StateSnapshotSpec
    status: StateSnapshotStatus | None = None
