"""Frames between two processes that have proved themselves to each other (``slots.handshake``).

A frame is four bytes of length (big endian) and that many bytes. Between hosts frames are sealed, each as a whole, with
AES-256-GCM under a key of this connection and direction; the nonce is the frame's number. So a frame that was read is
one that the other end sent, in its place: none is changed, left out, repeated, turned round or made up. Over a Unix
socket they go as they are, at no cost.

Not TLS: Python's reads 16 KiB at a time and takes the interpreter for each, which a slot that is busy with records has
to wait for. One frame is sealed and opened by one call (RFC 0017 has the figures).
"""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from sparkstate import errors

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LONGEST: Final = (1 << 31) - 64
"""Bytes of a frame that AES-GCM seals at once, and more than any should have."""
_LENGTH: Final = struct.Struct(">I")
_TAG_BYTES: Final = 16
_JOINED_BYTES: Final = 16 << 10
"""Up to here a copy costs less than a second call of the kernel."""
Data: TypeAlias = bytes | memoryview


class Channel:
    """One connection. Each direction belongs to one thread at a time.

    ``key_out``, ``key_in``: 32 bytes each; without them frames are not sealed.
    """

    def __init__(
        self, connection: socket.socket, key_out: bytes | None = None, key_in: bytes | None = None
    ) -> None:
        self.connection = connection
        self._out = _Seal(key_out) if key_out else None
        self._in = _Seal(key_in) if key_in else None

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, data: Data) -> None:
        """Send one frame."""
        if len(data) > LONGEST:
            raise errors.SpecInvalid(
                f"{len(data):,} bytes do not fit one frame to or from a slot (at most {LONGEST:,}): choose a lower "
                "spark.sql.execution.arrow.maxRecordsPerBatch"
            )
        if self._out is not None:
            data = self._out.seal(data)
        head = _LENGTH.pack(len(data))
        if len(data) <= _JOINED_BYTES:
            self.connection.sendall(head + data)
        else:
            self.connection.sendall(head)
            self.connection.sendall(data)

    def receive(self, longest: int = LONGEST) -> pa.Buffer:
        """The next frame. Raises ``SlotLost`` if the other end is gone, or says what cannot be."""
        head = bytearray(_LENGTH.size)
        self._fill(memoryview(head))
        (size,) = _LENGTH.unpack(head)
        if size > longest + _TAG_BYTES:
            raise errors.SlotLost(
                f"a frame of {size:,} bytes was announced; the other end is not a sparkstate process"
            )
        frame = pa.allocate_buffer(size)
        self._fill(view(frame))
        if self._in is None:
            return frame
        try:
            return self._in.open(frame)
        except errors.SlotLost:
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)  # nothing that follows is read either
            raise

    def _fill(self, room: memoryview) -> None:
        filled = 0
        while filled < len(room):
            count = self.connection.recv_into(room[filled:], len(room) - filled, socket.MSG_WAITALL)
            if count == 0:
                raise errors.SlotLost(f"the connection ended after {filled} of {len(room)} bytes")
            filled += count


class _Seal:
    """One direction of one connection."""

    def __init__(self, key: bytes) -> None:
        self._cipher = _cipher()(key)
        self._number = 0

    def _nonce(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(12, "big")

    def seal(self, data: Data) -> bytes:
        return self._cipher.encrypt(self._nonce(), data, None)

    def open(self, frame: pa.Buffer) -> pa.Buffer:
        from cryptography.exceptions import InvalidTag

        if frame.size < _TAG_BYTES:
            raise errors.SlotLost(f"a frame of {frame.size} bytes is not sealed")
        data = pa.allocate_buffer(frame.size - _TAG_BYTES)
        try:
            self._cipher.decrypt_into(self._nonce(), view(frame), None, view(data))
        except InvalidTag:
            raise errors.SlotLost(
                f"frame {self._number} was not sealed by the other end, or not as this one: somebody stands between"
            ) from None
        return data


def view(buffer: pa.Buffer) -> memoryview:
    """A buffer's bytes, without a copy."""
    return memoryview(buffer).cast("B")


@functools.cache
def _cipher() -> type[AESGCM]:
    """Loaded where a connection leaves the host: 40 ms and 9 MiB that local jobs need not spend."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM
