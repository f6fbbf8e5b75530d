"""The life of a StateSnapshot: every transition of its phase, who causes it, and why."""

from __future__ import annotations

from typing import Final

from sparkstate_operator.core.transitions import NEW, Actor, Cause
from sparkstate_operator.model.snapshot import SnapshotPhase


def _of(*phases: SnapshotPhase) -> frozenset[str]:
    return frozenset(phases)


CREATED = Cause(Actor.USER, "the snapshot is created, by hand or on schedule", "Pending", frozenset({NEW}))
CHANGED = Cause(
    # The new spec may mend what kept the engine from the data (credentials, a volume), so it looks once more.
    Actor.USER,
    "the spec of a snapshot that could not be registered changes",
    "Pending",
    _of("Failed"),
)
TRIGGERED = Cause(
    # Before the driver is asked, so that a repetition asks for the same savepoint.
    Actor.OPERATOR,
    "the trigger id is recorded",
    "Triggered",
    _of("Pending"),
)
TAKEN = Cause(Actor.DRIVER, "the driver takes the savepoint", "InProgress", _of("Triggered"))
COMPLETED = Cause(
    # Even from Failed, if the savepoint took longer than its timeout: the data exists and needs an owner.
    Actor.DRIVER,
    "the savepoint is complete",
    "Completed",
    _of("Triggered", "InProgress", "Failed"),
)
REGISTERED = Cause(Actor.OPERATOR, "the engine has read the savepoint at uri", "Completed", _of("Pending"))
TRIED_AGAIN = Cause(
    # Only where the driver says so: of a savepoint that was not complete in time nobody knows whether it exists.
    Actor.OPERATOR,
    "the savepoint failed, and backoffLimit allows another try",
    "Pending",
    _of("Triggered", "InProgress"),
)
NOT_TAKEN = Cause(
    Actor.OPERATOR,
    "the job was not ready in time, or the spec is wrong, or the savepoint at uri cannot be restored",
    "Failed",
    _of("Pending"),
)
FAILED = Cause(
    Actor.DRIVER,
    "the savepoint failed, or was not complete in time, or its job is gone",
    "Failed",
    _of("Triggered", "InProgress"),
)
DELETED = Cause(
    Actor.USER,
    "the snapshot is deleted, by hand or by retention",
    "Deleting",
    frozenset({NEW}) | _of("Pending", "Triggered", "InProgress", "Completed", "Failed"),
)

TABLE: Final = (
    CREATED, CHANGED, TRIGGERED, TAKEN, COMPLETED, REGISTERED, TRIED_AGAIN, NOT_TAKEN, FAILED, DELETED,
)  # fmt: skip
