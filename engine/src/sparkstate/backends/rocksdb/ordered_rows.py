"""Rows of a spilled table that come in the order of their keys, as files which the shard stores take in as they are.

Theory. An epoch that is processed in the order of its keys changes each key in one stretch. So no later change meets a
row that is in a file already, and no read looks for one: a row behind the last one in the files is not in them. At the
commit, RocksDB links the files into the shard stores and writes nothing again. Half of the processor time of an epoch
beyond memory was spent on rows that were looked for twice and written twice (RFC 0065).

The rows of the last key wait in memory, because the next addition may change them again. A row that is deleted is not
in the files, because a reader could not tell it from a row that was never there. The caller marks it.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import rocksdict

from sparkstate import errors
from sparkstate.backends.rocksdb import failures
from sparkstate.backends.rocksdb.layout import RowCodec
from sparkstate.backends.rocksdb.spill_commit import GONE, STANDS
from sparkstate.serde import composite

_MOST_WAITING: Final = 1000
"""Rows of the last key. A key with more, such as one with many windows, is written at once."""
_MOST_WAITING_BYTES: Final = 1 << 20
"""The same for their values, which nothing else counts. One row may have more."""
_FILE_BYTES: Final = 64 << 20
"""RocksDB keeps the filter and the index of a file in memory until the file ends."""


class OrderedRows:
    """``new_options`` makes the options of a shard store's files. Values begin with the byte that says what they mean
    (``spill``). One thread at a time."""

    def __init__(
        self,
        codec: RowCodec,
        directory: Path,
        shard_of: Sequence[int],
        new_options: Callable[[], Any],
    ) -> None:
        self._codec = codec
        self._directory = directory
        self._shard_of = shard_of
        self._new_options = new_options
        self._waiting: dict[bytes, bytes] = {}
        self._written = b""
        """The last row that does not wait any more."""
        self._writer: Any = None
        self._shard = -1
        self.files: dict[int, list[Path]] = {}
        """By shard; complete when sealed."""
        self.is_sealed = False
        self._is_closed = False
        self._failed: Exception | None = None

    def takes(self, row: bytes) -> bool:
        """Whether this row, and all behind it, may be added, and are found by :meth:`waiting` alone."""
        return not self.is_sealed and row > self._written

    def waiting(self, rows: Sequence[bytes]) -> dict[int, bytes]:
        """Of these rows, which are in order and which :meth:`takes` takes: the values of those that were added, by the
        places of the rows."""
        if len(self._waiting) > len(rows):
            return {place: self._waiting[row] for place, row in enumerate(rows) if row in self._waiting}
        found = {}
        for row, value in self._waiting.items():
            for place in range(bisect.bisect_left(rows, row), bisect.bisect_right(rows, row)):
                found[place] = value
        return found

    def add(self, changed: Mapping[bytes, bytes]) -> list[bytes]:
        """Add rows that :meth:`takes` takes; the rows to mark as deleted."""
        self._waiting.update(changed)
        rows = sorted(self._waiting)
        last = bisect.bisect_left(rows, self._key_of(rows[-1])) if rows else 0
        return self._write(rows[:last] if self._may_wait(rows[last:]) else rows)

    def seal(self) -> list[bytes]:
        """No row is added any more, and the files are complete; the rows to mark as deleted."""
        gone = self._write(sorted(self._waiting), is_end=True)
        self.is_sealed = True
        return gone

    def close(self) -> None:
        """Let go of the file that is being written. Another thread may write rows at this moment: they go nowhere."""
        self._is_closed = True
        self._writer = None
        self._waiting.clear()
        self.is_sealed = True

    def _key_of(self, row: bytes) -> bytes:
        """The beginning that a row shares with all rows of its key, and with no other."""
        _, key, _, _ = self._codec.split(row)
        return row[: composite.KEY_GROUP_BYTES + len(key)]

    def _may_wait(self, rows: Sequence[bytes]) -> bool:
        if len(rows) > _MOST_WAITING:
            return False
        return len(rows) <= 1 or sum(len(self._waiting[row]) for row in rows) <= _MOST_WAITING_BYTES

    def _write(self, rows: Sequence[bytes], *, is_end: bool = False) -> list[bytes]:
        """Rows that do not wait any more; the rows to mark as deleted. If it fails, some of them are nowhere, and a
        user's function may catch the error of a read that wrote them. So everything is refused from then on."""
        if self._failed is not None:
            raise errors.StorageError(
                f"the overlay's rows in {self._directory} are not used any more since a write of them failed half-way "
                f"({self._failed}); the epoch has to begin anew"
            )
        try:
            with failures.translated(self._directory, "writing"):
                gone = self._put(rows)
                if is_end or (self._writer is not None and self._writer.file_size() > _FILE_BYTES):
                    self._end_file()
        except Exception as error:
            self._failed = error
            raise
        if rows:
            self._written = rows[-1]
        return gone

    def _put(self, rows: Sequence[bytes]) -> list[bytes]:
        gone = []
        for row, value in self._taken(rows):
            if value[:1] == GONE:
                gone.append(row)
            else:
                self._writer_of(row)[row] = value[len(STANDS) :]
        return gone

    def _taken(self, rows: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for row in rows:
            yield row, self._waiting.pop(row)

    def _writer_of(self, row: bytes) -> Any:
        if self._is_closed:  # no folder is made again
            raise errors.StateError(f"the overlay's files in {self._directory} are gone: it was given up")
        shard = self._shard_of[composite.decode_key_group(row)]
        if self._writer is None or shard != self._shard:
            self._end_file()
            files = self.files.setdefault(shard, [])
            path = self._directory / f"{shard}-{len(files)}.sst"
            self._directory.mkdir(parents=True, exist_ok=True)
            self._writer = rocksdict.SstFileWriter(self._new_options())
            self._writer.open(str(path))
            files.append(path)
            self._shard = shard
        return self._writer

    def _end_file(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.finish()
