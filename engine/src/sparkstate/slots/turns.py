"""The turns of epochs: the records of an epoch see the state that every earlier epoch has left."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Turns:
    """The order of epochs in one slot. ``came``: the epochs of which something came here and is not forgotten."""

    def __init__(self, came: Callable[[], set[int]]) -> None:
        self._came = came
        self._changed = threading.Condition()
        self._committed = -1

    def of(self, epoch: int) -> Turn:
        """The turn of this epoch, to be waited for."""
        return Turn(self, epoch)

    def has_come(self, epoch: int) -> bool:
        """Whether every earlier epoch that was fed is committed."""
        return not any(self._committed < earlier < epoch for earlier in self._came())

    def wait_for(self, epoch: int) -> None:
        """Until its turn has come."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_come(epoch))

    def any_committed(self) -> bool:
        """Whether an epoch was committed since this slot began."""
        return self._committed >= 0

    def committed(self, epoch: int) -> None:
        """This epoch is state: the next one's turn begins."""
        with self._changed:
            self._committed = max(self._committed, epoch)
            self._changed.notify_all()


class Turn:
    """The turn of one epoch."""

    def __init__(self, turns: Turns, epoch: int) -> None:
        self._turns = turns
        self._epoch = epoch

    def has_come(self) -> bool:
        """Whether records of the epoch may be processed."""
        return self._turns.has_come(self._epoch)

    def wait(self) -> None:
        """Until they may."""
        self._turns.wait_for(self._epoch)
