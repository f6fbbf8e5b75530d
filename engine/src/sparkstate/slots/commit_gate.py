"""The order of commits, of the beginnings of snapshots, and of looks at the stores."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator

from sparkstate import clock


class CommitGate:
    """Held by one at a time: a commit, the acceptance of a snapshot, a look at the stores.
    Feeding and finishing go on beside it.

    A commit waits until the snapshots that were accepted before it are prepared, as ``all_prepared`` says: that wait is
    the pause of a checkpoint.
    """

    def __init__(self, all_prepared: Callable[[], bool], clock_: clock.Clock) -> None:
        self._condition = threading.Condition()
        self._all_prepared = all_prepared
        self._clock = clock_
        self._postponed: deque[Callable[[], None]] = deque()

    @contextlib.contextmanager
    def commit(self) -> Iterator[float]:
        """Held by a commit, once all snapshots are prepared and what was postponed is done. Gives the milliseconds that
        it has waited for the snapshots."""
        started = self._clock.monotonic()
        with self._condition:
            self._condition.wait_for(self._all_prepared)
            waited_ms = (self._clock.monotonic() - started) * 1000
            self._do_postponed()
            yield waited_ms

    @contextlib.contextmanager
    def between_commits(self) -> Iterator[None]:
        """Held while a snapshot is accepted: it sees the state of the last commit, and what was postponed is done."""
        with self._condition:
            self._do_postponed()
            yield

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No commit runs meanwhile."""
        with self._condition:
            yield

    @contextlib.contextmanager
    def held_within(self, timeout_s: float) -> Iterator[bool]:
        """As :meth:`held`; False, and not held, where that takes longer than ``timeout_s``."""
        is_held = self._condition.acquire(timeout=timeout_s)
        try:
            yield is_held
        finally:
            if is_held:
                self._condition.release()

    def when_free(self, action: Callable[[], None]) -> None:
        """Do it now, unless a commit is at work: then before the next one."""
        self._postponed.append(action)
        if self._condition.acquire(blocking=False):
            try:
                self._do_postponed()
            finally:
                self._condition.release()

    def look_again(self) -> None:
        """A snapshot is prepared: a commit that waits for it may go on."""
        with self._condition:
            self._condition.notify_all()

    def _do_postponed(self) -> None:
        while self._postponed:
            self._postponed.popleft()()
