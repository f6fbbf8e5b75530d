"""The files of a shard that a restore need not download, because a slot that is gone has left them."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from pathlib import Path
from typing import Final

from sparkstate.checkpoint.downloader import beforehand
from sparkstate.handles import FileHandle, ShardHandle
from sparkstate.local_state import folders, verified_files

_WITH_SHARDS: Final = (f"{folders.LOCAL_COPY}/*", folders.STORES, folders.DOWNLOADS)
"""Where the shards' folders are, below a slot's."""


def link_files(base: Path, shard: ShardHandle, directory: Path) -> frozenset[str]:
    """Link what may be files of this shard into ``directory`` (created), for its download to look at first. Then
    remove everything else that was left of the shard, so that a restore needs no more room than the state.

    Returns the names of the files that are known to be right, and lie there under these names.
    """
    directory.mkdir(parents=True, exist_ok=True)
    left = [
        folder
        for pattern in _WITH_SHARDS
        for stores in base.glob(f"*{folders.LEFT}/{pattern}")
        if (folder := folders.shard_folder(stores, shard.shard)).is_dir()
    ]
    wanted = {(handle.name, handle.size): handle for handle in shard.files if _may_be_left(handle)}
    checksums = {
        stamp: checksum for folder in left for stamp, checksum in verified_files.consume(folder).items()
    }
    right = set()
    for path in itertools.chain(*map(verified_files.files_below, left)):
        with contextlib.suppress(OSError):  # gone meanwhile, or another device: it is downloaded
            stamp = verified_files.stamp_of(path)
            handle = wanted.get((_name(path), stamp.size))
            if handle is None:
                continue
            if checksums.get(stamp) == handle.checksum:
                os.link(path, directory / handle.name)
                right.add(handle.name)
            else:
                # Name and size prove nothing: two stores that go on from one snapshot give a number to different files,
                # and a killed process's file may be half written. The download compares its SHA-256.
                os.link(path, beforehand(directory / handle.name))
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
    return frozenset(right)


def _may_be_left(handle: FileHandle) -> bool:
    return handle.inline is None and handle.name.endswith(verified_files.IMMUTABLE)


def _name(path: Path) -> str:
    """RocksDB's name for it; a restore that was interrupted has links that nobody has looked at yet."""
    number, dot, _ = path.name.lstrip(".").partition(verified_files.IMMUTABLE)
    return number + dot
