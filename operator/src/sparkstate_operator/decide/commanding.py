"""Engine commands that are repeated until they succeed: a failed one is made again after a pause that doubles.

Pure and without a memory of its own. The pause doubles because it is as long as all the tries so far have taken. One
that Kubernetes stopped at its time limit is made again soon, and its limit is as long as all the tries so far.
"""

from __future__ import annotations

import enum
from datetime import datetime, timedelta

from sparkstate_operator.decide import troubles
from sparkstate_operator.decide.draft import POLL_S
from sparkstate_operator.observed import Command

RETRY_S = 30.0
LONGEST_RETRY_S = 3600.0
RUNS_S = 15.0
"""A running command is looked at this often. Seldom, because its end is an event of the watches, and thousands of
commands may wait for a node."""
LIMIT_S = 600.0
"""Kubernetes stops a command after this time, counted from its creation: without a limit, one that hangs would keep the
next from being tried."""
LONGEST_LIMIT_S = 86_400.0


class Stage(enum.Enum):
    """Where a command stands."""

    MISSING = "missing"
    RUNS = "runs"
    DONE = "done"
    PAUSES = "pauses"
    """It has failed, and the time to try again has not come."""
    DUE = "due"
    """It has failed and has to be removed, so that the next look makes it again."""


def stage(command: Command | None, since: datetime, now: datetime) -> Stage:
    """``since``: when it was first wanted."""
    if command is None:
        return Stage.MISSING
    if command.succeeded:
        return Stage.DONE
    if not command.failed:
        return Stage.RUNS
    return Stage.DUE if now >= again_at(command, since) else Stage.PAUSES


def look_s(command: Command | None, at: Stage) -> float:
    """When a command that tells its progress is looked at again: soon while its pod runs, because no event says that it
    has come further."""
    begun = command is not None and command.pod is not None and command.pod.phase == "Running"
    return RUNS_S if at is Stage.RUNS and not begun else POLL_S


def again_at(command: Command, since: datetime) -> datetime:
    """When a failed command is tried again."""
    ended = command.ended_at or since
    if command.cut_off_s is not None:
        return ended + timedelta(seconds=RETRY_S)
    tried_s = (ended - since).total_seconds()
    return ended + timedelta(seconds=min(max(tried_s, RETRY_S), LONGEST_RETRY_S))


def limit_s(tried_s: float) -> int:
    """The time limit of a command that is made now, ``tried_s`` after it was first wanted. It grows with that time: a
    check of a savepoint begins anew with each try, so under one limit for all of them a large savepoint could
    never be registered."""
    return int(min(max(tried_s, LIMIT_S), LONGEST_LIMIT_S))


def why(command: Command) -> str:
    """The message of a failed command."""
    if command.result.get("message"):
        return str(command.result["message"])
    if command.refusal:
        return f"it had no pod: {command.refusal}"
    if command.cut_off_s is not None:
        return f"it had not ended after {command.cut_off_s} s; the next try is given more time"
    return "its pod left no message"


def trouble(command: Command | None) -> troubles.Trouble | None:
    """The cause that keeps a command from starting, for ``Degraded``; None if nothing does. Kubernetes goes on trying
    by itself, and so the command has not failed: without this nobody would learn what it waits for."""
    if command is not None and command.refusal:
        return "NoPod", f"the Job {command.name} has no pod: {command.refusal}"
    found = troubles.of_command(command.pod) if command is not None and command.pod is not None else None
    if command is None or found is None:
        return None
    reason, message = found
    return reason, f"the pod of the Job {command.name} cannot start: {message}"


def hindrance(command: Command | None) -> str:
    """Why a command is not done yet; empty if nothing is known that hinders it."""
    if command is not None and (command.failed or command.result.get("ok") is False):
        return why(command)
    found = trouble(command)
    return found[1] if found is not None else ""
