"""The client side of a slot's socket: used by the driver (control) and by Spark tasks (feed, output)."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkstate import clock, errors
from sparkstate.slots import handshake, protocol
from sparkstate.slots.channel import Channel

_R = TypeVar("_R", bound=protocol.Message)
_CONNECT_S = 30.0
_AGAIN_S = 0.02

_KINDS: dict[str, type[errors.SparkstateError]] = {
    kind.__name__: kind
    for kind in (
        errors.SpecInvalid,
        errors.NotInThisVersion,
        errors.BackendRefused,
        errors.BackendUnavailable,
        errors.UserCodeError,
        errors.StateError,
        errors.DeclarationError,
        errors.OperatorStateTooLarge,
        errors.StateMigrationError,
        errors.SerializationError,
        errors.RestoreBlocked,
        errors.StorageError,
        errors.StorageRefused,
        errors.StorageUnavailable,
        errors.NotFound,
        errors.CorruptData,
        errors.UnknownFormat,
        errors.SlotLost,
        errors.FeedBroken,
    )
}


@dataclass(frozen=True)
class SlotAddress:
    """Where a slot listens: a Unix socket on its own host, TCP from elsewhere."""

    slot: int
    host: str
    pid: int
    unix_path: str
    tcp_port: int = 0
    tcp_host: str = ""
    """The address of ``host`` as seen from elsewhere; its name may not be resolvable (pods)."""
    executor: str = ""
    """Spark's id of the executor that it runs in, where that has one of its own (pods)."""
    identity: str = ""
    """Of its process, which proves itself as this one: see ``slots.handshake``."""


def error_of(reason: str, message: str) -> errors.SparkstateError:
    """Our error of that class name, as it was raised in the slot."""
    return _KINDS.get(reason, errors.SparkstateError)(message)


def connect(
    address: SlotAddress,
    key: str,
    role: handshake.Role,
    local_host: str,
    timeout_s: float = _CONNECT_S,
    began: Callable[[socket.socket], None] = lambda _: None,
) -> Channel:
    """Open a connection whose ends have proved themselves; raises ``SlotLost`` if there is nobody, or somebody else.

    ``key``: the attempt's, for slots. ``began`` is given the socket before anything is sent: shutting that down
    ends this try.
    """
    system_clock = clock.SystemClock()
    deadline = system_clock.monotonic() + timeout_s
    connection, target = _socket_to(address, local_host)
    try:
        connection.settimeout(timeout_s)
        began(connection)
        _call(connection, target, deadline, system_clock)
    except OSError as error:
        connection.close()
        raise errors.SlotLost(
            f"slot {address.slot} (pid {address.pid}) cannot be reached: {error}"
        ) from error
    try:
        channel = handshake.call(
            connection, key, address.identity, role, lambda: deadline - system_clock.monotonic()
        )
        connection.settimeout(None)
    except (OSError, errors.SlotLost) as error:
        connection.close()
        raise errors.SlotLost(
            f"slot {address.slot} (pid {address.pid}) did not prove itself: {error}"
        ) from error
    return channel


def _call(connection: socket.socket, target: Any, deadline: float, time: clock.Clock) -> None:
    """Connect, and wait where too many others do: the kernel then refuses a Unix socket's caller at once."""
    while True:
        try:
            return connection.connect(target)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_AGAIN_S)


def _socket_to(address: SlotAddress, local_host: str) -> tuple[socket.socket, Any]:
    """One that is not connected yet, and what to connect it to."""
    if address.host == local_host and address.unix_path:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), address.unix_path
    host = (address.tcp_host or address.host).strip("[]")  # Spark writes IPv6 in brackets
    try:
        found = socket.getaddrinfo(host, address.tcp_port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise errors.SlotLost(
            f"slot {address.slot} (pid {address.pid}) cannot be reached: {host}: {error}"
        ) from error
    family, kind, number, _, target = found[0]
    connection = socket.socket(family, kind, number)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, target


class SlotClient:
    """The driver's connection to one slot; one request at a time, callable from several threads."""

    def __init__(self, address: SlotAddress, key: str, local_host: str) -> None:
        self.address = address
        self._key = key
        self._local_host = local_host
        self._connection: socket.socket | None = None
        self._channel: Channel | None = None
        self._lock = threading.Lock()
        self._gone = False
        self._interrupted = False

    def call(self, request: protocol.Message, expect: type[_R], timeout_s: float | None = None) -> _R:
        """Send ``request`` and return its reply; the slot's own errors are raised here as they were there."""
        with self._lock:
            if self._interrupted:
                # It was the call before, or came while there was none: the slot itself may be well. A survivor whose
                # idle connection had been cut with the others' did not hear ``Stop``.
                self._interrupted = False
                self._drop()
            if self._gone:
                raise errors.SlotLost(f"slot {self.address.slot} (pid {self.address.pid}) is gone")
            try:
                channel = self._channel or self._connect(min(timeout_s or _CONNECT_S, _CONNECT_S))
                channel.connection.settimeout(timeout_s)
                protocol.send(channel, request)
                reply = protocol.receive_reply(channel)
            except (OSError, errors.SlotLost) as error:
                self._drop()
                raise errors.SlotLost(
                    f"slot {self.address.slot} (pid {self.address.pid}): {error}"
                ) from error
        if isinstance(reply, protocol.Failed):
            raise error_of(reply.reason, reply.message)
        if not isinstance(reply, expect):
            raise errors.SlotLost(f"slot {self.address.slot} answered {type(reply).__name__}")
        return reply

    def close(self) -> None:
        """Close the connection; the slot goes on."""
        with self._lock:
            self._drop()

    def interrupt(self) -> None:
        """Make a call under way fail now, because its slot may be behind a network that no longer answers.
        Later calls connect again."""
        self._interrupted = True
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def give_up(self) -> None:
        """As :meth:`interrupt`, for good: the slot is gone, and later calls fail at once. To look for a pod that Spark
        had said was gone took up to 30 s."""
        self._gone = True
        self.interrupt()

    def _connect(self, timeout_s: float) -> Channel:
        role = handshake.Role.DRIVER
        self._channel = connect(self.address, self._key, role, self._local_host, timeout_s, self._began)
        return self._channel

    def _began(self, connection: socket.socket) -> None:
        """From here on :meth:`interrupt` finds the connection."""
        self._connection = connection
        if self._interrupted:  # before the line above, where it found nothing to shut down
            raise OSError("interrupted")

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = self._channel = None
