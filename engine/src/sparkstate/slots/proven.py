"""Which files on this disk are known to be what a checkpoint names, without being read again.

A slot whose checkpoint has completed writes down, for every file of its stores that the checkpoint refers to, the
checksum and what the file system says of the file. As long as that is unchanged and the machine has not been started
anew, the file is the one that the slot would go on reading, had it not been stopped; RocksDB compares each block's
checksum whenever it reads one, as it would have done there.

A record is good for one restore: :func:`take` removes it, and only the next completed checkpoint makes another. So a
state that fails because of a damaged block is believed once, and read to its last byte before it is used again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from sparkstate.handles import ShardHandle

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""Differs after every start of the machine: what was not yet on the disk then is lost, its name and size are not."""
_SUFFIX: Final = ".proven"
IMMUTABLE: Final = ".sst"
"""RocksDB never changes such a file once it is written."""


class Look(msgspec.Struct, frozen=True):
    """What a file system says of a file; a write changes it, a hard link does not."""

    device: int
    inode: int
    size: int
    modified_ns: int


class _Record(msgspec.Struct):
    boot: str
    files: list[tuple[Look, str]]
    """With the checksum of each, as in its handle."""


def look(path: Path) -> Look:
    """At a file; raises ``OSError``."""
    found = path.stat()
    return Look(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def note(folder: Path, shard: ShardHandle, links: Path, boot_id: Path = _BOOT_ID) -> None:
    """A checkpoint with this handle has completed, ``folder`` holds the store that it was taken of, and ``links``,
    which need not exist, what is kept of its files.

    What cannot be noted is read by the next restore. Of two calls for one folder the later one counts.
    """
    handles = {handle.name: handle for handle in shard.files}
    proven = []
    for path in itertools.chain(files_below(links), files_below(folder)):
        # Compacted away since, not in this checkpoint, or noted by its other link.
        with contextlib.suppress(OSError, KeyError):
            handle, seen = handles[path.name], look(path)
            if seen.size == handle.size:
                proven.append((seen, handle.checksum))
                del handles[path.name]
    record = _beside(folder)
    with contextlib.suppress(OSError):
        data = msgspec.json.encode(_Record(boot_id.read_text(), proven))
        beside = record.with_name(f".{record.name}.new")
        beside.write_bytes(data)
        beside.replace(record)


def take(folder: Path, boot_id: Path = _BOOT_ID) -> Mapping[Look, str]:
    """The checksums that are known in ``folder``, by what their files look like. A second call finds none."""
    record = _beside(folder)
    try:
        data = record.read_bytes()
        os.unlink(record)
        read = msgspec.json.decode(data, type=_Record)
        return dict(read.files) if read.boot == boot_id.read_text() else {}
    except (OSError, msgspec.MsgspecError):
        return {}


def files_below(folder: Path) -> Iterator[Path]:
    """All files in a store's folder, whatever folders its backend has made there."""
    for path, _, names in os.walk(folder):
        yield from (Path(path, name) for name in names)


def _beside(folder: Path) -> Path:
    return folder.with_name(folder.name + _SUFFIX)
