"""The gate before everything: a request without a key learns only whether the process lives.

It is pure ASGI and outermost, so that such a request reaches no router, no validation and no error page; paths that
exist and paths that do not get the same empty 401. The key ``read`` opens what only looks (GET, HEAD), the key
``admin`` everything (RFC 0017). The shell of the page is a constant of the release and holds no job data
(docs/rfcs/0003-page-shell.md), so it passes.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparkstate import errors
from sparkstate.control import documents, shell
from sparkstate.keys import Keys

MIN_TOKEN_LENGTH: Final = 16
_BEARER: Final = b"bearer "


def check_token(token: str) -> bytes:
    """A key's bytes. Raises ``SpecInvalid`` for one that is short or no HTTP token; never shows it."""
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise errors.SpecInvalid(
            f"the control token has {len(token)} characters or some that a header cannot carry; use at least "
            f"{MIN_TOKEN_LENGTH} printable ASCII characters without spaces, e.g. `openssl rand -hex 32`"
        )
    return token.encode("ascii")


class Gate:
    """Answers probes, the page's shell and refusals itself; passes authorised requests on."""

    def __init__(
        self, app: ASGIApp, keys: Keys, is_live: Callable[[], bool], is_ready: Callable[[], bool]
    ) -> None:
        self._app = app
        self._all = tuple(check_token(key) for key in (keys.admin, keys.token) if key is not None)
        self._read = check_token(keys.read)
        self._probes = {"/livez": is_live, "/readyz": is_ready}
        self._shell = shell.load()

    def __repr__(self) -> str:
        return f"<Gate before {self._app!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["method"] in ("GET", "HEAD") and scope["path"] in self._probes:
            await _empty(send, 200 if _holds(self._probes[scope["path"]]) else 503)
        elif scope["method"] in ("GET", "HEAD") and scope["path"] in self._shell:
            await _constant(send, self._shell[scope["path"]], body=scope["method"] == "GET")
        elif self._is_one_of(self._all, given := _given(scope)):
            await self._app(scope, receive, send)
        elif not self._is_one_of((self._read,), given):
            await _empty(send, 401, [(b"www-authenticate", b"Bearer")])
        elif scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
        else:
            await _refuse(send)

    @staticmethod
    def _is_one_of(keys: tuple[bytes, ...], given: bytes) -> bool:
        return any(hmac.compare_digest(given, key) for key in keys)


def _given(scope: Scope) -> bytes:
    """The key of a request; empty if there is none, or more than one."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1 or values[0][: len(_BEARER)].lower() != _BEARER:
        return b""
    key: bytes = values[0][len(_BEARER) :]
    return key


def _holds(probe: Callable[[], bool]) -> bool:
    try:
        return probe()
    except Exception:  # a probe that cannot tell is a probe that fails
        return False


async def _empty(send: Send, status: int, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    fixed = [(b"content-length", b"0"), (b"cache-control", b"no-store")]
    start: Message = {"type": "http.response.start", "status": status, "headers": fixed + (headers or [])}
    await send(start)
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send) -> None:
    problem = documents.Problem(
        error="this key may read, but change nothing",
        reason="Forbidden",
        remedy="use the key admin of this attempt",
    )
    body = problem.model_dump_json().encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _constant(send: Send, file: shell.ShellFile, *, body: bool) -> None:
    await send({"type": "http.response.start", "status": file.status, "headers": list(file.headers)})
    await send({"type": "http.response.body", "body": file.content if body else b""})
