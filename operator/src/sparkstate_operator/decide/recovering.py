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
from sparkstate_operator.decide import commanding, instructing, precedence, progress
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.plan import Revision

Command = observed.Command
Step = Callable[[Draft, Revision], None]
RESTORE_INFO = "restore-info"
POLL_S = 5.0
"""The operator looks this often whether the storage has answered."""


def begin(draft: Draft) -> None:
    """Write down that the engine has to ask the storage."""
    draft.begin(job_life.RECOVER)
    draft.happened(job_life.ASKED_STORAGE)


def go_on(draft: Draft, wanted: Revision) -> None:
    """The next step, until the storage has answered."""
    if draft.revision is None:
        draft.put("revision", wanted.name)
    draft.wait(POLL_S)
    command = draft.seen.command(_command_name(draft))
    draft.degraded = commanding.trouble(command) or draft.degraded
    step = precedence.first(STEPS, draft, wanted, command) or _wait
    step(draft, wanted)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _is_not_asked(_: Draft, _wanted: Revision, command: Command | None) -> Step | None:
    """Every later rule is about the command."""
    return _ask if command is None else None


def _state_is_missing(draft: Draft, wanted: Revision, command: Command | None) -> Step | None:
    """Before the rules that take the answer. The command stays, so that the next look decides by the same answer."""
    start = _instruction(draft, wanted, command)
    return partial(_wait_for_state, missing=start) if isinstance(start, instructing.MissingState) else None


def _spec_says_where(draft: Draft, wanted: Revision, command: Command | None) -> Step | None:
    """Before the next rule, which takes the state and leaves the start instruction as it is."""
    start = _instruction(draft, wanted, command)
    if command is None or not isinstance(start, actions.Start):
        return None
    return partial(_start_by_spec, command=command, start=start)


def _has_answered(_: Draft, _wanted: Revision, command: Command | None) -> Step | None:
    """Before the failures: a command that succeeded has answered only if its answer can be read."""
    return partial(_take, command=command) if command is not None and _can_be_read(command) else None


def _has_not_answered(_: Draft, _wanted: Revision, command: Command | None) -> Step | None:
    """Last: the obstacle between the engine and the storage may pass."""
    if command is None or not (command.failed or command.succeeded):
        return None
    return partial(_ask_anew, command=command)


STEPS = (_is_not_asked, _state_is_missing, _spec_says_where, _has_answered, _has_not_answered)
"""None of them: the command runs."""


def _can_be_read(command: Command) -> bool:
    return (
        command.succeeded and "found" in command.result and answers.fits(command.result, answers.RESTORE_INFO)
    )


def _instruction(
    draft: Draft, wanted: Revision, command: Command | None
) -> actions.Start | instructing.MissingState | None:
    """If nothing was ever completed, the spec says what to start from, as for a new job. None if the state counts, or
    nobody has answered yet."""
    if command is None or not _can_be_read(command):
        return None
    completed = command.result.get("restore_point") or command.result.get("problem")
    return instructing.instruction(draft, wanted) if draft.attempt == 0 and not completed else None


# -- the steps ---------------------------------------------------------------------------------------------------------


def _ask(draft: Draft, wanted: Revision) -> None:
    if not draft.status.get("message"):
        draft.say("the status was lost; the engine looks in storage for the state to go on from")
    draft.acts.append(actions.EnsureChildren((draft.revision or wanted).name))
    limit_s = commanding.limit_s(draft.since())
    draft.acts.append(
        actions.CreateCommand(_command_name(draft), RESTORE_INFO, (RESTORE_INFO, "--json"), limit_s)
    )


def _wait_for_state(draft: Draft, _: Revision, missing: instructing.MissingState) -> None:
    instructing.wait_for(draft, missing)


def _start_by_spec(draft: Draft, wanted: Revision, command: Command, start: actions.Start) -> None:
    draft.put("start", start.document() or None)
    _take(draft, wanted, command)


def _take(draft: Draft, _: Revision, command: Command) -> None:
    """Fill the status from the storage's answer. This is a sequence and no choice: no statement excludes another. The
    message comes after the phases that it depends on."""
    found = command.result
    if found.get("found"):
        draft.status["attempt"] = max(draft.attempt, int(found.get("attempt") or 0))
        draft.put("lineage", found.get("lineage"))
        if found.get("restore_point"):
            _take_point(draft, found["restore_point"])
    draft.end_act()
    if draft.phase == "RestoreBlocked":
        # RestoreBlocked is a phase that only a change of the spec ends: the job would count as over, and never start.
        draft.happened(job_life.STORAGE_ANSWERED)
    draft.say("all of the input has been processed" if draft.phase == "Finished" else "")
    draft.note("StatusRebuilt", f"the status was lost and has been rebuilt; found in storage: {_told(found)}")
    draft.wait(0.0)
    _tidy(draft, command)


def _ask_anew(draft: Draft, _: Revision, command: Command) -> None:
    why = f"the storage could not be read ({commanding.why(command)}); the operator tries again"
    draft.say(why)
    draft.note("StorageUnknown", why, warning=True)
    _tidy(draft, command)


def _wait(_: Draft, _wanted: Revision) -> None:
    """Nothing is decided until the command has ended."""


# -- what steps have in common -----------------------------------------------------------------------------------------


def _command_name(draft: Draft) -> str:
    return naming.command_job(draft.seen.job.name, draft.seen.job.uid, RESTORE_INFO)


def _tidy(draft: Draft, command: Command) -> None:
    draft.acts.append(actions.DeleteCommand(command))
    made = (child for child in draft.seen.config_maps if child.attempt == naming.TRACE)
    draft.acts.extend(actions.DeleteAttempt(child) for child in made)


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
