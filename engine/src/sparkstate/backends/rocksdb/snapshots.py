"""The snapshots that ``prepare_snapshot`` hands over: RocksDB's own files,
or a view to be written in the canonical format."""

from __future__ import annotations

import bisect
import os
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from sparkstate import errors
from sparkstate.backends import canonical, heap_timers
from sparkstate.backends.base import (
    TIMER_KINDS,
    CanonicalRow,
    SnapshotFile,
    SnapshotStream,
    TableSpec,
)
from sparkstate.backends.layered_dict import View
from sparkstate.backends.rocksdb import layout
from sparkstate.backends.rocksdb.schemas import SchemaCodec, Schemas
from sparkstate.serde import composite, expiring

Source = Iterator[tuple[bytes, bytes]] | View
"""Of one table: its rows in RocksDB, or its timers on the heap."""


class TableSource(NamedTuple):
    """One table of a canonical snapshot."""

    spec: TableSpec
    view: Source
    schemas: SchemaCodec | None = None
    """Where rows of several types lie in the table: the snapshot has them all in the table's own type."""
    cutoff: int = expiring.NO_STAMP
    """Values with this stamp or an older one have expired, and are left out."""


NATIVE = "rocksdb"
META = "sparkstate.json"
VERSION = 2
"""Of the file ``META``. It is 2 only where rows of several types lie in one table: an older sparkstate would read them
wrong, or not at all."""
_NUMBERED = re.compile(r"(?:MANIFEST-|OPTIONS-)?(\d+)(?:\.\w+)?$")
# Options come from the job, not from the snapshot; logs are empty, because nothing is logged.
_LEFT_OUT = re.compile(r"OPTIONS-\d+|rocksdict-config\.json|IDENTITY|LOCK|LOG.*|.*\.log")


class Identity(msgspec.Struct, frozen=True):
    """From file number ``first`` on, files were written by the store ``id``."""

    first: int
    id: str


class _Versioned(msgspec.Struct, frozen=True):
    """The part that every version of the file has."""

    version: int


class StoreMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The file ``sparkstate.json`` of a native snapshot: all that RocksDB's own files do not say.

    A file rather than a column family: it changes at every commit, and would cost one more SST file per snapshot.
    """

    version: int = 1
    tables: list[canonical.TableHeader] = []
    next_position: int = 0
    identities: list[Identity] = []
    schemas: list[Schemas] = []
    """Of tables whose type has changed so that their rows are migrated when read (version 2)."""


def read_meta(path: Path) -> StoreMeta:
    """Read the file; raises ``CorruptData`` if it is not what was written, ``UnknownFormat`` for a later version."""
    try:
        data = path.read_bytes()
        version = msgspec.json.decode(data, type=_Versioned).version
        if version > VERSION:  # before the rest is read, which may look otherwise there
            raise errors.UnknownFormat(
                f"{path} has the format version {version}, this sparkstate reads {VERSION}; "
                "use the sparkstate version that wrote it, or a newer one"
            )
        return msgspec.json.decode(data, type=StoreMeta)
    except (OSError, msgspec.MsgspecError) as error:
        raise errors.CorruptData(f"{path} is not a description of a RocksDB snapshot: {error}") from error


def greatest_number(names: Iterable[str]) -> int:
    """The greatest file number among RocksDB's files; new files get greater ones."""
    return max((int(match.group(1)) for name in names if (match := _NUMBERED.match(name))), default=0)


def identity_of(name: str, size: int, identities: Sequence[Identity]) -> str:
    """Names the content of an SST file for ever.

    RocksDB's numbers go on from those of a restored snapshot, so two restores of one snapshot give the same number to
    different files. Neither the number alone nor the store alone can be the name (RFC 0011).
    """
    number = int(name.partition(".")[0])
    at = bisect.bisect_right([entry.first for entry in identities], number) - 1
    return f"{identities[max(at, 0)].id}-{number:06d}-{size}"


