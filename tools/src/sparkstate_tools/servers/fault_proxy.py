"""A proxy before a real S3 server that breaks a part of the requests, on a schedule that a seed decides.

A fault is a pure function of seed, request and how many of its kind there were: a request's kind is its method and
path with random parts left out. So threads that overtake each other change nothing, and a seed repeats its faults.
The proxy speaks as much HTTP/1.1 as S3 clients need, on loopback only.
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sparkstate_tools.servers import http_wire
from sparkstate_tools.servers.http_wire import Message

REFUSED = ("409", "500", "503")
"""Answered with that status, and not carried out."""
LOST = ("lost-409", "lost-412", "lost-500", "lost-503")
"""Carried out, and answered with that status: the real answer is lost."""
CONNECTION = ("slow", "cut-before", "cut-request", "cut-after", "torn", "late")
"""Delayed; cut before the request is passed on, within its body, after it was carried out; the answer cut somewhere;
cut, and carried out a while later, when the client has long since tried again."""
KINDS = ("412", *REFUSED, *LOST, *CONNECTION)
CODES = {
    "409": "ConditionalRequestConflict",
    "412": "PreconditionFailed",
    "500": "InternalError",
    "503": "SlowDown",
}
LATE_S = 0.03
_RANDOM_PART = re.compile(r"[0-9a-f]{12,}")
_VOLATILE = re.compile(r"(?<=(?:[?&]))(uploadId|X-Amz-[A-Za-z]+)=[^&]*")


@dataclass(frozen=True)
class Schedule:
    """``rate``: which part of the requests breaks (0 to 1); ``kinds``: how, each as likely as the others."""

    seed: int = 0
    rate: float = 0.0
    kinds: tuple[str, ...] = KINDS

    def fault(self, request: Message, nth: int) -> str | None:
        """The fault of the ``nth`` request of its kind. Only faults that a real server has: 412 for conditional
        writes, 409 for writes.
        """
        rng = random.Random(f"{self.seed} {kind_of(request)} {nth}")
        possible = [kind for kind in self.kinds if _fits(kind, request)]
        return rng.choice(possible) if possible and rng.random() < self.rate else None

    def kept(self, request: Message, nth: int, length: int) -> int:
        """How many bytes of a torn answer of ``length`` bytes arrive: in its head or in its body."""
        return random.Random(f"{self.seed} torn {kind_of(request)} {nth}").randrange(1, length)


def kind_of(request: Message) -> str:
    """Method and path without what differs from run to run."""
    path = _VOLATILE.sub("", request.words[1])
    return f"{request.words[0]} {_RANDOM_PART.sub('*', path)}"


def _fits(kind: str, request: Message) -> bool:
    if kind.endswith("412"):
        return "if-none-match" in request.headers
    if kind.endswith("409"):
        return request.words[0] in {"PUT", "POST"}
    return kind != "cut-request" or bool(request.body)


@dataclass
class FaultProxy:
    """Passes requests for ``127.0.0.1:port`` on to ``target`` (a loopback port). Use as a context manager."""

    target: int
    schedule: Schedule = field(default_factory=Schedule)
    happened: list[str] = field(default_factory=list)
    """All faults since :meth:`use`, for the report of a failure."""
    watch: Callable[[Message], None] = lambda request: None
    """Sees every request before it is passed on."""
    refuse: Callable[[Message], str | None] = lambda request: None
    """Gives S3's code for a request that is answered with 400 and not carried out; None: it is passed on."""
    instead: Callable[[Message], bytes | None] = lambda request: None
    """Gives the whole answer to a request that is not carried out, such as that of another proxy."""
    port: int = 0

    def __enter__(self) -> FaultProxy:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._left: int | None = None
        self._pending = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="fault-proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drain()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def use(self, schedule: Schedule) -> None:
        """Begin a new schedule; what was under way has ended when this returns."""
        self.drain()
        with self._lock:
            self.schedule, self._left = schedule, None
            self._counts.clear()
            self.happened.clear()

    def cut_off_after(self, requests: int) -> None:
        """After that many more, every request is cut: so a process that is killed looks to the storage."""
        with self._lock:
            self._left = requests

    @property
    def cut_off(self) -> bool:
        """Whether that point has been reached."""
        return self._left is not None and self._left < 0

    def heal(self) -> None:
        """The end of :meth:`cut_off_after`, when everything that was late has arrived."""
        with self._lock:
            self._left = None
        self.drain()

    def drain(self) -> None:
        """Wait until no request is under way, a late one neither."""
        deadline = time.monotonic() + 10
        while self._pending and time.monotonic() < deadline:
            time.sleep(0.002)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, http_wire.Upstream(self.target) as upstream, contextlib.suppress(OSError, EOFError):
            reader = client.makefile("rb")
            while True:
                request = http_wire.read_request(reader, client)
                code = self.refuse(request)
                if code is not None:
                    client.sendall(error_answer("400", request, code))
                    continue
                if (other := self.instead(request)) is not None:
                    client.sendall(other)
                    continue
                with self._under_way():
                    nth, fault = self._fault(request)
                    if not self._answer(client, upstream, request, nth, fault):
                        return

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[None]:
        with self._lock:
            self._pending += 1
        try:
            yield
        finally:
            with self._lock:
                self._pending -= 1

    def _fault(self, request: Message) -> tuple[int, str | None]:
        with self._lock:
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    return 0, "cut-before"
            kind = kind_of(request)
            self._counts[kind] += 1
            nth = self._counts[kind]
            fault = self.schedule.fault(request, nth)
            if fault:
                self.happened.append(f"{kind} (number {nth}): {fault}")
            return nth, fault

    def _answer(
        self,
        client: socket.socket,
        upstream: http_wire.Upstream,
        request: Message,
        nth: int,
        fault: str | None,
    ) -> bool:
        """Carry out one request with its fault; False when the client's connection is over."""
        if fault == "cut-before":
            return _cut(client)
        if fault == "cut-request":
            upstream.send_part(request)
            return _cut(client)
        if fault == "late":
            _cut(client)
            time.sleep(LATE_S)
            self._pass_on(upstream, request)
            return False
        if fault in CODES:
            client.sendall(error_answer(fault, request))
            return True
        answer = self._pass_on(upstream, request)
        if fault == "slow":
            time.sleep(LATE_S)
        if fault == "cut-after":
            return _cut(client)
        if fault == "torn":
            client.sendall(answer[: self.schedule.kept(request, nth, len(answer))])
            return _cut(client, gently=True)
        if fault and fault.startswith("lost-"):
            answer = error_answer(fault.removeprefix("lost-"), request)
        client.sendall(answer)
        return not http_wire.says_close(answer)

    def _pass_on(self, upstream: http_wire.Upstream, request: Message) -> bytes:
        self.watch(request)
        return upstream.exchange(request)


def error_answer(status: str, request: Message, code: str = "") -> bytes:
    """The answer of an S3 server with that status, and with ``code`` if it is not the usual one."""
    body = f"<Error><Code>{code or CODES[status]}</Code><Message>on purpose</Message></Error>".encode()
    head = f"HTTP/1.1 {status} Broken\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + (b"" if request.words[0] == "HEAD" else body)


def _cut(client: socket.socket, *, gently: bool = False) -> bool:
    """Reset the connection, as when a machine or a balancer dies; ``gently``: end it, so that what was sent arrives."""
    with contextlib.suppress(OSError):
        if not gently:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.shutdown(socket.SHUT_RDWR)
    client.close()
    return False
