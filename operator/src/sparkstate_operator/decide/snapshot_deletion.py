"""The end of a StateSnapshot, with its data or without, but never while nobody knows whether there is data (RFC 0019).

If a savepoint was in flight when its object was deleted, the operator waits as long as the driver says that it takes
the savepoint. Otherwise the engine looks for the trigger in storage, and deletes the files that it made. Each command
is tried again until the deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sparkstate_operator import actions, clock, dependants, labels, observed
from sparkstate_operator.core import deadlines, snapshot_life
from sparkstate_operator.decide import commanding, precedence, progress, snapshot_commanding
from sparkstate_operator.decide.draft import POLL_S
from sparkstate_operator.decide.snapshot_draft import SnapshotDraft

Step = Callable[[SnapshotDraft], None]
DEADLINE_S = 300.0
RETAINED_DEADLINE_S = 604_800.0
"""A week, for a periodic snapshot whose job exists: nobody waits for the object, and nobody
else would delete the data."""
IN_FLIGHT = "SavepointInFlight"
"""The reason in the status while nobody knows what has become of the savepoint."""
GIVING_UP = "GivingUp"
"""The reason while nobody knows what lies in storage, but no driver takes the savepoint any more. It then holds up no
other: with one reason for both, a deletion whose command failed blocked the job's savepoints for up to a week."""
UNKNOWN = (IN_FLIGHT, GIVING_UP)
LOOK_S = 30.0
"""The operator looks this often whether the job still needs it."""
IS_TAKEN = "the savepoint is being taken; its data is deleted as soon as it is complete"
ASK_S = 30.0
"""While the savepoint may still be taken, the driver is asked this often, however long a command has to wait."""


def go_on(draft: SnapshotDraft) -> None:
    """The next step of a deletion."""
    if labels.FINALIZER not in draft.snapshot.finalizers:
        return
    if draft.phase != "Deleting":
        _begin(draft)
        _know_access(draft)
        return
    _know_access(draft)
    if draft.reason == dependants.IN_USE and not draft.seen.needed_by:
        # The deadline is for the deletion, which begins now. A job that came in between has seen the reason, and starts
        # from the data: so the jobs are read once more, when the reason is gone.
        draft.fill(reason=None, message=None, deletionStartedTime=clock.text(draft.seen.now))
        draft.wait_s = 0.0
        return
    step = precedence.first(STEPS, draft) or _find
    step(draft)


def _begin(draft: SnapshotDraft) -> None:
    unknown = draft.unknown
    if unknown and draft.spec.get("deletionPolicy") != "Delete":
        trigger = draft.status["triggerId"]
        told = f"the savepoint with the trigger id {trigger} may exist, or may still be taken; it stays in storage"
        draft.note("DataKept", told, warning=True)
    if not draft.status.get("uri") and draft.phase != "Failed":
        draft.put("uri", draft.spec.get("uri"))
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
        access = {**(draft.access(None, None) or {}), **access}
        draft.put("access", access)
    keys = _present_keys(draft, access)
    if keys is not None:
        draft.put("access", {**access, "s3": {**access["s3"], "secretRef": dict(keys)}})


