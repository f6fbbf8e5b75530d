"""How far a deletion is: bytes deleted, and bytes found so far to be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sparkstate.storage.objectstore import ObjectInfo, ObjectStore

BATCH = 500
"""Names that are deleted in one call, at most."""


class Removal:
    """Counts for one caller at a time. ``tell`` is called with both numbers whenever something was found or deleted: a
    savepoint of few files goes in one call, and would otherwise be told of when nothing is left of it."""

    def __init__(self, tell: Callable[[int, int], object] = lambda done_bytes, total_bytes: None) -> None:
        self._tell = tell
        self._done = self._found = 0

    def find(self, infos: Sequence[ObjectInfo]) -> None:
        """These have to be deleted."""
        self._found += sum(info.size for info in infos)
        self._tell(self._done, self._found)

    def note(self, info: ObjectInfo) -> None:
        """This one is deleted."""
        self._done += info.size
        self._tell(self._done, self._found)

    def delete(self, folder: ObjectStore, infos: Sequence[ObjectInfo]) -> None:
        """Delete these in ``folder``; they were found before."""
        for batch in batches(infos):
            folder.delete([info.key for info in batch])
            for info in batch:
                self.note(info)


def batches(infos: Sequence[ObjectInfo]) -> Iterator[Sequence[ObjectInfo]]:
    """As many as one call deletes."""
    return (infos[begin : begin + BATCH] for begin in range(0, len(infos), BATCH))
