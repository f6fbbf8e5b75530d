"""The overlays and batches of the attempts that came to a slot, by epoch and operator, until they are state and their
output was read.

The lock here is held for moments only. Neither the opening of an attempt nor the release of an output may wait for user
code (RFC 0007): a task that may begin only between two batches of the epoch before brings nothing meanwhile, and the
driver, which waits for the release, begins no further epoch. Nothing is closed under it either: an attempt that is
given up has a lock of its own, under which it writes to disk.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from sparkstate import disposal, errors
from sparkstate.operators.base import EpochOverlay
from sparkstate.slots.incoming import Incoming

_Made = tuple[EpochOverlay, Incoming]
_Closing = list[Callable[[], None]]
"""Calls that are still to be made, once the lock is free."""


class _Epoch:
    """One epoch of one operator: overlays by attempt until it is finished, then the winner."""

    def __init__(self) -> None:
        self.by_attempt: dict[int, EpochOverlay] = {}
        self.incoming: dict[int, Incoming] = {}
        self.winner: EpochOverlay | None = None

    def give_up(self) -> _Closing:
        """Forget those that did not win, and what they have on disk."""
        return [close for attempt in list(self.incoming) for close in self.give_up_one(attempt)]

    def give_up_one(self, attempt: int) -> _Closing:
        """Forget this one, and what it has on disk."""
        told = errors.SlotLost("another attempt was taken")
        incoming, overlay = self.incoming.pop(attempt), self.by_attempt.pop(attempt)
        return [overlay.close, functools.partial(incoming.give_up, told)]

    def release(self) -> _Closing:
        """Forget the winner, and with it the output."""
        winner, self.winner = self.winner, None
        return [] if winner is None else [winner.close]


class Attempts:
    """All attempts of a slot; callable from any thread.

    Only the caller that runs the operators may give attempts up (``take``, ``set_winner``, ``give_up_before``,
    ``committed``): one that came too late may be at work.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[int, str], _Epoch] = {}

    def join(self, epoch: int, uid: str, attempt: int, make: Callable[[], _Made]) -> Incoming:
        """Where the batches of an attempt go. The first task that comes with it makes it; ``make`` must be quick."""
        with self._lock:
            its_epoch = self._known.setdefault((epoch, uid), _Epoch())
            if attempt not in its_epoch.incoming:
                its_epoch.by_attempt[attempt], its_epoch.incoming[attempt] = make()
            return its_epoch.incoming[attempt]

    def incoming(self, epoch: int, uid: str, attempt: int) -> Incoming | None:
        """The batches of that attempt, to be waited for; None if it never came."""
        with self._lock:
            its_epoch = self._known.get((epoch, uid))
            return None if its_epoch is None else its_epoch.incoming.get(attempt)

    def take(self, epoch: int, uid: str, attempt: int) -> EpochOverlay | None:
        """That attempt's overlay; the others are given up. None, and nothing happens, if it never came."""
        with self._lock:
            its_epoch = self._known.get((epoch, uid))
            if its_epoch is None or attempt not in its_epoch.by_attempt:
                return None
            overlay = its_epoch.by_attempt.pop(attempt)
            its_epoch.incoming.pop(attempt, None)
            closing = its_epoch.give_up()
        disposal.close_all(closing)
        return overlay

    def give_up_before(self, epoch: int, uid: str, attempt: int) -> None:
        """Attempts with a lower number are worth nothing, and forgotten."""
        closing: _Closing = []
        with self._lock:
            its_epoch = self._known.get((epoch, uid), _Epoch())
            for lower in [number for number in its_epoch.incoming if number < attempt]:
                closing += its_epoch.give_up_one(lower)
        disposal.close_all(closing)

    def set_winner(self, epoch: int, uid: str, overlay: EpochOverlay) -> None:
        """This overlay is the epoch's; the others are given up."""
        with self._lock:
            its_epoch = self._known.setdefault((epoch, uid), _Epoch())
            its_epoch.winner = overlay
            closing = its_epoch.give_up()
        disposal.close_all(closing)

    def winner(self, epoch: int, uid: str) -> EpochOverlay | None:
        """The finished overlay, until its release."""
        with self._lock:
            its_epoch = self._known.get((epoch, uid))
            return None if its_epoch is None else its_epoch.winner

    def committed(self, epoch: int) -> None:
        """Keep only the output of this epoch, and nothing of earlier ones."""
        closing: _Closing = []
        with self._lock:
            for key, its_epoch in list(self._known.items()):
                if key[0] <= epoch:
                    closing += its_epoch.give_up()
                if key[0] < epoch:
                    closing += self._known.pop(key).release()
                elif key[0] == epoch and its_epoch.winner is not None:
                    closing.append(its_epoch.winner.forget_state)
        disposal.close_all(closing)

    def release(self, epoch: int) -> None:
        """Nobody reads the output of this epoch and earlier ones, all committed, any more."""
        closing: _Closing = []
        with self._lock:
            for (each, _), its_epoch in self._known.items():
                if each <= epoch:
                    closing += its_epoch.release()
        disposal.close_all(closing)

    def drop(self) -> None:
        """All of them are worth nothing any more. A piece of work in one ends soon, and nothing is closed under it."""
        # A slot that finished a lost epoch before it stopped kept two of five restarts waiting for ten seconds.
        closing: _Closing = []
        with self._lock:
            for its_epoch in self._known.values():
                for overlay in its_epoch.by_attempt.values():
                    overlay.dropped = True
                for incoming in its_epoch.incoming.values():
                    closing.append(functools.partial(incoming.give_up, errors.SlotLost("the slot ends")))
        disposal.close_all(closing)
