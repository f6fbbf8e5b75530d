"""The watch over the slots: one that is gone ends an incarnation from outside its epochs."""

from __future__ import annotations

import threading

from sparkstate import errors
from sparkstate.driver.view import JobView
from sparkstate.slots.group import SlotGroup

_WATCH_S = 1.0
_FIRST_S = 0.1
"""Until the slots' first answers are shown."""
_SILENT_S = 30.0
"""A slot that gives no sign of life for so long hangs. To give one it takes no lock that a commit holds: a slow commit
counted as a lost slot."""


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
