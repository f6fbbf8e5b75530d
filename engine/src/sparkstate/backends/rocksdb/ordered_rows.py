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
from collections.abc import Callable, Sequence
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
    """``new_options`` makes the options of a shard store's files. One thread at a time."""

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
        self._behind = _behind(shard_of)
        self._waiting: dict[bytes, bytes | None] = {}
        """By row, in order; None: deleted."""
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
        """Of these rows, which are in order and which :meth:`takes` takes: the values of those that were added, by
        their places, and before each the byte that says what it means."""
        if len(self._waiting) > len(rows):
            waiting = self._waiting
            return {place: _marked(waiting[row]) for place, row in enumerate(rows) if row in waiting}
        found = {}
        for row, value in self._waiting.items():
            for place in range(bisect.bisect_left(rows, row), bisect.bisect_right(rows, row)):
                found[place] = _marked(value)
        return found

    def add(self, rows: list[bytes], values: list[bytes | None]) -> list[bytes]:
        """Add rows in their order, of which :meth:`takes` takes the first; a value of None deletes. Returns the rows to
        mark as deleted."""
        if not rows:
            return []
        rows, values = self._with_waiting(rows, values)
        last = bisect.bisect_left(rows, self._key_of(rows[-1]))
        if not self._may_wait(values[last:]):
            last = len(rows)
        self._waiting = dict(zip(rows[last:], values[last:], strict=True))
        return self._write(rows[:last], values[:last])

    def seal(self) -> list[bytes]:
        """No row is added any more, and the files are complete; the rows to mark as deleted."""
        waiting, self._waiting = self._waiting, {}
        gone = self._write([*waiting], [*waiting.values()], is_end=True)
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

    def _with_waiting(
        self, rows: list[bytes], values: list[bytes | None]
    ) -> tuple[list[bytes], list[bytes | None]]:
        """Those that wait, and then these; a row that is in both has its new value."""
        before = self._waiting
        if not before:
            return rows, values
        if next(reversed(before)) < rows[0]:
            return [*before, *rows], [*before.values(), *values]
        merged = before | dict(zip(rows, values, strict=True))
        rows = sorted(merged)
        return rows, [merged[row] for row in rows]

    def _may_wait(self, values: Sequence[bytes | None]) -> bool:
        """Values of rows of one key."""
        if len(values) > _MOST_WAITING:
            return False
        return len(values) <= 1 or sum(map(len, filter(None, values))) <= _MOST_WAITING_BYTES

    def _write(
        self, rows: Sequence[bytes], values: Sequence[bytes | None], *, is_end: bool = False
    ) -> list[bytes]:
        """Rows that do not wait any more; the rows to mark as deleted. If it fails, some of them are nowhere, and a
        user's function may catch the error of a read that wrote them. So everything is refused from then on."""
        if self._failed is not None:
            raise errors.StorageError(
                f"the overlay's rows in {self._directory} are not used any more since a write of them failed half-way "
                f"({self._failed}); the epoch has to begin anew"
            )
        try:
            with failures.translated(self._directory, "writing"):
                gone = self._put(rows, values)
                if is_end or (self._writer is not None and self._writer.file_size() > _FILE_BYTES):
                    self._end_file()
        except Exception as error:
            self._failed = error
            raise
        if rows:
            self._written = rows[-1]
        return gone

    def _put(self, rows: Sequence[bytes], values: Sequence[bytes | None]) -> list[bytes]:
        gone: list[bytes] = []
        start = 0
        while start < len(rows):
            key_group = composite.decode_key_group(rows[start])
            behind = self._behind[key_group]
            if composite.decode_key_group(rows[-1]) < behind:
                end = len(rows)
            else:
                end = bisect.bisect_left(rows, composite.encode_key_group(behind), start)
            gone += self._put_in_shard(self._shard_of[key_group], rows[start:end], values[start:end])
            start = end
        return gone

    def _put_in_shard(self, shard: int, rows: Sequence[bytes], values: Sequence[bytes | None]) -> list[bytes]:
        gone: list[bytes] = []
        writer: Any = None  # RocksDB refuses a file without rows
        for row, value in zip(rows, values, strict=True):
            if value is None:
                gone.append(row)
                continue
            if writer is None:
                writer = self._writer_of(shard)
            writer[row] = value
        return gone

    def _writer_of(self, shard: int) -> Any:
        if self._is_closed:  # no folder is made again
            raise errors.StateError(f"the overlay's files in {self._directory} are gone: it was given up")
        writer = self._writer if shard == self._shard else None
        if writer is None:
            self._end_file()
            files = self.files.setdefault(shard, [])
            path = self._directory / f"{shard}-{len(files)}.sst"
            self._directory.mkdir(parents=True, exist_ok=True)
            writer = rocksdict.SstFileWriter(self._new_options())
            writer.open(str(path))
            files.append(path)
            self._writer, self._shard = writer, shard
        return writer  # not the attribute, which another thread may take away

    def _end_file(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.finish()


def _behind(shard_of: Sequence[int]) -> list[int]:
    """For each key group, the first one behind it of another shard."""
    behind = [len(shard_of)] * len(shard_of)
    for key_group in reversed(range(len(shard_of) - 1)):
        is_same = shard_of[key_group] == shard_of[key_group + 1]
        behind[key_group] = behind[key_group + 1] if is_same else key_group + 1
    return behind


def _marked(value: bytes | None) -> bytes:
    return GONE if value is None else STANDS + value
