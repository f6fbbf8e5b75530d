"""May this driver still act? Asked before every epoch and every call of a sink.

The log makes commits safe by itself. The guard is for everything except commits: a driver that was cut off must
stop feeding slots and calling sinks before its successor starts, and it knows that only by its own monotonic clock.
"""

from __future__ import annotations

import enum
import threading

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.log.log import ClaimedLog

READS_PER_TIMEOUT = 3.0
_STOP_S = 2.0
"""How long the end waits for a read under way. A storage that hangs answers it in minutes or never; the thread then
goes with the process."""


class Verdict(enum.Enum):
    """GO: own the lineage as of less than ``fence_timeout`` ago. PAUSED: not known any more; wait, do not exit."""

    GO = "go"
    PAUSED = "paused"


class FenceGuard:
    """Re-reads the log every third of ``fence_timeout_s``; thread-safe.

    Either call :meth:`poll` from a loop of your own, or :meth:`start` a thread that does. :meth:`check` never
    waits for the storage.
    """

    def __init__(self, log: ClaimedLog, fence_timeout_s: float, clock: Clock) -> None:
        if fence_timeout_s <= 0:
            raise errors.SpecInvalid(f"fenceTimeout is {fence_timeout_s} s; it must be above 0")
        self._log = log
        self._timeout_s = fence_timeout_s
        self._clock = clock
        self._last_success = clock.monotonic()
        self._last_try = self._last_success
        self._fenced: errors.Fenced | None = None
        self._cause: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fence-guard", daemon=True)

    @property
    def interval_s(self) -> float:
        """Seconds between two reads."""
        return self._timeout_s / READS_PER_TIMEOUT

    @property
    def cause(self) -> Exception | None:
        """Why the last read failed, or None."""
        return self._cause

    @property
    def fenced(self) -> bool:
        """Whether a read found a newer claim; :meth:`check` then raises."""
        return self._fenced is not None

    def poll(self) -> None:
        """Read the log if it is time to. Swallows storage errors (they age the last success); raises ``Fenced``."""
        if self._clock.monotonic() - self._last_try >= self.interval_s:
            self.read()

    def read(self) -> None:
        """Read the log now."""
        # Taken before the read: what was read may be as old as that.
        begun = self._last_try = self._clock.monotonic()
        try:
            self._log.check()
        except errors.Fenced as error:
            self._fenced = error
            raise
        except errors.StorageError as error:
            self._cause = error
        else:
            self._cause = None
            self._last_success = begun

    def check(self) -> Verdict:
        """Raises ``Fenced`` if a read found a newer claim; else GO or PAUSED, by the reads so far."""
        if self._fenced is not None:
            raise self._fenced
        age = self._clock.monotonic() - self._last_success
        return Verdict.GO if age < self._timeout_s else Verdict.PAUSED

    def reason_behind(self, error: errors.SparkstateError) -> errors.SparkstateError:
        """The cause that ended a driver: the fence, if there is one by now, else ``error``.

        A driver that slept in a restore finds files missing that another driver, rightly, has deleted since: nothing
        of its checkpoint is damaged, and nobody has to help.
        """
        try:
            self.read()
        except errors.Fenced as fenced:
            return fenced
        return error

    def start(self) -> None:
        """Read in a daemon thread until :meth:`stop`."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; wait for a read under way, for two seconds at most."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._stop.wait(self.interval_s):
            try:
                self.read()
            except errors.Fenced:
                return  # check() raises it where somebody can act
            except Exception as error:  # an unknown failure must not end the watch: the guard then pauses
                self._cause = error
