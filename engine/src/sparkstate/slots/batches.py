"""Arrow batches over a channel: the schema, then batches, each an IPC message in a frame; an empty frame ends.

Not Arrow's own stream reader over a Python file: it asks for the interpreter at every few kilobytes, and in a slot that
is busy with records each time has to wait for it. Here a batch of any size is one call, into memory that the batch then
uses as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sparkstate.serde import utc_types
from sparkstate.slots.channel import Channel, view


class Sender:
    """Sends batches of one schema; :meth:`end` after the last."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._begun = False

    def send(self, batch: pa.RecordBatch) -> None:
        """Send one batch."""
        if not self._begun:
            self.begin(batch.schema)
        self.channel.send(view(batch.serialize()))

    def begin(self, schema: pa.Schema) -> None:
        """Send the schema; ``send`` does it by itself."""
        self._begun = True
        self.channel.send(view(schema.serialize()))

    def end(self) -> None:
        """Say that this was all."""
        self.channel.send(b"")


def send_all(channel: Channel, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Send these batches, then the end."""
    sender = Sender(channel)
    sender.begin(schema)
    for batch in batches:
        sender.send(batch)
    sender.end()


def receive(channel: Channel) -> Iterator[pa.RecordBatch]:
    """The batches until the end that the other side says, with times in UTC: a batch has the same bytes in any time
    zone. Raises ``SlotLost`` if the other side is gone before."""
    schema: pa.Schema | None = None
    while (message := channel.receive()).size:
        if schema is None:
            schema = utc_types.schema_in_utc(pa.ipc.read_schema(message))
        else:
            yield pa.ipc.read_record_batch(message, schema)
