"""A savepoint that is there already, as its user says: the engine reads it before it counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sparkstate_operator import actions, answers, clock, observed
from sparkstate_operator.core import snapshot_life
from sparkstate_operator.decide import commanding, precedence, progress, snapshot_following
from sparkstate_operator.decide.commanding import Stage
from sparkstate_operator.decide.draft import POLL_S
from sparkstate_operator.decide.snapshot_draft import SnapshotDraft

Command = observed.Command
Step = Callable[[SnapshotDraft], None]
VERIFY = "verify"
FINAL = frozenset({"StorageError", "CorruptData", "UnknownFormat", "SpecInvalid", "NotInThisVersion"})
"""Answers of the engine that another try would not change."""


def register(draft: SnapshotDraft) -> None:
    """One step towards an answer of the engine, or what follows from it."""
    spec, command = draft.spec, draft.command(VERIFY)
    draft.happened(snapshot_life.CHANGED if draft.phase == "Failed" else snapshot_life.CREATED)
    draft.put("access", draft.access(spec.get("s3"), spec.get("serviceAccountName")))
    draft.wait_s = commanding.RUNS_S if _stage(draft, command) is Stage.RUNS else POLL_S
    step = precedence.first(REGISTERED, draft, command) or _wait
    step(draft)


# -- which step, in this order -----------------------------------------------------------------------------------------


def _template_is_wrong(draft: SnapshotDraft, _: Command | None) -> Step | None:
    """No command can be made with it, and an answer to an earlier command would be about another spec."""
    problems = draft.template_problems()
    return partial(_refuse_template, problems=problems) if problems else None


def _is_not_asked_about(_: SnapshotDraft, command: Command | None) -> Step | None:
    """Every later rule is about the command."""
    return _ask if command is None else None


def _answers_an_older_spec(draft: SnapshotDraft, command: Command | None) -> Step | None:
    """Before whatever it says. A savepoint that the engine could read counts all the same: it is restorable."""
    old = command is not None and not command.succeeded and draft.snapshot.changed
    return partial(_ask_anew, command=command) if command is not None and old else None


def _is_read(draft: SnapshotDraft, command: Command | None) -> Step | None:
    """Before the reasons of a failure: a command that succeeded has none that counts."""
    if command is None or _stage(draft, command) is not Stage.DONE:
        return None
    return partial(_take, command=command)


def _cannot_be_restored(_: SnapshotDraft, command: Command | None) -> Step | None:
    """Before the next try, which would end the same way. The word of the command's pod tells it before Kubernetes has
    made the pod or two more after which the command has failed."""
    final = command is not None and command.result.get("reason") in FINAL
    return partial(_refuse, command=command) if command is not None and final else None


def _is_to_be_read_again(draft: SnapshotDraft, command: Command | None) -> Step | None:
    """Its pause is over."""
    if command is None or _stage(draft, command) is not Stage.DUE:
        return None
    return partial(_forget, command=command)


def _could_not_be_read(draft: SnapshotDraft, command: Command | None) -> Step | None:
    """Last: the obstacle between the engine and the data may pass."""
    if command is None or _stage(draft, command) is not Stage.PAUSES:
        return None
    return partial(_pause, command=command)


REGISTERED = (
    _template_is_wrong,
    _is_not_asked_about,
    _answers_an_older_spec,
    _is_read,
    _cannot_be_restored,
    _is_to_be_read_again,
    _could_not_be_read,
)
"""None of them: the command runs."""


def _stage(draft: SnapshotDraft, command: Command | None) -> Stage:
    return commanding.stage(command, draft.snapshot.created, draft.seen.now)


# -- the steps ---------------------------------------------------------------------------------------------------------


def _refuse_template(draft: SnapshotDraft, problems: str) -> None:
    snapshot_following.fail(draft, snapshot_life.NOT_TAKEN, "SpecInvalid", problems)
    draft.wait_s = None


def _ask(draft: SnapshotDraft) -> None:
    uri = _uri(draft)
    draft.fill(reason="Verifying", message=f"the engine reads {uri}")
    draft.create_command(VERIFY, "savepoints", "verify", "--json", uri, since=draft.snapshot.created)


def _ask_anew(draft: SnapshotDraft, command: Command) -> None:
    # The new generation counts as seen when the old answer is gone: it would be taken for the new one's.
    draft.fill(
        observedGeneration=draft.snapshot.status["observedGeneration"],
        reason="Verifying",
        message=f"the spec has changed; the engine reads {_uri(draft)} again",
    )
    _forget(draft, command)


def _take(draft: SnapshotDraft, command: Command) -> None:
    found = command.result if answers.fits(command.result, answers.SNAPSHOT) else {}
    draft.happened(snapshot_life.REGISTERED)
    draft.fill(
        reason=None,
        message=None,
        uri=_uri(draft),
        epoch=found.get("epoch"),
        lineage=found.get("lineage"),
        slots=found.get("slots"),
        size=progress.size(int(found["state_bytes"])) if found.get("state_bytes") else None,
        completedTime=clock.text(draft.seen.now),
    )
    _forget(draft, command)
    draft.wait_s = None
    draft.note("SnapshotRegistered", f"registered {_uri(draft)}")


def _refuse(draft: SnapshotDraft, command: Command) -> None:
    snapshot_following.fail(draft, snapshot_life.NOT_TAKEN, "NotRestorable", commanding.why(command))
    _forget(draft, command)


def _forget(draft: SnapshotDraft, command: Command) -> None:
    """The next look makes the command again, if it is wanted."""
    draft.acts.append(actions.DeleteCommand(command))


def _pause(draft: SnapshotDraft, command: Command) -> None:
    why = commanding.why(command)
    draft.fill(
        reason="NotVerified", message=f"{_uri(draft)} could not be read ({why}); the operator tries again"
    )
    again = commanding.again_at(command, draft.snapshot.created)
    draft.wait_s = max(POLL_S, (again - draft.seen.now).total_seconds())


def _wait(draft: SnapshotDraft) -> None:
    """The command's end is an event of the watches."""
    trouble = commanding.trouble(draft.command(VERIFY))
    told = f"the engine reads {_uri(draft)}"
    draft.fill(reason="Verifying", message=f"{told} ({trouble[1]})" if trouble else told)


def _uri(draft: SnapshotDraft) -> str:
    return str(draft.spec["uri"])
