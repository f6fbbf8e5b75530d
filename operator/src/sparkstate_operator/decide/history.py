"""Periodic savepoints and how long they are kept. It makes and deletes objects only; each
StateSnapshot is reconciled by itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sparkstate_operator import actions, clock, custom_resources, dependants, labels, observed
from sparkstate_operator.core import locations, naming, retention, schedule
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
    in_flight = any((one.phase in UNDER_WAY or one.late) and one.deleting_at is None for one in own)
    found = schedule.due(plan, draft.now, _scheduled(draft, own), in_flight)
    if found is not None:
        format_type = revision.resolved.get("savepoints.formatType")
        draft.acts.append(actions.CreateSnapshot(_periodic(job, found, format_type)))
    draft.wait(schedule.wait_s(plan, draft.now))


def _periodic(job: observed.Job, due: schedule.DueSavepoint, format_type: str | None) -> actions.Document:
    return {
        "metadata": {
            "name": naming.periodic_snapshot(job.name, job.uid, due.scheduled),
            "namespace": job.namespace,
            "labels": {**labels.of_job(job.name, job.uid), labels.SNAPSHOT_TYPE: labels.PERIODIC},
            "annotations": {labels.SCHEDULED: clock.text(due.scheduled)},
        },
        "spec": {
            "jobRef": {"name": job.name, "uid": job.uid},
            "triggerId": due.trigger_id,
            "deletionPolicy": "Delete",
            **({} if format_type is None else {"formatType": format_type}),
        },
    }


def _scheduled(draft: Draft, own: Sequence[observed.Snapshot]) -> list[datetime]:
    """The points of the schedule that are done: those of the snapshots that exist, and the newest one that was ever
    seen. A snapshot that is deleted would be asked for again otherwise, and the driver, which knows its trigger id,
    would answer with data that is gone. The snapshot is seen before it is written down, so that one which could not be
    made is still due."""
    read = [clock.read(one.annotations.get(labels.SCHEDULED)) for one in own if one.periodic]
    times = [time for time in [*read, clock.parse(draft.status.get("lastScheduleTime"))] if time is not None]
    if believed := schedule.believed(times, draft.now):
        draft.put("lastScheduleTime", clock.text(max(believed)))
    return times


def _let_go(draft: Draft, revision: Revision) -> None:
    wanted = retention.limits(revision.resolved)
    own = {
        one.name: one for one in draft.seen.snapshots if one.labels.get(labels.JOB_UID) == draft.seen.job.uid
    }
    shown = [
        retention.Snapshot(
            name=one.name,
            phase="Deleting" if one.deleting_at else one.phase,
            time=one.created,
            periodic=one.periodic,
            pinned=bool(one.spec.get("pinned")),
            uri=str(one.status.get("uri") or ""),
        )
        for one in own.values()
    ]
    deleting = [one.deleting_at for one in own.values() if one.deleting_at is not None]
    found = retention.expired(shown, wanted, draft.now, _in_use(draft, revision))
    for expired in found[: retention.room(deleting, draft.now)]:  # the end of each deletion is an event
        draft.acts.append(actions.DeleteSnapshot(own[expired.name], f"by {expired.reason}"))


def _in_use(draft: Draft, revision: Revision) -> set[str]:
    """Folders and names of the savepoints that the job starts from: as it runs, as its spec asks for it, though that
    may not be possible yet, and as an act under way or a refused version does."""
    named = {draft.intent.get("revision"), (draft.status.get("refused") or {}).get("revision")}
    known = [one.resolved.spec for name, one in draft.revisions.items() if name in named]
    specs = [draft.seen.job.spec, revision.resolved.spec, *known]
    uris = [str(draft.start.uri or ""), *(dependants.restored_uri(spec) for spec in specs)]
    names = [custom_resources.told(spec, "restoreFrom.snapshotRef.name") for spec in specs]
    return {*map(locations.folder, uris), *names} - {""}
