"""The watches over the slots and over the clock: a slot that is gone ends an incarnation from outside its epochs, and
so does a clock that was set back."""

from __future__ import annotations

import threading

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
"""A clock that was set back by less is soon as late again: another query would take as long to begin."""


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


class WallClock:
    """Sees when the wall clock of ``clock`` is set back, in one step or in several."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest_ms = clock.now_ms()

    def set_back_s(self) -> float:
        """Seconds until it is as late as it has been; 0 where it never was later than now."""
        now_ms = self._clock.now_ms()
        self._latest_ms = max(self._latest_ms, now_ms)
        return (self._latest_ms - now_ms) / 1000


def watch_clock(wall_clock: WallClock, over: threading.Event, loss: Loss) -> None:
    """Until ``over``, look whether the clock was set back.

    Spark paces a query by the wall clock. The heartbeat's source has nothing new before the largest time that it has
    seen, and a trigger waits for its next time. So a query would begin nothing for as long as the step, and savepoints,
    timers and a stop would wait for it. A new query begins with the time that it finds.
    """
    while not over.wait(_WATCH_S):
        seconds = wall_clock.set_back_s()
        if seconds > _SET_BACK_S - _WATCH_S:  # which may have passed since the step
            loss.note(errors.ClockStep(_told(seconds)))
            return


def _told(seconds: float) -> str:
    return (
        f"the clock of the driver's machine was set back by {seconds:,.0f} s, and Spark would begin nothing for as "
        "long. The job goes on from its last checkpoint with a new query; let the machine's time service slew the "
        "clock, not set it"
    )
