"""Periodic savepoints and how long they are kept. It makes and deletes objects only; each
StateSnapshot is reconciled by itself."""

from __future__ import annotations

from sparkstate_operator import actions, clock, labels
from sparkstate_operator.core import naming, retention, schedule
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision

UNDER_WAY = frozenset({"", "Pending", "Triggered", "InProgress"})


def keep(draft: Draft, revision: Revision) -> None:
    """Ask for the savepoint that is due, and let those go that nothing holds."""
    _ask(draft, revision)
    _let_go(draft, revision)


def _ask(draft: Draft, revision: Revision) -> None:
    job = draft.seen.job
    plan = schedule.plan(revision.resolved, job.uid, job.created)
    if plan is None or draft.phase != "Running":
        return
    own = [one for one in draft.seen.snapshots if one.labels.get(labels.JOB_UID) == job.uid]
    times = [clock.read(one.annotations.get(labels.SCHEDULED)) for one in own if one.periodic]
    in_flight = any(one.phase in UNDER_WAY and one.deleting_at is None for one in own)
    found = schedule.due(plan, draft.now, [time for time in times if time is not None], in_flight)
    if found is not None:
        body = {
            "metadata": {
                "name": naming.periodic_snapshot(job.name, job.uid, found.scheduled),
                "namespace": job.namespace,
                "labels": {**labels.of_job(job.name, job.uid), labels.SNAPSHOT_TYPE: labels.PERIODIC},
                "annotations": {labels.SCHEDULED: clock.text(found.scheduled)},
            },
            "spec": {
                "jobRef": {"name": job.name, "uid": job.uid},
                "triggerId": found.trigger_id,
                "deletionPolicy": "Delete",
            },
        }
        draft.acts.append(actions.CreateSnapshot(body))
    draft.wait(schedule.wait_s(plan, draft.now))


def _let_go(draft: Draft, revision: Revision) -> None:
    wanted = retention.limits(revision.resolved)
    own = {
        one.name: one for one in draft.seen.snapshots if one.labels.get(labels.JOB_UID) == draft.seen.job.uid
    }
    shown = [
        retention.Snapshot(
            name=one.name,
            phase="Deleting" if one.deleting_at else one.phase,
            time=clock.parse(one.status.get("completedTime")) or one.created,
            periodic=one.periodic,
            pinned=bool(one.spec.get("pinned")),
            uri=str(one.status.get("uri") or ""),
        )
        for one in own.values()
    ]
    in_use = {
        str(draft.start.uri),
        str(revision.get("restoreFrom.uri", "")),
        str(revision.get("restoreFrom.snapshotRef.name", "")),
    }
    for expired in retention.expired(shown, wanted, draft.now, in_use - {""}):
        draft.acts.append(actions.DeleteSnapshot(own[expired.name], f"by {expired.reason}"))
