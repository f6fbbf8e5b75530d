"""Whether RocksDB's files have their index and filter whole, or in parts that are read one by one.

Theory. A look into a filter in parts takes longer, because the right part has to be found first. But a whole one comes
into the cache as one block, with all keys for the sake of one. So it pays as long as all of them stay in the cache, and
costs most where they do not (RFC 0064 has the figures). How much they take is known only when the state is there, so
files are written whole at first, and in parts from the moment on at which they take too much. Files that are there stay
as they are until they are merged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from sparkstate.backends.rocksdb.database import Database
from sparkstate.clock import Clock

_SHARE: Final = 1 / 16
"""Of the cache: from there on, files are written in parts. With 7 % of it, reads brought in a fifth more bytes than in
parts, with 28 % four times as many."""
_SHARE_BACK: Final = 1 / 32
"""Of the cache: below, files are written whole again. Lower, so that state of one size does not go back and forth."""
_PERIOD_S: Final = 2.0
"""Between two looks, each of which takes some 30 µs for each column family."""


def in_parts(size: int, cache: int, before: bool) -> bool:
    """Whether files should be in parts where all indexes and filters take ``size`` bytes of a cache of so many bytes;
    ``before``: whether they are now."""
    return size > cache * (_SHARE_BACK if before else _SHARE)


class IndexParts:
    """The form of files that the stores of a slot write from now on. Stores are written by several threads."""

    def __init__(self, chosen: bool | None, cache: int, clock: Clock) -> None:
        """``chosen``: what the job says, None: as the state grows. ``cache``: bytes of the slot's block cache."""
        self.wanted = bool(chosen)
        """Whether new files are in parts."""
        self._grows = chosen is None
        self._cache = cache
        self._clock = clock
        self._looked: float | None = None
        self._lock = threading.Lock()

    def look(self, databases: Callable[[], Iterable[Database]]) -> Iterable[Database]:
        """Before a write: the databases whose option has to change now, mostly none."""
        if not self._grows:
            return ()
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < _PERIOD_S:
            return ()
        with self._lock:
            self._looked = now
            found = list(databases())
            size = sum(family.index_bytes() for each in found for family in each.families().values())
            before, self.wanted = self.wanted, in_parts(size, self._cache, self.wanted)
            return found if self.wanted is not before else ()
