"""The life of a job: every transition of its phase, who causes it, and why.

Several transitions may follow one another within one look. The status then shows only the last phase: a new job appears
as ``Starting``, after it was ``Pending`` for no time at all.
"""

from __future__ import annotations

from typing import Final

from sparkstate_operator.core.transitions import NEW, Actor, Cause
from sparkstate_operator.model.status import JobPhase


def _of(*phases: JobPhase) -> frozenset[str]:
    return frozenset(phases)


ATTEMPT: Final[tuple[JobPhase, ...]] = ("Starting", "Running", "Failing")
"""Phases in which an attempt lives, or is followed by the next one."""
_UNTIL_STOPPED: Final = _of("Upgrading", "Suspending")
_OVER: Final = _of("RestoreBlocked", "Failed", "Finished")
_STALE: Final = _of("Pending") | _UNTIL_STOPPED
"""See :attr:`Cause.stale`: in these phases nobody asks what became of an attempt, unless the status is older."""

# -- it begins ---------------------------------------------------------------------------------------------------------

CREATED = Cause(Actor.USER, "the job is created", "Pending", frozenset({NEW}))
TRACED = Cause(
    # The attempt that left the trace may run, or have ended long ago: the next look tells.
    Actor.OPERATOR,
    "its status was lost, and an attempt has left a trace",
    "Starting",
    frozenset({NEW}),
)
RECOVER = "recover"
"""The intent's action while the engine is asked what the storage holds."""
CHECK = "check"
"""The intent's action while a new version is asked whether it takes up the state, and the command that asks it. The job
runs on, so no phase changes."""
ASKED_STORAGE = Cause(
    # Nothing may start before the storage has answered, so it is as if nobody had judged the job yet.
    Actor.OPERATOR,
    "its status was lost, and no driver is left to ask",
    "Pending",
    frozenset({NEW}),
    keeps=_of("Starting"),
)
WORKED_THROUGH = Cause(
    # A finished job must not start again because its status was wiped. It is RestoreBlocked if the storage held no
    # state when it was first asked, and the state that the spec starts from was missing as well.
    Actor.OPERATOR,
    "the storage says that all of the input has been processed",
    "Finished",
    _of("Pending", "Starting", "RestoreBlocked"),
)

STORAGE_ANSWERED = Cause(
    # The job waited for the state that the spec starts from. That exists now, or the storage has state to go on from.
    Actor.OPERATOR,
    "the storage has answered, and nothing is missing any more",
    "Pending",
    _of("RestoreBlocked"),
)

# -- an attempt --------------------------------------------------------------------------------------------------------

BEGUN = Cause(
    # A new attempt after a failure, or in an upgrade, keeps the phase that says why there is one.
    Actor.OPERATOR,
    "an attempt gets its number",
    "Starting",
    _of("Pending", "Running", "Suspending", "Suspended") | _OVER,
    keeps=_of("Upgrading", "Failing"),
)
MADE = Cause(Actor.OPERATOR, "the driver's pod is created", "Starting", _of("Upgrading", "Failing"))
PREPARES = Cause(
    # A driver that recovers restores first: until it runs again the job is failing.
    Actor.DRIVER,
    "the driver does not run yet",
    "Starting",
    _of("Running"),
    stale=_STALE - _of("Upgrading"),
    keeps=_of("Upgrading", "Failing"),
)
WAITS = Cause(
    # A container that waits (for its image, or after a crash) runs no driver whose word could count.
    Actor.KUBERNETES,
    "the driver's container waits",
    "Starting",
    _of("Running", "Failing"),
    stale=_STALE,
)
RUNS = Cause(Actor.DRIVER, "the driver runs", "Running", _of("Starting", "Failing"), stale=_STALE)

# -- it ends, and another follows --------------------------------------------------------------------------------------

RECOVERS = Cause(
    Actor.DRIVER,
    "the driver goes back to its last checkpoint",
    "Failing",
    _of("Starting", "Running"),
    stale=_STALE,
)
TAKEN_AWAY = Cause(
    Actor.KUBERNETES, "the driver's pod is being deleted", "Failing", _of("Starting", "Running"), stale=_STALE
)
AGAIN = Cause(
    Actor.OPERATOR,
    "the attempt has ended or is gone, and another one follows",
    "Failing",
    _of("Starting", "Running"),
    stale=_STALE,
)

# -- it ends, until its user changes the spec --------------------------------------------------------------------------

FINISHED = Cause(Actor.DRIVER, "all of the input has been processed", "Finished", _of(*ATTEMPT), stale=_STALE)
NOT_RESTORED = Cause(
    # The job never starts empty instead: only its user may give state up.
    Actor.DRIVER,
    "the state to restore from is missing, or does not fit",
    "RestoreBlocked",
    _of(*ATTEMPT),
    stale=_STALE,
)
GIVEN_UP = Cause(
    Actor.OPERATOR,
    "another attempt would end the same way, or no more attempts are allowed",
    "Failed",
    _of(*ATTEMPT),
    stale=_STALE,
)
NOT_THERE = Cause(
    # Only if no attempt is meant to run. One that is goes on, or is replaced by one of its own revision, and the
    # condition Degraded says what is missing.
    Actor.USER,
    "the spec starts from a StateSnapshot that is not Completed",
    "RestoreBlocked",
    _of("Pending", "Suspended", "Failed", "Finished"),
)

# -- its user wants something else -------------------------------------------------------------------------------------

CHANGED = Cause(
    Actor.USER,
    "the spec changes in a way that needs another attempt",
    "Upgrading",
    _of(*ATTEMPT),
    stale=_STALE - _of("Upgrading"),
)
SUSPENDED = Cause(
    Actor.USER,
    "state is suspended",
    "Suspending",
    _of(*ATTEMPT, "Upgrading", "RestoreBlocked", "Failed"),
    stale=_STALE - _UNTIL_STOPPED,
)
STOPPED = Cause(
    Actor.OPERATOR,
    "the driver has ended, and its state is kept",
    "Suspended",
    _of("Suspending"),
)
NOTHING_TO_STOP = Cause(
    # Not from Finished: there is nothing to resume.
    Actor.USER,
    "state is suspended, and nothing runs",
    "Suspended",
    _of("Pending", "RestoreBlocked", "Failed"),
)
DELETED = Cause(
    Actor.USER,
    "the job is deleted",
    "Deleting",
    frozenset({NEW}) | _of("Pending", *ATTEMPT, "Suspended") | _UNTIL_STOPPED | _OVER,
)

TABLE: Final = (
    CREATED, TRACED, ASKED_STORAGE, STORAGE_ANSWERED, WORKED_THROUGH, BEGUN, MADE, PREPARES, WAITS, RUNS, RECOVERS,
    TAKEN_AWAY, AGAIN, FINISHED, NOT_RESTORED, GIVEN_UP, NOT_THERE, CHANGED, SUSPENDED, STOPPED, NOTHING_TO_STOP,
    DELETED,
)  # fmt: skip
