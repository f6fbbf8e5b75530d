"""How states become rows: names of column families, row keys, and the limit of RocksDB's lengths.

One column family per state per operator. Rows are ``serde.composite`` keys:

==============  ===============================================  ==============
kind            row key                                          value
==============  ===============================================  ==============
value, …        key group ‖ key ‖ namespace                      the value
list            key group ‖ key ‖ namespace ‖ position (8)       one element
map             key group ‖ key ‖ namespace ‖ user key           one value
timers          timestamp (8) ‖ key group ‖ key ‖ namespace      empty
==============  ===============================================  ==============

Positions of a list are not dense. They come from one counter per store that only grows, so appending reads nothing.
"""

from __future__ import annotations

import itertools
import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from sparkstate import errors
from sparkstate.backends import timer_columns, value_columns
from sparkstate.backends.base import Cell, NamespacedCell, TableSpec, Timer
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.backends.value_columns import KeyGroups
from sparkstate.serde import composite, scalars

ROW_LIMIT = 2**31 - 1
"""RocksDB's greatest length of a key or value, in bytes. Beyond it a row could be written and never read."""

_SIGN = 1 << 63
_MANY: Final = 64
"""From so many whole numbers on, an array of them takes less time than one call for each."""
_ABOVE_NAMESPACES: Final = b"\xff"
_KEY_GROUPS = tuple(composite.encode_key_group(number) for number in range(1 << 15))
_LONG_SPACE: Final = b"\x00\x00" + bytes([composite.LONG_NAMESPACE])
"""The end of a text key, and the type of a namespace that is a whole number."""
_pack_int_row = struct.Struct(">HBQB").pack
_LONG_ROW: Final = np.dtype([("group", ">u2"), ("is_there", "u1"), ("key", ">u8"), ("namespace", "u1")])
_PAIR_ROW: Final = np.dtype([*_LONG_ROW.descr, ("space", ">u8")])
_TIMER_ROW: Final = np.dtype([("timestamp", ">u8"), *_LONG_ROW.descr])
TIMER_ROW_BYTES: Final = _TIMER_ROW.itemsize
"""Of a timer in the default namespace whose key is a whole number. A null key with a namespace may take as many."""


def family_name(spec: TableSpec) -> str:
    """Operator and state, each escaped, so that no two pairs share a name."""
    return f"{quote(spec.uid, safe='')}/{quote(spec.name, safe='')}"


