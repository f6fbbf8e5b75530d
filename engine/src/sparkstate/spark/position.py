"""The query's position in its sources: Spark's small checkpoint directory, cut to one epoch, inside our checkpoints.

Spark keeps ``metadata``, ``offsets/N``, ``commits/N`` and ``sources/<i>/…`` of a query. Within epoch N's callback
``offsets/N`` exists and ``commits/N`` does not. An archive made there holds ``metadata``, ``offsets`` of N-1 and N,
``commits/N-1`` and a ``commits/N`` that we write, and the source logs cut to N (entries beyond would make one huge
epoch). Hidden ``.crc`` files belong to their files: a missing one fails the query. A directory seeded from an archive
resumes at N+1 with no row lost or repeated; a directory is never used twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sparkstate import errors

ARCHIVE_VERSION = 1
_OFFSETS_HEAD = 2
"""Lines of an offsets entry before the sources: version and metadata."""
_LOG_ENTRY = re.compile(r"\.?(\d+)(\.compact)?(\.crc)?")


class Archive(msgspec.Struct, frozen=True):
    """Relative path → content, as of ``epoch``."""

    version: int
    epoch: int
    files: dict[str, bytes]


def capture(directory: Path, epoch: int, watermark_ms: int, *, heartbeat: bool) -> bytes:
    """Archive the query's directory from within the callback of ``epoch``.

    ``heartbeat``: the last source is ours; it is left out, so that a bounded run can go on from an unbounded one's
    archive and the other way round.
    """
    offsets = directory / "offsets"
    if not (offsets / str(epoch)).is_file():
        raise errors.StateError(
            f"{offsets}/{epoch} is missing; the position can only be taken within its epoch"
        )
    entry = (offsets / str(epoch)).read_text()
    sources = len(entry.splitlines()) - _OFFSETS_HEAD - heartbeat
    files: dict[str, bytes] = {path.name: path.read_bytes() for path in _with_crc(directory / "metadata")}
    for number in (epoch - 1, epoch):
        path = offsets / str(number)
        if path.is_file():
            lines = path.read_text().splitlines()[: _OFFSETS_HEAD + sources]
            files[f"offsets/{number}"] = "\n".join(lines).encode()
    for path in _with_crc(directory / "commits" / str(epoch - 1)):
        files[f"commits/{path.name}"] = path.read_bytes()
    files[f"commits/{epoch}"] = _commit_entry(watermark_ms)
    limits = log_offsets(entry)
    for path in sorted((directory / "sources").rglob("*")):
        relative = path.relative_to(directory)
        if path.is_file() and _within(relative.parts, limits, sources):
            files[str(relative)] = path.read_bytes()
    return msgspec.msgpack.encode(Archive(ARCHIVE_VERSION, epoch, files))


def _with_crc(path: Path) -> Iterator[Path]:
    for candidate in (path, path.with_name(f".{path.name}.crc")):
        if candidate.is_file():
            yield candidate


def _commit_entry(watermark_ms: int) -> bytes:
    return b"v1\n" + json.dumps({"nextBatchWatermarkMs": max(watermark_ms, 0)}).encode()


def log_offsets(offsets_entry: str) -> dict[int, int]:
    """Source number → last entry of its log that this epoch uses, for sources that keep a log (files)."""
    limits = {}
    for number, line in enumerate(offsets_entry.splitlines()[_OFFSETS_HEAD:]):
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict) and isinstance(parsed.get("logOffset"), int):
            limits[number] = parsed["logOffset"]
    return limits


def _within(parts: tuple[str, ...], limits: dict[int, int], sources: int) -> bool:
    """Whether ``sources/<i>/…/<entry>`` belongs to the epoch; what is no numbered entry is kept."""
    if len(parts) > 1 and parts[1].isdigit() and int(parts[1]) >= sources:
        return False
    if len(parts) != 3 or not parts[1].isdigit() or int(parts[1]) not in limits:
        return True
    entry = _LOG_ENTRY.fullmatch(parts[2])
    return entry is None or int(entry[1]) <= limits[int(parts[1])]


def seed(directory: Path, archive: bytes, *, heartbeat: bool) -> int:
    """Fill a fresh directory; returns the archive's epoch. The query then resumes at the next one.

    ``heartbeat``: the query has ours as its last source, which begins anew at 0.
    """
    try:
        decoded = msgspec.msgpack.decode(archive, type=Archive)
    except msgspec.MsgspecError as error:
        raise errors.CorruptData(f"the stored source position cannot be read: {error}") from error
    if decoded.version != ARCHIVE_VERSION:
        raise errors.UnknownFormat(
            f"the stored source position has version {decoded.version}, this sparkstate reads {ARCHIVE_VERSION}: "
            "use the version that wrote it or a newer one"
        )
    directory.mkdir(parents=True, exist_ok=False)
    for name, content in decoded.files.items():
        target = directory / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise errors.CorruptData(f"the stored source position names {name!r}, outside of its directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        beats = heartbeat and name.startswith("offsets/")
        target.write_bytes(content + b"\n0" if beats else content)
    return decoded.epoch


def only_heartbeat(directory: Path, epoch: int) -> bool:
    """Whether from ``epoch - 1`` to ``epoch`` no source moved but the last one, which is the heartbeat."""
    try:
        before = (directory / "offsets" / str(epoch - 1)).read_text().splitlines()[_OFFSETS_HEAD:]
        now = (directory / "offsets" / str(epoch)).read_text().splitlines()[_OFFSETS_HEAD:]
    except FileNotFoundError:
        return False
    return len(now) > 1 and before[:-1] == now[:-1]
