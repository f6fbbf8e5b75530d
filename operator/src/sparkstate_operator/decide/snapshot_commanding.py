"""The engine's command that deletes a snapshot's data: made, watched, and made again until it succeeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.decide import commanding, precedence, progress
from sparkstate_operator.decide.commanding import Stage
from sparkstate_operator.decide.draft import POLL_S
from sparkstate_operator.decide.snapshot_draft import SnapshotDraft


@dataclass(frozen=True)
class _Deletion:
    """A command that is there. ``begun``: when it was first wanted; ``deadline``: when the snapshot goes, whatever the
    command has done."""

    command: observed.Command
    stage: Stage
    begun: datetime
    deadline: datetime


Step = Callable[[SnapshotDraft, _Deletion], None]


def has_deleted(draft: SnapshotDraft, verb: str, arguments: tuple[str, ...], deadline: datetime) -> bool:
    """Whether the command of that verb has succeeded; until then, do what brings that nearer."""
    begun = clock.parse(draft.status.get("deletionStartedTime")) or draft.seen.now
    command = draft.command(verb)
    stage = commanding.stage(command, begun, draft.seen.now)
    draft.wait_s = commanding.look_s(command, stage)
    if command is None:
        draft.create_command(verb, *arguments, since=begun)
        return False
    one = _Deletion(command, stage, begun, deadline)
    step = precedence.first(COMMANDED, draft, one) or _watch
    step(draft, one)
    return one.stage is Stage.DONE


# -- which step, in this order -----------------------------------------------------------------------------------------


def _has_succeeded(_: SnapshotDraft, one: _Deletion) -> Step | None:
    """First: what an earlier pod of it said counts no more."""
    return _tell if one.stage is Stage.DONE else None


def _is_due(_: SnapshotDraft, one: _Deletion) -> Step | None:
    """Before it is told that it failed, which was told when it did."""
    return _make_anew if one.stage is Stage.DUE else None


def _has_failed(_: SnapshotDraft, one: _Deletion) -> Step | None:
    """It is tried again after a pause."""
    return _pause if one.stage is Stage.PAUSES else None


def _will_fail(_: SnapshotDraft, one: _Deletion) -> Step | None:
    """Last. It has not failed yet, because its pod cannot start, or because Kubernetes still makes another pod
    or two (backoffLimit)."""
    return _complain if commanding.hindrance(one.command) else None


COMMANDED = (_has_succeeded, _is_due, _has_failed, _will_fail)
"""None of them: it runs."""


# -- the steps ---------------------------------------------------------------------------------------------------------


def _tell(draft: SnapshotDraft, one: _Deletion) -> None:
    deleted = one.command.result.get("deleted")
    told = ", ".join(map(str, deleted)) if isinstance(deleted, list) else str(draft.status.get("uri"))
    draft.note("DataDeleted", f"deleted: {told or 'nothing, because there was no data'}")


def _make_anew(draft: SnapshotDraft, one: _Deletion) -> None:
    draft.acts.append(actions.DeleteCommand(one.command))


def _pause(draft: SnapshotDraft, one: _Deletion) -> None:
    _complain(draft, one)
    again = min(commanding.again_at(one.command, one.begun), one.deadline)
    draft.wait_s = max(POLL_S, (again - draft.seen.now).total_seconds())


def _complain(draft: SnapshotDraft, one: _Deletion) -> None:
    why = commanding.hindrance(one.command)
    draft.put("message", f"the data could not be deleted ({why}); the operator tries again")


def _watch(draft: SnapshotDraft, one: _Deletion) -> None:
    """Nothing is decided until it has ended. It says how far it is, and where it says nothing, the words of a pod that
    is gone count no more."""
    before = draft.status.get("message")
    told = progress.of_command(one.command, before)
    if told or progress.is_of_command(before):
        draft.put("message", told)
