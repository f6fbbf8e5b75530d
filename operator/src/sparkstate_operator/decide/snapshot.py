"""The decision about a StateSnapshot: trigger, follow, and delete with or without its data.

The trigger id is in the status before the driver is asked, and derives from the object's uid (or its spec gives it),
so that asking twice makes one savepoint. How the data is reached is written down with the trigger: when it has to be
deleted, the job may be gone.
"""

from __future__ import annotations

from typing import Any

from sparkstate_operator import actions, answers, clock, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import conditions, naming, snapshot_life
from sparkstate_operator.decide import commanding, progress, snapshot_deletion, snapshot_following
from sparkstate_operator.decide.commanding import Stage
from sparkstate_operator.decide.snapshot_draft import IN_FLIGHT
from sparkstate_operator.decide.snapshot_draft import SnapshotDraft as _Draft
from sparkstate_operator.model.status import Condition
from sparkstate_operator.plan import Revision

POLL_S = 2.0
WAIT_S = 15.0
IN_FLIGHT_S = 4.0
DONE = ("Completed", "Failed")
VERIFY = "verify"
FINAL = frozenset({"StorageError", "CorruptData", "UnknownFormat", "SpecInvalid", "NotInThisVersion"})
"""Answers of the engine that another try would not change."""


def decide(seen: observed.AroundSnapshot, revision: Revision | None, config: Config) -> actions.Decision:
    """The next step. ``revision``: what the job runs, None if that is not known."""
    draft = _Draft(seen, revision, config)
    if seen.snapshot.deleting_at is not None:
        snapshot_deletion.go_on(draft)
    else:
        marks = _marks(seen)
        if (
            labels.FINALIZER not in seen.snapshot.finalizers
            or not marks.items() <= seen.snapshot.labels.items()
            or seen.snapshot.annotations.get(labels.MANAGER, "") != config.mark
        ):
            draft.before.append(actions.AddFinalizer(marks))
        draft.fill(observedGeneration=seen.snapshot.generation)
        if late(seen.snapshot):
            snapshot_following.follow_late(draft)
        elif not settled(seen.snapshot):
            _take(draft)
    if draft.status:
        draft.status["conditions"] = _conditions(draft)
    return draft.decision(draft.status)


def _marks(seen: observed.AroundSnapshot) -> dict[str, str]:
    """Labels by which the job finds it, whoever made it; with the job's class, for when the job is gone."""
    reference = seen.snapshot.spec.get("jobRef") or {}
    if seen.job is None or reference.get("uid") not in (None, seen.job.uid):
        return {}
    told = seen.job.labels.get(labels.OPERATOR_CLASS)
    return {
        labels.JOB: seen.job.name,
        labels.JOB_UID: seen.job.uid,
        **({labels.OPERATOR_CLASS: told} if told else {}),
    }


def _take(draft: _Draft) -> None:
    if uri := draft.snapshot.spec.get("uri"):
        _register(draft, str(uri))
    elif not draft.phase or draft.phase == "Pending":
        _intend(draft)
    else:
        snapshot_following.follow(draft)


def late(one: observed.Snapshot) -> bool:
    """Whether it was not complete in time, and may be complete yet."""
    return one.phase == "Failed" and one.status.get("reason") == "Timeout"


def settled(one: observed.Snapshot) -> bool:
    """Whether there is nothing to do about it until it is deleted."""
    return one.phase in DONE and not late(one) and not (one.phase == "Failed" and _changed(one))


def _changed(one: observed.Snapshot) -> bool:
    """Whether it is a registration whose spec has changed since the engine was asked: what kept the engine from the
    data may be mended."""
    return bool(one.spec.get("uri")) and one.status.get("observedGeneration") not in (None, one.generation)


