"""The end of a StateSnapshot, with its data or without, but never while nobody knows whether there is data (RFC 0019).

If a savepoint was in flight when its object was deleted, the operator waits as long as the driver says that it takes
the savepoint. Otherwise the engine looks for the trigger in storage, and deletes the files that it made. Each command
is tried again until the deadline.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sparkstate_operator import actions, clock, labels
from sparkstate_operator.core import snapshot_life
from sparkstate_operator.decide import commanding
from sparkstate_operator.decide.commanding import Stage
from sparkstate_operator.decide.snapshot_draft import SnapshotDraft
from sparkstate_spec import units

POLL_S = 2.0
DEADLINE = "5m"
RETAINED_DEADLINE_S = 604_800.0
"""A week, for a periodic snapshot whose job exists: nobody waits for the object, and nobody
else would delete the data."""
DELETE = "delete"
GIVE_UP = "give-up"
IN_FLIGHT = "SavepointInFlight"
"""The reason in the status while nobody knows what has become of the savepoint."""
GIVING_UP = "GivingUp"
"""The reason while nobody knows what lies in storage, but no driver takes the savepoint any more. It then holds up no
other: with one reason for both, a deletion whose command failed blocked the job's savepoints for up to a week."""
UNKNOWN = (IN_FLIGHT, GIVING_UP)
ASK_S = 30.0
"""While the savepoint may still be taken, the driver is asked this often, however long a command has to wait."""


def go_on(draft: SnapshotDraft) -> None:
    """The next step of a deletion."""
    if labels.FINALIZER not in draft.snapshot.finalizers:
        draft.status = dict(draft.snapshot.status)
        return
    if draft.phase != "Deleting":
        _begin(draft)
        _know_access(draft)
        return
    _know_access(draft)
    if draft.snapshot.spec.get("deletionPolicy") == "Delete" and not _data_is_gone(draft):
        return
    draft.acts.extend(actions.DeleteTask(task) for task in draft.seen.tasks)
    draft.acts.append(actions.RemoveFinalizer())


def _begin(draft: SnapshotDraft) -> None:
    unknown = draft.unknown
    if unknown and draft.snapshot.spec.get("deletionPolicy") != "Delete":
        trigger = draft.status["triggerId"]
        told = f"the savepoint with the trigger id {trigger} may exist, or may still be taken; it stays in storage"
        draft.note("DataKept", told, warning=True)
    if not draft.status.get("uri") and draft.phase != "Failed":
        draft.put("uri", draft.snapshot.spec.get("uri"))
    draft.happened(snapshot_life.DELETED)
    draft.fill(
        deletionStartedTime=clock.text(draft.seen.now),
        reason=IN_FLIGHT if unknown else None,
        message=None,
    )
    draft.wait_s = 0.0


def _know_access(draft: SnapshotDraft) -> None:
    """Take the access from the job if an earlier operator has not written all of it down. Without the pod template,
    data on a claim could not be deleted."""
    access = draft.status.get("access") or {}
    if draft.job is not None and not (access.get("storage") and access.get("template")):
        draft.put("access", {**(draft.access(None, None) or {}), **access})


def _data_is_gone(draft: SnapshotDraft) -> bool:
    """Whether there is no data any more, or no way to delete it: in the end the object goes in any case."""
    uri = str(draft.status.get("uri") or "")
    unknown = draft.reason in UNKNOWN
    if not uri and not unknown:
        return True
    where = uri or f"the savepoint with the trigger id {draft.status.get('triggerId')}"
    if draft.seen.namespace_terminating:
        _keep(draft, f"the namespace is being deleted; the data stays: {where}")
        return True
    if draft.seen.now > _deadline(draft):
        _keep(draft, f"the data could not be deleted by the deadline ({_last_word(draft)}): {where}")
        return True
    if unknown and not _is_taken(draft):
        return False
    if uri or draft.status.get("uri"):
        return _command(draft, DELETE, ("savepoints", "delete", "--json", str(draft.status["uri"])))
    access = draft.status.get("access") or {}
    if not access.get("storage"):
        _keep(
            draft,
            f"the snapshot does not say where its job's storage is; if there is data, it stays: {where}",
        )
        return True
    trigger = ("--trigger-id", str(draft.status["triggerId"]), "--job", str(access["job"]))
    return _command(draft, GIVE_UP, ("savepoints", "delete", "--json", *trigger, str(access["storage"])))


def _is_taken(draft: SnapshotDraft) -> bool:
    """Whether it is time to delete: the savepoint is complete, or no driver says that it is being taken."""
    found = draft.answer() if draft.job is not None else {}
    status = str(found.get("status", ""))
    if status == "COMPLETED" and found.get("location"):
        draft.fill(uri=found["location"], reason=None, message=None)
        return True
    if status in ("", "COMPLETED", "FAILED"):
        report = draft.seen.report
        # A driver that starts, or does not answer, may yet say that it takes the savepoint.
        if status or draft.job is None or (report is not None and report.phase == "RUNNING"):
            draft.put("reason", GIVING_UP)
        return True
    draft.put("reason", IN_FLIGHT)
    draft.put("message", "the savepoint is being taken; its data is deleted as soon as it is complete")
    draft.wait_s = POLL_S
    return False


def _command(draft: SnapshotDraft, verb: str, arguments: tuple[str, ...]) -> bool:
    """Whether the command has succeeded; until then, what brings that nearer."""
    begun = clock.parse(draft.status.get("deletionStartedTime")) or draft.seen.now
    task = draft.task(verb)
    stage = commanding.stage(task, begun, draft.seen.now)
    draft.wait_s = POLL_S
    if stage is Stage.DONE and task is not None:
        deleted = task.result.get("deleted")
        told = ", ".join(map(str, deleted)) if isinstance(deleted, list) else str(draft.status.get("uri"))
        draft.note("DataDeleted", f"deleted: {told or 'nothing, because there was no data'}")
        return True
    if stage is Stage.MISSING:
        draft.command(verb, *arguments)
    elif stage is Stage.DUE and task is not None:
        draft.acts.append(actions.DeleteTask(task))
    elif task is not None and (task.failed or task.result.get("ok") is False):
        # The Job has not failed yet, because Kubernetes still makes a pod or two (backoffLimit); its pod's word is
        # told.
        draft.put(
            "message", f"the data could not be deleted ({commanding.why(task)}); the operator tries again"
        )
    if stage is Stage.PAUSES and task is not None:
        again = min(commanding.again_at(task, begun), _deadline(draft))
        draft.wait_s = max(POLL_S, (again - draft.seen.now).total_seconds())
        if draft.reason == IN_FLIGHT:
            draft.wait_s = min(draft.wait_s, ASK_S)
    return False


def _keep(draft: SnapshotDraft, why: str) -> None:
    draft.note("DataKept", why, warning=True)


def _last_word(draft: SnapshotDraft) -> str:
    failed = [task for task in draft.seen.tasks if task.failed or task.result.get("ok") is False]
    if failed:
        return commanding.why(failed[-1])
    return str(draft.status.get("message") or "no command has ended")


def _deadline(draft: SnapshotDraft) -> datetime:
    begun = draft.snapshot.deleting_at or draft.seen.now
    told = draft.snapshot.spec.get("deadline")
    if told is None and draft.snapshot.periodic and draft.job is not None:
        return begun + timedelta(seconds=RETAINED_DEADLINE_S)
    return begun + timedelta(seconds=units.duration_s(str(told or DEADLINE)))
