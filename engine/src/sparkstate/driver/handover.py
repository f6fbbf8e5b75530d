"""Taking over from an attempt whose driver is still ending.

The pod of a driver that was asked to end takes a last checkpoint; the next attempt's pod starts beside that, and
meanwhile does everything that it may do before it has claimed the state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sparkstate.clock import Clock
from sparkstate.driver.view import JobView
from sparkstate.log.log import LineageLog
from sparkstate.log.records import Claim

_LOOK_S = 0.1


class Handover:
    """``patience_s``: after this time, from now on, the earlier driver can do no more harm, whatever became of it; 0:
    there is none to wait for. ``alone`` is set once somebody knows that it has ended without a word."""

    def __init__(
        self,
        attempt: int,
        patience_s: float,
        alone: threading.Event,
        clock: Clock,
        view: JobView,
        say: Callable[[str], None],
    ) -> None:
        self._attempt = attempt
        self._clock = clock
        # A length of time, not a time of day: no two machines' clocks are compared (RFC 0012).
        self._deadline = clock.monotonic() + patience_s
        self._alone = alone
        self._view = view
        self._say = say

    def wait(self, log: LineageLog, meanwhile: Callable[[], object]) -> None:
        """Before the claim: until the earlier driver has released the lineage, or need not be waited for."""
        holder = self._holder(log)
        if holder is None:
            return
        self._say(f"attempt {holder.attempt} ({holder.driver}) is about to end; until then this one prepares")
        self._view.note_waits_for(holder.attempt)
        meanwhile()
        while self._holder(log) is not None:
            self._clock.sleep(_LOOK_S)
        self._view.note_waits_for(None)

    def _holder(self, log: LineageLog) -> Claim | None:
        """The claim of the driver to wait for."""
        if self._alone.is_set() or self._clock.monotonic() >= self._deadline:
            return None
        claim = log.refresh().claim
        return claim if claim is not None and claim.attempt < self._attempt and not claim.released else None
