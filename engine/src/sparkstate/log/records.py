"""The records of a lineage's log, and their bytes (docs/formats.md, "Log records").

A record is framed by magic, format version, length and SHA-256, so that a record that was cut or changed is
an error and never a shorter history. The payload is msgpack, read with the structs below and nothing else.
"""

from __future__ import annotations

import msgspec

from sparkstate.log import framing

MAGIC = b"SSLG"
VERSION = 1
FOLDER = "log"
COMPACTED = framing.frame(MAGIC, 2, b"\x80")
"""The object in the place of entry 1 once that is deleted. A reader gets there only if it knows of no base; a version
that knows no floor then refuses the log instead of taking it for an empty one."""


def key_of(number: int) -> str:
    """The object of entry ``number``, which begins with 1."""
    return f"{FOLDER}/{number:012d}"


class Token(msgspec.Struct, frozen=True, order=True):
    """The fencing token. Ordered: a higher attempt beats every life of a lower one."""

    attempt: int
    life: int


class Claim(msgspec.Struct, frozen=True, kw_only=True, tag="claim"):
    """A driver took the lineage. A driver that claimed before may append nothing more."""

    attempt: int
    life: int
    driver: str
    """The driver's name for people: host, pid or pod."""
    released: bool = False
    """The same driver's second record: it has done all that it will ever do, so a driver that waits may claim."""
    knows_floor: bool = False
    """Whether this driver looks for the log's floor after each entry that it creates (``log.log``)."""

    @property
    def token(self) -> Token:
        return Token(self.attempt, self.life)


class Incarnation(msgspec.Struct, frozen=True, kw_only=True, tag="incarnation"):
    """One restore. ``restored_from`` is a URL, or empty if the state began empty."""

    number: int
    restored_from: str = ""
    slots: int = 0
    storage: str = ""
    """The URL of the lineage, by which a copy of its storage is told apart; empty in records of older versions."""
    left: tuple[str, ...] = ()
    """Savepoints that the log forgets, because they are those of the storage that this one is a copy of."""


class CheckpointCommitted(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """A checkpoint is complete; this record is its commit. ``path`` of ``_metadata`` is relative to the lineage."""

    checkpoint_id: int
    path: str
    checksum: str
    epoch: int
    incarnation: int
    timestamp_ms: int = 0


class SavepointStarted(msgspec.Struct, frozen=True, kw_only=True, tag="savepoint-started"):
    """Files may be written into ``url`` from now on. Names the folder, so that a crash leaves nothing unknown."""

    trigger_id: str
    url: str
    checkpoint_id: int
    incarnation: int


class SavepointCommitted(msgspec.Struct, frozen=True, kw_only=True, tag="savepoint"):
    """A savepoint is complete; this record is its commit."""

    trigger_id: str
    url: str
    checksum: str
    checkpoint_id: int
    epoch: int
    incarnation: int
    timestamp_ms: int = 0


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="closed"):
    """Stop with savepoint: nothing commits after it, and no life of ``attempt`` runs again."""

    savepoint_url: str
    trigger_id: str
    attempt: int


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, tag="tombstone"):
    """A list of things that may be deleted from now on, because nothing refers to them.

    ``paths`` are objects relative to the lineage; ``checkpoints`` are the ids that cease to be completed
    checkpoints; ``savepoints`` are URLs of whole folders. ``published`` is the id of a checkpoint or savepoint: all
    output up to it is visible, so what was staged for it is not needed, and what is visible is its readers' alone.
    """

    paths: tuple[str, ...] = ()
    checkpoints: tuple[int, ...] = ()
    savepoints: tuple[str, ...] = ()
    reason: str = ""
    published: int = 0


class SavepointsDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="savepoints-deleted"):
    """The folders of an earlier tombstone are gone; nobody has to look again."""

    savepoints: tuple[str, ...]


Record = (
    Claim
    | Incarnation
    | CheckpointCommitted
    | SavepointStarted
    | SavepointCommitted
    | Closed
    | Tombstone
    | SavepointsDeleted
)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its place. ``writer`` is unique to one opening of the log by one process."""

    number: int
    writer: str
    timestamp_ms: int
    record: Record


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    """The bytes of one log object."""
    return framing.frame(MAGIC, VERSION, _ENCODER.encode(entry))


def decode(data: bytes, name: str) -> Entry:
    """The inverse of :func:`encode`. Raises ``CorruptData`` or, for a newer format, ``UnknownFormat``."""
    return framing.parse(_DECODER, framing.unframe(MAGIC, VERSION, data, name), name)
