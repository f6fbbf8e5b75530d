"""The name service of a test cluster: it knows the API server and what a test adds, and says of every other name that
there is none.

Programs in pods call the API server ``kubernetes.default.svc`` (kopf does). Pods of the tests reach nearly everything
else by address, so a whole CoreDNS would only make the start longer.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Mapping

from sparkstate_tools.kubernetes.control_plane import FIRST_SERVICE

DOMAIN = "cluster.local"
API_SERVER = "kubernetes.default.svc"
A, AAAA = 1, 28
KIND = AAAA if ":" in FIRST_SERVICE else A
NO_SUCH_NAME = 3
LIFETIME_S = 30


class NameServer:
    """Answers on a UDP socket, wherever that was made, from a thread of its own."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._addresses = {API_SERVER: FIRST_SERVICE}
        threading.Thread(target=self._serve, daemon=True).start()

    def add(self, service: str, address: str) -> None:
        """From now on ``service`` (such as ``minio.minio.svc``) has that address."""
        self._addresses = {**self._addresses, service: address}

    def close(self) -> None:
        """Answers no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                query, sender = self._listener.recvfrom(512)
            except OSError:
                return
            with contextlib.suppress(OSError, IndexError, struct.error, UnicodeError):
                self._listener.sendto(answer(query, self._addresses), sender)


def answer(query: bytes, addresses: Mapping[str, str]) -> bytes:
    """The answer to a query with one question (RFC 1035); ``addresses`` are those of services."""
    number, flags = struct.unpack_from("!HH", query)
    name, end = _name(query)
    kind, _ = struct.unpack_from("!HH", query, end)
    question = query[12 : end + 4]
    known = addresses.get(name.lower().removesuffix(f".{DOMAIN}"))
    records = b""
    if known and kind == KIND:
        data = socket.inet_pton(socket.AF_INET6 if KIND == AAAA else socket.AF_INET, known)
        # The name is a pointer to the question's.
        records = struct.pack("!HHHIH", 0xC00C, KIND, 1, LIFETIME_S, len(data)) + data
    recursion = flags & 0x0100
    head = struct.pack(
        "!HHHHHH", number, 0x8480 | recursion | (0 if known else NO_SUCH_NAME), 1, bool(records), 0, 0
    )
    return head + question + records


def _name(query: bytes) -> tuple[str, int]:
    """The question's name, and where its type begins."""
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    return ".".join(labels), at + 1
