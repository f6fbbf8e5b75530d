"""Before the trigger: what a savepoint waits for until its driver can be asked for it.

The trigger id is in the status before the driver is asked, and derives from the object's uid (or its spec gives it),
so that asking twice makes one savepoint. How the data is reached is written down with the trigger: when it has to be
deleted, the job may be gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate_operator import clock, observed
from sparkstate_operator.core import job_life, naming, snapshot_life
from sparkstate_operator.decide import precedence, snapshot_deletion, snapshot_following
from sparkstate_operator.decide.draft import POLL_S
from sparkstate_operator.decide.snapshot_draft import IN_FLIGHT, SnapshotDraft
from sparkstate_operator.plan import Revision

WAIT_S = 15.0
"""The longest pause between two looks. The first is short, because a recovery takes seconds; a suspension takes days.
When every pause was this long, a job that had recovered waited up to 15 s for its savepoint."""
IN_FLIGHT_S = 4.0


@dataclass(frozen=True)
class Hindrance:
    """Why it cannot be asked for yet. ``look_s``: look again after so long;
    None: the longer it has waited, the later."""

    reason: str
    message: str
    look_s: float | None = None


@dataclass(frozen=True)
class _RunningDriver:
    """A driver that can take it."""

    job: observed.Job
    pod: observed.Pod
    revision: Revision


def intend(draft: SnapshotDraft) -> None:
    """Write the trigger down, or what it waits for; ask nobody yet."""
    draft.happened(snapshot_life.CREATED)
    hindrance = precedence.first(HINDRANCES, draft)
    if hindrance is not None:
        _wait(draft, hindrance)
    elif (driver := _running_driver(draft)) is not None:
        _trigger(draft, driver)


# -- what hinders it, in this order ------------------------------------------------------------------------------------


def _job_is_gone(draft: SnapshotDraft) -> Hindrance | None:
    """Everything else is said of the job. One that is being deleted takes the savepoint of its own policy only. Another
    job of that name is not asked where a try of the first one has failed."""
    asked = draft.status.get("jobUid")
    if draft.named is not None and draft.named.deleting_at is None and asked in (None, draft.named.uid):
        return None
    name = (draft.spec.get("jobRef") or {}).get("name")
    return Hindrance("JobNotFound", f"there is no job {name} to take a savepoint from")


def _job_does_not_run(draft: SnapshotDraft) -> Hindrance | None:
    """Before what the operator is about to do with the job: a user asks first whether it runs."""
    if draft.named is None or _running_driver(draft) is not None:
        return None
    return Hindrance("JobNotRunning", f"job {draft.named.name} is not running; the savepoint waits for it")


def _job_is_changed(draft: SnapshotDraft) -> Hindrance | None:
    """Its driver runs, but is about to be stopped. Before the other savepoints: they wait for the same. While a new
    version is only checked, nobody stops the driver, and the check reads nothing that the savepoint writes. Savepoints
    that waited for checks failed in the end, because a check that fails is repeated for as long as the spec stays."""
    act = (draft.named.status.get("intent") or {}).get("action") if draft.named is not None else None
    if draft.named is None or act in (None, job_life.CHECK):
        return None
    return Hindrance(
        "JobBusy", f"job {draft.named.name} is being changed; the savepoint waits until that is done"
    )


def _other_is_in_flight(draft: SnapshotDraft) -> Hindrance | None:
    """After these, for it passes soon, and is looked at as often."""
    other = next((one for one in draft.seen.others if _is_in_flight(one)), None)
    if other is None:
        return None
    why = f"StateSnapshot {other.name} of the same job is being taken; a job takes one savepoint at a time"
    return Hindrance("SavepointInFlight", why, IN_FLIGHT_S)


def _rests(draft: SnapshotDraft) -> Hindrance | None:
    """Last: whatever else it waits for passes meanwhile. A time by a clock that was ahead counts for nothing."""
    retry = clock.parse(draft.status.get("retryTime"))
    left_s = 0.0 if retry is None else (retry - draft.seen.now).total_seconds()
    rests = 0 < left_s <= snapshot_following.LONGEST_PAUSE_S
    if not rests and not (draft.failures and draft.waited_s() > draft.timeout_s()):
        return None
    told = f"try {draft.failures} has failed"
    if draft.reason == snapshot_following.BY_DRIVER:
        told = str(draft.status.get("message") or told)
    return Hindrance(snapshot_following.BY_DRIVER, told, max(left_s, POLL_S))


HINDRANCES = (_job_is_gone, _job_does_not_run, _job_is_changed, _other_is_in_flight, _rests)
"""None of them: its trigger is written down."""


def _running_driver(draft: SnapshotDraft) -> _RunningDriver | None:
    job, pod, revision, report = draft.named, draft.seen.pod, draft.revision, draft.seen.report
    if job is None or pod is None or revision is None or report is None or report.phase != "RUNNING":
        return None
    return _RunningDriver(job, pod, revision)


def _is_in_flight(one: observed.Snapshot) -> bool:
    """Its savepoint may be taken yet, even if it was not complete in time, or is being deleted."""
    deleted = one.phase == "Deleting" and one.status.get("reason") == snapshot_deletion.IN_FLIGHT
    return one.phase in IN_FLIGHT or one.late or deleted


# -- the steps ---------------------------------------------------------------------------------------------------------


def _wait(draft: SnapshotDraft, hindrance: Hindrance) -> None:
    waited_s = draft.waited_s()
    wait_s = min(max(waited_s, POLL_S), WAIT_S)
    if waited_s > draft.timeout_s():
        why = f"not taken within {draft.timeout_s():.0f} s: {hindrance.message}"
        snapshot_following.fail(draft, snapshot_life.NOT_TAKEN, hindrance.reason, why)
        draft.wait_s = hindrance.look_s
        return
    draft.fill(reason=hindrance.reason, message=hindrance.message)
    draft.wait_s = wait_s if hindrance.look_s is None else hindrance.look_s


def _trigger_id(draft: SnapshotDraft) -> str:
    """The same for each look at the same try."""
    first = str(draft.spec.get("triggerId") or naming.digest(draft.snapshot.uid, 32))
    return naming.digest(f"{first} {draft.failures}", 32) if draft.failures else first


def _trigger(draft: SnapshotDraft, driver: _RunningDriver) -> None:
    spec, job, revision = draft.spec, driver.job, driver.revision
    account = spec.get("serviceAccountName") or revision.service_account or naming.service_account(job.name)
    draft.happened(snapshot_life.TRIGGERED)
    draft.fill(
        reason=None,
        message=None,
        triggerId=_trigger_id(draft),
        retryTime=None,
        jobUid=job.uid,
        attempt=driver.pod.attempt,
        access=draft.access(spec.get("s3") or revision.get("s3"), account),
        triggeredTime=draft.status.get("triggeredTime") or clock.text(draft.seen.now),
    )
    draft.wait_s = 0.0