def _present_keys(draft: SnapshotDraft, access: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The Secret by which the job reaches the same storage now. Keys are rotated under new names, and the Secret of
    that time is gone with the first rotation: the data of every older snapshot stayed. None: the Secret written down
    counts, for the job is gone, has no keys, or has other storage by now, which its keys are for."""
    revision, s3 = draft.revision, access.get("s3") or {}
    if draft.job is None or revision is None or draft.spec.get("s3") or not s3.get("secretRef"):
        return None
    now = revision.get("s3") or {}
    same = access.get("storage") == revision.get("checkpointing.storage") and all(
        (s3.get(name) or None) == (now.get(name) or None) for name in ("endpoint", "region", "pathStyle")
    )
    return now.get("secretRef") if same else None


# -- which step, in this order -----------------------------------------------------------------------------------------


def _data_is_retained(draft: SnapshotDraft) -> Step | None:
    """First, because every later rule is about the end of the data."""
    return _end if draft.spec.get("deletionPolicy") != "Delete" else None


def _has_no_data(draft: SnapshotDraft) -> Step | None:
    """Before what hinders a deletion: there is nothing that would be left."""
    return _end if not draft.status.get("uri") and not _may_exist(draft) else None


def _namespace_ends(draft: SnapshotDraft) -> Step | None:
    """No command can be made in it any more, and it waits for the object."""
    return _keep_in_namespace if draft.seen.namespace_terminating else None


def _is_needed(draft: SnapshotDraft) -> Step | None:
    """Before the deadline, after which the data would stay and have no owner: the job comes to its first checkpoint, or
    somebody gives it another start, or deletes it."""
    return _wait_for_job if draft.seen.needed_by else None


def _is_late(draft: SnapshotDraft) -> Step | None:
    """Before whatever is left to be done, which may never succeed: in the end the object goes in any case."""
    return _keep_late if draft.seen.now > _deadline(draft) else None


def _is_taken(draft: SnapshotDraft) -> Step | None:
    """Before every command: what one finds in storage now is not yet all of it."""
    taken = _may_exist(draft) and _driver_says(draft) not in ("", "COMPLETED", "FAILED")
    return _wait_for_savepoint if taken else None


def _is_complete(draft: SnapshotDraft) -> Step | None:
    """Before storage is searched: the driver knows the place."""
    complete = _may_exist(draft) and _driver_says(draft) == "COMPLETED" and _answer(draft).get("location")
    return _know_place if complete else None


def _has_a_place(draft: SnapshotDraft) -> Step | None:
    """Before storage is searched, for the same reason."""
    return _delete if draft.status.get("uri") else None


def _storage_is_unknown(draft: SnapshotDraft) -> Step | None:
    """Last: nothing but a search is left, and there is no place for one."""
    return _keep_unfound if not (draft.status.get("access") or {}).get("storage") else None


STEPS = (
    _data_is_retained,
    _has_no_data,
    _namespace_ends,
    _is_needed,
    _is_late,
    _is_taken,
    _is_complete,
    _has_a_place,
    _storage_is_unknown,
)
"""None of them: the engine looks for the trigger in storage."""


def _may_exist(draft: SnapshotDraft) -> bool:
    """Whether nobody knows what has become of the savepoint."""
    return draft.reason in UNKNOWN


def _answer(draft: SnapshotDraft) -> observed.Document:
    """A report would be that of another job with this name, if its own is gone."""
    return draft.answer() if draft.job is not None else {}


def _driver_says(draft: SnapshotDraft) -> str:
    return str(_answer(draft).get("status", ""))


# -- the steps ---------------------------------------------------------------------------------------------------------


def _end(draft: SnapshotDraft) -> None:
    if progress.is_of_command(draft.status.get("message")):
        draft.put("message", None)  # somebody else may hold the object longer than we do
    draft.acts.extend(actions.DeleteCommand(command) for command in draft.seen.commands)
    draft.acts.append(actions.RemoveFinalizer())


def _keep_in_namespace(draft: SnapshotDraft) -> None:
    _keep(draft, f"the namespace is being deleted; the data stays: {_where(draft)}")


def _keep_late(draft: SnapshotDraft) -> None:
    why = f"the data could not be deleted by the deadline ({_last_word(draft)})"
    _keep(draft, f"{why}: {_where(draft)}")


def _keep_unfound(draft: SnapshotDraft) -> None:
    _let_others_pass(draft)
    why = "the snapshot does not say where its job's storage is; if there is data, it stays"
    _keep(draft, f"{why}: {_where(draft)}")


def _wait_for_job(draft: SnapshotDraft) -> None:
    told = (
        f"the job {draft.seen.needed_by} has to start from it; its data is deleted as soon as the job has completed a "
        "checkpoint of its own, starts from something else, or is deleted"
    )
    if draft.reason != dependants.IN_USE:
        draft.note("DataInUse", told, warning=True)
    draft.fill(reason=dependants.IN_USE, message=told)
    draft.wait_s = LOOK_S


def _wait_for_savepoint(draft: SnapshotDraft) -> None:
    draft.put("reason", IN_FLIGHT)
    draft.put("message", IS_TAKEN)
    draft.wait_s = POLL_S


def _know_place(draft: SnapshotDraft) -> None:
    """The next look knows the place, and reads whether a job needs it."""
    draft.fill(uri=_answer(draft)["location"], reason=None, message=None)
    draft.wait_s = 0.0


def _delete(draft: SnapshotDraft) -> None:
    draft.put("reason", dependants.GOES)
    _command(draft, actions.DELETE, ("savepoints", "delete", "--json", str(draft.status["uri"])))


def _find(draft: SnapshotDraft) -> None:
    """The engine looks for the trigger in storage, and deletes what it finds."""
    _let_others_pass(draft)
    access = draft.status["access"]
    trigger = ("--trigger-id", str(draft.status["triggerId"]), "--job", str(access["job"]))
    _command(draft, actions.GIVE_UP, ("savepoints", "delete", "--json", *trigger, str(access["storage"])))


# -- what steps have in common -----------------------------------------------------------------------------------------


def _let_others_pass(draft: SnapshotDraft) -> None:
    """No driver takes it, as far as is known. One that starts, or does not answer, may yet say that it does: the job's
    other savepoints wait for that."""
    report = draft.seen.report
    runs = report is not None and report.phase == "RUNNING"
    if _may_exist(draft) and (_driver_says(draft) or draft.job is None or runs):
        draft.put("reason", GIVING_UP)
        if draft.status.get("message") == IS_TAKEN:
            draft.put("message", None)


def _command(draft: SnapshotDraft, verb: str, arguments: tuple[str, ...]) -> None:
    """Bring the command's success nearer; after it the object goes."""
    if snapshot_commanding.has_deleted(draft, verb, arguments, _deadline(draft)):
        _end(draft)
    elif draft.reason == IN_FLIGHT:
        draft.wait(ASK_S)


def _keep(draft: SnapshotDraft, why: str) -> None:
    draft.note("DataKept", why, warning=True)
    _end(draft)


def _where(draft: SnapshotDraft) -> str:
    return str(
        draft.status.get("uri") or f"the savepoint with the trigger id {draft.status.get('triggerId')}"
    )


def _last_word(draft: SnapshotDraft) -> str:
    told = [hindrance for command in draft.seen.commands if (hindrance := commanding.hindrance(command))]
    if told:
        return told[-1]
    return str(draft.status.get("message") or "no command has ended")


def _deadline(draft: SnapshotDraft) -> datetime:
    asked = draft.snapshot.deleting_at or draft.seen.now
    begun = max(asked, clock.parse(draft.status.get("deletionStartedTime")) or asked)
    told = draft.spec.get("deadline")
    if told is None and draft.snapshot.periodic and draft.job is not None:
        return begun + timedelta(seconds=RETAINED_DEADLINE_S)
    return begun + deadlines.of_deletion(str(told or ""), DEADLINE_S)
