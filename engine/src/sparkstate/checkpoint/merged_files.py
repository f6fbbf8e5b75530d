"""Objects that hold files of several shards: each is downloaded once, and lies on the disk while a shard needs it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from sparkstate.handles import ShardHandle


class MergedFiles:
    """Those objects of the shards, each fetched by itself, that more than one of them names. Thread-safe."""

    def __init__(self, shards: Iterable[ShardHandle], directory: Path) -> None:
        """``directory`` takes the objects; it is there."""
        named = [{handle.path for handle in shard.files if handle.inline is None} for shard in shards]
        uses = Counter(path for paths in named for path in paths)
        self._copies = {
            path: _LocalCopy(directory / f".{number}.merged", count)
            for number, (path, count) in enumerate(uses.items())
            if count > 1
        }

    def local(self, path: str, download: Callable[[Path], object]) -> Path | None:
        """The object's local copy, by ``download`` if it is not there yet; None for an object of one shard.

        Others that need the object wait meanwhile.
        """
        found = self._copies.get(path)
        return None if found is None else found.local(download)

    def used(self, path: str) -> None:
        """One shard has what it needs of the object; after the last one, the local copy goes."""
        found = self._copies.get(path)
        if found is not None:
            found.used()

    def close(self) -> None:
        """Delete every local copy. Nothing is fetched any more."""
        for each in self._copies.values():
            each.delete()


class _LocalCopy:
    """Of one object, while ``uses`` shards have not had their files."""

    def __init__(self, path: Path, uses: int) -> None:
        self._path = path
        self._uses = uses
        self._there = False
        self._lock = threading.Lock()

    def local(self, download: Callable[[Path], object]) -> Path:
        with self._lock:
            if not self._there:
                download(self._path)
                self._there = True
            return self._path

    def used(self) -> None:
        with self._lock:
            self._uses -= 1
            if self._uses == 0:
                self.delete()

    def delete(self) -> None:
        self._path.unlink(missing_ok=True)
