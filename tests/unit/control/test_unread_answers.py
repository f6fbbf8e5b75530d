"""Peers that send requests and never read the answers."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from sparkstate.control import connections, server

HEAD = b"GET /ui/series.js HTTP/1.1\r\nHost: x\r\n"
PART = b"x" * 65536
PARTS = 256
"""16 MiB together, which is more than the system takes for a connection."""
LISTENING, NO_FILE = "0A", "0"
"""A state and an inode in the kernel's table of connections."""


@contextlib.contextmanager
def deaf(port: int, said: bytes) -> Iterator[socket.socket]:
    """A peer that says that much, as far as it is taken from it, and reads nothing."""
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(("127.0.0.1", port))
        made.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while said:
                said = said[made.send(said) :]
        yield made


async def in_parts(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(0 if scope["path"] == "/livez" else PARTS):
        await send({"type": "http.response.body", "body": PART, "more_body": True})
    await send({"type": "http.response.body"})


async def at_once(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": PART * PARTS})


def test_unread_answers_keep_nobody_of_that_address_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_OF_PEER", 20)
    with (
        server.HttpServer(in_parts, "127.0.0.1", 0, "endpoint of a test") as running,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(20):
            stack.enter_context(deaf(running.port, HEAD + b"\r\n"))
        time.sleep(1.0)  # all of them have what the system takes for them
        for _ in range(5):
            assert httpx.get(running.address + "/livez", timeout=10, trust_env=False).status_code == 200


@pytest.mark.parametrize("application", [in_parts, at_once], ids=["in-parts", "at-once"])
@pytest.mark.parametrize("header", [b"", b"Connection: close\r\n"], ids=["kept-alive", "the-last"])
def test_an_answer_that_nobody_reads_is_not_kept_for_good(
    application: ASGIApp,
    header: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 1.0)
    with (
        server.HttpServer(application, "127.0.0.1", 0, "endpoint of a test") as running,
        deaf(running.port, HEAD + header + b"\r\n"),
    ):
        assert reached(lambda: held_by(running) == 1)
        assert reached(lambda: held_by(running) == 0)


def test_whoever_reads_gets_the_whole_answer() -> None:
    with (
        server.HttpServer(in_parts, "127.0.0.1", 0, "endpoint of a test") as running,
        httpx.Client(trust_env=False) as reader,
    ):
        assert len(reader.get(running.address + "/", timeout=30).content) == len(PART) * PARTS


def held_by(running: server.HttpServer) -> int:
    """How many connections the server has not closed: the kernel sends what is left of closed ones, without a file."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    own = [row for row in rows if int(row[1].partition(":")[2], 16) == running.port and row[3] != LISTENING]
    return sum(row[9] != NO_FILE for row in own)


def reached(condition: Callable[[], bool], patience_s: float = 15) -> bool:
    until = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
