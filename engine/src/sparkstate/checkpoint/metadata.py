"""``_metadata``: everything needed to restore one checkpoint or savepoint, except the data (docs/formats.md).

Checked before it is written and after it is read: the same :func:`check` on both sides.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from sparkstate import errors
from sparkstate.checkpoint.key_columns import KeyColumn
from sparkstate.handles import FileHandle, ShardHandle, StateMeta
from sparkstate.keygroups import KeySpace
from sparkstate.log import framing
from sparkstate.log.lineage import JobName
from sparkstate.storage import naming

MAGIC = b"SSMD"
FORMAT_VERSION = 3
"""Written where there is ``operator_state``; without it, and with ``source_files``, the payload is that of version 2,
and without either that of version 1, which older versions of sparkstate read."""

_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}")


class Committable(msgspec.Struct, frozen=True, kw_only=True):
    """One staged file of an exact sink: published by renaming ``staged`` to ``final`` once the checkpoint is complete.

    ``size`` in bytes; ``checksum`` as in ``FileHandle``; ``rows`` for reports. ``url`` is the folder of both names, so
    that a sink that changed or went since has its file where it was meant; empty in what older versions wrote, for
    which the job's present sink of that name says it.
    """

    sink: str
    slot: int
    staged: str
    final: str
    size: int
    checksum: str
    rows: int = 0
    url: str = ""


class CheckpointMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """One completed snapshot of the whole job. Watermarks and ``timestamp_ms`` are ms since the epoch."""

    kind: Literal["checkpoint", "savepoint"]
    checkpoint_id: int
    job: JobName
    lineage: str
    incarnation: int
    epoch: int
    """The last epoch that is contained; -1 before the first."""
    watermark: int
    timestamp_ms: int
    key_space: KeySpace
    slots: int
    backend: str
    operators: tuple[str, ...]
    states: tuple[StateMeta, ...]
    shards: tuple[ShardHandle, ...]
    premises: dict[str, dict[str, str]] = {}
    """By uid what an operator's state was built on (``checkpoint.premises``); empty of those without any, which older
    versions left out."""
    key_columns: dict[str, tuple[KeyColumn, ...]] = {}
    """By uid the columns of an operator's key (``checkpoint.key_columns``); those without keys are left out. Empty in
    older versions' snapshots."""
    operator_state: tuple[FileHandle, ...] = ()
    """One file of each slot, in order (``checkpoint.operator_parts``); empty where the job has no operator state."""
    source_position: FileHandle | None = None
    """Opaque archive of Spark's query position, inline or a file."""
    source_files: tuple[FileHandle, ...] = ()
    """Parts that the archive only names, because they are large: shared files, compressed by zlib."""
    source_watermarks: dict[str, int] = {}
    """Largest event time by source."""
    source_parts: dict[str, dict[str, int]] = {}
    """Largest event time by source and part (a JSON object of the columns that tell parts apart)."""
    source_readers: tuple[tuple[str, ...], ...] = ()
    """By source, the inputs of operators that read it: ``uid/input``. Empty in older versions' snapshots."""
    late_at_watermark: bool = False
    """A row at the watermark is late, as in Flink; False in older versions' snapshots, in which it was on time."""
    committables: tuple[Committable, ...] = ()
    sinks: tuple[str, ...] = ()
    """The URLs of the job's exact sinks, whose folders were made: a restore waits for one that is missing. Empty in
    older versions' snapshots."""
    trigger_id: str = ""
    duration_ms: int = 0
    closed: bool = False
    """Stop with savepoint: no epoch commits after it."""
    drained: bool = False
    """The input was bounded and has ended: the watermark is +∞."""
    watermark_before_end: int | None = None
    """Of a drained snapshot: the watermark from which the next run of the job goes on; None in older versions'
    snapshots. With the +∞ of the drain every row of the next run was late."""
    sparkstate: str = ""
    """The version of sparkstate that wrote it."""

    def files(self) -> Iterator[FileHandle]:
        """Every file that it needs, inline ones too."""
        for shard in self.shards:
            yield from shard.files
        yield from self.operator_state
        if self.source_position is not None:
            yield self.source_position
        yield from self.source_files

    def paths(self) -> set[str]:
        """The objects that must exist for this to be restorable, relative to its root."""
        return {handle.path for handle in self.files() if handle.path}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(CheckpointMetadata)


def encode(metadata: CheckpointMetadata) -> bytes:
    """The bytes of ``_metadata``."""
    check(metadata, "the checkpoint to be written")
    return framing.frame(MAGIC, _version(metadata), _ENCODER.encode(metadata))


def _version(metadata: CheckpointMetadata) -> int:
    """The lowest whose readers understand it."""
    if metadata.operator_state:
        return FORMAT_VERSION
    return FORMAT_VERSION - 1 if metadata.source_files else FORMAT_VERSION - 2


def decode(data: bytes, name: str) -> CheckpointMetadata:
    """The inverse of :func:`encode`; ``name`` is for messages. Raises ``CorruptData``;
    ``UnknownFormat`` for newer formats.
    """
    metadata = framing.parse(_DECODER, framing.unframe(MAGIC, FORMAT_VERSION, data, name), name)
    check(metadata, name)
    return metadata


def checksum(data: bytes) -> str:
    """``sha256:`` and the hex digest, as handles and log records carry it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def check(metadata: CheckpointMetadata, name: str) -> None:
    """Raises ``CorruptData`` if ``metadata`` contradicts itself or names a file outside its folder."""
    shards = sorted(handle.shard for handle in metadata.shards)
    if shards != list(range(metadata.key_space.shards)):
        raise errors.CorruptData(
            f"{name} has the shards {shards}; it must have each of 0 to {metadata.key_space.shards - 1} once"
        )
    if len(metadata.operator_state) not in (0, metadata.slots):
        raise errors.CorruptData(
            f"{name} has the operator state of {len(metadata.operator_state)} slots and was taken with {metadata.slots}"
        )
    for handle in metadata.files():
        problem = _problem(handle)
        if problem:
            raise errors.CorruptData(f"{name}: file {handle.name!r} ({handle.path or 'inline'}) {problem}")


def _problem(handle: FileHandle) -> str:
    # A restore writes each file under its name: with a slash it would land outside the shard's folder.
    if "/" in handle.name or handle.name in ("", ".", "..") or "\0" in handle.name:
        return "has a name that is not a plain file name"
    if not _CHECKSUM.fullmatch(handle.checksum):
        return f"has the checksum {handle.checksum!r}, not sha256:<64 hex digits>"
    if (handle.inline is None) == (handle.path == ""):
        return "must have either a path or inline bytes"
    if handle.inline is not None and len(handle.inline) != handle.size:
        return f"has {len(handle.inline)} inline bytes, its size is {handle.size}"
    if handle.size < 0 or handle.offset < 0:
        return "has a negative size or offset"
    if handle.path:
        try:
            naming.check_key(handle.path)
        except errors.StorageError as error:
            return str(error)
    return ""
