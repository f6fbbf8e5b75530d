"""Bounds on a request's head and body, the headers that every authorised answer carries, and the answer to a request
that the server's end overtakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparkstate.control import documents, shell

MAX_BODY_BYTES: Final = 64 * 1024
DISCARDED_BYTES: Final = 1024 * 1024
"""As much of a refused body is read, so that its sender gets to read the answer: to close a socket with unread bytes
resets the connection, and the answer is lost with it (RFC 9112, section 9.6)."""
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
            body = await self._body_in_time(scope, receive)
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

    async def _body_in_time(self, scope: Scope, receive: Receive) -> bytes | None:
        try:
            async with asyncio.timeout(BODY_S):
                return await self._body(scope, receive)
        except TimeoutError:
            if self._is_announced_too_large(scope):
                raise _TooLarge from None  # sent faster it would be refused all the same
            raise

    def _is_announced_too_large(self, scope: Scope) -> bool:
        length = dict(scope["headers"]).get(b"content-length", b"0")
        return bool(length.isdigit() and int(length) > self._max_bytes)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """All of it; None if the caller has gone."""
        too_large = self._is_announced_too_large(scope)
        if too_large and dict(scope["headers"]).get(b"expect", b"").lower() == b"100-continue":
            raise _TooLarge  # its sender waits for leave to send it, and gets the answer instead
        body, came, more = b"", 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            came += len(part)
            more = message.get("more_body", False)
            too_large = too_large or came > self._max_bytes
            if came > DISCARDED_BYTES:
                break
            body = b"" if too_large else body + part
        if too_large:
            raise _TooLarge
        return body


class _TooLarge(Exception):
    """A body above the limit."""


class HeadLimit:
    """Refuses a request whose path, query and headers have more than ``max_bytes`` with 431 and no content.

    The parser's own limit is one of a head that has not come whole: one in a single packet passes it at any size.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _head_bytes(scope) > self._max_bytes:
            headers = [(b"content-length", b"0"), (b"cache-control", b"no-store"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 431, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._app(scope, receive, send)


def _head_bytes(scope: Scope) -> int:
    path: int = len(scope["raw_path"]) + len(scope["query_string"])
    return path + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])


class OvertakenRequests:
    """Answers a request with 503 that is cancelled because the server ends, unless its answer has begun."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            if has_begun:
                raise
            remedy = "ask again when /readyz answers 200; a job that has ended must be started first"
            await _refuse(send, 503, "the driver is ending", "NotRunning", remedy)


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


async def _refuse(
    send: Send,
    status: int,
    error: str,
    reason: str,
    remedy: str = "send only the documented fields, at once",
) -> None:
    problem = documents.Problem(error=error, reason=reason, remedy=remedy)
    body = problem.model_dump_json().encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # nobody waits for the rest of the body
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
