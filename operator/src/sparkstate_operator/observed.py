"""What a decision looks at: frozen pictures of the objects, with the fields that decisions need."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sparkstate_operator import clock, containers, labels, reports
from sparkstate_operator.core import quota

Document = Mapping[str, Any]
TAINT_EVICTION = "DeletionByTaintManager"
"""Reason of the condition DisruptionTarget: a taint of its node, as those of a node that does not answer."""
Termination = containers.Termination
Report = reports.Report
News = reports.News
DriverEndpoint = reports.DriverEndpoint
NO_NEWS = reports.NO_NEWS


class Death(enum.Enum):
    """Whether a driver's process is known to be dead."""

    ALIVE = "alive"
    CONFIRMED = "confirmed"
    """The kubelet said so, or it was never placed on a node."""
    UNCONFIRMED = "unconfirmed"
    """Nobody who would know has said so: its node may be cut off while it works on."""


@dataclass(frozen=True)
class Pod:
    """A driver's or an executor's pod."""

    name: str
    uid: str
    resource_version: str
    attempt: int
    revision: str
    phase: str
    reason: str = ""
    node: str = ""
    ip: str = ""
    ready: bool = False
    """The driver's container (not those beside it) answers its probe, and its node has not been given up."""
    deleting_at: datetime | None = None
    """When its grace period ends; None while it is not being deleted."""
    grace_s: float = 0.0
    """That grace period."""
    life: int = 0
    """Of an executor: which life of its attempt made it, from 1; 0: it does not say."""
    restarts: int = 0
    waiting: str = ""
    """Why the container waits, e.g. ``CrashLoopBackOff``, ``ImagePullBackOff``."""
    waiting_message: str = ""
    ended: Termination | None = None
    """The container's end, where it does not run now."""
    last_ended: Termination | None = None
    """The end of the life before, where the kubelet started it again."""
    stays_ended: bool = False
    """The container has ended and the kubelet will not start it again, whatever else runs in the pod."""
    trouble: tuple[str, str] | None = None
    """Reason and message of a container beside it, or of one before it (init), that waits or has failed."""
    preparing: str = ""
    """The init container that runs, for whose end the driver waits."""
    unschedulable: str = ""
    node_lost: bool = False
    node_silent: bool = False
    """Whether its node has been given up, or has never said anything of it."""
    cluster: str = ""
    """What the cluster is called in storage, as the pod was told; empty where it does not say."""
    asks: tuple[tuple[str, str], ...] = ()
    """What it counts against a ResourceQuota, by name."""
    disrupted: str = ""
    """Why the pod is a disruption's target (drain, preemption, eviction), if it is."""

    @property
    def death(self) -> Death:
        """Whether its process is dead, by who would know."""
        if not self.node:
            return (
                Death.CONFIRMED if self.phase in ("Failed", "Succeeded") or self.deleting_at else Death.ALIVE
            )
        if self.over:
            return Death.CONFIRMED if self.ended is not None else Death.UNCONFIRMED
        return Death.ALIVE

    @property
    def over(self) -> bool:
        """Whether its process will not run again in this pod."""
        return self.phase in ("Failed", "Succeeded") or self.stays_ended

    @property
    def lingers(self) -> bool:
        """Whether other containers keep the pod although its process is over, and nobody has asked it to end."""
        return self.stays_ended and self.phase not in ("Failed", "Succeeded") and self.deleting_at is None

    @property
    def answers(self) -> bool:
        """Whether its endpoint may answer."""
        return bool(self.ip) and self.phase == "Running" and self.ended is None and not self.waiting

    @property
    def terminating_gracefully(self) -> bool:
        """Whether its driver was asked to end and is about to: its node answers for it, and it ran."""
        return self.deleting_at is not None and self.ready and self.answers and not self.node_lost

    @property
    def abandoned(self) -> bool:
        """Whether it is deleted because its node does not answer: nobody there has heard of the grace period."""
        return self.deleting_at is not None and self.disrupted == TAINT_EVICTION and self.node_silent

    @property
    def crash(self) -> Termination | None:
        """The newest end of its container."""
        return self.ended or self.last_ended


@dataclass(frozen=True)
class Task:
    """An engine command that runs as a Job."""

    name: str
    uid: str
    resource_version: str
    does: str
    succeeded: bool
    failed: bool
    result: Document = field(default_factory=dict)
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Child:
    """Any other object of the job."""

    kind: str
    name: str
    uid: str
    resource_version: str
    attempt: int | None
    body: Document


@dataclass(frozen=True)
class Snapshot:
    """A StateSnapshot."""

    name: str
    uid: str
    resource_version: str
    generation: int
    created: datetime
    spec: Document
    status: Document
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    deleting_at: datetime | None = None

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))

    @property
    def periodic(self) -> bool:
        """Whether the operator made it by the clock."""
        return self.labels.get(labels.SNAPSHOT_TYPE) == labels.PERIODIC


