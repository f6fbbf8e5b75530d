"""How far a command is: a line on a terminal, and in a pod of the operator an answer to its question.

A command that the operator runs has no right to write anything into the API server, and the operator has none to read
logs. So the command answers one request, ``GET /v1/progress`` on the port that it is given, with two numbers and
nothing else of the job. It wants a key, of which it knows the digest only: a pod's spec may hold a digest. Whatever
fails about it, the command goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.server
import json
import os
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TextIO

from sparkstate.clock import Clock
from sparkstate.driver import long_work
from sparkstate.runner.progress import TransferLine

PORT_VARIABLE: Final = "SPARKSTATE_PROGRESS_PORT"
DIGEST_VARIABLE: Final = "SPARKSTATE_PROGRESS_DIGEST"
"""SHA-256 of the key, in hex."""
COMMAND_VARIABLE: Final = "SPARKSTATE_COMMAND"
"""The name that the operator gave the command; the answer repeats it, because addresses of pods are used again."""
COMMAND_HEADER: Final = "X-Sparkstate-Command"
PATH: Final = "/v1/progress"
PATIENCE_S: Final = 5.0
"""For a whole call: a caller that is silent for longer, or sends byte after byte, is given up for the next one."""

_DIGITS: Final = 10
"""No port has more."""

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class _Amount:
    done_bytes: int
    total_bytes: int


class CommandProgress:
    """One piece of long work. Any thread may read."""

    def __init__(self, kind: str, clock: Clock) -> None:
        self._kind = kind
        self._clock = clock
        self._since_ms, self._began = clock.now_ms(), clock.monotonic()
        self._amount = _Amount(0, 0)

    def tell(self, done_bytes: int, total_bytes: int) -> None:
        """So much is done of so much."""
        self._amount = _Amount(done_bytes, total_bytes)

    def document(self) -> dict[str, Any]:
        """As the field ``progress`` of a driver's status; empty while nothing was found to do."""
        amount = self._amount
        if not amount.total_bytes:
            return {"progress": []}
        left = long_work.left_ms(amount.done_bytes, amount.total_bytes, self._clock.monotonic() - self._began)
        work = {"kind": self._kind, "name": "", "since_ms": self._since_ms, "left_ms": left}
        return {"progress": [{**work, "done_bytes": amount.done_bytes, "total_bytes": amount.total_bytes}]}


@contextlib.contextmanager
def shown(
    kind: str, clock: Clock, stream: TextIO = sys.stderr, environ: Mapping[str, str] = os.environ
) -> Iterator[Tell]:
    """Gives a function that takes the bytes done and the bytes to do. ``kind``: one word for the work."""
    line, work = TransferLine(stream, clock, kind), CommandProgress(kind, clock)

    def tell(done_bytes: int, total_bytes: int) -> None:
        work.tell(done_bytes, total_bytes)
        line.tell(done_bytes, total_bytes)

    with contextlib.closing(_Endpoint(work, environ)):
        try:
            yield tell
        finally:
            line.clear()


class _Endpoint:
    """Serves ``work`` where ``environ`` asks for it."""

    def __init__(self, work: CommandProgress, environ: Mapping[str, str]) -> None:
        self._server: _Server | None = None
        port, digest = environ.get(PORT_VARIABLE, ""), environ.get(DIGEST_VARIABLE, "")
        if not port.isdecimal() or not digest:
            return
        try:
            server = _Server(int(port[:_DIGITS]), work, digest, environ.get(COMMAND_VARIABLE, ""))
        except (OSError, OverflowError) as error:
            sys.stderr.write(f"nobody can ask how far this is: port {port[:_DIGITS]}: {error}\n")
            return
        try:
            threading.Thread(target=server.serve_forever, name="progress", daemon=True).start()
        except RuntimeError as error:  # the pod may have no more threads
            server.server_close()
            sys.stderr.write(f"nobody can ask how far this is: {error}\n")
            return
        self._server = server

    def close(self) -> None:
        """Nobody is answered any more. Waits for no caller that is silent."""
        if self._server is not None:
            # Without a thread for it the server ends with the process.
            with contextlib.suppress(RuntimeError):
                threading.Thread(
                    target=self._end, args=(self._server,), name="progress-end", daemon=True
                ).start()

    @staticmethod
    def _end(server: _Server) -> None:
        server.shutdown()
        server.server_close()


class _Server(socketserver.TCPServer):
    """One connection at a time: there is one caller, and others shall not cost memory."""

    def __init__(self, port: int, work: CommandProgress, digest: str, command: str) -> None:
        self.work = work
        self.digest = digest
        self.command = command
        super().__init__(("", port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = _listening(port)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one caller, for a limited time."""
        limit = threading.Timer(PATIENCE_S, _hang_up, (request,))
        limit.daemon = True
        limit.start()
        try:
            super().finish_request(request, client_address)
        finally:
            limit.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing is logged about a caller that left or sent nonsense."""


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)


def _listening(port: int) -> socket.socket:
    """On every address of the pod."""
    with contextlib.suppress(OSError):  # a host may have IPv6 in its kernel and no address of it
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE_S
    server_version, sys_version = "sparkstate", ""

    def do_GET(self) -> None:
        """The one request that is answered. Without the key, every path gets the same empty 401."""
        if not self._has_key():
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path != PATH:
            self.send_error(404)
            return
        data = json.dumps(self.server.work.document()).encode()
        self.send_response(200)
        self.send_header(COMMAND_HEADER, self.server.command)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _has_key(self) -> bool:
        scheme, _, key = self.headers.get("Authorization", "").partition(" ")
        found = hashlib.sha256(key.strip().encode()).hexdigest()
        return scheme.lower() == "bearer" and hmac.compare_digest(found, self.server.digest)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
        """The container's log is for the command."""
