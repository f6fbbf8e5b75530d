"""One column family of an open RocksDB, and the writes that are meant for it."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rocksdict

from sparkstate import errors
from sparkstate.backends.rocksdb import failures
from sparkstate.backends.rocksdb.reading import Reads

_log = logging.getLogger("sparkstate.backends.rocksdb")
_INDEX_SIZES = re.compile(r"(?:index block size[^=]*|filter block size)=(\d+)")
# RocksDB changes the options of tables while a database is open since 9.8 (facebook/rocksdb#10021).
_IN_PARTS = "{index_type=kTwoLevelIndexSearch;partition_filters=true;pin_top_level_index_and_filter=true;}"
_WHOLE = "{index_type=kBinarySearch;partition_filters=false;}"
_ROWS = re.compile(r"# entries=(\d+).* raw key size=(\d+).* raw value size=(\d+)")
_ROWS_PER_BATCH = 4000
"""Rows per write. The interpreter lock is held for as long as one write takes, here 2 to 4 ms."""


@dataclass
class FamilyWrites:
    """Rows to put (``keys`` with ``values``) and keys to delete in one column family; deletions come first."""

    family: Family
    deletes: list[bytes] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)


class Family:
    """One column family. Between two commits one iterator is reused for all scans: making one costs as much
    as ten seeks. It is dropped at every commit and snapshot, because it keeps old memtables in memory.

    All reads raise ``CorruptData`` for a damaged file of ``path`` and ``StorageError`` for one that cannot be read: a
    plain error within a user's function would be taken for the function's own.
    """

    def __init__(self, rdict: Any, handle: Any, reads: Reads, path: Path) -> None:
        self.rdict = rdict
        self.handle = handle
        self._get: Callable[[bytes], bytes | None] = rdict.get
        self._reads = reads
        self._path = path
        self._iterator: Any = None
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        """One value; None if there is none."""
        try:
            return self._get(key)
        except Exception as error:  # without a context manager, which takes as long as a read from memory
            failures.reraise(error, self._path, "reading")

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Values in the order of the keys; the interpreter lock is released meanwhile."""
        with failures.translated(self._path, "reading"):
            return self._reads.get_many(self.rdict.get, keys)

    def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """All rows whose key starts with ``prefix``, in order."""
        rows: list[tuple[bytes, bytes]] = []
        with self._lock, failures.translated(self._path, "reading"):
            if self._iterator is None:
                self._iterator = self.rdict.iter()
            iterator = self._iterator
            iterator.seek(prefix)
            while iterator.valid():
                key = iterator.key()
                if not key.startswith(prefix):
                    break
                rows.append((key, iterator.value()))
                iterator.next()
            else:
                iterator.status()
        return rows

    def leap(self, start: bytes, behind: Callable[[bytes], bytes], most: int) -> list[bytes]:
        """The key of the first row from ``start`` on, then of the first one from ``behind`` that key on, and so on; at
        most so many."""
        found: list[bytes] = []
        with self._lock, failures.translated(self._path, "reading"):
            if self._iterator is None:
                self._iterator = self.rdict.iter()
            iterator = self._iterator
            iterator.seek(start)
            while len(found) < most and iterator.valid():
                key = iterator.key()
                if key < start:
                    iterator.seek(start)
                    continue
                found.append(key)
                start = behind(key)
                iterator.next()  # costs a fraction of a seek, and is often far enough
            if not iterator.valid():
                iterator.status()
        return found

    def iterate(self, start: bytes = b"", *, fill_cache: bool = True) -> Iterator[tuple[bytes, bytes]]:
        """Rows from ``start`` on, as they are now; let the iterator go when done. Without ``fill_cache``, the blocks
        that are read take no place in the cache."""
        options = rocksdict.ReadOptions()
        options.fill_cache(fill_cache)
        rows = self.rdict.items(from_key=start, read_opt=options)
        return self._whole(rows, self.rdict.iter(options), start)

    def _whole(self, rows: Any, check: Any, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rows, all of them: rocksdict's ``items`` ends at a block that it cannot read as if that were the end
        (0.3.29). So ``check``, an iterator of the same moment, looks for a row behind the last. It does not read the
        rows itself, because that takes half as much time again.
        """
        try:
            row: tuple[bytes, bytes] | None = None
            for row in rows:
                yield row
            with failures.translated(self._path, "reading"):
                check.seek(start if row is None else row[0])
                if row is not None and check.valid():
                    check.next()
                check.status()
                if check.valid():
                    raise errors.StorageError(
                        f"reading the state in {self._path} ended before its last row; nothing is lost, the job goes "
                        "back to its last checkpoint. Check that the disk is sound"
                    )
        finally:
            del rows, check  # the frame of an error must not keep the database open

    def last(self) -> bytes | None:
        """The greatest key; None: there is no row."""
        with failures.translated(self._path, "reading"):
            iterator = self.rdict.iter()
            iterator.seek_to_last()
            if iterator.valid():
                return bytes(iterator.key())
            iterator.status()
        return None

    def flush(self) -> None:
        """Write the memtable out; the interpreter lock is released meanwhile."""
        rdict = self.rdict
        if rdict is not None:  # closed meanwhile, by another thread
            rdict.flush(True)

    def compact(self) -> None:
        """Merge all files; the interpreter lock is released meanwhile."""
        self.rdict.compact_range(None, None)

    def merge_soon(self, wanted: bool) -> None:
        """Let RocksDB merge all files in the background, or no longer ask for it. Deletions must be flushed before."""
        # RocksDB looks at the age of its files when an option changes. So long as this one stands, it merges again and
        # again.
        self.rdict.set_options({"periodic_compaction_seconds": "1" if wanted else "0"})

    def stop_compacting(self) -> None:
        """Begin no compaction of it any more."""
        self.rdict.set_options({"disable_auto_compactions": "true"})

    def write_in_parts(self, wanted: bool) -> None:
        """Whether files from now on have their index and filter in parts (``index_parts``)."""
        self.rdict.set_options({"block_based_table_factory": _IN_PARTS if wanted else _WHOLE})

    def write_in_blocks(self, size: int) -> None:
        """How many bytes the blocks of files have from now on."""
        self.rdict.set_options({"block_based_table_factory": f"{{block_size={size};}}"})

    def row_bytes(self) -> float:
        """Of a row in the files, before compression, on average; 0: there are no rows."""
        found = _ROWS.search(self.text("rocksdb.aggregated-table-properties") or "")
        rows, keys, values = map(int, found.groups()) if found else (0, 0, 0)
        return (keys + values) / max(1, rows)

    def index_bytes(self) -> int:
        """Bytes of the indexes and filters of all files."""
        told = self.text("rocksdb.aggregated-table-properties") or ""
        return sum(map(int, _INDEX_SIZES.findall(told)))

    def integer(self, name: str) -> int:
        """A numeric property, e.g. ``rocksdb.estimate-num-keys``; 0 if RocksDB has none of that name."""
        rdict = self.rdict
        if rdict is None:  # closed meanwhile, by another thread
            return 0
        value = rdict.property_int_value(name)
        return 0 if value is None else int(value)

    def text(self, name: str) -> str | None:
        """Any property, e.g. ``rocksdb.num-files-at-level0``; None if RocksDB has none of that name."""
        rdict = self.rdict
        return None if rdict is None else rdict.property_value(name)

    def forget_iterator(self) -> None:
        """Let go of the memtables and files that the reused iterator holds."""
        with self._lock:
            self._iterator = None

    def close(self) -> None:
        """Let go of everything."""
        self.forget_iterator()
        self._get = _closed
        rdict, self.rdict, self.handle = self.rdict, None, None
        close_quietly(rdict)


def batches(write: FamilyWrites, batch_bytes: int) -> Iterator[tuple[list[bytes], list[bytes], list[bytes]]]:
    """The writes in small parts: keys to delete, keys to put, and their values."""
    for start in range(0, len(write.deletes), _ROWS_PER_BATCH):
        yield write.deletes[start : start + _ROWS_PER_BATCH], [], []
    step = _ROWS_PER_BATCH
    for start in range(0, len(write.keys), step):
        keys, values = write.keys[start : start + step], write.values[start : start + step]
        if not batch_bytes or sum(map(len, keys)) + sum(map(len, values)) <= batch_bytes:
            yield [], keys, values
        else:
            yield from _by_size(keys, values, batch_bytes)


def _by_size(
    keys: list[bytes], values: list[bytes], batch_bytes: int
) -> Iterator[tuple[list[bytes], list[bytes], list[bytes]]]:
    start = size = 0
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        size += len(key) + len(value)
        if size >= batch_bytes:
            yield [], keys[start : index + 1], values[start : index + 1]
            start, size = index + 1, 0
    if start < len(keys):
        yield [], keys[start:], values[start:]


def close_quietly(rdict: Any) -> None:
    """Closing flushes in vain, because nothing of it is read again.
    So a full disk must not keep the rest from closing."""
    try:
        rdict.close()
    except Exception as error:
        _log.info("closing RocksDB: %s", error)


def _closed(_key: bytes) -> bytes | None:
    raise errors.StateError("the state is closed")
