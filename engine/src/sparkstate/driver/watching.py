"""The watches over the slots and over the clock: a slot that is gone ends an incarnation from outside its epochs, and
so does a clock that was set back."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.driver.view import JobView
from sparkstate.slots.group import SlotGroup

_WATCH_S = 1.0
_FIRST_S = 0.1
"""Until the slots' first answers are shown."""
_SILENT_S = 30.0
"""A slot that gives no sign of life for so long hangs. To give one it takes no lock that a commit holds: a slow commit
counted as a lost slot."""
_SET_BACK_S = 10.0
"""A clock that was set back by less is as late again before another query could begin."""


class Loss:
    """The first failure that was noted before the incarnation was ``over``. Thread-safe."""

    def __init__(self, over: threading.Event) -> None:
        self._over = over
        self.error: errors.SparkstateError | None = None
        """None while nothing is lost."""

    def note(self, error: errors.SparkstateError) -> None:
        """Something is lost."""
        if not self._over.is_set():
            self.error = self.error or error


def watch(group: SlotGroup, view: JobView, over: threading.Event, loss: Loss) -> None:
    """Until ``over``, ask the slots how they are, so that the driver notices a dead one even when no rows come."""
    while not over.wait(_WATCH_S if view.status().slots else _FIRST_S):
        try:
            replies = group.status(_SILENT_S)
        except errors.SlotLost as error:
            loss.note(error)
            return
        except errors.UserCodeError as error:  # of a function that was told of a checkpoint's end
            loss.note(error)
            return
        except errors.SparkstateError:
            continue
        view.note_slots(group.addresses, replies)


@dataclass(frozen=True)
class _LeadSpan:
    """By how much the wall clock is ahead of the monotonic one. They are read one after the other, and the process may
    sleep in between: the true value lies within these two."""

    least_s: float
    most_s: float


class WallClock:
    """Sees when the wall clock is set back. ``clock``: its ``monotonic`` counts the time that the machine sleeps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lead = self._look()

    def set_back_s(self) -> float:
        """By how many seconds since the last call, at least; 0 or less where it was not."""
        before, self._lead = self._lead, self._look()
        return before.least_s - self._lead.most_s

    def _look(self) -> _LeadSpan:
        began_s = self._clock.monotonic()
        wall_s = self._clock.now_ms() / 1000
        return _LeadSpan(least_s=wall_s - self._clock.monotonic(), most_s=wall_s - began_s)


def watch_clock(wall_clock: WallClock, over: threading.Event, loss: Loss) -> None:
    """Until ``over``, look whether the clock was set back.

    Spark paces a query by the wall clock. The heartbeat's source has nothing new before the largest time that it has
    seen, and a trigger waits for its next time. So a query would begin nothing for as long as the step, and savepoints,
    timers and a stop would wait for it. A new query begins with the time that it finds.
    """
    while not over.wait(_WATCH_S):
        seconds = wall_clock.set_back_s()
        if seconds >= _SET_BACK_S:
            loss.note(errors.ClockStep(_told(seconds)))
            return


def _told(seconds: float) -> str:
    return (
        f"the clock of the driver's machine was set back by {seconds:,.0f} s, and Spark would begin nothing for as "
        "long. The job goes on from its last checkpoint with a new query; let the machine's time service slew the "
        "clock, not set it"
    )
