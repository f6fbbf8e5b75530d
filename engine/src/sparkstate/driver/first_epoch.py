"""Spark's callback before there is anything to run an epoch with.

Spark plans the first epoch while the slots start and fill. Its callback comes before they are ready. It waits here for
the slots, takes a row of the epoch through Spark while they fill, and waits for their state (RFC 0008).
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TypeVar

from sparkstate.driver.epoch_loop import EpochLoop
from sparkstate.driver.failure_cause import NeverBegun
from sparkstate.spark.epochs import EpochRunner
from sparkstate.spark.query import DataFrame

_LOOK_S = 0.2
_T = TypeVar("_T")


class FirstEpoch:
    """Hands every epoch to the loop, once there is one. Raises ``NeverBegun`` if the incarnation is ``over`` before."""

    def __init__(self, over: threading.Event) -> None:
        self._over = over
        self._runner: Future[EpochRunner] = Future()
        self._loop: Future[EpochLoop] = Future()

    def manned(self, runner: EpochRunner) -> None:
        """All slots run."""
        self._runner.set_result(runner)

    def filled(self, loop: EpochLoop) -> None:
        """They hold their state."""
        self._loop.set_result(loop)

    def on_epoch(self, frame: DataFrame | None, epoch: int) -> None:
        """The callback of a Spark micro-batch."""
        runner = self._wait_for(self._runner)
        if frame is not None and not self._loop.done():
            runner.rehearse(frame)
        self._wait_for(self._loop).on_epoch(frame, epoch)

    def _wait_for(self, given: Future[_T]) -> _T:
        while True:
            try:
                return given.result(_LOOK_S)
            except TimeoutError:
                if self._over.is_set():
                    raise NeverBegun from None
