"""The canonical file: all states and timers of a shard, in a form that no backend owns (see docs/formats.md).

::

    magic "SPKSTATE" ‖ version (1 byte)
    section: header     msgpack: the list of tables
    section: block …    msgpack: [table, least key group, greatest key group, [row…]],
                        row = [key group, key, namespace, sub, value]
    section: trailer    msgpack: [number of blocks, number of rows]

    section = kind (1 byte: H, B, T) ‖ length (4 bytes, big endian) ‖ crc32 of kind and payload (4 bytes) ‖
    payload

Rows of one table are written together: those of states in order of their key groups, so that a reader skips the
blocks outside its range without decoding rows; timers in order of time, as stores have them, so that a snapshot need
not sort them (older versions wrote them by key group, and readers never cared). A file without a trailer was cut
short: ``CorruptData``. A file of a later version is not damaged: ``UnknownFormat``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NamedTuple

import msgspec

from sparkstate import errors
from sparkstate.backends import base
from sparkstate.backends.base import CanonicalRow, StateKind, TableSpec
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde import composite, evolution, expiring, types
from sparkstate.serde.evolution import Verdict

FORMAT: Final = "canonical"
"""Name of the format, and of the file."""
MAGIC: Final = b"SPKSTATE"
VERSION: Final = 1
BLOCK_BYTES: Final = 64 * 1024
_SECTION = struct.Struct(">cII")
_encode = msgspec.msgpack.Encoder().encode

RowTuple = tuple[int, bytes, bytes, bytes, bytes]
"""Key group, key, namespace, sub and value."""


class TableHeader(msgspec.Struct, frozen=True):
    """One table in the header: its spec, types as their stable descriptions (empty = none)."""

    uid: str
    name: str
    kind: str
    key_type: str
    value_type: str = ""
    user_key_type: str = ""
    namespace_type: str = ""


_decode_header = msgspec.msgpack.Decoder(list[TableHeader]).decode
_decode_block = msgspec.msgpack.Decoder(tuple[int, int, int, msgspec.Raw]).decode
_decode_rows = msgspec.msgpack.Decoder(list[RowTuple]).decode
_decode_trailer = msgspec.msgpack.Decoder(tuple[int, int]).decode


def describe_table(spec: TableSpec) -> TableHeader:
    """The spec in its stored form; also for backends' own metadata."""
    return TableHeader(
        uid=spec.uid,
        name=spec.name,
        kind=spec.kind.value,
        key_type=spec.key_type.describe(),
        value_type=spec.value_type.describe() if spec.value_type else "",
        user_key_type=spec.user_key_type.describe() if spec.user_key_type else "",
        namespace_type=spec.namespace_type.describe() if spec.namespace_type else "",
    )


def parse_table(header: TableHeader) -> TableSpec:
    """The inverse of :func:`describe_table`."""
    return TableSpec(
        uid=header.uid,
        name=header.name,
        kind=StateKind(header.kind),
        key_type=types.parse(header.key_type),
        value_type=types.parse(header.value_type) if header.value_type else None,
        user_key_type=types.parse(header.user_key_type) if header.user_key_type else None,
        namespace_type=types.parse(header.namespace_type) if header.namespace_type else None,
    )


def check_same_table(stored: TableSpec, declared: TableSpec) -> Verdict:
    """The verdict on values of ``stored`` now that the job says ``declared``. Raises ``StateMigrationError`` for those
    that cannot be read (docs/schema-evolution.md)."""
    verdict = evolution.compare(stored, declared)
    if verdict.is_refused:
        raise errors.StateMigrationError(verdict.message)
    if expiring.ttl_of(stored.value_type) != expiring.ttl_of(declared.value_type):
        # A store that can change it has done so before.
        raise errors.StateMigrationError(f"{verdict.message}; {evolution.KEEPS_LIVES}")
    return verdict


