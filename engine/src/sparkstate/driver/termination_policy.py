"""SIGTERM in a pod: a last checkpoint if it is worth its time, and the end before the kubelet's SIGKILL in any case.

A last checkpoint spares the next attempt the epochs since the newest one. Until it is complete nobody can go on, and
with much state it takes longer than those epochs did: then it is better to leave at once, as Flink's JobManager does.
``checkpoint.coordinator`` decides that; here is the time that the pod leaves for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from sparkstate.control.documents import DriverPhase
from sparkstate.driver.requests import Requests

REASON: Final = "Terminated"
SAVED: Final = "asked to end by SIGTERM; what was committed is in the last checkpoint"
LEFT: Final = (
    "asked to end by SIGTERM; the next attempt repeats what took {:.1f} s since the last checkpoint, because another "
    "one takes longer"
)
RESERVE_S: Final = 5.0
"""Left of the grace period for the process itself to end."""
_NOTHING_TO_SAVE: Final = frozenset({DriverPhase.STARTING, DriverPhase.RESTORING, DriverPhase.RECOVERING})


def patience_s(grace_s: float) -> float:
    """How long the last checkpoint may take: all but :data:`RESERVE_S`, of a short grace period at least half."""
    return max(grace_s - RESERVE_S, grace_s / 2)


class Grace:
    """Call it from the signal's handler. ``last_word`` writes the reason down, ``leave`` ends the process."""

    def __init__(
        self,
        grace_s: float,
        requests: Requests,
        phase: Callable[[], DriverPhase],
        last_word: Callable[[str], object],
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._grace_s = grace_s
        self._requests = requests
        self._phase = phase
        self._last_word = last_word
        self._leave = leave
        self._timer: threading.Timer | None = None
        self._once = threading.Lock()
        self._ended = False

    def begin(self) -> None:
        """The grace period runs from now; once."""
        if self._timer is not None:
            return
        self._requests.terminated.set()
        # Never in the handler itself: it may have interrupted a write to the very same stream.
        if self._phase() in _NOTHING_TO_SAVE:
            self._timer = threading.Timer(0, self._early)
        else:
            self._timer = threading.Timer(patience_s(self._grace_s), self._over)
        self._timer.daemon = True
        self._timer.start()

    def saved(self, repeat_s: float) -> None:
        """Nothing more is saved; the next attempt repeats what took ``repeat_s``. Leave at once: what an orderly end
        would do, Spark's and the slots', is seconds for which the next pod waits."""
        self._end(SAVED if repeat_s == 0 else LEFT.format(repeat_s))

    def _early(self) -> None:
        self._end("asked to end by SIGTERM before the job ran; there was nothing to save")

    def _over(self) -> None:
        self._end(
            f"asked to end by SIGTERM; a last checkpoint did not complete within {patience_s(self._grace_s):g} s, so "
            "the next attempt restores the one before: raise terminationGracePeriodSeconds"
        )

    def _end(self, message: str) -> None:
        with self._once:
            if not self._ended:
                self._ended = True
                self._last_word(message)
                self._leave(0)
