"""Work that a slot could do ahead of time, or when it has nothing else to do: reads of keys that come later, merges
between epochs; and disks that are cold.

Reads ahead only bring blocks into RocksDB's cache and the page cache. Values that are read ahead would have to be read
again where the epoch in between changes them, and would need memory beside the budget.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np

Ahead = Literal["none", "epoch", "part"]
"""``epoch``: the keys of the next epoch are read while this one runs. ``part``: those of the next part of the epoch."""
AHEAD: tuple[Ahead, ...] = get_args(Ahead)
_KEYS_AT_ONCE = 500
Part = TypeVar("Part")


class ReadAhead:
    """Reads keys in a thread of its own. ``by_store`` divides keys into tables, keys and key groups."""

    def __init__(self, by_store: Callable[[np.ndarray], Iterable[tuple[Any, list[int], list[int]]]]) -> None:
        self._by_store = by_store
        self._thread: threading.Thread | None = None

    def begin(self, keys: np.ndarray) -> None:
        """Read these keys from now on; waits for those that were asked for before."""
        self.wait()
        self._thread = threading.Thread(target=self._read, args=(keys,), name="read-ahead")
        self._thread.start()

    def wait(self) -> None:
        """Until all has been read."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _read(self, keys: np.ndarray) -> None:
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            for table, mine, groups in self._by_store(keys[start : start + _KEYS_AT_ONCE]):
                table.get_many(groups, mine)

    def parts(self, parts: Iterable[Part], keys_of: Callable[[Part], np.ndarray]) -> Iterator[Part]:
        """The parts of an epoch: while one is worked on, the keys of the next one are read."""
        before: list[Part] = []
        for part in parts:
            self.begin(keys_of(part))
            yield from before
            before = [part]
        self.wait()
        yield from before


def merge(databases: Iterable[Any], allowed: bool) -> None:
    """Allow RocksDB to merge files, or forbid it; merges that are due begin as soon as they are allowed."""
    for database in databases:
        for family in database.families().values():
            family.rdict.set_options({"disable_auto_compactions": "false" if allowed else "true"})


def cool(folders: Iterable[Path]) -> None:
    """Drop the files of folders from the page cache, so that the next reads wait for the disk."""
    for folder in folders:
        for path in folder.glob("*.sst"):
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:  # a compaction was done with it
                continue
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
