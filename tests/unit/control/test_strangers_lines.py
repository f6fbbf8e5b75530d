"""Whatever a stranger sends, the driver's log stays the job's: the page shows its last 200 lines."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence

import httpx
import pytest

from sparkstate.control import server

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n"
NO_KEY = b"POST /v1/cancel HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ([b"\x16\x03\r\n\r\n"], b"HTTP/1.1 400"),
        ([LIVEZ + b"\r\n\x16\x03\r\n\r\n"], b"HTTP/1.1 200"),
        ([LIVEZ + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"], b"HTTP/1.1 200"),
        ([LIVEZ + CHUNKS, b"no chunk\r\n"], b"HTTP/1.1 200"),
        ([NO_KEY + CHUNKS, b"no chunk\r\n"], b"HTTP/1.1 401"),
        ([NO_KEY + CHUNKS + b"no chunk\r\n"], b"HTTP/1.1 400"),
        ([NO_KEY + b"Content-Length: 2\r\n\r\n", b"{}\x16\x03\r\n\r\n"], b"HTTP/1.1 401"),
        ([LIVEZ + b"X: " + b"x" * 200_000], b"HTTP/1.1 400"),
    ],
    ids=[
        "no-http",
        "no-http-behind-a-request",
        "an-upgrade",
        "no-chunk-behind-an-answer",
        "no-chunk-behind-a-refusal",
        "no-chunk-at-once",
        "no-http-behind-a-body",
        "a-long-head",
    ],
)
def test_nothing_that_a_stranger_sends_makes_a_line(
    control: server.ControlServer,
    stranger: httpx.Client,
    caplog: pytest.LogCaptureFixture,
    parts: Sequence[bytes],
    answer: bytes,
) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_connection(("127.0.0.1", control.port), 10) as one:
        one.sendall(parts[0])
        said = one.recv(1000)
        for part in parts[1:]:
            one.sendall(part)
        while said and _more(one):
            pass
    assert said.startswith(answer)
    assert stranger.get("/livez").status_code == 200
    assert [record.getMessage() for record in caplog.records if record.name != "httpx"] == []


def _more(one: socket.socket) -> bytes:
    one.settimeout(1.0)
    try:
        return one.recv(1000)
    except (ConnectionResetError, TimeoutError):
        return b""


def test_an_error_of_the_application_has_its_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(scope: object, receive: object, send: object) -> None:
        raise ValueError("no such thing")

    with server.HttpServer(broken, "127.0.0.1", 0, "endpoint of a test") as running:
        assert httpx.get(running.address, trust_env=False).status_code == 500
    assert "no such thing" in caplog.text
