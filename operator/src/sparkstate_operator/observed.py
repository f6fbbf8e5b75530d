"""The input of a decision: everything that one look has found out, frozen.

The objects that have much to say of themselves have modules of their own (``job_pods``, ``custom_resources``,
``reports``). Decisions know them by the names below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sparkstate_operator import clock, containers, custom_resources, job_pods, labels, reports
from sparkstate_operator.core import quota

Document = Mapping[str, Any]
Job = custom_resources.Job
Snapshot = custom_resources.Snapshot
Pod = job_pods.Pod
Death = job_pods.Death
Termination = containers.Termination
Report = reports.Report
News = reports.News
OperatorStateNotice = reports.OperatorStateNotice
DriverEndpoint = reports.DriverEndpoint
NO_NEWS = reports.NO_NEWS


@dataclass(frozen=True)
class Command:
    """An engine command that runs as a Job."""

    name: str
    uid: str
    resource_version: str
    does: str
    succeeded: bool
    failed: bool
    result: Document = field(default_factory=dict)
    ended_at: datetime | None = None
    pod: Pod | None = None
    """The one of its pods that has not ended."""
    had_pod: bool = False
    """Whether it has a pod, which may have ended."""
    cut_off_s: int | None = None
    """The time limit at which Kubernetes stopped it, if that is how it failed."""
    progress: Document = field(default_factory=dict)
    """Its own answer to how far it is, as the field of that name in a JobStatus; empty where it has given none."""
    refusal: str = ""
    """Why Kubernetes makes no pod for it, with the remedy; empty if it has one, or nothing is known yet."""
    made_at: datetime | None = None
    """When its Job was made, by the clock of the API server."""


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
class CommandRefusal:
    """The last answer to the creation of a command's Job: it cannot be made."""

    name: str
    """Of the Job."""
    message: str
    judged: bool = True
    """Whether the Job was refused. Otherwise the API server or a webhook failed."""


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
    """The last that was seen of driver pods, also of those that are gone, by attempt. It stands for a finalizer on the
    pods, which would hang where no operator is left. To lose it costs only time (RFC 0006)."""
    snapshots: tuple[Snapshot, ...] = ()
    commands: tuple[Command, ...] = ()
    report: Report | None = None
    unheard: str = ""
    """Why a driver that answers cannot be heard; empty if it can, or does not answer."""
    never_made: int = 0
    """An attempt whose pod the API server refused to this same process, so that it never existed. Without this, each
    refusal cost the job an attempt, and the wait for a lost node, 100 s."""
    unanswered: int = 0
    """An attempt whose pod this same process asked for, without an answer that says whether it was made."""
    unkept: str = ""
    """Why the API server has just refused to keep the revision of the newest spec; empty if it did not."""
    unasked: CommandRefusal | None = None
    """The last check that this same process could not put to a new version. Without this, each look would ask for the
    Job again, and a quota without Jobs would hold up every upgrade for ever."""
    unwritten: bool = False
    """This same process saw the job before our finalizer was on it,
    and has written no status since: an empty one is not lost."""
    namespace_terminating: bool = False
    needed_by: str = ""
    """A job that has to start from this one's data; read only where the data is about to be purged."""
    progress_due: bool = True
    """Whether it is time to write progress into the status."""
    refused: str = ""
    """Why the API server refused an object of the new attempt in a dry run; empty if it did not."""
    quota_scopes: tuple[quota.Scope, ...] = ()
    """Those of the quota that ``refused`` names."""

    @property
    def newest_config_map(self) -> Child | None:
        """That of the newest attempt."""
        return max(self.config_maps, key=lambda child: child.attempt or 0, default=None)

    def command(self, name: str) -> Command | None:
        """The engine command of that name."""
        return next((command for command in self.commands if command.name == name), None)

    def never_had_pod(self, attempt: int) -> bool:
        """Whether it is certain that there never was a pod of this attempt. A request without an answer leaves it open,
        even if the one after it was refused: a quota refuses a second pod whatever became of the first."""
        return attempt == self.never_made != self.unanswered and attempt not in self.sightings


@dataclass(frozen=True)
class TriggerRefusal:
    """The driver did not take the trigger when it was last asked. ``for_good``: it never will."""

    message: str
    for_good: bool


@dataclass(frozen=True)
class ObservedSnapshot:
    """Everything that a decision about one snapshot looks at."""

    snapshot: Snapshot
    now: datetime
    job: Job | None = None
    pod: Pod | None = None
    """The driver pod of the job's newest attempt."""
    report: Report | None = None
    """That driver's report; ``savepoint`` is about the snapshot's trigger."""
    others: tuple[Snapshot, ...] = ()
    """The job's other snapshots; read only where this one is about to be asked for."""
    commands: tuple[Command, ...] = ()
    namespace_terminating: bool = False
    refusal: TriggerRefusal | None = None
    needed_by: str = ""
    """A job that has to start from its data; read only where the data is about to be deleted."""


def child_of(body: Document, kind: str) -> Child:
    """From the API server's document."""
    meta = body["metadata"]
    return Child(
        kind=kind,
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        attempt=labels.number(meta, labels.ATTEMPT),
        body=body,
    )


def command_of(body: Document, result: Document, pod: Pod | None = None, *, had_pod: bool = False) -> Command:
    """From the API server's document of a Job, its pod's last word, and the pod that has not ended."""
    meta = body["metadata"]
    conditions = body.get("status", {}).get("conditions") or ()
    ends = {one["type"]: one["status"] for one in conditions}
    reasons = {one["type"]: one.get("reason") for one in conditions}
    times = [one.get("lastTransitionTime") for one in conditions if one["type"] in ("Complete", "Failed")]
    done = _has_ended_well(result, pod)
    ended_at = clock.parse(times[0]) if times else done.at if done is not None else None
    return Command(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        does=(meta.get("annotations") or {}).get(labels.COMMAND, ""),
        succeeded=ends.get("Complete") == "True" or done is not None,
        failed=ends.get("Failed") == "True",
        result=result,
        ended_at=ended_at,
        pod=pod,
        had_pod=had_pod,
        cut_off_s=(body.get("spec") or {}).get("activeDeadlineSeconds")
        if reasons.get("Failed") == "DeadlineExceeded"
        else None,
        made_at=clock.parse(meta.get("creationTimestamp")),
    )


def _has_ended_well(result: Document, pod: Pod | None) -> Termination | None:
    """The end of the command's own container, where it has done its work and said so; None otherwise. Beside a
    container that others have put into the pod, and that runs on, Kubernetes never calls the Job complete."""
    if pod is None or not pod.stays_ended or pod.ended is None or result.get("ok") is not True:
        return None
    return pod.ended if pod.ended.exit_code == 0 else None
