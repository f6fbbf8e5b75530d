"""Bounds on what a request may carry, and the headers that every authorised answer carries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparkstate.control import documents, shell

MAX_BODY_BYTES: Final = 64 * 1024
BODY_S: Final = 15.0
"""For a whole body, however many bytes of it come."""


class BodyLimit:
    """Refuses bodies above ``max_bytes`` with 413, and those that are not there after :data:`BODY_S` with 408, before
    anything parses them.

    The whole body is read here, which the limit makes cheap, so that a body without an announced length is
    bounded too and the application never sees half of one.
    """

    def __init__(self, app: ASGIApp, max_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._body(scope, receive)
        except TimeoutError:
            await _refuse(
                send, 408, f"the request's body did not come within {BODY_S:.0f} s", "RequestTimeout"
            )
            return
        except _TooLarge:
            await _refuse(
                send, 413, f"the request's body is larger than {self._max_bytes} bytes", "RequestTooLarge"
            )
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """All of it; None if the caller has gone."""
        if self._announces_too_much(scope):
            raise _TooLarge
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._max_bytes:
                raise _TooLarge
        return body

    def _announces_too_much(self, scope: Scope) -> bool:
        length = dict(scope["headers"]).get(b"content-length", b"0")
        return length.isdigit() and int(length) > self._max_bytes


class _TooLarge(Exception):
    """A body above the limit."""


class AnswerHeaders:
    """Adds security headers, ``no-store`` and the identity of the answering job to each authorised answer."""

    def __init__(self, app: ASGIApp, identity: Callable[[], documents.JobIdentity]) -> None:
        self._app = app
        self._identity = identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                identity = self._identity()
                message["headers"] = [
                    *message.get("headers", ()),
                    *shell.SECURITY_HEADERS,
                    (b"cache-control", b"no-store"),
                    (b"x-sparkstate-job-uid", identity.job_uid.encode("ascii", "replace")),
                    (b"x-sparkstate-attempt", str(identity.attempt).encode()),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(send: Send, status: int, error: str, reason: str) -> None:
    problem = documents.Problem(error=error, reason=reason, remedy="send only the documented fields, at once")
    body = problem.model_dump_json().encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # what is left of the body is not waited for
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
