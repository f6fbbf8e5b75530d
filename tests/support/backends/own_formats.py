"""Right backends of one's own whose checkpoints have a format of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.backends.own_backends import MemoryBackend, MemoryRows

from sparkstate.backend_api import FORMAT, KeyGroupRange, RowStore, ShardSnapshot


class _OwnFormat(RowStore):
    """Its format is the canonical one by another name."""

    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> ShardSnapshot:
        taken: Any = super().prepare_snapshot(checkpoint_id, directory, canonical)
        taken.format = FORMAT if canonical else "mine"
        return taken  # type: ignore[no-any-return]

    def restore(self, files: Mapping[str, Path], fmt: str) -> None:
        super().restore(files, FORMAT if fmt == "mine" else fmt)


class _Unstreamed:
    """A snapshot that has files alone."""

    def __init__(self, taken: ShardSnapshot) -> None:
        self.format = taken.format
        self.files, self.release = taken.files, taken.release


class _OwnFiles(_OwnFormat):
    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> ShardSnapshot:
        return _Unstreamed(super().prepare_snapshot(checkpoint_id, directory, canonical))


class OwnFormatBackend(MemoryBackend):
    """Its snapshots are streams."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> RowStore:
        return _OwnFormat(shard, key_groups, MemoryRows())


class OwnFilesBackend(MemoryBackend):
    """Its snapshots are files."""

    def create(self, shard: int, key_groups: KeyGroupRange, directory: Path) -> RowStore:
        return _OwnFiles(shard, key_groups, MemoryRows())
