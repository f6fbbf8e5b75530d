"""A query's position as a checkpoint stores it: an archive of small files, and parts that checkpoints share.

Spark's directory is read by :mod:`sparkstate.spark.capture`; a directory that :func:`seed` has filled is all that a
query needs to go on.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from sparkstate import errors

ARCHIVE_VERSION: Final = 2
PART_BYTES: Final = 20 * 1024
"""A part that is larger than this is stored as a file of its own, to which later checkpoints refer."""
_OFFSETS_HEAD: Final = 2
"""Lines of an entry of Spark's offset log before those of the sources."""
_COMPRESSION: Final = 1
"""Entries are lines of JSON with a path each: zlib's fastest level leaves about a tenth."""


class Archive(msgspec.Struct, frozen=True, omit_defaults=True):
    """Relative path → content, as of ``epoch``. ``parts``: relative path → name of the part that holds its content;
    an archive without any has version 1."""

    version: int
    epoch: int
    files: dict[str, bytes]
    parts: dict[str, str] = {}


@dataclass(frozen=True)
class Part:
    """A large file of a position. ``identity`` names its content."""

    name: str
    identity: str
    content: bytes

    def packed(self) -> bytes:
        """As it is stored."""
        return zlib.compress(self.content, _COMPRESSION)


@dataclass(frozen=True)
class Position:
    """A position as it is stored: an archive and the parts that it names."""

    archive: bytes = b""
    parts: tuple[Part, ...] = ()


def packed(epoch: int, files: Mapping[str, bytes], parts: Mapping[str, str]) -> bytes:
    """The stored bytes of an archive."""
    version = ARCHIVE_VERSION if parts else 1
    return msgspec.msgpack.encode(Archive(version, epoch, dict(files), dict(parts)))


def offsets(archive: bytes) -> tuple[str, ...]:
    """The offset of each use of a source, as Spark wrote it (``-`` before its first row); the heartbeat has none here.

    Raises ``CorruptData`` and ``UnknownFormat`` as :func:`seed`.
    """
    files = _decoded(archive).files
    epochs = [int(number) for name in files if (number := name.removeprefix("offsets/")).isdigit()]
    if not epochs:
        raise errors.CorruptData("the stored source position has no offsets")
    return tuple(files[f"offsets/{max(epochs)}"].decode(errors="replace").split("\n")[_OFFSETS_HEAD:])


def _no_parts(name: str) -> bytes:
    raise errors.CorruptData(f"the stored source position names the part {name!r}, which is not there")


def seed(
    directory: Path, archive: bytes, *, heartbeat: bool, part: Callable[[str], bytes] = _no_parts
) -> int:
    """Fill a fresh directory; returns the archive's epoch. The query then resumes at the next one.

    ``heartbeat``: the query has ours as its last source, which begins anew at 0. ``part`` gives the stored bytes of a
    part by its name.
    """
    decoded = _decoded(archive)
    large = [(path, _unpacked(part(name), name)) for path, name in decoded.parts.items()]
    directory.mkdir(parents=True, exist_ok=False)
    for name, content in (*decoded.files.items(), *large):
        target = directory / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise errors.CorruptData(f"the stored source position names {name!r}, outside of its directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        beats = heartbeat and name.startswith("offsets/")
        target.write_bytes(content + b"\n0" if beats else content)
    return decoded.epoch


def _decoded(archive: bytes) -> Archive:
    try:
        decoded = msgspec.msgpack.decode(archive, type=Archive)
    except msgspec.MsgspecError as error:
        raise errors.CorruptData(f"the stored source position cannot be read: {error}") from error
    if not 1 <= decoded.version <= ARCHIVE_VERSION:
        raise errors.UnknownFormat(
            f"the stored source position has version {decoded.version}, this sparkstate reads 1 to {ARCHIVE_VERSION}: "
            "use the version that wrote it or a newer one"
        )
    return decoded


def _unpacked(data: bytes, name: str) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise errors.CorruptData(
            f"the part {name!r} of the stored source position is damaged: {error}"
        ) from error
