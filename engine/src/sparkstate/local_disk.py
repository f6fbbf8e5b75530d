"""Failures of a disk of this machine, in words that tell the remedy.

They are wrapped by the file or by the operation, never by the record.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sparkstate import errors

_FULL: Final = ("No space left on device", "Disk quota exceeded", "out of space", "File too large")
_NO_DESCRIPTOR: Final = "Too many open files"
_GOES_BACK: Final = "nothing is lost, the job goes back to its last checkpoint"
_ROOM_BYTES: Final = 256 * 1024
_ROOM_FILES: Final = 8
LARGER_VOLUME: Final = "Give the slots a larger working volume (localStorage) or fewer slots per machine"
"""The remedy where the working folder's disk is full."""


def is_full(told: str) -> bool:
    """Whether an error's text says that a disk or a quota is full. Python, Arrow and RocksDB all quote the system."""
    return any(words in told for words in _FULL)


def full(what: str, folder: Path) -> errors.StorageUnavailable:
    """For something that cannot begin: ``what`` says so, as the begin of a sentence. Waiting is right, as for a full
    volume of the checkpoints, and no restart strategy counts it."""
    return errors.StorageUnavailable(
        f"{what}: the disk of {folder} is full. Free some space there. {LARGER_VOLUME}"
    )


@contextlib.contextmanager
def needed_for(what: str, folder: Path) -> Iterator[None]:
    """Raise an ``OSError`` of the block as :func:`full` where the disk is full; any other stays as it is."""
    try:
        yield
    except OSError as error:
        if is_full(str(error)):
            raise full(what, folder) from error
        raise


def link_or_copy(source: Path, target: Path) -> bool:
    """Give the file a second name. Where that cannot be, because of another device or a file system without hard links,
    ``target`` becomes a copy, which is not flushed. Answers whether it is a link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        return False
    return True


def has_no_room(folder: Path) -> bool:
    """Whether the disk of ``folder`` has hardly a byte or a file left. A quota is not seen. False where the
    folder is gone."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _ROOM_BYTES or (
        found.f_files > 0 and found.f_favail < _ROOM_FILES
    )


def translated(error: Exception, what: str, larger: str = LARGER_VOLUME) -> errors.StorageError:
    """The error to raise instead. ``what`` was done and where, as the begin of a sentence; ``larger`` is the remedy
    for a disk that is full."""
    told = str(error)
    if is_full(told):
        return errors.StorageError(
            f"{what} failed, its disk or quota is full: {told}. {larger}; {_GOES_BACK}"
        )
    if _NO_DESCRIPTOR in told:
        return errors.StorageError(
            f"{what} failed, the process may open no further file: {told}. Raise its limit (ulimit -n), or let RocksDB "
            f"hold fewer files open (state.backend.rocksdb.files.open); {_GOES_BACK}"
        )
    return errors.StorageError(
        f"{what} failed: {told}. Check that the directory exists, can be written, and that its disk is sound; "
        f"{_GOES_BACK}"
    )


@contextlib.contextmanager
def used_for(what: str, larger: str = LARGER_VOLUME) -> Iterator[None]:
    """Raise an ``OSError`` of the block as :func:`translated`."""
    try:
        yield
    except OSError as error:
        raise translated(error, what, larger) from error