@dataclass(frozen=True)
class Job:
    """A StatefulSparkJob."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int
    created: datetime
    spec: Document
    status: Document
    finalizers: tuple[str, ...]
    deleting_at: datetime | None = None
    """When its deletion was asked for."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ObservedState:
    """Everything that a decision about one job looks at."""

    job: Job
    now: datetime
    drivers: tuple[Pod, ...] = ()
    executors: tuple[Pod, ...] = ()
    config_maps: tuple[Child, ...] = ()
    """Those of the attempts."""
    revisions: tuple[Child, ...] = ()
    children: tuple[Child, ...] | None = None
    """Services, ServiceAccounts, Roles, RoleBindings; None where this look did not read them."""
    sightings: Mapping[int, Pod] = field(default_factory=dict)
    """The last that was seen of driver pods, also of those that are gone, by attempt."""
    snapshots: tuple[Snapshot, ...] = ()
    tasks: tuple[Task, ...] = ()
    report: Report | None = None
    never_made: int = 0
    """An attempt whose pod the API server refused to this very process, so that it never existed."""
    unanswered: int = 0
    """An attempt whose pod this very process asked for, without an answer that says whether it was made."""
    unwritten: bool = False
    """This very process saw the job before our finalizer was on it, and has written no status since: an empty one is
    not lost."""
    namespace_terminating: bool = False
    progress_due: bool = True
    """Whether it is time to write progress into the status."""
    refused: str = ""
    """Why the API server refused the new pod in a dry run; empty if it did not."""

    @property
    def newest_config_map(self) -> Child | None:
        """That of the newest attempt."""
        return max(self.config_maps, key=lambda child: child.attempt or 0, default=None)

    def task(self, name: str) -> Task | None:
        """The engine command of that name."""
        return next((task for task in self.tasks if task.name == name), None)


@dataclass(frozen=True)
class ObservedSnapshot:
    """Everything that a decision about one snapshot looks at."""

    snapshot: Snapshot
    now: datetime
    job: Job | None = None
    pod: Pod | None = None
    """The driver pod of the job's newest attempt."""
    report: Report | None = None
    """What that driver says; ``savepoint`` is about the snapshot's trigger."""
    others: tuple[Snapshot, ...] = ()
    """The job's other snapshots; read only where this one is about to be asked for."""
    tasks: tuple[Task, ...] = ()
    namespace_terminating: bool = False


def job_of(body: Document) -> Job:
    """From the API server's document."""
    return Job(namespace=body["metadata"]["namespace"], **_resource(body))


def snapshot_of(body: Document) -> Snapshot:
    """From the API server's document."""
    return Snapshot(**_resource(body))


def _resource(body: Document) -> dict[str, Any]:
    """What both of our resources have."""
    meta = body["metadata"]
    return {
        "name": meta["name"],
        "uid": meta["uid"],
        "resource_version": meta["resourceVersion"],
        "generation": int(meta.get("generation", 1)),
        "created": _time(meta["creationTimestamp"]),
        "spec": body.get("spec", {}),
        "status": body.get("status") or {},
        "labels": meta.get("labels") or {},
        "annotations": meta.get("annotations") or {},
        "finalizers": tuple(meta.get("finalizers", ())),
        "deleting_at": clock.parse(meta.get("deletionTimestamp")),
    }


def child_of(body: Document, kind: str) -> Child:
    """From the API server's document."""
    meta = body["metadata"]
    return Child(
        kind=kind,
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        attempt=_number(meta, labels.ATTEMPT),
        body=body,
    )


def pod_of(body: Document) -> Pod:
    """From the API server's document. The container that counts is called like the pod's role."""
    meta, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    found = containers.read(body, (meta.get("labels") or {}).get(labels.ROLE, "driver"))
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    ready = conditions.get("Ready", {})
    scheduled = conditions.get("PodScheduled", {})
    disruption = conditions.get("DisruptionTarget", {})
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        attempt=_number(meta, labels.ATTEMPT) or 0,
        life=_number(meta, labels.LIFE) or 0,
        revision=(meta.get("labels") or {}).get(labels.REVISION, ""),
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        node=spec.get("nodeName", ""),
        ip=status.get("podIP", ""),
        deleting_at=clock.parse(meta.get("deletionTimestamp")),
        grace_s=float(meta.get("deletionGracePeriodSeconds") or 0),
        **{**vars(found), "ready": found.ready and _node_answers(ready)},
        node_silent=not _node_answers(ready),
        cluster=_variable(spec, labels.CLUSTER_VARIABLE),
        asks=quota.asks(spec),
        unschedulable=scheduled.get("message", "") if scheduled.get("status") == "False" else "",
        node_lost=status.get("reason") == "NodeLost" or ready.get("reason") == "NodeLost",
        disrupted=disruption.get("reason", "") if disruption.get("status") == "True" else "",
    )


def _variable(spec: Document, name: str) -> str:
    """The value of an environment variable, in whichever container of the pod; empty if none has it."""
    given = (each for one in spec.get("containers") or () for each in one.get("env") or ())
    return str(next((each.get("value") for each in given if each.get("name") == name), None) or "")


def _node_answers(ready: Document) -> bool:
    """By the pod's condition ``Ready``: the kubelet gives a reason where it denies it (another container is not ready),
    the node controller gives none when it does so for a node that is silent."""
    return ready.get("status") == "True" or ready.get("reason", "") not in ("", "NodeLost")


def task_of(body: Document, result: Document) -> Task:
    """From the API server's document of a Job, and its pod's last word."""
    meta = body["metadata"]
    conditions = body.get("status", {}).get("conditions") or ()
    ends = {one["type"]: one["status"] for one in conditions}
    times = [one.get("lastTransitionTime") for one in conditions if one["type"] in ("Complete", "Failed")]
    return Task(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        does=(meta.get("annotations") or {}).get(labels.TASK, ""),
        succeeded=ends.get("Complete") == "True",
        failed=ends.get("Failed") == "True",
        result=result,
        ended_at=clock.parse(times[0]) if times else None,
    )


def _number(meta: Document, label: str) -> int | None:
    """The number of an attempt or life; None for a number that no operator gives. Otherwise anybody who may label
    objects could use up the numbers: names have room for ``naming.MAX_ATTEMPT``."""
    value = (meta.get("labels") or {}).get(label, "")
    return int(value) if re.fullmatch("[0-9]{1,6}", value) else None


def _time(value: str) -> datetime:
    return datetime.fromisoformat(value)
