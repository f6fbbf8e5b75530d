"""The port for Prometheus: ``GET /metrics`` without a token, and nothing else.

A scraper cannot know the token of an attempt. So a job may open a port beside its endpoint that shows numbers by slot
and part, and the names that the job's functions give their own metrics and their operators; no keys, addresses or
places in storage (docs/security.md). It is off unless ``metricsPort`` is set. Callers may ask as often as they like:
the text is made once a second, which bounds the cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import Receive, Scope, Send

from sparkstate import clock as clocks
from sparkstate.control import metrics

PATH: Final = "/metrics"
FRESH_S: Final = 1.0
"""For so long a text is given again."""
_SAFE: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class MetricsApp:
    """The application. ``render`` makes the text; it may take its time and may fail."""

    def __init__(self, render: Callable[[], bytes], clock: clocks.Clock) -> None:
        self._render = render
        self._clock = clock
        self._lock = asyncio.Lock()
        self._text = b""
        self._made = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] != PATH:
            await _answer(send, 404, b"")
        elif scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, b"", (b"allow", b"GET, HEAD"))
        else:
            await self._give(send, has_body=scope["method"] == "GET")

    async def _give(self, send: Send, *, has_body: bool) -> None:
        try:
            text = await self._fresh()
        except Exception:  # a job that is only starting; without a token nobody hears more of it
            await _answer(send, 503, b"")
            return
        kind = (b"content-type", metrics.CONTENT_TYPE.encode())
        await _answer(send, 200, text, kind, has_body=has_body)

    async def _fresh(self) -> bytes:
        async with self._lock:
            if self._clock.monotonic() - self._made >= FRESH_S:
                self._text = await asyncio.to_thread(self._render)
                self._made = self._clock.monotonic()
            return self._text


async def _answer(
    send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes], has_body: bool = True
) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *_SAFE, *headers]})
    await send({"type": "http.response.body", "body": body if has_body else b""})
