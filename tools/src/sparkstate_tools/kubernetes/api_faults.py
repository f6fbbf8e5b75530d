"""A proxy before the API server that plays its bad days: errors, lost answers, dropped watches, held requests.

TLS ends here and begins again, with the cluster's own authority, so the operator's client is unchanged; it must
identify itself by a token. Each request gets a connection of its own, which makes "the connection broke before,
or after, the request was carried out" an exact statement.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from sparkstate_tools.kubernetes.pki import Pair

LONGEST_HEAD = 1 << 16
BLOCK = 1 << 16


class Loss(Enum):
    """How a request can be lost."""

    BEFORE = "the connection breaks before the API server sees the request"
    AFTER = "the request is carried out, and its answer is lost"


@dataclass(frozen=True)
class SeenRequest:
    """A request that came to the proxy."""

    method: str
    path: str
    """With its query."""

    @property
    def watch(self) -> bool:
        """Whether it opens a watch."""
        return "watch=" in self.path and "watch=0" not in self.path

    @property
    def writes(self) -> bool:
        """Whether its method changes something."""
        return self.method in {"POST", "PUT", "PATCH", "DELETE"}


@dataclass
class Rule:
    """The fate of the requests that ``matches`` chooses; the first rule with ``times`` left counts."""

    matches: Callable[[SeenRequest], bool]
    action: int | Loss | Callable[[], object]
    """A status to answer with, a loss, or something to call while the request waits and before it is passed on."""
    times: int
    """For how many requests; -1 for all of them."""
    retry_after_s: int | None = None
    hits: int = 0
    """How many requests it has caught so far."""


@dataclass
class FaultProxy:
    """``server`` is the URL that replaces the API server's. Without rules everything passes."""

    server: str
    upstream: tuple[str, int]
    trust: ssl.SSLContext
    rules: list[Rule] = field(default_factory=list)
    seen: list[SeenRequest] = field(default_factory=list)
    """Every request, in the order of arrival."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: set[socket.socket] = field(default_factory=set)
    _watches: set[socket.socket] = field(default_factory=set)

    # --- what a test says ----------------------------------------------------------------------------------

    def answer(
        self,
        status: int,
        pattern: str = "",
        method: str = "",
        times: int = 1,
        retry_after_s: int | None = None,
    ) -> Rule:
        """The next ``times`` requests whose path matches (a regular expression, searched) get this status."""
        return self._add(Rule(_chooses(pattern, method), status, times, retry_after_s))

    def lose(self, loss: Loss, pattern: str = "", method: str = "", times: int = 1) -> Rule:
        """The next matching requests break off."""
        return self._add(Rule(_chooses(pattern, method), loss, times))

    def call(self, action: Callable[[], object], pattern: str = "", method: str = "", times: int = 1) -> Rule:
        """Calls ``action`` while a matching request waits; when it returns, the request goes on."""
        return self._add(Rule(_chooses(pattern, method), action, times))

    def heal(self) -> None:
        """Takes all rules away."""
        with self._lock:
            self.rules.clear()

    def drop_watches(self) -> int:
        """Breaks the watches that are open now; returns how many."""
        with self._lock:
            watches = list(self._watches)
        for each in watches:
            _break(each)
        return len(watches)

    def _add(self, rule: Rule) -> Rule:
        with self._lock:
            self.rules.append(rule)
        return rule

    # --- what it does --------------------------------------------------------------------------------------

    @classmethod
    @contextlib.contextmanager
    def running(cls, server: str, authority: Path, certificate: Pair) -> Iterator[FaultProxy]:
        """A proxy before ``server`` on a free port of the loopback, ended afterwards with all its connections."""
        target = urlsplit(server)
        shows = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shows.load_cert_chain(certificate.certificate, certificate.key)
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            address = f"https://127.0.0.1:{listener.getsockname()[1]}"
            trust = ssl.create_default_context(cafile=str(authority))
            proxy = cls(address, (str(target.hostname), target.port or 443), trust)
            threading.Thread(target=proxy._accept, args=(listener, shows), daemon=True).start()
            try:
                yield proxy
            finally:
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                with proxy._lock:
                    left = list(proxy._open)
                for each in left:
                    _break(each)

    def _accept(self, listener: socket.socket, shows: ssl.SSLContext) -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(raw, shows), daemon=True).start()

    def _serve(self, raw: socket.socket, shows: ssl.SSLContext) -> None:
        with contextlib.suppress(OSError), contextlib.closing(raw):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with shows.wrap_socket(raw, server_side=True) as down, self._noted(down):
                self._one_request(down)

    def _one_request(self, down: ssl.SSLSocket) -> None:
        head, rest = _read_head(down)
        if not head:
            return
        lines = head.split(b"\r\n")
        method, path = (word.decode() for word in lines[0].split()[:2])
        body = _read_body(down, lines[1:], rest)
        request = SeenRequest(method, path)
        rule = self._judge(request)
        action = rule.action if rule else None
        if isinstance(action, int):
            down.sendall(_refusal(action, rule.retry_after_s if rule else None))
            return
        if action is Loss.BEFORE:
            return
        if callable(action):
            action()
        with socket.create_connection(self.upstream, 10) as plain:
            plain.settimeout(None)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.trust.wrap_socket(plain, server_hostname=self.upstream[0]) as up, self._noted(up):
                up.sendall(_closing(lines) + body)
                if action is Loss.AFTER:
                    up.recv(1)
                    return
                self._relay(up, down, request)

    def _relay(self, up: ssl.SSLSocket, down: ssl.SSLSocket, request: SeenRequest) -> None:
        with self._lock:
            if request.watch:
                self._watches.add(down)
        try:
            head, rest = _read_head(up)
            down.sendall(_closing(head.split(b"\r\n")) + rest)
            while block := up.recv(BLOCK):
                down.sendall(block)
        finally:
            with self._lock:
                self._watches.discard(down)

    def _judge(self, request: SeenRequest) -> Rule | None:
        with self._lock:
            self.seen.append(request)
            for rule in self.rules:
                if rule.times != 0 and rule.matches(request):
                    rule.times -= rule.times > 0
                    rule.hits += 1
                    return rule
        return None

    @contextlib.contextmanager
    def _noted(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)


def _chooses(pattern: str, method: str) -> Callable[[SeenRequest], bool]:
    wanted = re.compile(pattern)
    return lambda seen: (not method or seen.method == method) and wanted.search(seen.path) is not None


def _read_head(connection: ssl.SSLSocket) -> tuple[bytes, bytes]:
    """Everything up to the empty line, and what was read beyond it; empty when the peer has nothing to say."""
    data = b""
    while b"\r\n\r\n" not in data:
        block = connection.recv(BLOCK)
        if not block or len(data) > LONGEST_HEAD:
            return b"", b""
        data += block
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _read_body(connection: ssl.SSLSocket, headers: list[bytes], rest: bytes) -> bytes:
    """The request's body as it came; the clients of Kubernetes send a length, Go's sometimes chunks."""
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in headers)
    }
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        while not rest.endswith(b"0\r\n\r\n"):
            rest += connection.recv(BLOCK)
        return rest
    length = int(fields.get(b"content-length", b"0"))
    while len(rest) < length:
        block = connection.recv(BLOCK)
        if not block:
            raise OSError("the request broke off")
        rest += block
    return rest


def _closing(lines: list[bytes]) -> bytes:
    """The head with ``Connection: close`` instead of whatever it said."""
    kept = [
        line for line in lines if line.partition(b":")[0].strip().lower() not in {b"connection", b"upgrade"}
    ]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


def _refusal(status: int, retry_after_s: int | None) -> bytes:
    """An answer as the API server writes one."""
    reasons = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reasons.get(status, "Unknown"),
        "message": f"the proxy of the tests answers {status}",
        "code": status,
    }
    body = json.dumps(document).encode()
    wait = f"Retry-After: {retry_after_s}\r\n" if retry_after_s is not None else ""
    head = (
        f"HTTP/1.1 {status} Fault\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{wait}"
    )
    return f"{head}Connection: close\r\n\r\n".encode() + body


def _break(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
