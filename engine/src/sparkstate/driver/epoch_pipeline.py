"""The end of an epoch beside the beginning of the next: one piece of work at a time, in a thread of its own.

One, and no more: slots and Spark are both busy then, so a second epoch ahead would gain nothing (RFC 0007).
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable


class EpochPipeline:
    """Start one piece of work, settle it before the next. Its failure comes at :meth:`settle`."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="epoch-end")
        self._running: concurrent.futures.Future[object] | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Begin; whatever ran before must be settled."""
        assert self._running is None
        self._running = self._pool.submit(work)

    def settle(self) -> None:
        """Wait for what runs, if anything does. Raises its failure, each time it is asked."""
        if self._running is not None:
            self._running.result()
            self._running = None

    @property
    def failure(self) -> BaseException | None:
        """Why the work failed, if it did so already."""
        running = self._running
        return running.exception() if running is not None and running.done() else None

    def close(self, patience_s: float) -> None:
        """Wait a while for what runs, whatever becomes of it."""
        if self._running is not None:
            concurrent.futures.wait([self._running], patience_s)
        self._pool.shutdown(wait=False, cancel_futures=True)
