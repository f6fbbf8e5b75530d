"""Recovers a lost status when no driver is left to ask: the engine reads in storage how far the job had come.

``sparkstate restore-info`` runs as a Job, under the job's account and credentials. Nothing starts before it has
answered. An instruction of the spec (``startEmpty``, ``restoreFrom``) was perhaps carried out long ago, and would now
begin a new lineage beside the job's state. Nobody can tell whether the state is older than the instruction. So the
state counts, and a user who wants the instruction changes the spec again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sparkstate_operator import actions, answers, clock, observed
from sparkstate_operator.core import job_life, naming
from sparkstate_operator.decide import instructing, precedence, progress
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision

Task = observed.Task
Step = Callable[[Draft, Revision], None]
RECOVER = "recover"
"""The intent's action."""
RESTORE_INFO = "restore-info"
POLL_S = 5.0
TRACE = 0
"""Number of the ConfigMap that is made for the command alone, where there is none of an attempt."""


def begin(draft: Draft) -> None:
    """Write down that the engine has to ask the storage."""
    draft.begin(RECOVER)
    draft.happened(job_life.ASKED_STORAGE)


def go_on(draft: Draft, wanted: Revision) -> None:
    """The next step, until the storage has answered."""
    if draft.revision is None:
        draft.put("revision", wanted.name)
    draft.wait(POLL_S)
    task = draft.seen.task(_command_name(draft))
    step = precedence.first(STEPS, draft, task) or _wait
    step(draft, wanted)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _is_not_asked(_: Draft, task: Task | None) -> Step | None:
    """Every later rule is about the command."""
    return _ask if task is None else None


def _has_answered(_: Draft, task: Task | None) -> Step | None:
    """Before the failures: a command that succeeded has answered only if its answer can be read."""
    if task is None or not task.succeeded or "found" not in task.result:
        return None
    return partial(_take, task=task) if answers.fits(task.result, answers.RESTORE_INFO) else None


def _has_not_answered(_: Draft, task: Task | None) -> Step | None:
    """What kept the engine from the storage may pass."""
    return partial(_ask_anew, task=task) if task is not None and (task.failed or task.succeeded) else None


STEPS = (_is_not_asked, _has_answered, _has_not_answered)
"""None of them: the command runs."""


# -- the steps ---------------------------------------------------------------------------------------------------------


def _ask(draft: Draft, wanted: Revision) -> None:
    if not draft.status.get("message"):
        draft.say("the status was lost; the engine looks in storage for the state to go on from")
    draft.acts.append(actions.EnsureChildren((draft.revision or wanted).name))
    draft.acts.append(actions.CreateTask(_command_name(draft), RESTORE_INFO, (RESTORE_INFO, "--json")))


def _take(draft: Draft, wanted: Revision, task: Task) -> None:
    if _fill(draft, wanted, task.result):
        _tidy(draft, task)


def _ask_anew(draft: Draft, _: Revision, task: Task) -> None:
    told = task.result.get("message", "its pod left no message")
    why = f"the storage could not be read ({told}); the operator tries again"
    draft.say(why)
    draft.note("StorageUnknown", why, warning=True)
    _tidy(draft, task)


def _wait(_: Draft, _wanted: Revision) -> None:
    """Nothing is decided until the command has ended."""


# -- what steps have in common -----------------------------------------------------------------------------------------


def _command_name(draft: Draft) -> str:
    return naming.command_job(draft.seen.job.name, draft.seen.job.uid, RESTORE_INFO)


def _tidy(draft: Draft, task: Task) -> None:
    draft.acts.append(actions.DeleteTask(task))
    made = (child for child in draft.seen.config_maps if child.attempt == TRACE)
    draft.acts.extend(actions.DeleteAttempt(child) for child in made)


def _fill(draft: Draft, wanted: Revision, found: observed.Document) -> bool:
    """Fill the status from the storage's answer; False where what the spec starts from is not there yet."""
    untouched = draft.attempt == 0
    point = found.get("restore_point")
    if untouched and not point and not found.get("problem"):
        # Nothing was ever completed, so the spec says what to start from, as for a new job.
        start = instructing.instruction(draft, wanted)
        if isinstance(start, instructing.MissingState):
            instructing.wait_for(draft, start)
            return False
        draft.put("start", start.document() or None)
    if found.get("found"):
        draft.status["attempt"] = max(draft.attempt, int(found.get("attempt") or 0))
        draft.put("lineage", found.get("lineage"))
        if point:
            _take_point(draft, point)
    draft.settle()
    if draft.phase == "RestoreBlocked":
        # RestoreBlocked is a phase that only a change of the spec ends: the job would count as over, and never start.
        draft.happened(job_life.STORAGE_ANSWERED)
    draft.say("all of the input has been processed" if draft.phase == "Finished" else "")
    draft.note("StatusRebuilt", f"the status was lost and has been rebuilt; found in storage: {_told(found)}")
    draft.wait(0.0)
    return True


def _take_point(draft: Draft, point: observed.Document) -> None:
    info = {
        "id": point.get("id"),
        "path": point.get("url"),
        "epoch": point.get("epoch"),
        "trigger_ms": point.get("timestamp_ms"),
        "state_bytes": point.get("state_bytes"),
        "trigger_id": point.get("trigger_id"),
    }
    name = "lastSavepoint" if point.get("kind") == "savepoint" else "lastCheckpoint"
    draft.put(name, progress.checkpoint(info))
    for field in ("backend", "shards"):
        draft.put(field, point.get(field))
    if point.get("drained") and name == "lastCheckpoint":
        # A drained savepoint comes from a stop with drain, after which the input may go on; a drained checkpoint says
        # that the input has ended.
        draft.happened(job_life.WORKED_THROUGH)
    if point.get("state_bytes"):
        draft.put("stateSize", progress.size(int(point["state_bytes"])))


def _told(found: observed.Document) -> str:
    point = found.get("restore_point")
    if point:
        taken = clock.from_ms(point.get("timestamp_ms"))
        return f"{point.get('url')}, epoch {point.get('epoch')}" + (
            f", of {clock.text(taken)}" if taken else ""
        )
    return str(found.get("problem") or "nothing of this job")
