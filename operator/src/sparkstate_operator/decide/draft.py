"""A decision in the making: the next status and the acts, on the basis of one look."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.core import conditions, shortening, transitions
from sparkstate_operator.plan import Revision

TERMINAL = ("Finished", "Failed", "RestoreBlocked")
"""Phases that only a change of the spec ends, or a time of ``trigger.schedule``."""
IDLE = (*TERMINAL, "Suspended")
"""Phases in which no attempt is meant to run."""
POLL_S = 2.0
"""The operator looks this often at an act under way. Only its driver knows the state of a savepoint, and no watch shows
a driver's answer. Acts that thousands of objects may wait for at once have a longer time (``commanding.RUNS_S``)."""


class Pending:
    """Gathers the next status, acts and notes of a decision. It lives within one call of ``decide``, and never changes
    the status that it started from."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.status: dict[str, Any] = copy.deepcopy(dict(status))
        self.before: list[actions.Action] = []
        self.acts: list[actions.Action] = []
        self.notes: list[actions.Note] = []
        self.steps: list[transitions.Step] = []
        self.check: actions.StartAttempt | None = None
        self.wait_s: float | None = None

    @property
    def phase(self) -> str:
        """Where the object stands; empty before the first look."""
        return str(self.status.get("phase") or "")

    def happened(self, cause: transitions.Cause) -> None:
        """Set the phase to which the table says that this cause leads. Nothing else may set a phase."""
        step = transitions.step(self.phase, cause)
        self.steps.append(step)
        self.status["phase"] = step.after

    def put(self, name: str, value: Any) -> None:
        """Set a field of the status; None and empty text remove it. A message is shortened: a driver's failure may be
        of any length, and the API server would refuse the whole status."""
        if value is None or value == "":
            self.status.pop(name, None)
        elif name == "message":
            self.status[name] = shortening.shortened(value, conditions.LONGEST_MESSAGE)
        else:
            self.status[name] = value

    def note(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an Event."""
        self.notes.append(actions.Note(reason, message, warning))

    def wait(self, seconds: float) -> None:
        """Look again after this time at the latest."""
        self.wait_s = seconds if self.wait_s is None else min(self.wait_s, seconds)

    def decision(self, status: Mapping[str, Any]) -> actions.Decision:
        """All of it, frozen."""
        return actions.Decision(
            status=status,
            before=tuple(self.before),
            actions=tuple(self.acts),
            notes=tuple(self.notes),
            wait_s=self.wait_s,
            check=self.check,
            steps=tuple(self.steps),
        )


class Draft(Pending):
    """A decision about a job."""

    def __init__(
        self,
        seen: observed.ObservedState,
        revisions: Mapping[str, Revision],
        wanted: Revision | None,
    ) -> None:
        super().__init__(seen.job.status)
        self.seen = seen
        self.revisions = revisions
        self.wanted = wanted
        """The revision that the spec comes to now; None if it cannot run. Steps replace it by the one that counts."""
        self.newest = wanted
        """The same, whatever counts."""
        self.degraded: tuple[str, str] | None = None
        self.invalid = ""
        self.accepted = True
        """Whether the newest spec counts. One that cannot run, or cannot be kept, starts nothing."""
        self.exhausted = ""
        """Why the restart strategy did not allow the restart that the kubelet has just made; empty if it did."""
        self.work = ""
        """How far a command is that the decision waits for."""

    @property
    def now(self) -> datetime:
        return self.seen.now

    @property
    def job(self) -> observed.Job:
        """The job with the status as it is by now."""
        return replace(self.seen.job, status=self.status)

    @property
    def is_asked_to_rest(self) -> bool:
        """Whether the newest spec suspends the job, whether or not it counts."""
        return bool(self.seen.job.spec.get("state") == "suspended")

    @property
    def attempt(self) -> int:
        """The newest attempt's number; 0 before the first."""
        return int(self.status.get("attempt") or 0)

    @property
    def intent(self) -> dict[str, Any]:
        """The act under way; empty if there is none."""
        found: dict[str, Any] = self.status.get("intent") or {}
        return found

    @property
    def revision(self) -> Revision | None:
        """The revision that runs, or is to."""
        return self.revisions.get(str(self.status.get("revision") or ""))

    @property
    def aim(self) -> Revision | None:
        """The revision that the act under way leads to; the one that runs, if the act names none or it is lost."""
        return self.revisions.get(str(self.intent.get("revision") or ""), self.revision)

    @property
    def pod(self) -> observed.Pod | None:
        """The driver pod of the newest attempt."""
        return next((pod for pod in self.seen.drivers if pod.attempt == self.attempt), None)

    @property
    def start(self) -> actions.Start:
        """The start instruction of the newest attempt."""
        return actions.Start.of(self.status.get("start"))

    def say(self, message: str) -> None:
        """The status' sentence for people; empty removes it."""
        self.put("message", message)

    def wait_until(self, moment: datetime) -> None:
        """Look again at this time at the latest."""
        self.wait(max(0.2, (moment - self.now).total_seconds()))

    def begin(self, action: str, **fields: Any) -> None:
        """Write the intent of an act. The next look decides what follows from it."""
        given = {name: value for name, value in fields.items() if value is not None}
        self.status["intent"] = {"action": action, "since": clock.text(self.now), **given}
        self.wait(0.0)

    def end_act(self) -> None:
        """The act under way is done, or given up."""
        self.status.pop("intent", None)

    def since(self) -> float:
        """Seconds since the intent was written."""
        begun = clock.parse(self.intent.get("since"))
        return (self.now - begun).total_seconds() if begun else 0.0

    def later(self, seconds: float) -> str:
        """The time this many seconds from now, as the status writes it: in whole seconds, and so rounded up, because a
        fence must not end early."""
        return clock.text(self.now + timedelta(seconds=seconds + 0.999))
