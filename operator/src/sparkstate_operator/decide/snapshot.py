"""The decision about a StateSnapshot: trigger, follow, and delete with or without its data.

The trigger id is in the status before the driver is asked, and derives from the object's uid (or stands in its spec),
so that asking twice makes one savepoint. How the data is reached is written down with the trigger: when it is to be
deleted, the job may be gone.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sparkstate_operator import actions, clock, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import conditions, naming, units
from sparkstate_operator.decide import progress
from sparkstate_operator.decide.draft import Pending
from sparkstate_operator.model.status import Condition
from sparkstate_operator.plan import Revision

POLL_S = 2.0
WAIT_S = 15.0
IN_FLIGHT_S = 4.0
IN_FLIGHT = ("Triggered", "InProgress")
DONE = ("Completed", "Failed")
DELETE = "delete"


class _Draft(Pending):
    """A decision about a snapshot."""

    def __init__(self, seen: observed.AroundSnapshot, revision: Revision | None, config: Config) -> None:
        super().__init__(seen.snapshot.status)
        self.seen, self.revision, self.config = seen, revision, config
        self.snapshot = seen.snapshot

    def fill(self, **fields: Any) -> None:
        """Several fields at once."""
        for name, value in fields.items():
            self.put(name, value)

    def age_s(self, name: str, default: datetime) -> float:
        return (self.seen.now - (clock.parse(self.status.get(name)) or default)).total_seconds()

    def timeout_s(self) -> float:
        told = self.snapshot.spec.get("timeout")
        if told:
            return units.duration_s(str(told))
        return self.revision.savepoint_s if self.revision else 600.0


def decide(seen: observed.AroundSnapshot, revision: Revision | None, config: Config) -> actions.Decision:
    """The next step. ``revision``: what the job runs, None if that is not known."""
    draft = _Draft(seen, revision, config)
    if seen.snapshot.deleting_at is not None:
        _delete(draft)
    else:
        marks = _marks(seen)
        if (
            labels.FINALIZER not in seen.snapshot.finalizers
            or not marks.items() <= seen.snapshot.labels.items()
        ):
            draft.before.append(actions.AddFinalizer(marks))
        draft.fill(observedGeneration=seen.snapshot.generation)
        if draft.phase not in DONE:
            _take(draft)
    if draft.status:
        draft.status["conditions"] = _conditions(draft)
    return draft.decision(draft.status)


def _marks(seen: observed.AroundSnapshot) -> dict[str, str]:
    """Labels by which the job finds it, whoever made it."""
    reference = seen.snapshot.spec.get("jobRef") or {}
    if seen.job is None or reference.get("uid") not in (None, seen.job.uid):
        return {}
    return {labels.JOB: seen.job.name, labels.JOB_UID: seen.job.uid}


def _take(draft: _Draft) -> None:
    if uri := draft.snapshot.spec.get("uri"):
        _register(draft, str(uri))
    elif not draft.phase or draft.phase == "Pending":
        _intend(draft)
    else:
        _follow(draft)


def _register(draft: _Draft, uri: str) -> None:
    """A savepoint that is there already."""
    spec = draft.snapshot.spec
    draft.fill(
        phase="Completed",
        uri=uri,
        access=_access(spec.get("s3"), spec.get("serviceAccountName")),
        completedTime=clock.text(draft.seen.now),
    )
    draft.note("SnapshotRegistered", f"registered {uri}")


def _access(s3: Any, service_account: Any) -> dict[str, Any] | None:
    names = ("endpoint", "region", "pathStyle", "secretRef")
    address = {
        name: dict(s3[name]) if name == "secretRef" else s3[name]
        for name in names
        if s3 and s3.get(name) is not None
    }
    return ({"s3": address} if address else {}) | (
        {"serviceAccountName": service_account} if service_account else {}
    ) or None


def _intend(draft: _Draft) -> None:
    """Write the trigger down; ask nobody yet."""
    seen, reference = draft.seen, draft.snapshot.spec.get("jobRef") or {}
    draft.fill(phase="Pending")
    job = seen.job
    if job is not None and reference.get("uid") not in (None, job.uid):
        job = None
    if job is None or job.deleting_at is not None:
        _pending(draft, "JobNotFound", f"there is no job {reference.get('name')} to take it from")
        return
    if seen.report is None or seen.report.phase != "RUNNING" or seen.pod is None or draft.revision is None:
        _pending(draft, "JobNotRunning", f"job {job.name} does not run; the savepoint waits for it")
        return
    if job.status.get("intent"):
        _pending(draft, "JobBusy", f"job {job.name} is being changed; the savepoint waits for that")
        return
    if other := next((one for one in seen.others if one.phase in IN_FLIGHT), None):
        why = f"StateSnapshot {other.name} of the same job is being taken; two are never in flight"
        _pending(draft, "SavepointInFlight", why)
        draft.wait_s = IN_FLIGHT_S
        return
    spec = draft.snapshot.spec
    account = (
        spec.get("serviceAccountName") or draft.revision.service_account or naming.service_account(job.name)
    )
    draft.fill(
        phase="Triggered",
        reason=None,
        message=None,
        triggerId=spec.get("triggerId") or naming.digest(draft.snapshot.uid, 32),
        jobUid=job.uid,
        attempt=seen.pod.attempt,
        access=_access(spec.get("s3") or draft.revision.get("s3"), account),
        triggeredTime=draft.status.get("triggeredTime") or clock.text(seen.now),
    )
    draft.wait_s = 0.0


def _pending(draft: _Draft, reason: str, message: str) -> None:
    if draft.age_s("triggeredTime", draft.snapshot.created) > draft.timeout_s():
        _fail(draft, reason, f"not taken within {draft.timeout_s():.0f} s: {message}")
        return
    draft.fill(reason=reason, message=message)
    draft.wait_s = WAIT_S


def _follow(draft: _Draft) -> None:
    """The trigger is written down: ask until there is an answer."""
    seen = draft.seen
    if seen.job is None or seen.job.uid != draft.status.get("jobUid"):
        _fail(draft, "JobNotFound", "the job is gone")
        return
    found = seen.report.savepoint if seen.report is not None else None
    state = str((found or {}).get("status", ""))
    if found and state == "COMPLETED":
        _complete(draft, found)
    elif found and state == "FAILED":
        _fail(draft, "SavepointFailed", str(found.get("failure") or "the driver gave no reason"))
    elif draft.age_s("triggeredTime", draft.snapshot.created) > draft.timeout_s():
        _fail(draft, "Timeout", f"not complete after {draft.timeout_s():.0f} s")
    elif found:
        draft.fill(
            phase="InProgress", reason=None, message=None, attempt=seen.pod.attempt if seen.pod else None
        )
        draft.wait_s = POLL_S
    else:
        if seen.report is not None and seen.pod is not None and seen.report.phase == "RUNNING":
            # An attempt that began since knows the trigger from storage, or takes the savepoint now.
            draft.fill(attempt=seen.pod.attempt)
            trigger = str(draft.status["triggerId"])
            draft.acts.append(
                actions.TriggerSavepoint(seen.pod, trigger, directory=draft.snapshot.spec.get("storage"))
            )
        draft.wait_s = POLL_S


def _complete(draft: _Draft, found: observed.Document) -> None:
    report = draft.seen.report.document if draft.seen.report is not None else {}
    begun = clock.parse(draft.status.get("triggeredTime")) or draft.seen.now
    took_ms = int((draft.seen.now - begun).total_seconds() * 1000)
    draft.fill(
        phase="Completed",
        reason=None,
        message=None,
        uri=found.get("location"),
        epoch=found.get("epoch"),
        lineage=report.get("lineage"),
        slots=len(report.get("slots") or ()) or None,
        size=progress.size(int(report["state_bytes"])) if report.get("state_bytes") else None,
        completedTime=clock.text(draft.seen.now),
        duration=units.format_duration(took_ms),
    )
    draft.note("SnapshotCompleted", f"{found.get('location')}")


def _fail(draft: _Draft, reason: str, message: str) -> None:
    draft.fill(phase="Failed", reason=reason, message=message)
    draft.note("SnapshotFailed", f"{reason}: {message}", warning=True)


def _delete(draft: _Draft) -> None:
    if labels.FINALIZER not in draft.snapshot.finalizers:
        draft.status = dict(draft.snapshot.status)
        return
    if draft.phase != "Deleting":
        draft.fill(
            phase="Deleting", deletionStartedTime=clock.text(draft.seen.now), reason=None, message=None
        )
        draft.wait_s = 0.0
        return
    uri = draft.status.get("uri")
    with_data = draft.snapshot.spec.get("deletionPolicy") == "Delete" and uri
    if with_data and not _data_is_gone(draft, str(uri)):
        return
    draft.acts.extend(actions.DeleteTask(task) for task in draft.seen.tasks)
    draft.acts.append(actions.RemoveFinalizer())


def _data_is_gone(draft: _Draft, uri: str) -> bool:
    """Whether the data is deleted, or cannot be: the object goes in the end in any case."""
    deadline = timedelta(seconds=units.duration_s(str(draft.snapshot.spec.get("deadline") or "5m")))
    begun = draft.snapshot.deleting_at or draft.seen.now
    if draft.seen.namespace_terminating:
        draft.note("DataKept", f"the namespace is being deleted; the data stays at {uri}", warning=True)
        return True
    name = naming.command_job(draft.snapshot.name, draft.snapshot.uid, DELETE)
    task = next((task for task in draft.seen.tasks if task.name == name), None)
    if task is not None and task.succeeded:
        draft.note("DataDeleted", f"{uri} is deleted")
        return True
    failed = task is not None and task.failed
    if failed or draft.seen.now > begun + deadline:
        why = (
            str(task.result.get("message", "no word"))
            if task is not None and failed
            else "the deadline passed"
        )
        draft.note("DataKept", f"the data could not be deleted ({why}); it stays at {uri}", warning=True)
        return True
    if task is None:
        draft.acts.append(actions.CreateTask(name, DELETE, ("savepoints", "delete", "--json", uri)))
    draft.wait_s = POLL_S
    return False


def _conditions(draft: _Draft) -> list[dict[str, Any]]:
    old = [Condition.model_validate(one) for one in draft.snapshot.status.get("conditions") or ()]
    found = conditions.of_snapshot(
        draft.status["phase"],
        draft.snapshot.generation,
        old,
        draft.seen.now,
        str(draft.status.get("message") or ""),
        str(draft.status.get("reason") or ""),
    )
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found]