class RowCodec:
    """Row keys of one table. The fast ways give the same bytes as ``composite``, key by key (a test compares)."""

    def __init__(self, spec: TableSpec) -> None:
        self._key = composite.key_codec(spec.key_type)
        self._encode_key = self._key.encode
        self.rows: Callable[[Sequence[int], Sequence[Cell]], list[bytes]] = self._rows
        if isinstance(spec.key_type, scalars.IntegerType):
            self.rows = self._int_rows
        elif isinstance(spec.key_type, scalars.StringType):
            self.rows = self._string_rows

    def row(self, kg: int, cell: Cell) -> bytes:
        """Key group, key and namespace."""
        if type(cell) is NamespacedCell:
            return _KEY_GROUPS[kg] + self._encode_key(cell.key) + composite.NAMESPACES.encode(cell.namespace)
        return _KEY_GROUPS[kg] + self._encode_key(cell) + composite.DEFAULT_NAMESPACE

    def _rows(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[bytes]:
        row = self.row
        return [row(kg, cell) for kg, cell in zip(kgs, cells, strict=True)]

    def _int_rows(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[bytes]:
        if len(cells) >= _MANY and (keys := value_columns.long_keys(cells)) is not None:
            return long_rows(np.fromiter(kgs, np.int32, len(kgs)), keys)
        row, pack, sign = self.row, _pack_int_row, _SIGN
        return [
            pack(kg, 1, cell + sign, 0) if type(cell) is int else row(kg, cell)
            for kg, cell in zip(kgs, cells, strict=True)
        ]

    def _string_rows(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[bytes]:
        row, groups = self._string_row, _KEY_GROUPS
        try:
            return [
                groups[kg] + b"\x01" + cell.encode() + b"\x00\x00\x00"
                if type(cell) is str and "\x00" not in cell
                else row(kg, cell)
                for kg, cell in zip(kgs, cells, strict=True)
            ]
        except UnicodeEncodeError:  # a lone surrogate
            return self._rows(kgs, cells)

    def _string_row(self, kg: int, cell: Cell) -> bytes:
        """Of a cell with a namespace: windows ask for several of each key, and nearly all are whole numbers."""
        if type(cell) is NamespacedCell:
            key, space = cell
            if type(key) is str and "\x00" not in key and type(space) is int and -_SIGN <= space < _SIGN:
                return _KEY_GROUPS[kg] + b"\x01" + key.encode() + _LONG_SPACE + composite.encode_long(space)
        return self.row(kg, cell)

    def split(self, row: bytes) -> tuple[int, bytes, bytes, bytes]:
        """Key group, encoded key, encoded namespace and what follows them."""
        _, key_end = self._key.decode(row, composite.KEY_GROUP_BYTES)
        _, namespace_end = composite.NAMESPACES.decode(row, key_end)
        return (
            composite.decode_key_group(row),
            row[composite.KEY_GROUP_BYTES : key_end],
            row[key_end:namespace_end],
            row[namespace_end:],
        )

    def key_of(self, row: bytes) -> tuple[int, Any, bool]:
        """Key group and key, and whether the namespace is the default one."""
        key, end = self._key.decode(row, composite.KEY_GROUP_BYTES)
        return composite.decode_key_group(row), key, row.startswith(composite.DEFAULT_NAMESPACE, end)

    def behind_key(self, row: bytes) -> bytes:
        """A position behind all rows of the same key, and before those of the next one."""
        return row[: self._key.decode(row, composite.KEY_GROUP_BYTES)[1]] + _ABOVE_NAMESPACES

    def timer_row(self, timer: Timer) -> bytes:
        """The row of a timer: first by time."""
        return (
            composite.encode_long(timer.timestamp)
            + _KEY_GROUPS[timer.key_group]
            + self._encode_key(timer.key)
            + composite.NAMESPACES.encode(timer.namespace)
        )

    def timer(self, row: bytes) -> Timer:
        """The inverse of :meth:`timer_row`."""
        key, at = self._key.decode(row, 10)
        namespace, _ = composite.decode_namespace(row, at)
        return Timer(composite.decode_long(row), key, composite.decode_key_group(row[8:10]), namespace)


def row_order(rows: list[bytes]) -> list[int] | None:
    """The places of rows in their order, in which neighbours come from the same block; None: it is theirs already, as
    in an epoch that is processed in the order of keys."""
    if all(map(operator.le, rows, itertools.islice(rows, 1, None))):
        return None
    return sorted(range(len(rows)), key=rows.__getitem__)


def picked(items: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """Those at these places."""
    return [items[place] for place in places]


def placed(items: Iterable[Any], places: Sequence[int], count: int) -> list[Any]:
    """The inverse: a list of ``count`` with these at their places, and None elsewhere."""
    found: list[Any] = [None] * count
    for place, item in zip(places, items, strict=True):
        found[place] = item
    return found


def long_rows(key_groups: KeyGroups, keys: Any) -> list[bytes]:
    """Row keys of whole-number keys in the default namespace, or of pairs of such keys and namespaces."""
    has_spaces = keys.dtype.names is not None
    rows = np.zeros(len(keys), _PAIR_ROW if has_spaces else _LONG_ROW)  # byte 0: the default namespace
    if has_spaces:
        rows["namespace"], rows["space"] = composite.LONG_NAMESPACE, value_columns.to_ordered(keys["space"])
        keys = keys["key"]
    rows["group"], rows["is_there"], rows["key"] = key_groups, 1, value_columns.to_ordered(keys)
    return _cut(rows)


def timer_rows(timers: TimerColumns) -> list[bytes]:
    """The rows of timers in the default namespace whose keys are whole numbers."""
    rows = np.zeros(len(timers), _TIMER_ROW)
    rows["timestamp"] = value_columns.to_ordered(timers.timestamps)
    rows["group"], rows["is_there"] = timers.key_groups, 1
    rows["key"] = value_columns.to_ordered(timers.keys)
    return _cut(rows)


def timers_of(rows: Sequence[bytes]) -> TimerColumns | None:
    """The inverse; None if one of the rows has a null key or a namespace. The table's keys are whole numbers."""
    data, width = b"".join(rows), _TIMER_ROW.itemsize
    if set(map(len, rows)) - {width}:
        return None
    found = np.frombuffer(data, _TIMER_ROW)
    # A null key with a namespace may be as long.
    if not (found["is_there"] == 1).all() or found["namespace"].any():
        return None
    stamps, keys = (value_columns.of_ordered(found[name]) for name in ("timestamp", "key"))
    return timer_columns.registered(stamps, keys, found["group"].astype(np.int32))


def _cut(rows: Any) -> list[bytes]:
    """Each row as bytes. NumPy makes them of untyped fields in a sixth of the time that slices of one take."""
    cut: list[bytes] = rows.view(np.dtype((np.void, rows.dtype.itemsize))).tolist()
    return cut


def check_lengths(
    spec: TableSpec, cells: Iterable[Cell], keys: Sequence[bytes], values: Sequence[bytes | None], limit: int
) -> None:
    """Raise :class:`errors.StateError` before anything is written if a row is too long for RocksDB. A value of None
    deletes its row."""
    if max(map(len, keys), default=0) <= limit and max(map(len, filter(None, values)), default=0) <= limit:
        return
    for cell, key, value in zip(cells, keys, values, strict=True):
        for what, length in (("key", len(key)), ("value", len(value or b""))):
            if length > limit:
                raise errors.StateError(
                    f"state {spec.name!r} of operator {spec.uid!r}, key {_shown(cell)}: an encoded {what} "
                    f"has {length} bytes; RocksDB holds {limit} at most. Split it, e.g. into a MapState"
                )


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 200 else text[:200] + "…"
