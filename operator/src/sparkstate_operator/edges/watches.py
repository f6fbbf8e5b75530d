"""Whether the watches are live, by what their HTTP requests came to. What the process is ready for depends on it."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import aiohttp
from yarl import URL


class Watches:
    """One state for each list that is watched, by the path of its URL (of which a server may have more before it).
    Written by the event loop, read by the web thread."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._wrong: dict[str, str] = dict.fromkeys(paths, "is not connected yet")

    def answered(self, path: str, status: int, *, watch: bool) -> None:
        """A request for the list at ``path`` was answered; with ``watch`` its events follow."""
        if status >= 400:
            self._put(path, f"is answered with status {status}")
        elif watch:
            self._put(path, "")

    def failed(self, path: str, why: str) -> None:
        """A request for the list at ``path`` got no answer."""
        self._put(path, f"gets no answer: {why}")

    def _put(self, path: str, wrong: str) -> None:
        for known in self._wrong:
            if path.endswith(known):
                self._wrong[known] = wrong

    def wrong(self) -> str:
        """Which watches are not live, and why; empty if all are."""
        return "; ".join(f"the watch of {path} {why}" for path, why in list(self._wrong.items()) if why)

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
