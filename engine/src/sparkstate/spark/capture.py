"""The query's position in its sources: Spark's small checkpoint directory, cut to one epoch, inside our checkpoints.

Spark keeps ``metadata``, ``offsets/N``, ``commits/N`` and ``sources/<i>/…`` of a query. Within epoch N's callback
``offsets/N`` exists and ``commits/N`` does not. A position taken there holds ``metadata``, ``offsets`` of N-1 and N,
``commits/N-1`` and a ``commits/N`` that we write, and of each source's log the newest compact entry up to N with what
follows it up to N. A compact entry names all files that were ever seen, so older ones say nothing more (Spark keeps
them for a while, each as large as all before it); entries beyond N would make one huge epoch. Hidden ``.crc`` files
belong to their files: a missing one fails the query. A directory seeded from a position resumes at N+1 with no row lost
or repeated; a directory is never used twice.

Within the callback the log's entries are only linked (:func:`take`): Spark may delete them at any later time, and
they are never changed. They are read beside the epochs (:meth:`CapturedPosition.read`).
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sparkstate import errors, local_disk
from sparkstate.spark import source_log
from sparkstate.spark.position import PART_BYTES, Part, Position, packed

_OFFSETS_VERSION: Final = "v1"
_OFFSETS_HEAD: Final = 2
"""Lines of an offsets entry before the sources: version and metadata."""
_LOG_ENTRY: Final = re.compile(r"\.?(\d+)(\.compact)?(\.crc)?")
_TEMPORARY: Final = re.compile(r"\..*\.tmp(\.crc)?")


@dataclass(frozen=True)
class CapturedPosition:
    """A position that was taken and not yet read. The default is that of a query that never ran."""

    epoch: int = -1
    files: Mapping[str, bytes] = field(default_factory=dict)
    linked: Mapping[str, Path] = field(default_factory=dict)
    folder: Path | None = None
    kept: Position | None = None

    def loaded(self) -> CapturedPosition:
        """The same in memory, for whom the links will be gone."""
        return CapturedPosition(self.epoch, kept=self.read())

    def read(self) -> Position:
        """The part of it that is stored. May be called from any thread, until :meth:`release`."""
        if self.kept is not None:
            return self.kept
        if not self.files:
            return Position()
        files, named, parts = dict(self.files), {}, {}
        for path, link in self.linked.items():
            content = link.read_bytes()
            if len(content) <= PART_BYTES:
                files[path] = content
                continue
            digest = hashlib.sha256(content).hexdigest()
            named[path] = f"position-{digest[:16]}"
            parts[digest] = Part(named[path], digest, content)
        return Position(packed(self.epoch, files, named), tuple(parts.values()))

    def release(self) -> None:
        """It is stored, or given up."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def links_of(directory: Path) -> Path:
    """Where the links of positions in the query's directory ``directory`` are, on the same file system."""
    return directory.with_name(f"{directory.name}.positions")


def take(
    directory: Path, epoch: int, watermark_ms: int, folders: Sequence[int], *, heartbeat: bool
) -> CapturedPosition:
    """Take the position from within the callback of ``epoch``. Costs links, however much the sources have seen.

    ``folders``: for each line of the offsets, the ``<i>`` of its source's ``sources/<i>``. Spark numbers the folders by
    source and the lines by use of a source, which differs where a job reads one frame twice. ``heartbeat``: the last
    source is ours; it is left out, so that a bounded run can go on from an unbounded one's position and the
    other way round.

    Raises ``StateError`` outside of the callback, and ``DeclarationError`` where the offsets have a format whose lines
    are not the sources.
    """
    offsets = directory / "offsets"
    if not (offsets / str(epoch)).is_file():
        raise errors.StateError(
            f"{offsets}/{epoch} is missing; the position can only be taken within its epoch"
        )
    entry = (offsets / str(epoch)).read_text()
    _check_format(entry, len(folders))
    used = len(folders) - heartbeat
    files: dict[str, bytes] = {path.name: path.read_bytes() for path in _with_crc(directory / "metadata")}
    for number in (epoch - 1, epoch):
        path = offsets / str(number)
        if path.is_file():
            lines = path.read_text().split("\n")[: _OFFSETS_HEAD + used]
            files[f"offsets/{number}"] = "\n".join(lines).encode()
    for path in _with_crc(directory / "commits" / str(epoch - 1)):
        files[f"commits/{path.name}"] = path.read_bytes()
    files[f"commits/{epoch}"] = _commit_entry(watermark_ms)
    links_of(directory).mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{epoch}-", dir=links_of(directory)))
    linked = {}
    left_out = set(folders[used:])
    for number, path in enumerate(_of_sources(directory, log_offsets(entry, folders), left_out)):
        link = linked[str(path.relative_to(directory))] = folder / str(number)
        local_disk.link_or_copy(path, link)
    return CapturedPosition(epoch, files, linked, folder)


