"""The life of a driver: every transition of its phase, who causes it, and why.

The phase is a report for the page, the runner and the operator; nothing that the driver does by it could lose state. So
a transition that is not in the table is a mistake of ours, which is logged as an error, and the job goes on. Tests end
the job instead (:data:`STRICT`), in the drivers that they start as well.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from sparkstate.control.documents import DriverPhase

STRICT: Final = os.environ.get("SPARKSTATE_STRICT_LIVES") == "1"
"""Whether a transition that is not in the table is refused. For tests only."""


@dataclass(frozen=True)
class Transition:
    """``ends``: the phases that may go before ``to``. ``when``: what happens, for people."""

    who: str
    when: str
    to: DriverPhase
    ends: frozenset[DriverPhase]


def _of(*phases: DriverPhase) -> frozenset[DriverPhase]:
    return frozenset(phases)


BEGIN: Final = DriverPhase.STARTING
ALIVE: Final = (
    DriverPhase.STARTING, DriverPhase.RESTORING, DriverPhase.RUNNING,
    DriverPhase.PAUSED, DriverPhase.RECOVERING, DriverPhase.STOPPING,
)  # fmt: skip

TABLE: Final = (
    Transition(
        # Also from PAUSED: the storage was away when the driver was to claim the state.
        "driver",
        "an incarnation begins",
        DriverPhase.RESTORING,
        _of(DriverPhase.STARTING, DriverPhase.PAUSED, DriverPhase.RECOVERING),
    ),
    Transition("driver", "the slots hold their state", DriverPhase.RUNNING, _of(DriverPhase.RESTORING)),
    Transition(
        # Claiming, before an epoch's steps, and where output that is held back has reached its limit. The thread of
        # the epochs may come to it before the driver's own has said that it runs, and in the last epoch of all.
        "storage",
        "a storage does not answer, and the job waits for it",
        DriverPhase.PAUSED,
        _of(DriverPhase.STARTING, DriverPhase.RESTORING, DriverPhase.RUNNING, DriverPhase.STOPPING),
    ),
    Transition("storage", "the storage answers again", DriverPhase.RUNNING, _of(DriverPhase.PAUSED)),
    Transition(
        # From PAUSED: the storage for which the job waits need not come any more.
        "user",
        "the job is asked to end, or to stop with a savepoint, or its input ends",
        DriverPhase.STOPPING,
        _of(DriverPhase.RUNNING, DriverPhase.PAUSED),
    ),
    Transition(
        # Whoever asked hears why it did not stop.
        "driver",
        "the savepoint to stop with has failed",
        DriverPhase.RUNNING,
        _of(DriverPhase.STOPPING),
    ),
    Transition(
        "driver",
        "something failed, and the job goes back to its last checkpoint",
        DriverPhase.RECOVERING,
        _of(
            DriverPhase.STARTING,
            DriverPhase.RESTORING,
            DriverPhase.RUNNING,
            DriverPhase.PAUSED,
            DriverPhase.STOPPING,
        ),
    ),
    Transition(
        # From RUNNING: the storage was away for a while in the last epoch, and came back. From the others: the end was
        # asked for when there was nothing to stop yet.
        "driver",
        "the input has been processed, or the job was asked to end",
        DriverPhase.FINISHED,
        frozenset(ALIVE),
    ),
    Transition(
        "driver",
        "something failed that another try would not change, or no other try is allowed",
        DriverPhase.FAILED,
        frozenset(ALIVE),
    ),
)


def known(before: DriverPhase, after: DriverPhase) -> bool:
    """Whether the table has this transition. A driver that keeps its phase makes none."""
    return before is after or any(after is row.to and before in row.ends for row in TABLE)


def told(before: DriverPhase, after: DriverPhase) -> str:
    """The words for the log about a transition that the table does not have. Raises LookupError in tests
    (:data:`STRICT`)."""
    why = f"phase {before} -> {after} is in no table of transitions"
    if STRICT:
        raise LookupError(why)
    return f"{why}. This is a bug; please report it"
