"""Pointers to stored state, as a slot reports them for a snapshot and ``_metadata`` keeps them. Never the data itself.

All are msgspec structs, so that the metadata codec and the slot protocol can carry them without running code.
"""

from __future__ import annotations

import msgspec


class FileHandle(msgspec.Struct, frozen=True, kw_only=True):
    """One stored file, or its bytes where they are few.

    ``name`` is the logical name within its shard (``000012.sst``, ``canonical``). ``path`` is relative to the lineage's
    root, or to the savepoint's own folder. ``inline`` holds the bytes of a file not larger than the inline threshold,
    and then ``path`` is empty. ``checksum`` is ``sha256:`` and the hex digest of the whole content. ``shared`` files
    are immutable, and later checkpoints may refer to them; others belong to one checkpoint. Several small files may lie
    in one object, one after another: ``offset`` is where this one begins.
    """

    name: str
    size: int
    checksum: str
    path: str = ""
    inline: bytes | None = None
    offset: int = 0
    shared: bool = False
    identity: str = ""
    """Names the immutable content across snapshots (store id, file number, size); empty for exclusive files."""


class ShardHandle(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to rebuild one shard. ``format`` is ``rocksdb`` (native files) or ``canonical``."""

    shard: int
    format: str
    files: tuple[FileHandle, ...]
    state_size: int = 0
    """Bytes of the whole state of the shard, as stored."""
    uploaded: int = 0
    """Bytes that this snapshot had to upload (the delta)."""


class StateMeta(msgspec.Struct, frozen=True, kw_only=True):
    """Identity and types of one state of one operator; types are the stable descriptions of ``serde.types``."""

    uid: str
    name: str
    kind: str
    key_type: str
    namespace_type: str
    value_type: str
    user_key_type: str = ""
    schema_id: int = 0
