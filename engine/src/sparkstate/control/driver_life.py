"""The life of a driver: every transition of its phase, who causes it, and why. A part of the driver says what has
happened (``JobView.happened``), and the row gives the phase.

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
    """Something that happens to a driver. A part of the driver names it, and the phase follows from it."""

    who: str
    when: str
    """The event, in words for people; the diagram in docs/operator.md has them on its arrow."""
    to: DriverPhase
    """The phase that follows."""
    ends: frozenset[DriverPhase]
    """The phases that it ends. A driver that is in ``to`` already stays there."""
    keeps: frozenset[DriverPhase] = frozenset()
    """Phases that go on in spite of it, because they say more than ``to`` does."""

    def after(self, before: DriverPhase) -> DriverPhase:
        """The phase that it leads to from ``before``, also off the table."""
        return before if before in self.keeps else self.to

    def is_known(self, before: DriverPhase) -> bool:
        """Whether the table has it from ``before``."""
        return before is self.to or before in self.ends | self.keeps


def _of(*phases: DriverPhase) -> frozenset[DriverPhase]:
    return frozenset(phases)


BEGIN: Final = DriverPhase.STARTING
ALIVE: Final = (
    DriverPhase.STARTING, DriverPhase.RESTORING, DriverPhase.RUNNING,
    DriverPhase.PAUSED, DriverPhase.RECOVERING, DriverPhase.STOPPING,
)  # fmt: skip

RESTORES: Final = Transition(
    # Also from PAUSED: the storage was away when the driver was to claim the state.
    "driver",
    "an incarnation begins",
    DriverPhase.RESTORING,
    _of(DriverPhase.STARTING, DriverPhase.PAUSED, DriverPhase.RECOVERING),
)
FILLED: Final = Transition(
    # From PAUSED: the thread of the epochs waits for a storage already, and says so again while it does.
    "driver",
    "the slots hold their state",
    DriverPhase.RUNNING,
    _of(DriverPhase.RESTORING, DriverPhase.PAUSED),
)
STORAGE_AWAY: Final = Transition(
    # Claiming, before an epoch's steps, and where output that is held back has reached its limit. The thread of
    # the epochs may come to it before the driver's own has said that it runs, and in the last epoch of all.
    "storage",
    "a storage does not answer, and the job waits for it",
    DriverPhase.PAUSED,
    _of(DriverPhase.STARTING, DriverPhase.RESTORING, DriverPhase.RUNNING, DriverPhase.STOPPING),
)
STORAGE_ANSWERS: Final = Transition(
    # The end may be asked for between the answer and the word of the thread that waited for it.
    "storage",
    "the storage answers again",
    DriverPhase.RUNNING,
    _of(DriverPhase.PAUSED),
    keeps=_of(DriverPhase.STOPPING),
)
STOPS: Final = Transition(
    # From PAUSED: the storage for which the job waits need not come any more.
    "user",
    "the job is asked to end, or to stop with a savepoint, or its input ends",
    DriverPhase.STOPPING,
    _of(DriverPhase.RUNNING, DriverPhase.PAUSED),
)
NOT_STOPPED: Final = Transition(
    # Whoever asked hears why it did not stop.
    "driver",
    "the savepoint to stop with has failed",
    DriverPhase.RUNNING,
    _of(DriverPhase.STOPPING),
)
RECOVERS: Final = Transition(
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
)
FINISHES: Final = Transition(
    # From RUNNING: the storage was away for a while in the last epoch, and came back. From the others: the end was
    # asked for when there was nothing to stop yet.
    "driver",
    "the input has been processed, or the job was asked to end",
    DriverPhase.FINISHED,
    frozenset(ALIVE),
)
FAILS: Final = Transition(
    "driver",
    "something failed that another try would not change, or no other try is allowed",
    DriverPhase.FAILED,
    frozenset(ALIVE),
)

TABLE: Final = (
    RESTORES, FILLED, STORAGE_AWAY, STORAGE_ANSWERS, STOPS, NOT_STOPPED, RECOVERS, FINISHES, FAILS,
)  # fmt: skip


def told(before: DriverPhase, happened: Transition) -> str:
    """The words for the log about a transition that the table does not have. Raises LookupError if
    :data:`STRICT` is set."""
    why = f"phase {before} -> {happened.to} is in no table of transitions"
    if STRICT:
        raise LookupError(why)
    return f"{why}. This is a bug; please report it"
