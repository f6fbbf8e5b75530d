"""Reading the log for callers of the control endpoint, which must get an answer while the log's storage hangs.

Whoever reads the log waits for its lock, and a read that hangs keeps the lock: for minutes at S3, for ever where a hard
mount is gone. The endpoint has a bounded number of threads. A few dozen questions for savepoints that this driver has
not taken would take all of them, and then nobody could cancel the job.
"""

from __future__ import annotations

import threading
from concurrent import futures
from dataclasses import dataclass

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.driver.claimed_lineage import ClaimedLineage
from sparkstate.driver.storage_outages import begun
from sparkstate.log.state import LogState

ANSWER_S = 3.0
"""How long callers wait for a read. An operator waits no longer than 5 s for a driver's answer."""


@dataclass(frozen=True)
class _Read:
    result: futures.Future[LogState]
    until_s: float
    """By the monotonic clock: callers wait no longer."""


class LogReading:
    """One read at a time, which all share who ask meanwhile. Thread-safe."""

    def __init__(self, clock: Clock, answer_s: float = ANSWER_S) -> None:
        self._clock = clock
        self._answer_s = answer_s
        self._lock = threading.Lock()
        self._newest: _Read | None = None

    def state_of(self, claimed: ClaimedLineage) -> LogState:
        """The newest state of the log. Raises what the read raises, and ``StorageUnavailable`` if the read takes too
        long: at once where it has taken too long already."""
        read = self._shared(claimed)
        futures.wait((read.result,), max(0.0, read.until_s - self._clock.monotonic()))
        if not read.result.done():
            raise errors.StorageUnavailable(
                f"the log at {claimed.lineage.store.url} has not answered for {self._answer_s:g} s, and this driver "
                "has not taken a savepoint of that trigger id: whether an earlier one has is not known yet; ask again"
            )
        return read.result.result()

    def _shared(self, claimed: ClaimedLineage) -> _Read:
        with self._lock:
            if self._newest is None or self._newest.result.done():
                result = begun(claimed.log.refresh, "log-reading")
                self._newest = _Read(result, self._clock.monotonic() + self._answer_s)
            return self._newest