class TableCodec:
    """Cells, map keys, values and timers of one table, to and from the parts of a canonical row."""

    def __init__(self, spec: TableSpec) -> None:
        self._key = composite.key_codec(spec.key_type)
        self.user_key = composite.key_codec(spec.user_key_type) if spec.user_key_type is not None else None
        self.value_type = spec.value_type
        self.kind = spec.kind

    def cell_bytes(self, cell: base.Cell) -> tuple[bytes, bytes]:
        """Key and namespace of a cell."""
        if type(cell) is base.NamespacedCell:
            return self._key.encode(cell.key), composite.NAMESPACES.encode(cell.namespace)
        return self._key.encode(cell), composite.DEFAULT_NAMESPACE

    def key(self, data: bytes) -> Any:
        """The key of a row's key bytes."""
        return self._key.decode(data)[0]

    def cell(self, key: bytes, namespace: bytes) -> base.Cell:
        """The cell of a row's key and namespace."""
        decoded = self._key.decode(key)[0]
        if namespace == composite.DEFAULT_NAMESPACE:
            return decoded
        return base.NamespacedCell(decoded, composite.decode_namespace(namespace)[0])

    def timer_row(self, table: int, timer: base.Timer) -> CanonicalRow:
        """A timer as a row; its timestamp is the ``sub``."""
        return CanonicalRow(
            table,
            timer.key_group,
            self._key.encode(timer.key),
            composite.NAMESPACES.encode(timer.namespace),
            composite.encode_long(timer.timestamp),
            b"",
        )

    def timer(self, row: CanonicalRow) -> base.Timer:
        """The inverse of :meth:`timer_row`."""
        return base.Timer(
            composite.decode_long(row.sub),
            self._key.decode(row.key)[0],
            row.key_group,
            composite.decode_namespace(row.namespace)[0],
        )


class RowBlock(NamedTuple):
    """Rows of one table that are a block of their own."""

    table: int
    rows: Sequence[RowTuple]


class _Sections:
    """Makes the bytes of one file, section by section, from rows in the order in which readers get them."""

    def __init__(self, tables: Sequence[TableSpec], block_bytes: int) -> None:
        self._tables = tables
        self._block_bytes = block_bytes
        self._rows: list[RowTuple] = []
        self._size = 0
        self._table = -1
        self._blocks = self._count = 0

    def header(self) -> bytes:
        """The beginning of the file."""
        return (
            MAGIC
            + bytes([VERSION])
            + _section(b"H", _encode([describe_table(spec) for spec in self._tables]))
        )

    def add(self, row: CanonicalRow) -> bytes:
        """The block before ``row``, if it is full or of another table; most often nothing."""
        table, key_group, key, namespace, sub, value = row
        full = self._block() if table != self._table or self._size >= self._block_bytes else b""
        self._table = table
        self._rows.append((key_group, key, namespace, sub, value))
        self._size += len(key) + len(sub) + len(value) + 8
        return full

    def add_block(self, block: RowBlock) -> bytes:
        """That block, and the one before it."""
        before = self._block()
        self._table, self._rows = block.table, list(block.rows)
        return before + self._block()

    def end(self) -> bytes:
        """The last block and the trailer."""
        return self._block() + _section(b"T", _encode((self._blocks, self._count)))

    def _block(self) -> bytes:
        if not self._rows:
            return b""
        groups = [row[0] for row in self._rows]  # of timers, which come by time, in no order
        data = _section(b"B", _encode((self._table, min(groups), max(groups), self._rows)))
        self._blocks += 1
        self._count += len(self._rows)
        self._rows = []
        self._size = 0
        return data


def _section(kind: bytes, payload: bytes) -> bytes:
    return _SECTION.pack(kind, len(payload), zlib.crc32(payload, zlib.crc32(kind))) + payload


def stream(
    tables: Sequence[TableSpec],
    rows: Iterable[CanonicalRow | RowBlock],
    block_bytes: int = BLOCK_BYTES,
) -> Generator[bytes, None, None]:
    """The bytes of a file with these rows, a block at a time. All rows of a table come together. Without the end, what
    there is can never be read as whole."""
    sections = _Sections(tables, block_bytes)
    yield sections.header()
    for row in rows:
        data = sections.add_block(row) if isinstance(row, RowBlock) else sections.add(row)
        if data:
            yield data
    yield sections.end()


def sizes(data: bytes | bytearray) -> dict[tuple[str, str], int]:
    """Bytes of each table by (uid, name), in a file or in the whole sections of its beginning."""
    at, found = len(MAGIC) + 1, dict[tuple[str, str], int]()
    names: list[tuple[str, str]] = []
    while at + _SECTION.size <= len(data):
        kind, length, _ = _SECTION.unpack_from(data, at)
        start, at = at + _SECTION.size, at + _SECTION.size + length
        if at > len(data):
            break
        if kind == b"H":
            names = [(table.uid, table.name) for table in _decode_header(bytes(data[start:at]))]
        elif kind == b"B":
            name = names[_decode_block(bytes(data[start:at]))[0]]
            found[name] = found.get(name, 0) + length
    return found