def linked_directory(database: Path, directory: Path, checkpoint_id: int) -> Path:
    """For the links to the files of a database: within ``directory``, or beside the database where that is another
    device, which a hard link cannot leave."""
    if os.stat(directory).st_dev == os.stat(database).st_dev:
        return directory / "db"
    target = database.with_name(f"{database.name}-snapshot-{checkpoint_id}")
    shutil.rmtree(target, ignore_errors=True)
    return target


class NativeSnapshot:
    """Hard links to RocksDB's files. SST files are immutable and shared between snapshots, the others are not."""

    format = NATIVE

    def __init__(
        self, directory: Path, identities: Sequence[Identity], incremental: bool, extra: Sequence[Path]
    ) -> None:
        self._directory = directory
        self._identities = tuple(identities)
        self._incremental = incremental
        self._extra = tuple(extra)

    def files(self) -> Sequence[SnapshotFile]:
        found: list[SnapshotFile] = []
        for path in sorted([*self._directory.iterdir(), *self._extra]):
            if _LEFT_OUT.fullmatch(path.name):
                continue
            size = path.stat().st_size
            shared = self._incremental and path.suffix == ".sst"
            identity = identity_of(path.name, size, self._identities) if shared else ""
            found.append(SnapshotFile(path.name, path, size, shared, identity))
        return found

    def release(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        for path in self._extra:
            path.unlink(missing_ok=True)


class CanonicalSnapshot:
    """Views of all tables, read row by row when the snapshot's bytes are, in any thread, beside commits."""

    format = canonical.FORMAT

    def __init__(
        self,
        directory: Path,
        sources: Sequence[TableSource],
        release: Callable[[], None],
    ) -> None:
        self._path = directory / canonical.FORMAT
        self._tables = [source.spec for source in sources]
        self._sources = list(sources)
        self._release = release

    def files(self) -> Sequence[SnapshotFile]:
        # A view can be read once, so a second call gets the file of the first.
        if not self._path.exists():
            with self._path.open("wb") as file:
                for data in self._chunks():
                    file.write(data)
        return [SnapshotFile(canonical.FORMAT, self._path, self._path.stat().st_size, shared=False)]

    def streams(self) -> Sequence[SnapshotStream]:
        return [SnapshotStream(canonical.FORMAT, self._chunks)]

    def _chunks(self) -> Generator[bytes, None, None]:
        return canonical.stream(self._tables, self._rows())

    def _rows(self) -> Iterator[CanonicalRow]:
        for number, source in enumerate(self._sources):
            if isinstance(source.view, View):
                yield from heap_timers.rows(source.view, source.spec, number)
            else:
                yield from _rows_of(number, source, source.view)

    def release(self) -> None:
        self._sources = []
        self._release()
        self._path.unlink(missing_ok=True)


def _rows_of(number: int, source: TableSource, view: Iterable[tuple[bytes, bytes]]) -> Iterator[CanonicalRow]:
    """The rows of a state that have not expired, in the type of its table."""
    found = rows(number, source.spec, view)
    if expiring.ttl_of(source.spec.value_type) is not None:
        has_expired = expiring.expired_bytes(source.cutoff)
        found = (row for row in found if not has_expired(row.value))
    if source.schemas is None:
        return found
    plain = source.schemas.plain
    return (row._replace(value=plain(row.value)) for row in found)


def rows(number: int, spec: TableSpec, source: Iterable[tuple[bytes, bytes]]) -> Iterator[CanonicalRow]:
    """All rows of one table's view as canonical rows of table ``number``, in their order there: of states by key group,
    of timers by time."""
    codec = layout.RowCodec(spec)
    if spec.kind in TIMER_KINDS:
        for key, _ in source:
            key_group, key_bytes, namespace, _ = codec.split(key[8:])
            yield CanonicalRow(number, key_group, key_bytes, namespace, key[:8], b"")
        return
    split = codec.split
    for key, value in source:
        key_group, key_bytes, namespace, sub = split(key)
        yield CanonicalRow(number, key_group, key_bytes, namespace, sub, value)


def stored_row(row: CanonicalRow, timers: bool) -> bytes:
    """The row key of a canonical row: its parts are RocksDB's own."""
    key = composite.encode_key_group(row.key_group) + row.key + row.namespace
    return row.sub + key if timers else key + row.sub
