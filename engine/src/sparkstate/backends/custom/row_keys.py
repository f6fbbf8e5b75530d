"""The keys of rows in an ``OrderedRows``, which tell the table, cell, element or timer of a row.

::

    value, …   table (2) ‖ key group (2) ‖ key ‖ namespace                     → the value
    list       table (2) ‖ key group (2) ‖ key ‖ namespace ‖ position (8)      → one element
    map        table (2) ‖ key group (2) ‖ key ‖ namespace ‖ key in the map    → one value
    timers     table (2) ‖ timestamp (8) ‖ key group (2) ‖ key ‖ namespace     → nothing

Each part tells its own length (``serde.composite``), so the rows of a table, a key group, a key and a cell are each
one run. That is an arrangement of this version: rows live as long as their slot, and are never stored.
"""

from __future__ import annotations

import struct
from typing import Any

from sparkstate.backends.base import TIMER_KINDS, CanonicalRow, Cell, TableSpec, Timer
from sparkstate.backends.canonical import TableCodec
from sparkstate.serde import composite

_TABLE = struct.Struct(">H")
_STAMP_BYTES = 8


def after(prefix: bytes) -> bytes:
    """The least key that is behind all keys with this prefix."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1])


class RowKeys:
    """The keys of the rows of one table; ``number`` tells it from the others of its store."""

    def __init__(self, number: int, spec: TableSpec) -> None:
        self.number = number
        self.first = _TABLE.pack(number)
        """At or before every key of the table."""
        self.end = _TABLE.pack(number + 1)
        """Behind every key of the table."""
        self._codec = TableCodec(spec)
        self._key = composite.key_codec(spec.key_type)
        self._are_timers = spec.kind in TIMER_KINDS

    def cell(self, key_group: int, cell: Cell) -> bytes:
        """The key of a value; the prefix of all rows of a list or map."""
        key, namespace = self._codec.cell_bytes(cell)
        return self.first + composite.encode_key_group(key_group) + key + namespace

    def timer(self, timer: Timer) -> bytes:
        """The key of a timer."""
        row = self._codec.timer_row(self.number, timer)
        return self.of_canonical(row)

    def key_of(self, row: bytes) -> tuple[int, Any, bool]:
        """Key group and key of a row, and whether the namespace is the default one."""
        at = len(self.first)
        key, end = self._key.decode(row, at + composite.KEY_GROUP_BYTES)
        return composite.decode_key_group(row[at:]), key, row.startswith(composite.DEFAULT_NAMESPACE, end)

    def behind_key(self, row: bytes) -> bytes:
        """Behind all rows of the same key."""
        return after(row[: self._key.decode(row, len(self.first) + composite.KEY_GROUP_BYTES)[1]])

    def until(self, timestamp: int) -> bytes:
        """Behind all timers with at most this timestamp."""
        return after(self.first + composite.encode_long(timestamp))

    def timestamp(self, row: bytes) -> int:
        """Of a timer's row."""
        return composite.decode_long(row, len(self.first))

    def timer_of(self, row: bytes) -> Timer:
        """The inverse of :meth:`timer`."""
        return self._codec.timer(self.canonical(row, b""))

    def of_canonical(self, row: CanonicalRow) -> bytes:
        """The key of a row of a canonical file."""
        group = composite.encode_key_group(row.key_group)
        if self._are_timers:
            return self.first + row.sub + group + row.key + row.namespace
        return self.first + group + row.key + row.namespace + row.sub

    def canonical(self, row: bytes, value: bytes) -> CanonicalRow:
        """The row of a canonical file; ``value`` is the row's."""
        at = len(self.first)
        stamp = row[at : at + _STAMP_BYTES] if self._are_timers else b""
        group_at = at + len(stamp)
        key_at = group_at + composite.KEY_GROUP_BYTES
        _, key_end = self._key.decode(row, key_at)
        _, end = composite.NAMESPACES.decode(row, key_end)
        return CanonicalRow(
            self.number,
            composite.decode_key_group(row[group_at:key_at]),
            row[key_at:key_end],
            row[key_end:end],
            stamp or row[end:],
            value,
        )