def _check_format(entry: str, uses: int) -> None:
    # A manifest cannot ask for another format (`sparkConf` is checked), but a job's code can.
    head, *lines = entry.split("\n")
    if head == _OFFSETS_VERSION and len(lines) == uses + _OFFSETS_HEAD - 1:
        return
    raise errors.DeclarationError(
        f"Spark wrote the query's offsets in format {head!r} with {max(len(lines) - 1, 0)} lines for {uses} sources; "
        f"sparkstate reads format {_OFFSETS_VERSION!r} with a line for each. Remove "
        "spark.sql.streaming.offsetLog.formatVersion and spark.sql.streaming.queryEvolution.enableSourceEvolution from "
        "the job's code"
    )


def _of_sources(directory: Path, limits: Mapping[int, int], left_out: Collection[int]) -> Iterator[Path]:
    """The files of the sources that belong to the epoch."""
    # Spark writes an entry to `.<entry>.<uuid>.tmp`, with its checksum beside it, and renames both: they vanish at any
    # time, and say nothing before.
    found = [
        path
        for path in sorted((directory / "sources").rglob("*"))
        if not _TEMPORARY.fullmatch(path.name) and path.is_file()
    ]
    parts = {path: path.relative_to(directory).parts for path in found}
    newest = _newest_compact(parts.values(), limits)
    yield from (path for path in found if _within(parts[path], limits, newest, left_out))


def _with_crc(path: Path) -> Iterator[Path]:
    for candidate in (path, source_log.crc_of(path)):
        if candidate.is_file():
            yield candidate


def _commit_entry(watermark_ms: int) -> bytes:
    return b"v1\n" + json.dumps({"nextBatchWatermarkMs": max(watermark_ms, 0)}).encode()


def log_offsets(offsets_entry: str, folders: Sequence[int]) -> dict[int, int]:
    """Folder of a source → last entry of its log that this epoch uses, for sources that keep a log (files)."""
    limits = {}
    for folder, line in zip(folders, offsets_entry.split("\n")[_OFFSETS_HEAD:], strict=True):
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict) and isinstance(parsed.get("logOffset"), int):
            limits[folder] = parsed["logOffset"]
    return limits


def _entry_of(parts: tuple[str, ...], limits: Mapping[int, int]) -> tuple[int, re.Match[str]] | None:
    """Source and entry, if the path is ``sources/<i>/<entry>`` of a source that keeps a log."""
    if len(parts) != 3 or not parts[1].isdigit() or int(parts[1]) not in limits:
        return None
    entry = _LOG_ENTRY.fullmatch(parts[2])
    return None if entry is None else (int(parts[1]), entry)


def _newest_compact(paths: Iterable[tuple[str, ...]], limits: Mapping[int, int]) -> dict[int, int]:
    """Source → number of its newest compact entry that the epoch has."""
    newest: dict[int, int] = {}
    for parts in paths:
        found = _entry_of(parts, limits)
        if found is not None and found[1][2] and int(found[1][1]) <= limits[found[0]]:
            newest[found[0]] = max(int(found[1][1]), newest.get(found[0], -1))
    return newest


def _within(
    parts: tuple[str, ...], limits: Mapping[int, int], newest: Mapping[int, int], left_out: Collection[int]
) -> bool:
    """Whether ``sources/<i>/…/<entry>`` belongs to the epoch; files without an entry's number are kept."""
    if len(parts) > 1 and parts[1].isdigit() and int(parts[1]) in left_out:
        return False
    found = _entry_of(parts, limits)
    if found is None:
        return True
    source, number = found[0], int(found[1][1])
    compact = newest.get(source, -1)
    if number == compact and not found[1][2]:
        return False  # the compact entry of that number says it
    return compact <= number <= limits[source]


def only_heartbeat(directory: Path, epoch: int) -> bool:
    """Whether from ``epoch - 1`` to ``epoch`` no source moved but the last one, which is the heartbeat."""
    try:
        before = (directory / "offsets" / str(epoch - 1)).read_text().split("\n")[_OFFSETS_HEAD:]
        now = (directory / "offsets" / str(epoch)).read_text().split("\n")[_OFFSETS_HEAD:]
    except FileNotFoundError:
        return False
    return len(now) > 1 and before[:-1] == now[:-1]
