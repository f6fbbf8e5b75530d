"""One sorted run: entries of a columnar table in a scratch file, in the order of their stored rows.

The file has one column behind the other: key groups, keys, flags, values. In memory are a filter of all keys, and one
key in ``STEP``; a search finds among these where to read, and goes on in what it has read. All the cells of a search
take each step of it together, as in ``long_index``.

The file is not a stored format, because it goes with its overlay. But what is read of it becomes state, so each piece
of a column has a checksum, in memory, against damage on the disk. The file is read by calls and not memory-mapped,
because mapped pages count as resident memory.
"""

from __future__ import annotations

import array
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkstate.backends.rocksdb import failures, key_filter
from sparkstate.backends.value_columns import Flags, KeyGroups, ValueColumns, Values

STEP: Final = 4096
"""So many entries lie between two keys in memory, and so many at least are read for one that is wanted."""
CHECKED: Final = 512
"""So many entries of a column have one checksum, and are always read whole."""
_STEPS_AT_ONCE: Final = 16
_GROUP: Final = np.dtype(np.int16)
_FLAG: Final = np.dtype(np.bool_)
_COLUMNS: Final = 4

RowNumbers = npt.NDArray[np.int64]


class SortedRun:
    """``parts`` are written to ``path``, which is new; together they are in order, no cell comes twice, and they have
    at most ``most`` entries. Raises ``StorageError`` when the disk is full."""

    def __init__(self, path: Path, parts: Iterable[ValueColumns], most: int, level: int = 0) -> None:
        self.level = level
        """How often its entries were merged."""
        self.rows = 0
        self._path = path
        self._room = most
        self._dtypes: list[Any] = []
        self._sums = [array.array("I") for _ in range(_COLUMNS)]
        """The checksums of each column."""
        self._filter = key_filter.KeyFilter(most)
        groups: list[Any] = []
        keys: list[Any] = []
        with failures.translated(path, "writing"):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        try:
            for part in parts:
                first = -self.rows % STEP
                groups.append(part.key_groups[first::STEP].copy())  # a view would keep the whole part
                keys.append(part.keys[first::STEP].copy())
                self._filter.add(part.keys)
                self._append(part)
        except BaseException:
            self.close()
            raise
        self._groups: KeyGroups = np.concatenate(groups)
        self._keys: Any = np.concatenate(keys)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        sums = sum(each.itemsize * len(each) for each in self._sums)
        return self._filter.nbytes + int(self._groups.nbytes + self._keys.nbytes) + sums

    def _append(self, part: ValueColumns) -> None:
        self._dtypes = [_GROUP, part.keys.dtype, _FLAG, part.values.dtype]
        columns = (part.key_groups.astype(_GROUP), part.keys, part.present, part.values)
        with failures.translated(self._path, "writing"):
            for number, column in enumerate(columns):
                plain: Any = np.ascontiguousarray(column).view(np.uint8)
                data, at = memoryview(plain), self._at(number, self.rows)
                self._note_sums(number, data)
                while data:
                    written = os.pwrite(self._file, data, at)
                    data, at = data[written:], at + written
        self.rows += len(part)

    def _note_sums(self, column: int, data: memoryview) -> None:
        """Of entries behind those that the file has."""
        sums, size = self._sums[column], int(self._dtypes[column].itemsize)
        if data and (missing := -self.rows % CHECKED):
            sums[-1] = zlib.crc32(data[: missing * size], sums[-1])
            data = data[missing * size :]
        sums.extend(zlib.crc32(data[at : at + CHECKED * size]) for at in range(0, len(data), CHECKED * size))

    def _check_sums(self, column: int, first: int, data: bytes) -> None:
        """``first``: the row that ``data`` begins with."""
        step = CHECKED * int(self._dtypes[column].itemsize)
        whole = memoryview(data)
        for number, at in enumerate(range(0, len(data), step), first // CHECKED):
            if zlib.crc32(whole[at : at + step]) != self._sums[column][number]:
                raise OSError(f"Corruption: rows from {number * CHECKED} on are not what was written")

    def _at(self, column: int, row: int) -> int:
        """Where in the file a column has that row."""
        sizes = [int(dtype.itemsize) for dtype in self._dtypes]
        return self._room * sum(sizes[:column]) + row * sizes[column]

    def _read(self, column: int, start: int, end: int) -> Any:
        first = start - start % CHECKED
        last = min(end + -end % CHECKED, self.rows) if end > start else first
        size = (last - first) * int(self._dtypes[column].itemsize)
        with failures.translated(self._path, "reading"):
            data = os.pread(self._file, size, self._at(column, first))
            if len(data) < size:
                raise OSError(f"the file ends before row {last} of {self.rows}")
            self._check_sums(column, first, data)
        return np.frombuffer(data, self._dtypes[column])[start - first : end - first]

    def read(self, start: int, end: int) -> ValueColumns:
        """These rows, as far as there are any."""
        end = min(end, self.rows)
        start = min(start, end)
        groups, keys, present, values = (self._read(column, start, end) for column in range(_COLUMNS))
        return ValueColumns(keys, groups.astype(np.int32), values, present)

    def rows_until(self, group: int, key: Any) -> int:
        """How many rows are not behind this cell: the number of the first one that is."""
        groups, keys = np.array([group], np.int32), np.array([key], self._keys.dtype)
        for start, end, _ in self._steps(groups, keys):
            read = self._read(0, start, end), self._read(1, start, end)
            return start + int(last_not_behind(*read, groups, keys)[0]) + 1
        return 0

    def look_up(self, groups: KeyGroups, keys: Any, into: Values, present: Flags) -> Flags:
        """Write what the run has of these cells, which are in order; answers of which it has something."""
        known = np.zeros(len(keys), np.bool_)
        asked = np.flatnonzero(self._filter.may_have(keys))
        groups, keys = groups[asked], keys[asked]
        for start, end, wanted in self._steps(groups, keys):
            of_file = self._read(0, start, end), self._read(1, start, end)
            rows = last_not_behind(*of_file, groups[wanted], keys[wanted])
            is_there = (rows >= 0) & (of_file[1][rows] == keys[wanted])
            if is_there.any():
                places, found = asked[wanted][is_there], rows[is_there]
                known[places] = True
                into[places] = self._read(3, start, end)[found]
                present[places] = self._read(2, start, end)[found]
        return known

    def _steps(self, groups: KeyGroups, keys: Any) -> Iterator[tuple[int, int, slice]]:
        """The rows to read for these cells: the first, the one behind the last, and the cells that they are for."""
        steps = last_not_behind(self._groups, self._keys, groups, keys)
        needed = np.unique(steps[steps >= 0])
        at = 0
        while at < len(needed):
            first = int(needed[at])
            upper = min(at + _STEPS_AT_ONCE, len(needed))
            count = int(np.argmin(np.append(np.diff(needed[at:upper]), 0) == 1)) + 1
            last, at = first + count, at + count
            cells = np.searchsorted(steps, [first, last])
            yield first * STEP, min(last * STEP, self.rows), slice(int(cells[0]), int(cells[1]))

    def close(self) -> None:
        """Remove the file. Closing twice is allowed."""
        file, self._file = self._file, -1  # first: twice closed, the number may be another file's by then
        if file >= 0:
            os.close(file)
            self._path.unlink(missing_ok=True)


def last_not_behind(groups: Any, keys: Any, wanted_groups: Any, wanted: Any) -> RowNumbers:
    """For each wanted cell the number of the last of the cells in order that is not behind it; -1: all are."""
    asked = wanted_groups.astype(groups.dtype)
    found: RowNumbers = np.searchsorted(groups, asked) - 1  # the last one of an earlier key group
    end = np.searchsorted(groups, asked, "right") - 1
    for bit in reversed(range(int((end - found).max(initial=0)).bit_length())):
        # Beyond the end the last one is tried again; if that is not behind the cell, it is the one.
        probe = np.minimum(found + (1 << bit), end)
        found = np.where(_not_behind(keys[probe], wanted), probe, found)
    return found


def _not_behind(keys: Any, wanted: Any) -> Flags:
    if keys.dtype.names is None:
        return keys <= wanted  # type: ignore[no-any-return]
    one, other = keys["key"], wanted["key"]
    return (one < other) | ((one == other) & (keys["space"] <= wanted["space"]))  # type: ignore[no-any-return]
