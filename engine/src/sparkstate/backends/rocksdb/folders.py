"""Folders of stores in paths that several processes share, and that outlive them (``storagePaths``).

A folder belongs to its process as long as the process holds the folder's lock (``flock``), which ends with the process
however it ends. So the next process that makes a folder can tell what a dead one has left, in this container or another
one of the same disk, and removes it: otherwise a path would be full after a few crashes.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger("sparkstate.backends.rocksdb")
_PREFIX = "sparkstate-shard-"


class Folder:
    """One of this process's, until :meth:`remove`."""

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path = path
        self._lock = lock

    def remove(self) -> None:
        """With all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)


def make(parent: Path, shard: int, new_id: Callable[[], str]) -> Folder:
    """A new folder for a shard's store, under a name of its own: several slots share the path."""
    while True:
        path = parent / f"{_PREFIX}{shard}-{new_id()}"
        path.mkdir(parents=True)
        try:
            lock = _hold(path)
        except OSError:  # a file system without locks, where nobody sweeps either
            return Folder(path, None)
        if lock is not None:
            return Folder(path, lock)
        # Somebody took it for a dead one's, between these two lines.


def sweep(parent: Path) -> None:
    """Remove the folders under ``parent`` that nobody holds. A folder that cannot be removed is in nobody's way."""
    for path in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = _hold(path)
            if lock is not None:
                _log.info("removing %s, which a process left behind when it ended", path)
                Folder(path, lock).remove()


def _hold(path: Path) -> int | None:
    """The lock of a folder; None where another process holds it, or it is no longer there. Raises ``OSError`` where
    the file system knows no locks."""
    with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError, BlockingIOError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            stack.pop_all()
            return descriptor
    return None