def _register(draft: _Draft, uri: str) -> None:
    """A savepoint that is there already, as its user says: the engine looks."""
    spec = draft.snapshot.spec
    draft.happened(snapshot_life.CHANGED if draft.phase == "Failed" else snapshot_life.CREATED)
    draft.put("access", draft.access(spec.get("s3"), spec.get("serviceAccountName")))
    if problems := draft.template_problems():
        snapshot_following.fail(draft, snapshot_life.NOT_TAKEN, "SpecInvalid", problems)
        return
    task = draft.task(VERIFY)
    stage = commanding.stage(task, draft.snapshot.created, draft.seen.now)
    draft.wait_s = commanding.RUNS_S if stage is Stage.RUNS else POLL_S
    if task is not None and not task.succeeded and _changed(draft.snapshot):
        # The new generation counts as seen when the old answer is gone: it would be taken for the new one's.
        draft.fill(
            observedGeneration=draft.snapshot.status["observedGeneration"],
            reason="Verifying",
            message=f"the spec has changed; the engine reads {uri} again",
        )
        draft.acts.append(actions.DeleteTask(task))
    elif stage is Stage.MISSING:
        draft.fill(reason="Verifying", message=f"the engine reads {uri}")
        draft.command(VERIFY, "savepoints", "verify", "--json", uri)
    elif stage is Stage.DONE and task is not None:
        _registered(draft, uri, task)
    elif task is not None and task.result.get("reason") in FINAL:
        snapshot_following.fail(draft, snapshot_life.NOT_TAKEN, "NotRestorable", commanding.why(task))
        draft.acts.append(actions.DeleteTask(task))
    elif task is not None and task.failed:
        why = commanding.why(task)
        if stage is Stage.DUE:
            draft.acts.append(actions.DeleteTask(task))
        else:
            draft.fill(reason="NotVerified", message=f"{uri} could not be read ({why}); it is tried again")
            again = commanding.again_at(task, draft.snapshot.created)
            draft.wait_s = max(POLL_S, (again - draft.seen.now).total_seconds())


def _registered(draft: _Draft, uri: str, task: observed.Task) -> None:
    found = task.result if answers.fits(task.result, answers.SNAPSHOT) else {}
    draft.happened(snapshot_life.REGISTERED)
    draft.fill(
        reason=None,
        message=None,
        uri=uri,
        epoch=found.get("epoch"),
        lineage=found.get("lineage"),
        slots=found.get("slots"),
        size=progress.size(int(found["state_bytes"])) if found.get("state_bytes") else None,
        completedTime=clock.text(draft.seen.now),
    )
    draft.acts.append(actions.DeleteTask(task))
    draft.wait_s = None
    draft.note("SnapshotRegistered", f"registered {uri}")


def _intend(draft: _Draft) -> None:
    """Write the trigger down; ask nobody yet."""
    seen, reference = draft.seen, draft.snapshot.spec.get("jobRef") or {}
    draft.happened(snapshot_life.CREATED)
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
    if other := next((one for one in seen.others if _is_in_flight(one)), None):
        why = f"StateSnapshot {other.name} of the same job is being taken; two are never in flight"
        _pending(draft, "SavepointInFlight", why)
        draft.wait_s = IN_FLIGHT_S
        return
    spec = draft.snapshot.spec
    account = (
        spec.get("serviceAccountName") or draft.revision.service_account or naming.service_account(job.name)
    )
    draft.happened(snapshot_life.TRIGGERED)
    draft.fill(
        reason=None,
        message=None,
        triggerId=spec.get("triggerId") or naming.digest(draft.snapshot.uid, 32),
        jobUid=job.uid,
        attempt=seen.pod.attempt,
        access=draft.access(spec.get("s3") or draft.revision.get("s3"), account),
        triggeredTime=draft.status.get("triggeredTime") or clock.text(seen.now),
    )
    draft.wait_s = 0.0


def _is_in_flight(one: observed.Snapshot) -> bool:
    """Also of one that is being deleted and whose savepoint may be taken yet."""
    return one.phase in IN_FLIGHT or (
        one.phase == "Deleting" and one.status.get("reason") == snapshot_deletion.IN_FLIGHT
    )


def _pending(draft: _Draft, reason: str, message: str) -> None:
    if draft.age_s("triggeredTime", draft.snapshot.created) > draft.timeout_s():
        why = f"not taken within {draft.timeout_s():.0f} s: {message}"
        snapshot_following.fail(draft, snapshot_life.NOT_TAKEN, reason, why)
        return
    draft.fill(reason=reason, message=message)
    draft.wait_s = min(max(draft.age_s("triggeredTime", draft.snapshot.created), POLL_S), WAIT_S)


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
