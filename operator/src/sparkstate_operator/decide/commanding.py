"""Engine commands that are repeated until they succeed: a failed one is made again after a pause that doubles.

Pure and without a memory of its own. The pause doubles because it is as long as all the tries so far have taken.
"""

from __future__ import annotations

import enum
from datetime import datetime, timedelta

from sparkstate_operator.observed import Task

RETRY_S = 30.0
LONGEST_RETRY_S = 3600.0
RUNS_S = 15.0
"""A running command is looked at this often. Seldom, because its end is an event of the watches, and thousands of
commands may wait for a node."""


class Stage(enum.Enum):
    """Where a command stands."""

    MISSING = "missing"
    RUNS = "runs"
    DONE = "done"
    PAUSES = "pauses"
    """It has failed, and the time to try again has not come."""
    DUE = "due"
    """It has failed and has to be removed, so that the next look makes it again."""


def stage(task: Task | None, since: datetime, now: datetime) -> Stage:
    """``since``: when it was first wanted."""
    if task is None:
        return Stage.MISSING
    if task.succeeded:
        return Stage.DONE
    if not task.failed:
        return Stage.RUNS
    return Stage.DUE if now >= again_at(task, since) else Stage.PAUSES


def again_at(task: Task, since: datetime) -> datetime:
    """When a failed command is tried again."""
    ended = task.ended_at or since
    tried_s = (ended - since).total_seconds()
    return ended + timedelta(seconds=min(max(tried_s, RETRY_S), LONGEST_RETRY_S))


def why(task: Task) -> str:
    """The message of a failed command."""
    return str(task.result.get("message") or "its pod left no message")
