"""Storages that do not answer while the driver needs them: which ones, for what, since when; and waits that an end of
the job breaks off.

All code that goes on trying notes every failure here, so that nobody has to guess why a job stands still.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass
from typing import TypeVar

from sparkstate import errors
from sparkstate.clock import Clock
from sparkstate.control.documents import StorageAway
from sparkstate.cut_text import CAUSE, cut

RETRY_S = 0.5
SLOW_S = 30.0
"""A call that takes longer than this counts as unanswered. A server that takes requests and never answers lets one hang
for minutes, with the client's own repetitions, before it fails."""
_LOOK_S = 0.1
_BRIEFLY_S = 4.0
T = TypeVar("T")
_log = logging.getLogger("sparkstate.driver")


class Ending(errors.SparkstateError):
    """The job was asked to end during a wait; no failure."""


@dataclass(frozen=True)
class Call:
    """One that is under way. ``awaited``: a checkpoint or savepoint waits for it."""

    url: str
    doing: str
    began_s: float
    """By the monotonic clock."""
    awaited: bool


@dataclass
class _Trouble:
    doing: str
    since_ms: int
    failures: int
    message: str
    needed: bool


class StorageOutages:
    """Thread-safe. A place is a URL without credentials."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._troubles: dict[str, _Trouble] = {}
        self._calls: dict[int, Call] = {}
        """Calls under way."""
        self._numbers = itertools.count()
        self._failures = 0

    def failed(self, url: str, doing: str, error: BaseException, *, needed: bool = True) -> None:
        """``url`` did not answer while ``doing`` something; the first time in a row is logged.
        Not ``needed``: checkpoints complete without it."""
        with self._lock:
            self._failures += 1
            known = self._troubles.get(url)
            since_ms = known.since_ms if known else self._clock.now_ms()
            failures = known.failures + 1 if known else 1
            self._troubles[url] = _Trouble(
                doing,
                since_ms,
                failures,
                cut(str(error), CAUSE),
                needed or (known is not None and known.needed),
            )
        if known is None:
            _log.warning("storage away: %s (%s): %s", url, doing, error)

    def answered(self, url: str) -> None:
        """``url`` answers, or nobody waits for it any more."""
        with self._lock:
            self._troubles.pop(url, None)

    def clear(self) -> None:
        """All of them answer."""
        with self._lock:
            self._troubles.clear()

    @property
    def away(self) -> tuple[StorageAway, ...]:
        """The places that do not answer now, by URL."""
        return self._away(awaited_only=False)

    @property
    def awaited(self) -> tuple[StorageAway, ...]:
        """Those of them that a checkpoint or savepoint waits for."""
        return self._away(awaited_only=True)

    def _away(self, *, awaited_only: bool) -> tuple[StorageAway, ...]:
        with self._lock:
            now_s, now_ms = self._clock.monotonic(), self._clock.now_ms()
            found = dict(self._troubles)
            for call in self._calls.values():
                waited_s = now_s - call.began_s
                counts = call.awaited or not awaited_only
                if counts and waited_s >= SLOW_S and call.url not in found:
                    told = f"a call has had no answer for {waited_s:.0f} s"
                    found[call.url] = _Trouble(call.doing, now_ms - round(waited_s * 1000), 0, told, False)
            return _told(found)

    def failing(self, *, savepoints: bool = False) -> tuple[StorageAway, ...]:
        """The places that checkpoints need and where a call has failed; with ``savepoints`` also their targets.

        A call that is merely slow counts in :attr:`away` alone: the copy of a large file takes longer than a storage
        that does not answer needs to show it.
        """
        with self._lock:
            return _told({url: t for url, t in self._troubles.items() if t.needed or savepoints})

    @property
    def told(self) -> str:
        """:attr:`away` in a sentence."""
        return "a storage is away: " + "; ".join(f"{place.url}: {place.message}" for place in self.away)

    @property
    def failures(self) -> int:
        """Calls that failed because a storage was away, since the driver started."""
        return self._failures

    def insist(
        self,
        url: str,
        doing: str,
        action: Callable[[], object],
        given_up: Callable[[], bool],
        *,
        needed: bool = True,
    ) -> None:
        """Call ``action`` until ``url`` answers. Raises ``StorageUnavailable`` once ``given_up``.
        ``needed``: see :meth:`failed`."""
        try:
            while True:
                try:
                    with self.under_way(url, doing, awaited=True):
                        action()
                    return
                except errors.StorageUnavailable as error:
                    self.failed(url, doing, error, needed=needed)
                    if given_up():
                        raise
                    self._clock.sleep(RETRY_S)
        finally:
            self.answered(url)

    @contextlib.contextmanager
    def under_way(self, url: str, doing: str, *, awaited: bool) -> Iterator[None]:
        """A call: as long as it hangs, :attr:`away` names it. ``awaited``: a checkpoint or savepoint waits for it."""
        number = next(self._numbers)
        with self._lock:
            self._calls[number] = Call(url, doing, self._clock.monotonic(), awaited)
        try:
            yield
        finally:
            with self._lock:
                del self._calls[number]


def _told(troubles: Mapping[str, _Trouble]) -> tuple[StorageAway, ...]:
    return tuple(
        StorageAway(url=url, doing=t.doing, since_ms=t.since_ms, failures=t.failures, message=t.message)
        for url, t in sorted(troubles.items())
    )


def begun(action: Callable[[], T], name: str) -> futures.Future[T]:
    """The result to come of ``action``, which runs in a thread of its own and may hang for as long as a storage lets
    it. Nobody ends the thread, which may stay until the end of the process."""
    result: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            result.set_result(action())
        except BaseException as error:
            result.set_exception(error)

    # No executor: at the end of the process Python waits for the threads of one.
    threading.Thread(target=run, name=name, daemon=True).start()
    return result


def heard(action: Callable[[], T], ending: Callable[[], bool]) -> T:
    """The result of ``action``, which runs as :func:`begun` says.

    Raises ``Ending`` as soon as the job is asked to end.
    """
    result = begun(action, "heard")
    while not futures.wait((result,), _LOOK_S).done:
        if ending():
            raise Ending("the job was asked to end while it waited")
    return result.result()


def briefly(action: Callable[[], object], clock: Clock, within_s: float = _BRIEFLY_S) -> None:
    """Call ``action``, and after so many seconds leave it to the end of the process: somebody else does its work if it
    is not done."""
    until = clock.monotonic() + within_s
    with contextlib.suppress(Ending):
        heard(action, lambda: clock.monotonic() > until)
