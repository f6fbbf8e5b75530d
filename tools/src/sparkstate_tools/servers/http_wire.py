"""As much of HTTP/1.1 as a proxy between an S3 client and an S3 server has to understand."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from typing import IO

LIMIT_S = 20.0


@dataclass(frozen=True)
class Message:
    """A request: ``words`` of its first line, ``headers`` by lower-case name, the bytes of its head and body."""

    words: tuple[str, ...]
    headers: dict[str, str]
    head: bytes
    body: bytes


def read_request(reader: IO[bytes], client: socket.socket) -> Message:
    """The next request of a connection; ``EOFError`` at its end. Answers ``Expect: 100-continue`` at once."""
    first, lines = _read_head(reader)
    headers = _headers(lines)
    if headers.get("expect", "").lower() == "100-continue":
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        lines = [line for line in lines if not line.lower().startswith(b"expect:")]
    body = _read_body(reader, headers)
    head = first + b"".join(lines) + b"\r\n"
    return Message(tuple(first.decode().split()), headers, head, body)


def says_close(answer: bytes) -> bool:
    """Whether the server ends the connection after this answer."""
    return b"\r\nconnection: close" in answer.partition(b"\r\n\r\n")[0].lower()


class Upstream:
    """One connection to the server behind the proxy, opened when needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._reader: IO[bytes] | None = None

    def __enter__(self) -> Upstream:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def exchange(self, request: Message) -> bytes:
        """The server's whole answer to a request."""
        for attempt in (1, 2):
            connection, reader = self._open()
            try:
                connection.sendall(request.head + request.body)
                return self._read_answer(reader, request.words[0])
            except (OSError, EOFError):
                # A kept connection may have been closed by the server meanwhile; a new one must work.
                self._close()
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def send_part(self, request: Message) -> None:
        """The head and half of the body, and then nothing more."""
        connection, _ = self._open()
        with contextlib.suppress(OSError):
            connection.sendall(request.head + request.body[: len(request.body) // 2])
        self._close()

    def _open(self) -> tuple[socket.socket, IO[bytes]]:
        if self._socket is None or self._reader is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), LIMIT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._reader = self._socket.makefile("rb")
        return self._socket, self._reader

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self._reader = None

    def _read_answer(self, reader: IO[bytes], method: str) -> bytes:
        first, lines = _read_head(reader)
        headers, status = _headers(lines), first.split()[1]
        head = first + b"".join(lines) + b"\r\n"
        if method == "HEAD" or status in (b"204", b"304"):
            body = b""
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            body = _read_chunks(reader)
        else:
            body = _read_body(reader, headers)
        if headers.get("connection", "").lower() == "close":
            self._close()
        return head + body


def _read_head(reader: IO[bytes]) -> tuple[bytes, list[bytes]]:
    first = _line(reader)
    lines = []
    while (line := _line(reader)) != b"\r\n":
        lines.append(line)
    return first, lines


def _line(reader: IO[bytes]) -> bytes:
    line = reader.readline(65536)
    if not line.endswith(b"\n"):
        raise EOFError
    return line


def _headers(lines: list[bytes]) -> dict[str, str]:
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _read_body(reader: IO[bytes], headers: dict[str, str]) -> bytes:
    length = int(headers.get("content-length", "0"))
    body = reader.read(length)
    if len(body) != length:
        raise EOFError
    return body


def _read_chunks(reader: IO[bytes]) -> bytes:
    """A chunked body as it came: sizes, chunks, end."""
    raw = b""
    while True:
        line = _line(reader)
        size = int(line.split(b";")[0], 16)
        raw += line + reader.read(size + 2)
        if size == 0:
            return raw
