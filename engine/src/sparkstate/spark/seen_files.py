"""What a file source remembers of the files that it has read, and how long.

In memory Spark keeps files for ``maxFileAge`` (seven days unless the source says otherwise), reckoned back from the
newest file; what is older it takes for read. In its log it keeps every file for ever, and writes the whole list anew
every ten entries (``CompactibleFileStreamLog``): 105 bytes a file, 100 MB after a million. This takes out of the newest
compact entry what Spark has forgotten in memory, whenever the entry has doubled.

A source that is started with a larger ``maxFileAge`` than before would read forgotten files again. So what was
forgotten is noted beside the log, belongs to the position, and is compared before the first epoch is worked on.
"""

from __future__ import annotations

import datetime
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from sparkstate import errors

NOTE: Final = "forgotten"
"""Name of the note in ``sources/<i>``. Spark reads only names that are numbers there."""
_LOOK_BYTES: Final = 64 * 1024
"""Compact entries that are smaller are left as they are."""
_REPLAYED: Final = 10
"""Entries before the newest whose files stay, however old: Spark reads those of its last two epochs again, when it
starts and when it cleans up (``cleanSource``)."""
_COMPACT: Final = re.compile(r"(\d+)\.compact")
_CHUNK: Final = 512
"""Bytes per checksum, as Hadoop's ``ChecksumFileSystem`` has it unless it is told otherwise."""


class Forgotten(msgspec.Struct, frozen=True):
    """Files that were last changed before ``before_ms`` (Unix time) are not in the log any more. ``max_age_ms`` is the
    source's ``maxFileAge`` of that time."""

    before_ms: int
    max_age_ms: int


class _Entry(msgspec.Struct):
    """What is read of a line; the names are Spark's."""

    timestamp: int
    batchId: int


@dataclass(frozen=True)
class Remembered:
    """A running file source: the number of its folder, and what Spark remembers in memory."""

    number: int
    horizon: Callable[[], Forgotten]


class SeenFiles:
    """The logs of a query's file sources, in its ``directory``. ``sources`` gives those that run. To be called within
    the query's callbacks, where Spark neither reads nor writes them."""

    def __init__(self, directory: Path, sources: Callable[[], Iterable[Remembered]]) -> None:
        self._directory = directory
        self._find = sources
        self._sources: list[Remembered] | None = None
        self._look_at: dict[int, int] = {}

    def check(self) -> None:
        """Compare with what an earlier run has forgotten; does so once.

        Raises ``RestoreBlocked`` if files that were read could be read again.
        """
        if self._sources is not None:
            return
        self._sources = list(self._find())
        for source in self._sources:
            note = self._folder(source.number) / NOTE
            if note.is_file():
                _compare(
                    source.number, msgspec.json.decode(note.read_bytes(), type=Forgotten), source.horizon()
                )

    def forget(self) -> None:
        """Take out of each log what its source has forgotten, if the newest compact entry has doubled since."""
        for source in self._sources or ():
            newest = newest_compact(self._folder(source.number))
            if newest is None:
                continue
            size = newest.stat().st_size
            if size >= self._look_at.get(source.number, _LOOK_BYTES):
                self._look_at[source.number] = max(2 * self._shorten(newest, source.horizon()), _LOOK_BYTES)

    def _shorten(self, compact: Path, horizon: Forgotten) -> int:
        """Bytes that are left."""
        content = compact.read_bytes()
        left = remembered(content, horizon.before_ms, int(compact.name.split(".")[0]) - _REPLAYED)
        if len(left) < len(content):
            _replace(compact.with_name(NOTE), msgspec.json.encode(horizon))
            _replace(compact, left)
            _replace(compact.with_name(f".{compact.name}.crc"), checksums(left))
        return len(left)

    def _folder(self, number: int) -> Path:
        return self._directory / "sources" / str(number)


def _compare(number: int, noted: Forgotten, now: Forgotten) -> None:
    if now.before_ms >= noted.before_ms:
        return
    before = datetime.datetime.fromtimestamp(noted.before_ms / 1000, datetime.UTC)
    raise errors.RestoreBlocked(
        f"the file source {number} of the job keeps the files that it has read for {now.max_age_ms} ms (maxFileAge, or "
        f"latestFirst), and where it goes on it kept them for {noted.max_age_ms} ms: files last changed before "
        f"{before:%Y-%m-%dT%H:%M:%SZ} would be read a second time. Set maxFileAge to at most "
        f"{noted.max_age_ms}ms, without latestFirst"
    )


def newest_compact(folder: Path) -> Path | None:
    """The compact entry with the highest number."""
    found = [path for path in folder.glob("*.compact") if _COMPACT.fullmatch(path.name)]
    return max(found, key=lambda path: int(path.name.split(".")[0]), default=None)


def remembered(content: bytes, before_ms: int, up_to: int) -> bytes:
    """A compact entry without the files that were changed before ``before_ms`` and read up to entry ``up_to``.

    Its first line is a version, each further line a file.
    """
    version, *lines = content.split(b"\n")
    decoder = msgspec.json.Decoder(_Entry)
    kept = [version]
    for line in lines:
        entry = decoder.decode(line)
        if entry.timestamp >= before_ms or entry.batchId > up_to:
            kept.append(line)
    return b"\n".join(kept)


def checksums(content: bytes) -> bytes:
    """The hidden ``.crc`` file of ``content``, as Hadoop's ``ChecksumFileSystem`` compares it."""
    sums = (zlib.crc32(content[at : at + _CHUNK]) for at in range(0, len(content), _CHUNK))
    return b"crc\0" + struct.pack(">i", _CHUNK) + b"".join(struct.pack(">I", each) for each in sums)


def _replace(path: Path, content: bytes) -> None:
    """By a rename: positions are links to what was there, and go on to have that."""
    hidden = path.with_name(f".{path.name.removeprefix('.')}.new.tmp")
    hidden.write_bytes(content)
    hidden.rename(path)


def of_query(execution: Any) -> Iterator[Remembered]:
    """The file sources of a query that runs, by its ``StreamExecution`` in the JVM."""
    sources = execution.sources()
    for at in range(sources.size()):
        source = sources.apply(at)
        if source.getClass().getSimpleName() == "FileStreamSource":
            folder = _field(source, "metadataLog").metadataPath().getName()
            yield Remembered(int(folder), partial(_horizon, source.seenFiles()))


def _horizon(seen: Any) -> Forgotten:
    return Forgotten(before_ms=_field(seen, "lastPurgeTimestamp"), max_age_ms=_field(seen, "maxAgeMs"))


def _field(of: Any, name: str) -> Any:
    # Private in Spark, and said by nothing that is public: the options alone do not tell which source has them.
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)
