"""Somebody at an address that a caller dials: passes bytes on to where they were meant for, and may change them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Self

Change = Callable[[bytes], bytes]


class Between:
    """Listens on the loopback. ``to_slot`` and ``to_caller`` hold what came by; ``change`` edits what goes to the slot.

    ``target``: an address for ``socket.connect``, a path for a Unix socket.
    """

    def __init__(self, target: Any, change: Change = lambda data: data) -> None:
        self._target = target
        self.change = change
        self.to_slot = bytearray()
        self.to_caller = bytearray()
        self.slot_side: socket.socket | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        if self.slot_side is not None:
            self.slot_side.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                slot = socket.socket(socket.AF_UNIX if isinstance(self._target, str) else socket.AF_INET)
                slot.connect(self._target)
                self.slot_side = slot
                threading.Thread(target=self._to_slot, args=(caller, slot), daemon=True).start()
                threading.Thread(target=self._to_caller, args=(slot, caller), daemon=True).start()

    def _to_slot(self, caller: socket.socket, slot: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := caller.recv(1 << 16):
                self.to_slot += data
                slot.sendall(self.change(data))
            slot.shutdown(socket.SHUT_WR)

    def _to_caller(self, slot: socket.socket, caller: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := slot.recv(1 << 16):
                self.to_caller += data
                caller.sendall(data)
        with contextlib.suppress(OSError):
            caller.shutdown(socket.SHUT_RDWR)


def ended(connection: socket.socket) -> bool:
    """Whether the other side closed without another byte; a reset says so too, for it left bytes unread."""
    connection.settimeout(30)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
