"""Magic, version, length, SHA-256, payload: the frame of everything small that sparkstate stores.

======  ======  ==============================================
offset  bytes   content
======  ======  ==============================================
0       4       magic, ASCII
4       2       format version, unsigned, big endian
6       2       reserved, zero
8       8       length of the payload in bytes, big endian
16      32      SHA-256 of the payload
48      …       payload (msgpack)
======  ======  ==============================================
"""

from __future__ import annotations

import hashlib
import struct
from typing import TypeVar

import msgspec

from sparkstate import errors

_HEAD = struct.Struct(">4sHHQ32s")
HEAD_SIZE = _HEAD.size

T = TypeVar("T")


def frame(magic: bytes, version: int, payload: bytes) -> bytes:
    """``payload`` with its head."""
    return _HEAD.pack(magic, version, 0, len(payload), hashlib.sha256(payload).digest()) + payload


def unframe(magic: bytes, version: int, data: bytes, name: str) -> bytes:
    """The verified payload.

    Raises ``CorruptData`` for wrong magic, length or checksum, and ``UnknownFormat`` for a version newer than
    ``version``. That is not damage: a newer sparkstate wrote it. ``name`` is for the message.
    """
    if len(data) < HEAD_SIZE:
        raise errors.CorruptData(
            f"{name} has {len(data)} bytes, fewer than its head of {HEAD_SIZE}; it was cut"
        )
    found_magic, found_version, _, length, digest = _HEAD.unpack_from(data)
    if found_magic != magic:
        raise errors.CorruptData(
            f"{name} begins with {found_magic!r}, not with {magic!r}; it is another kind of file"
        )
    if not 1 <= found_version <= version:
        raise errors.UnknownFormat(
            f"{name} has the format version {found_version}, this sparkstate reads 1 to {version}; "
            "use the sparkstate version that wrote it, or a newer one"
        )
    payload = data[HEAD_SIZE:]
    if len(payload) != length:
        raise errors.CorruptData(f"{name} should hold {length} bytes after its head and holds {len(payload)}")
    if hashlib.sha256(payload).digest() != digest:
        raise errors.CorruptData(
            f"{name}: the SHA-256 of its content is not the one in its head; it was changed"
        )
    return payload


def parse(decoder: msgspec.msgpack.Decoder[T], payload: bytes, name: str) -> T:
    """msgpack to structs; a payload that does not fit is ``CorruptData`` (its checksum was right: a bug
    or a forgery).
    """
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise errors.CorruptData(f"{name} has a payload that does not fit its format: {error}") from error