class CanonicalWriter:
    """Writes one file. Left by an exception it writes no trailer, so that what there is can never be read as whole."""

    def __init__(self, path: Path, tables: Sequence[TableSpec], block_bytes: int = BLOCK_BYTES) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._sections = _Sections(tables, block_bytes)
        self._file.write(self._sections.header())

    def write(self, row: CanonicalRow) -> None:
        """Append a row. All rows of a table come together."""
        data = self._sections.add(row)
        if data:
            self._file.write(data)

    def __enter__(self) -> CanonicalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._file.write(self._sections.end())


class CanonicalFile:
    """A file to read. ``tables`` is read at once, rows when asked for; damage is ``CorruptData``, with the
    path; a later format is ``UnknownFormat``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self.tables: tuple[TableSpec, ...] = self._read_header(file)

    def rows(self, key_groups: KeyGroupRange | None = None) -> Iterator[CanonicalRow]:
        """All rows, or those within ``key_groups``. The whole file is checked, also the blocks that are skipped."""
        for table, rows in self.blocks(key_groups):
            for row in rows:
                yield CanonicalRow(table, *row)

    def blocks(self, key_groups: KeyGroupRange | None = None) -> Iterator[RowBlock]:
        """The same, a block at a time."""
        with self._path.open("rb") as file:
            self._read_header(file)
            blocks = 0
            while True:
                kind, payload = self._section(file)
                if kind == b"T":
                    if self._decode(_decode_trailer, payload)[0] != blocks or file.read(1):
                        raise self._corrupt("blocks are missing, or something follows the trailer")
                    return
                if kind != b"B":
                    raise self._corrupt(f"a section of unknown kind {kind!r}")
                blocks += 1
                yield self._read_block(payload, key_groups)

    def _read_block(self, payload: bytes, key_groups: KeyGroupRange | None) -> RowBlock:
        table, first, last, raw = self._decode(_decode_block, payload)
        if not 0 <= table < len(self.tables):
            raise self._corrupt(f"a block of table number {table}, of {len(self.tables)} tables")
        if key_groups is not None and (last < key_groups.start or first > key_groups.end):
            return RowBlock(table, ())
        rows: list[RowTuple] = self._decode(_decode_rows, raw)
        if key_groups is None or (key_groups.start <= first and last <= key_groups.end):
            return RowBlock(table, rows)
        return RowBlock(table, [row for row in rows if row[0] in key_groups])

    def _read_header(self, file: IO[bytes]) -> tuple[TableSpec, ...]:
        magic, version = file.read(len(MAGIC)), file.read(1)
        if magic != MAGIC or version < b"\x01":
            raise self._corrupt(f"it starts with {magic + version!r}, not with {MAGIC!r} and a version")
        if version[0] > VERSION:
            raise errors.UnknownFormat(
                f"canonical snapshot file {self._path} has the format version {version[0]}, this sparkstate reads "
                f"{VERSION}; use the sparkstate version that wrote it, or a newer one"
            )
        kind, payload = self._section(file)
        if kind != b"H":
            raise self._corrupt("it has no header")
        return tuple(parse_table(header) for header in self._decode(_decode_header, payload))

    def _section(self, file: IO[bytes]) -> tuple[bytes, bytes]:
        head = file.read(_SECTION.size)
        if len(head) != _SECTION.size:
            raise self._corrupt("it ends without a trailer: it was cut short")
        kind, length, checksum = _SECTION.unpack(head)
        payload = file.read(length)
        if len(payload) != length:
            raise self._corrupt("it ends within a section: it was cut short")
        if zlib.crc32(payload, zlib.crc32(kind)) != checksum:
            raise self._corrupt(f"the checksum of the section before byte {file.tell()} is wrong")
        return kind, payload

    def _decode(self, decode: Any, payload: Any) -> Any:
        try:
            return decode(payload)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._corrupt(str(error)) from error

    def _corrupt(self, what: str) -> errors.CorruptData:
        return errors.CorruptData(f"canonical snapshot file {self._path}: {what}")
