"""Which files on this disk are known to be what a checkpoint names, without being read again.

A slot whose checkpoint has completed writes down, for every file of its stores that the checkpoint refers to, the
checksum and the file system's facts about the file. As long as these are unchanged and the machine has not been
restarted, the file is the one that the slot would go on reading, had it not been stopped; RocksDB compares each block's
checksum whenever it reads one, as it would have done there.

A record is good for one restore: :func:`consume` removes it, and only the next completed checkpoint makes another. So a
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


class FileStamp(msgspec.Struct, frozen=True):
    """The file system's facts about a file; a write changes them, a hard link does not."""

    device: int
    inode: int
    size: int
    modified_ns: int


class _Record(msgspec.Struct):
    boot: str
    files: list[tuple[FileStamp, str]]
    """With the checksum of each, as in its handle."""


def stamp_of(path: Path) -> FileStamp:
    """The file system's facts now; raises ``OSError``."""
    found = path.stat()
    return FileStamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def record(folder: Path, shard: ShardHandle, links: Path, boot_id: Path = _BOOT_ID) -> None:
    """A checkpoint with this handle has completed: write down which of the files in ``folder``, the store that it was
    taken of, and in ``links``, which need not exist, are the ones that it names.

    A file that cannot be written down is read by the next restore. Of two calls for one folder the later one counts.
    """
    handles = {handle.name: handle for handle in shard.files}
    verified = []
    for path in itertools.chain(files_below(links), files_below(folder)):
        # Compacted away since, not in this checkpoint, or noted by its other link.
        with contextlib.suppress(OSError, KeyError):
            handle, stamp = handles[path.name], stamp_of(path)
            if stamp.size == handle.size:
                verified.append((stamp, handle.checksum))
                del handles[path.name]
    note = _note_beside(folder)
    with contextlib.suppress(OSError):
        data = msgspec.json.encode(_Record(boot_id.read_text(), verified))
        fresh = note.with_name(f".{note.name}.new")
        fresh.write_bytes(data)
        fresh.replace(note)


def consume(folder: Path, boot_id: Path = _BOOT_ID) -> Mapping[FileStamp, str]:
    """The checksums that are known in ``folder``, by what their files look like. A second call finds none."""
    note = _note_beside(folder)
    try:
        data = note.read_bytes()
        os.unlink(note)
        read = msgspec.json.decode(data, type=_Record)
        return dict(read.files) if read.boot == boot_id.read_text() else {}
    except (OSError, msgspec.MsgspecError):
        return {}


def files_below(folder: Path) -> Iterator[Path]:
    """All files in a store's folder, whatever folders its backend has made there."""
    for path, _, names in os.walk(folder):
        yield from (Path(path, name) for name in names)


def _note_beside(folder: Path) -> Path:
    return folder.with_name(folder.name + _SUFFIX)
