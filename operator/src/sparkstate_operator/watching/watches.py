"""Whether the watches are live, judged by the outcome of their HTTP requests. The process's readiness depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace

import aiohttp
from yarl import URL

LISTS_S = 120.0
"""Patient work waits this long at most for a list that is under way."""
STEADY_S = 60.0
"""Watches that were all live for this long on end did not fail at once."""


class Watches:
    """One state for each list that is watched, by the path of its URL (a server's URL may put more before the path).
    The event loop writes it, and the web thread reads it."""

    def __init__(self, paths: Iterable[str], monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wrong: dict[str, str] = dict.fromkeys(paths, "is not connected yet")
        self._listed_since_s: dict[str, float] = dict.fromkeys(self._wrong, monotonic())
        self._asked_s: dict[str, float] = {}
        """When a request for each list last ended; when the watches began, where none has."""
        self._held = ""
        self._unasked: set[str] = set()
        """The lists for which the watches have sent no request since they last began."""
        self._live_since_s: float | None = None
        """Since when all watches are live at once."""
        self._steady = False
        """Whether all of them were, for long enough on end, before one of them was not."""

    def begin(self) -> None:
        """Now the lists begin. The inventory before them may take longer than anybody waits for a list; counted from
        the start of the process, no poll waited for them any more."""
        self._held, self._unasked = "", set(self._wrong)
        self._live_since_s, self._steady = None, False
        self._listed_since_s = dict.fromkeys(self._wrong, self._monotonic())
        self._asked_s = dict(self._listed_since_s)

    def hold(self, why: str) -> None:
        """Nothing can be watched yet, for this reason."""
        self._held = why
        self._listed_since_s = {}
        self._asked_s = dict.fromkeys(self._wrong, self._monotonic())

    def ended(self) -> None:
        """All watches have ended, because one of them failed for good."""
        self._listed_since_s = {}
        for path, wrong in self._wrong.items():
            self._wrong[path] = wrong or "has ended with another one"
        self._note_live()

    def asked(self, path: str) -> None:
        """A request for the list at ``path`` is sent."""
        self._unasked = {known for known in self._unasked if not path.endswith(known)}

    def answered(self, path: str, status: int, *, watch: bool) -> None:
        """A request for the list at ``path`` was answered; with ``watch`` its events follow."""
        if status >= 400:
            self._put(path, f"got an answer with status {status}", lists=False)
        else:
            self._put(path, "" if watch else "begins anew with a list", lists=not watch)

    def failed(self, path: str, why: str) -> None:
        """A request for the list at ``path`` got no answer."""
        self._put(path, f"gets no answer: {why}", lists=False)

    def _put(self, path: str, wrong: str, *, lists: bool) -> None:
        for known in self._wrong:
            if path.endswith(known):
                self._wrong[known] = wrong
                self._asked_s[known] = self._monotonic()
                if lists:
                    self._listed_since_s.setdefault(known, self._monotonic())
                else:
                    self._listed_since_s.pop(known, None)
        self._note_live()

    def _note_live(self) -> None:
        if any(self._wrong.values()):
            self._steady, self._live_since_s = self.were_steady(), None
        elif self._live_since_s is None:
            self._live_since_s = self._monotonic()

    def were_steady(self) -> bool:
        """Whether all watches were live at once for ``STEADY_S`` on end since they last began. A watch counts as live
        from the head of its answer, which an error may follow."""
        since_s = self._live_since_s
        return self._steady or (since_s is not None and self._monotonic() - since_s >= STEADY_S)

    def unasked(self) -> list[str]:
        """The lists for which no request was sent since the watches last began."""
        return [path for path in self._wrong if path in self._unasked]

    def lists(self) -> bool:
        """Whether a list is under way, and not for too long yet. Polls wait for it.

        A watch begins where its list was read, and the API server remembers changes from there for little more than a
        minute. With 0.15 of a processor, beside the polls of 5,000 drivers, the list of 10,000 snapshots took six
        minutes. The API server then answered 410 and the list began anew,
        for ever: the operator heard of no requested savepoint.
        """
        now_s = self._monotonic()
        return any(now_s - since_s < LISTS_S for since_s in self._listed_since_s.values())

    def wrong(self) -> str:
        """Which watches are not live, and why; empty if all are."""
        if self._held:
            return self._held
        return "; ".join(f"the watch of {path} {why}" for path, why in list(self._wrong.items()) if why)

    def silent_s(self) -> float:
        """How long no request for some list has ended. A live watch ends and is asked for again after five minutes at
        most, and one that is refused is tried again sooner."""
        now_s = self._monotonic()
        return max((now_s - asked_s for asked_s in list(self._asked_s.values())), default=0.0)

    def trace(self) -> aiohttp.TraceConfig:
        """For the session through which is watched."""
        found = aiohttp.TraceConfig()
        found.on_request_start.append(self._began)
        found.on_request_end.append(self._ended)
        found.on_request_exception.append(self._broke)
        return found

    async def _began(
        self,
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        given: aiohttp.TraceRequestStartParams,
    ) -> None:
        self.asked(given.url.path)

    async def _ended(
        self, _session: aiohttp.ClientSession, _context: SimpleNamespace, given: aiohttp.TraceRequestEndParams
    ) -> None:
        self.answered(given.url.path, given.response.status, watch=_is_watch(given.url))

    async def _broke(
        self,
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        given: aiohttp.TraceRequestExceptionParams,
    ) -> None:
        self.failed(given.url.path, f"{type(given.exception).__name__}: {given.exception}"[:200])


def _is_watch(url: URL) -> bool:
    return url.query.get("watch") in ("true", "1")
