"""The log of a file source, as Spark keeps it: an entry per batch, and every so many batches one that holds all before.

Spark works out from the names of the compact entries how many batches lie between two of them
(``CompactibleFileStreamLog``). A position keeps one compact entry, and one alone says little: after ``19.compact``
Spark 4.3 writes the next one at 39, and after ``79.compact`` it looks for one at 89. A log that was written with the
one interval and is read with the other fails every query that starts from it. Where the configured interval grows from
10 to 15, Spark goes on after ``99729.compact`` with 9,973 batches. So before a query starts, its logs are made to hold
a second compact entry, without files, which tells Spark an interval near the configured one, and the compact entry that
Spark will look for then.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isqrt
from pathlib import Path
from typing import BinaryIO, Final

from sparkstate import errors

_ENTRY: Final = re.compile(r"(\d+)(\.compact)?")
_HEAD: Final = b"v1"
"""First line of an entry; each further line is a file."""
_CHUNK: Final = 512
"""Bytes per checksum, as Hadoop's ``ChecksumFileSystem`` has it unless it is told otherwise."""


def entries_of(folder: Path) -> list[Path]:
    """Single and compact ones, in no order."""
    return [path for path in folder.iterdir() if _ENTRY.fullmatch(path.name)]


def newest_compact(folder: Path) -> Path | None:
    """The compact entry with the highest number."""
    found = [path for path in folder.glob("*.compact") if _ENTRY.fullmatch(path.name)]
    return max(found, key=number_of, default=None)


def number_of(entry: Path) -> int:
    """The batch of an entry."""
    return int(entry.name.split(".")[0])


def crc_of(entry: Path) -> Path:
    """The hidden file of its checksums."""
    return entry.with_name(f".{entry.name}.crc")


def interval_of(compact: Sequence[int], default: int) -> int:
    """Batches from one compact entry to the next, as Spark works it out from the numbers of those that there are.

    ``default`` is ``spark.sql.streaming.fileSource.log.compactInterval``.
    """
    if not compact:
        return default
    *older, newest = sorted(compact)
    if older:
        return newest - older[-1]
    if default >= (newest + 1) // 2:
        return newest + 1
    return next((n for n in range(default, (newest + 1) // 2 + 1) if (newest + 1) % n == 0), newest + 1)


def _nearest_interval(newest: int, default: int) -> int:
    """The interval next to ``default`` by which Spark can go on from the compact entry ``newest``: the entry ends one.

    At 1 Spark would write the whole list anew in every batch: only where that is the default, or there is no other.
    """
    if default == 1 or newest == 0:
        return 1
    whole = newest + 1
    pairs = ((n, whole // n) for n in range(1, isqrt(whole) + 1) if whole % n == 0)
    divisors = [n for pair in pairs for n in pair if n > 1]
    return min(divisors, key=lambda n: (max(n, default) / min(n, default), n))


def align_all(directory: Path, default: int) -> None:
    """:meth:`align` the log of each file source of the query in ``directory``.

    The folders are those that there are: Spark numbers them by source, and the lines of its offsets by use of a source,
    which differs where a job reads one frame twice. A ``default`` that Spark refuses is left to Spark.
    """
    if default < 1:
        return
    for folder in sorted((directory / "sources").glob("[0-9]*")):
        if _is_of_files(folder):
            align(folder, default)


def _is_of_files(folder: Path) -> bool:
    """Whether a file source writes its log there: other sources have an entry named 0 too, with something else."""
    for path in entries_of(folder):
        with path.open("rb") as file:
            if next(file, b"").strip() != _HEAD:
                return False
            line = next(file, b"")
        if line:
            return line.startswith(b'{"path":') and b'"batchId":' in line
    return False


def align(folder: Path, default: int) -> None:
    """Write the compact entry that Spark will look for, if the log in ``folder`` has entries of single batches there.

    An entry without files goes before it, one interval away: two names make Spark keep the interval.

    Raises ``CorruptData`` where an entry between is missing: its files would be read a second time.
    """
    entries = {number_of(path): path for path in entries_of(folder)}
    compact = [number for number, path in entries.items() if path.name.endswith(".compact")]
    newest, last = max(compact, default=-1), max(entries, default=-1)
    _check_whole(entries, range(max(newest, 0), last + 1), folder)
    interval = interval_of(compact, default)
    if len(compact) == 1:
        fits = _last_boundary(last, default) > newest
        interval = default if fits else _nearest_interval(newest, default)
    wanted = _last_boundary(last, interval)
    if wanted > newest:
        merged = [entries[number] for number in range(max(newest, 0), wanted + 1)]
        _write_compact(folder / f"{wanted}.compact", _files_of(merged))
        for path in merged:
            path.unlink()
            crc_of(path).unlink(missing_ok=True)
    if wanted >= interval:
        _write_compact(folder / f"{wanted - interval}.compact", ())


def _last_boundary(last: int, interval: int) -> int:
    """The last entry up to ``last`` that ends an interval; -1: none does."""
    return (last + 1) // interval * interval - 1


def _check_whole(entries: Mapping[int, Path], expected: range, folder: Path) -> None:
    for number in expected:
        if number not in entries:
            raise errors.CorruptData(
                f"the stored source position lacks the entry {number} of the log in {folder.parent.name}/{folder.name} "
                f"and has {min(entries)} to {max(entries)}: go on from another checkpoint or savepoint"
            )


def _files_of(entries: Sequence[Path]) -> Iterator[bytes]:
    for path in entries:
        with path.open("rb") as file:
            next(file, None)
            yield from (line.rstrip(b"\n") for line in file)


def _write_compact(entry: Path, files: Iterable[bytes]) -> None:
    write(entry, crc_of(entry), chain([_HEAD], files))


def write(entry: Path, crc: Path, lines: Iterable[bytes]) -> int:
    """Write an entry and its checksums, a line at a time: there may be millions. The first line is the version. Bytes
    of the entry."""
    with entry.open("wb") as written, crc.open("wb") as sums:
        checked = Checksums(sums)
        for number, line in enumerate(lines):
            piece = b"\n" + line if number else line
            written.write(piece)
            checked.add(piece)
        checked.close()
        return written.tell()


class Checksums:
    """Writes the hidden ``.crc`` file of the added bytes, as Hadoop's ``ChecksumFileSystem`` compares it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rest = b""
        file.write(b"crc\0" + struct.pack(">i", _CHUNK))

    def add(self, content: bytes) -> None:
        """The next bytes of the content."""
        content = self._rest + content
        whole = len(content) - len(content) % _CHUNK
        for at in range(0, whole, _CHUNK):
            self._sum(content[at : at + _CHUNK])
        self._rest = content[whole:]

    def close(self) -> None:
        """That was all."""
        if self._rest:
            self._sum(self._rest)

    def _sum(self, chunk: bytes) -> None:
        self._file.write(struct.pack(">I", zlib.crc32(chunk)))
