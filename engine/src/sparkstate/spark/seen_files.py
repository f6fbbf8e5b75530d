"""The memory of a file source: which files it has read, and how long it remembers them.

In memory Spark keeps files for ``maxFileAge`` (seven days unless the source says otherwise), reckoned back from the
newest file; what is older it takes for read. In its log it keeps every file for ever, and writes the whole list anew
every ten entries (``CompactibleFileStreamLog``): 105 bytes a file, 100 MB after a million. This takes out of the newest
compact entry what Spark has forgotten in memory, once in each life and whenever the entry has doubled.

A source that is started with a larger ``maxFileAge`` than before would read forgotten files again. So what was
forgotten is noted beside the log, belongs to the position, and is compared before the first epoch is worked on.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from sparkstate import errors
from sparkstate.spark import source_log

NOTE: Final = "forgotten"
"""Name of the note in ``sources/<i>``. Spark reads only names that are numbers there."""
_LOOK_BYTES: Final = 64 * 1024
"""Compact entries that are smaller are left as they are."""
_REPLAYED: Final = 10
"""Entries before the newest whose files stay, however old: Spark reads those of its last two epochs again, when it
starts and when it cleans up (``cleanSource``)."""


class Forgotten(msgspec.Struct, frozen=True):
    """Files that were last changed before ``before_ms`` (Unix time) may not be in the log any more. ``max_age_ms`` is
    the source's ``maxFileAge`` of that time."""

    before_ms: int
    max_age_ms: int


class _Entry(msgspec.Struct):
    """The fields of a line that are read; the names are Spark's."""

    timestamp: int
    batchId: int


@dataclass(frozen=True)
class RememberedSource:
    """A running file source: the number of its folder, and what Spark remembers in memory."""

    number: int
    horizon: Callable[[], Forgotten]


class SeenFiles:
    """The logs of a query's file sources, in its ``directory``. ``sources`` gives those that run, ``now_ms`` the time.

    :meth:`begin` comes before the query starts; the other calls within its callbacks, where Spark neither reads nor
    writes the logs.
    """

    def __init__(
        self, directory: Path, sources: Callable[[], Iterable[RememberedSource]], now_ms: Callable[[], int]
    ) -> None:
        self._folder = directory / "sources"
        self._find = sources
        self._now_ms = now_ms
        self._noted: dict[int, Forgotten] = {}
        self._newest_ms: dict[int, int] = {}
        """Of the files in the logs that the position brought, where something was forgotten."""
        self._sources: list[RememberedSource] | None = None
        self._look_at: dict[int, int] = {}
        """Bytes of a log's newest compact entry at which it is looked at. Each life begins with a look: where a life
        only looked at double the size that it began with, jobs that are restarted daily never forgot a file."""

    def begin(self) -> None:
        """Read what the query's position brought, as Spark does when it starts."""
        for note in self._folder.glob(f"[0-9]*/{NOTE}"):
            number = int(note.parent.name)
            self._noted[number] = msgspec.json.decode(note.read_bytes(), type=Forgotten)
            self._newest_ms[number] = _newest_ms(note.parent)

    def check(self) -> None:
        """Compare with what an earlier run has forgotten; does so once.

        Raises ``RestoreBlocked`` if files that were read could be read again. The epoch's files are chosen then, and
        nothing is done with them: the source's present horizon has gone on with the newest of them, so the check
        compares the horizon by which they were chosen.
        """
        if self._sources is not None:
            return
        self._sources = list(self._find())
        for source in self._sources:
            if (newest_ms := self._newest_ms.get(source.number)) is not None:
                _compare(source.number, self._noted[source.number], newest_ms, source.horizon().max_age_ms)

    def forget(self) -> None:
        """Take out of each log what its source has forgotten, if the newest compact entry has doubled since the last
        look. The first look of a life is at every large entry."""
        for source in self._sources or ():
            compact = source_log.newest_compact(self._folder / str(source.number))
            if compact is None:
                continue
            size = compact.stat().st_size
            if size >= self._look_at.get(source.number, _LOOK_BYTES):
                self._look_at[source.number] = _next_look(self._shorten(source, compact, size))

    def _shorten(self, source: RememberedSource, compact: Path, size: int) -> int:
        """Bytes that are left."""
        horizon = source.horizon()
        # A file with a time to come moves Spark's horizon beyond files that were never read. Who raises maxFileAge to
        # get them back needs the log.
        now = Forgotten(min(horizon.before_ms, self._now_ms() - horizon.max_age_ms), horizon.max_age_ms)
        noted = self._noted.get(source.number)
        if noted is not None and now.before_ms <= noted.before_ms:
            return size  # the clock went back, or maxFileAge was raised: the note says more
        left = _replace(compact, now, size)
        if left < size:
            self._noted[source.number] = now
        return left


