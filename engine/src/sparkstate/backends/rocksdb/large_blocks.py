"""How large the blocks are in the files of a state whose epochs are processed in the order of keys.

Theory. A key at random needs one block, and the rest of it is read in vain. So blocks are small. An epoch in the order
of keys that touches a key or more in each block needs nearly all of them, one after another. With larger ones it reads
few more bytes, and there are fewer blocks to find, read, check and keep in the cache (RFC 0065 has the figures). The
files of an epoch show how much it touches. Files that are there keep their blocks until they are merged.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from sparkstate.backends.rocksdb.database import Database
from sparkstate.backends.rocksdb.family import Family

SMALL_BYTES: Final = 4 << 10
"""Flink's default. Where the job chose another size, that one holds."""
LARGE_BYTES: Final = 16 << 10
"""32 KiB took a little less processor time, and 5 MiB more memory."""
_KEYS: Final = 1.0
"""Touched keys for each small block, from which on blocks are large. With 0.4, reads bring in 2.6 times the bytes."""
_KEYS_BACK: Final = 0.5
"""Below, blocks are small again. Lower, so that epochs of one size do not go back and forth."""
_FITTING: Final = 10
"""So many commits in a row whose keys come in any order make blocks small again."""
_MOST_COPIES: Final = 3
"""Files have at most about so many bytes for each byte of state (RFC 0040: 2 to 3.5)."""


def pay(given: int, live: int, row: float, before: bool) -> bool:
    """Whether large blocks pay where files of ``given`` bytes change a state of ``live`` bytes, and a row has ``row``
    bytes in a block. ``before``: whether blocks are large now."""
    keys = given / max(1, live) * SMALL_BYTES / max(1.0, row)
    return keys >= (_KEYS_BACK if before else _KEYS)


class LargeBlocks:
    """The column families of a slot that are written with large blocks from now on. ``may_grow``: the job left the size
    to the engine. Stores are written by several threads, each family by one at a time."""

    def __init__(self, may_grow: bool) -> None:
        self._may_grow = may_grow
        self._fitting: weakref.WeakKeyDictionary[Family, int] = weakref.WeakKeyDictionary()
        """Families with large blocks, and the number of commits since their last files."""

    def has(self, family: Family) -> bool:
        """Whether new files of this family have large blocks."""
        return family in self._fitting

    def take_files(self, database: Database, family: Family, paths: Sequence[Path]) -> None:
        """See ``Database``. The files show how much of the state their epoch has touched."""
        given = database.take_files(family, paths)
        if not given or not self._may_grow:
            return
        before = self.has(family)
        wanted = pay(given, _live_bytes(family), family.row_bytes(), before)
        if wanted is not before:
            database.write_in_blocks(family, LARGE_BYTES if wanted else SMALL_BYTES)
        if wanted:
            self._fitting[family] = 0
        else:
            self._fitting.pop(family, None)

    def committed(self, database: Database, families: Iterable[Family]) -> None:
        """An epoch has changed these whose keys came in any order."""
        for family in families:
            if family not in self._fitting:
                continue
            self._fitting[family] += 1
            if self._fitting[family] >= _FITTING:
                database.write_in_blocks(family, SMALL_BYTES)
                del self._fitting[family]


def _live_bytes(family: Family) -> int:
    """Of the state. RocksDB's estimate passes over files of level 0 that overlap a newer one, which may have nearly all
    of a young state."""
    files = family.integer("rocksdb.live-sst-files-size")
    return max(family.integer("rocksdb.estimate-live-data-size"), files // _MOST_COPIES)
