"""How both ends of a connection to a slot prove that they belong to the same attempt (RFC 0017).

The caller says its role and a nonce, the slot answers with a nonce and its proof, the caller proves itself. Both proofs
and the keys of the channel are derived from the attempt's key for slots and from all that was said: role, kind of
connection, the process that is meant, both nonces. So nobody gains by passing a handshake on: whoever sits between the
two ends, at an address that was a slot's a moment ago for instance, has none of the channel's keys, and neither end
takes the proof for another role, process, connection or kind of connection.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
from collections.abc import Callable
from enum import Enum
from typing import Final

from sparkstate import errors
from sparkstate.slots import channel

PROTOCOL: Final = b"sparkstate slots 2"
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
HELLO_BYTES: Final = len(PROTOCOL) + 1 + NONCE_BYTES
IDENTITY_BYTES: Final = 16
Left = Callable[[], float]
"""Seconds that are left."""


class Role(Enum):
    """The caller, which decides what it may ask (``protocol.ALLOWED``)."""

    DRIVER = b"d"
    TASK = b"t"


class Unproven(errors.SlotLost):
    """The other end has no key of this attempt, or means another process, role or kind of connection."""


def new_identity() -> str:
    """Of a slot's process, in hex: an address may be another slot's a moment later."""
    return os.urandom(IDENTITY_BYTES).hex()


def call(connection: socket.socket, key: str, identity: str, role: Role, left: Left) -> channel.Channel:
    """The caller's side. Nothing but a nonce is said before the slot has proved itself. Raises ``SlotLost``."""
    said = PROTOCOL + role.value + os.urandom(NONCE_BYTES)
    connection.sendall(said)
    answer = _receive(connection, NONCE_BYTES + PROOF_BYTES, left)
    secrets = _Secrets(key, identity, connection, said + answer[:NONCE_BYTES])
    if not hmac.compare_digest(answer[NONCE_BYTES:], secrets.of("the slot's proof")):
        raise Unproven(
            "whoever answers at its address cannot prove that it is this slot: the slot is gone and the address "
            "belongs to another process, or somebody stands between"
        )
    connection.sendall(secrets.of("the caller's proof"))
    return secrets.channel(sends="to the slot", receives="to the caller")


def answer(connection: socket.socket, key: str, identity: str, left: Left) -> tuple[Role, channel.Channel]:
    """The slot's side: who calls, and the channel to it. Raises ``Unproven`` or ``SlotLost``."""
    said = _receive(connection, HELLO_BYTES, left)
    role_said = said[len(PROTOCOL) : len(PROTOCOL) + 1]
    if not said.startswith(PROTOCOL) or role_said not in {role.value for role in Role}:
        raise Unproven("the other end speaks another protocol")
    nonce = os.urandom(NONCE_BYTES)
    secrets = _Secrets(key, identity, connection, said + nonce)
    connection.sendall(nonce + secrets.of("the slot's proof"))
    if not hmac.compare_digest(_receive(connection, PROOF_BYTES, left), secrets.of("the caller's proof")):
        raise Unproven("the other end has no key of this attempt")
    return Role(role_said), secrets.channel(sends="to the caller", receives="to the slot")


class _Secrets:
    """All that is derived from the key and the transcript of one handshake, whose parts have fixed lengths."""

    def __init__(self, key: str, identity: str, connection: socket.socket, said: bytes) -> None:
        self._connection = connection
        self._is_local = connection.family == socket.AF_UNIX
        kind = b"unix" if self._is_local else b"tcp."
        transcript = hashlib.sha256(kind + bytes.fromhex(identity) + said).digest()
        self._secret = hmac.digest(key.encode(), transcript, "sha256")

    def of(self, label: str) -> bytes:
        return hmac.digest(self._secret, label.encode(), "sha256")

    def channel(self, sends: str, receives: str) -> channel.Channel:
        """Sealed, except over a Unix socket: nobody can stand between its ends, and its folder is its user's alone."""
        if self._is_local:
            return channel.Channel(self._connection)
        return channel.Channel(self._connection, self.of(sends), self.of(receives))


def _receive(connection: socket.socket, count: int, left: Left) -> bytes:
    """``count`` bytes within what is ``left`` in all, however they come. Bytes that are there are read even if nothing
    is left: a process that got no CPU for that long has not been failed by the other end."""
    parts = bytearray()
    while len(parts) < count:
        connection.settimeout(max(left(), 0.001))
        try:
            part = connection.recv(count - len(parts))
        except TimeoutError:
            raise errors.SlotLost("the other end did not prove itself in time") from None
        if not part:
            raise errors.SlotLost(
                f"the connection ended after {len(parts)} of {count} bytes of the handshake"
            )
        parts += part
    return bytes(parts)
