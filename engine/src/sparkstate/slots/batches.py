"""Arrow batches on a socket: each is eight bytes of length and one IPC message; the schema comes first, zero ends.

Not Arrow's own stream reader over a Python file: it asks for the interpreter at every few kilobytes, and in a slot that
is busy with records each time has to wait for it. Here a batch of any size is one call, into memory that the batch then
uses as it is.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from sparkstate import errors

MAX_BATCH_BYTES: Final = 1 << 31
_SIZE = struct.Struct(">Q")


class Sender:
    """Sends batches of one schema; :meth:`end` after the last."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._begun = False

    def send(self, batch: pa.RecordBatch) -> None:
        """Send one batch."""
        if not self._begun:
            self.begin(batch.schema)
        self._message(batch.serialize())

    def begin(self, schema: pa.Schema) -> None:
        """Send the schema; ``send`` does it by itself."""
        self._begun = True
        self._message(schema.serialize())

    def end(self) -> None:
        """Say that this was all."""
        self._connection.sendall(_SIZE.pack(0))

    def _message(self, buffer: pa.Buffer) -> None:
        self._connection.sendall(_SIZE.pack(buffer.size))
        self._connection.sendall(memoryview(buffer))


def send_all(connection: socket.socket, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Send these batches, then the end."""
    sender = Sender(connection)
    sender.begin(schema)
    for batch in batches:
        sender.send(batch)
    sender.end()


def receive(connection: socket.socket) -> Iterator[pa.RecordBatch]:
    """The batches until the end that the other side says. Raises ``SlotLost`` if it is gone before."""
    schema: pa.Schema | None = None
    while (message := _receive_message(connection)) is not None:
        if schema is None:
            schema = pa.ipc.read_schema(message)
        else:
            yield pa.ipc.read_record_batch(message, schema)


def _receive_message(connection: socket.socket) -> pa.Buffer | None:
    head = bytearray(_SIZE.size)
    _fill(connection, memoryview(head))
    (size,) = _SIZE.unpack(head)
    if size == 0:
        return None
    if size > MAX_BATCH_BYTES:
        raise errors.SlotLost(
            f"a batch of {size} bytes was announced; the other side is no sparkstate process"
        )
    buffer = pa.allocate_buffer(size)
    _fill(connection, memoryview(buffer))
    return buffer


def _fill(connection: socket.socket, view: memoryview) -> None:
    filled = 0
    while filled < len(view):
        count = connection.recv_into(view[filled:], len(view) - filled, socket.MSG_WAITALL)
        if count == 0:
            raise errors.SlotLost(f"the connection ended after {filled} of {len(view)} bytes of a batch")
        filled += count
