"""Whether the watches are live, judged by the outcome of their HTTP requests. The process's readiness depends on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace

import aiohttp
from yarl import URL

LISTS_S = 120.0
"""Patient work waits this long at most for a list that is under way."""


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
        self.were_live = False
        """Whether all watches were live at once since they last began."""

    def begin(self) -> None:
        """Now the lists begin. The inventory before them may take longer than anybody waits for a list; counted from
        the start of the process, no poll waited for them any more."""
        self._held, self.were_live = "", False
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
        self.were_live = self.were_live or not any(self._wrong.values())

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
        found.on_request_end.append(self._ended)
        found.on_request_exception.append(self._broke)
        return found

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