def _replace(compact: Path, forgotten: Forgotten, size: int) -> int:
    """Replace the entry by one without what is forgotten, and note that. Bytes that are left: all if nothing is, or
    if something went wrong before; that is tried again when the entry has doubled."""
    files = (compact.with_name(NOTE), compact, source_log.crc_of(compact))
    note, entry, sums = (path.with_name(f".{path.name.removeprefix('.')}.new.tmp") for path in files)
    try:
        left = _write_remembered(compact, entry, sums, forgotten.before_ms)
        note.write_bytes(msgspec.json.encode(forgotten))
    except (OSError, msgspec.MsgspecError):
        left = size
    for hidden, path in zip((note, entry, sums), files, strict=True):
        if left < size:
            # A rename: positions are links to what was there, and go on to have that.
            hidden.rename(path)
        else:
            with suppress(OSError):
                hidden.unlink()
    return left


def _next_look(size: int) -> int:
    return max(2 * size, _LOOK_BYTES)


def _compare(number: int, noted: Forgotten, newest_ms: int, max_age_ms: int) -> None:
    if newest_ms - max_age_ms >= noted.before_ms:
        return
    before = datetime.datetime.fromtimestamp(noted.before_ms / 1000, datetime.UTC)
    raise errors.RestoreBlocked(
        f"the file source {number} of the job keeps the files that it has read for {max_age_ms} ms (maxFileAge, or "
        f"latestFirst), and where it goes on it kept them for {noted.max_age_ms} ms: files last changed before "
        f"{before:%Y-%m-%dT%H:%M:%SZ} would be read a second time. Set maxFileAge to at most {noted.max_age_ms}ms, "
        "without latestFirst; if the source reads another folder now, begin without this position"
    )


def _newest_ms(folder: Path) -> int:
    """Time of the newest file in the log that Spark starts with: the newest compact entry and what follows it."""
    decoder = msgspec.json.Decoder(_Entry)
    newest = -(2**63)
    for path in source_log.entries_of(folder):
        with path.open("rb") as file:
            next(file, None)
            newest = max(chain([newest], (decoder.decode(line).timestamp for line in file)))
    return newest


def remembered(lines: Iterable[bytes], before_ms: int, up_to: int) -> Iterator[bytes]:
    """A compact entry's lines without the files that were changed before ``before_ms`` and read up to entry ``up_to``.

    The first line is a version, each further line a file.
    """
    decoder = msgspec.json.Decoder(_Entry)
    for number, line in enumerate(lines):
        if number:
            entry = decoder.decode(line)
            if entry.timestamp < before_ms and entry.batchId <= up_to:
                continue
        yield line.rstrip(b"\n")


def _write_remembered(compact: Path, to: Path, crc: Path, before_ms: int) -> int:
    """Write the shorter entry and its checksums. Bytes of the entry."""
    with compact.open("rb") as file:
        lines = remembered(file, before_ms, source_log.number_of(compact) - _REPLAYED)
        return source_log.write(to, crc, lines)
