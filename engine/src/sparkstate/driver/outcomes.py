"""How an incarnation ends when it does not fail, and what is told of the job's end."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from sparkstate.driver import termination_policy
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.log.records import SavepointCommitted


class End(enum.Enum):
    """The ways in which an incarnation ends without a failure."""

    INPUT_ENDED = "input-ended"
    SAVEPOINT = "savepoint"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"


_TOLD = {
    End.INPUT_ENDED: ("Finished", "the input has ended and all of it is committed"),
    End.SAVEPOINT: ("Suspended", "stopped with a savepoint"),
    End.CANCELLED: ("Cancelled", "stopped; the last checkpoint is kept"),
    End.TERMINATED: (termination_policy.REASON, termination_policy.SAVED),
}
"""Reason and message."""


@dataclass(frozen=True)
class Outcome:
    """How the job ended."""

    reason: str
    message: str
    savepoint: Mapping[str, object] | None = None
    """The savepoint that it was stopped with: ``location``, ``epoch``, ``trigger_id``. The operator would learn of it
    only if it asked this driver between the commit and its end."""


def of(end: End, view: JobView) -> Outcome:
    """Of a job whose last incarnation ended so."""
    return Outcome(*_TOLD[end], savepoint=_stopped_with(view) if end is End.SAVEPOINT else None)


def stopped(saved: SavepointCommitted) -> Outcome:
    """Of a job that the log calls stopped with this savepoint, although something failed at its end."""
    word = {"location": saved.url, "epoch": saved.epoch, "trigger_id": saved.trigger_id}
    return Outcome(*_TOLD[End.SAVEPOINT], savepoint=word)


def as_asked(requests: Requests) -> Outcome:
    """Of a job that was asked to end, and had no incarnation then."""
    return Outcome(*_TOLD[End.TERMINATED if requests.terminated.is_set() else End.CANCELLED])


def _stopped_with(view: JobView) -> Mapping[str, object] | None:
    saved = view.status().last_savepoint
    if saved is None:
        return None
    return {"location": saved.path, "epoch": saved.epoch, "trigger_id": saved.trigger_id}
