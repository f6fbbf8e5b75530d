"""The turns of epochs: the records of an epoch see the state that every earlier epoch has left."""

from __future__ import annotations

import threading


class Turns:
    """The order of epochs in one slot.

    The driver says which epoch the rows follow. A slot cannot know: an epoch of which it gets no rows changes its state
    too, by the timers that become due.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._committed = -1

    def behind(self, epoch: int) -> Turn:
        """The turn of the rows that follow this epoch, to be waited for; -1: they follow none."""
        return Turn(self, epoch)

    def has_come(self, behind: int) -> bool:
        """Whether that epoch is committed."""
        return behind <= self._committed

    def wait_for(self, behind: int) -> None:
        """Until it is."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_come(behind))

    def any_committed(self) -> bool:
        """Whether an epoch was committed since this slot began."""
        return self._committed >= 0

    def committed(self, epoch: int) -> None:
        """This epoch is state: the turn of the rows that follow it begins."""
        with self._changed:
            self._committed = max(self._committed, epoch)
            self._changed.notify_all()


class Turn:
    """The turn of the rows that follow one epoch."""

    def __init__(self, turns: Turns, behind: int) -> None:
        self._turns = turns
        self._behind = behind

    def has_come(self) -> bool:
        """Whether they may be processed."""
        return self._turns.has_come(self._behind)

    def wait(self) -> None:
        """Until they may."""
        self._turns.wait_for(self._behind)
