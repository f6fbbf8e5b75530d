"""Tables of committed state over the rows of an ``OrderedRows``."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from sparkstate.backends import base
from sparkstate.backends.base import DELETED, Cell, StateKind, TableChanges, TableSpec, Timer
from sparkstate.backends.custom import row_keys
from sparkstate.backends.custom.ordered_rows import OrderedRows, Row
from sparkstate.backends.custom.row_keys import RowKeys
from sparkstate.backends.keyed_table import KeyParts
from sparkstate.serde import composite
from sparkstate.serde.types import TypeInformation

Written: TypeAlias = dict[bytes, bytes | None]
"""The rows of one commit; None deletes."""


class Positions:
    """Gives the elements of all lists of a store their positions. It only grows, so that appending reads nothing."""

    def __init__(self) -> None:
        self.following = 0

    def take(self, count: int) -> range:
        """The next ``count`` positions."""
        first, self.following = self.following, self.following + count
        return range(first, self.following)


class RowTable(abc.ABC):
    """The common part of all tables."""

    def __init__(self, spec: TableSpec, number: int, rows: OrderedRows) -> None:
        self.spec = spec
        self.row_keys = RowKeys(number, spec)
        self.written = 0
        """Rows written since a sweep last came to the end of the table; a bound for those that were added."""
        self._rows = rows

    def keys(self, at_once: int) -> KeyParts:
        """As the contract says, in the order of the rows."""
        keys, start = self.row_keys, self.row_keys.first
        while True:
            part: list[tuple[int, Any]] = []
            while len(part) < at_once and (row := self._first_from(start)) is not None:
                key_group, key, has_default = keys.key_of(row)
                if has_default:
                    part.append((key_group, key))
                start = keys.behind_key(row)
            if not part:
                return
            yield part

    def _first_from(self, start: bytes) -> bytes | None:
        found = next(iter(self._rows.scan(start, self.row_keys.end)), None)
        return None if found is None else found[0]

    @abc.abstractmethod
    def collect(self, changes: TableChanges, kgs: Mapping[Any, int], written: Written) -> None:
        """Add the rows of one epoch's changes to ``written``. Changes nothing else but positions."""

    def _run(self, prefix: bytes) -> Iterator[Row]:
        return self._rows.scan(prefix, row_keys.after(prefix))

    def _delete_run(self, prefix: bytes, written: Written) -> None:
        written.update((key, None) for key, _ in self._run(prefix))


class RowValueTable(RowTable):
    """Table of a VALUE, REDUCING or AGGREGATING state."""

    def __init__(self, spec: TableSpec, number: int, rows: OrderedRows) -> None:
        super().__init__(spec, number, rows)
        self._type = _value_type(spec)

    def get(self, kg: int, cell: Cell) -> Any:
        return self.get_many([kg], [cell])[0]

    def get_many(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        row = self.row_keys.cell
        found = self._rows.get([row(kg, cell) for kg, cell in zip(kgs, cells, strict=True)])
        decode = self._type.decode
        return [None if value is None else decode(value) for value in found]

    def collect(self, changes: TableChanges, kgs: Mapping[Any, int], written: Written) -> None:
        row, encode, key_of = self.row_keys.cell, self._type.encode, base.key_of
        for cell, value in changes.values.items():
            written[row(kgs[key_of(cell)], cell)] = None if value is DELETED else encode(value)


class RowListTable(RowTable):
    """Table of a LIST state: a row for each element."""

    def __init__(self, spec: TableSpec, number: int, rows: OrderedRows, positions: Positions) -> None:
        super().__init__(spec, number, rows)
        self._type = _value_type(spec)
        self._positions = positions

    def get(self, kg: int, cell: Cell) -> list[Any]:
        decode = self._type.decode
        return [decode(value) for _, value in self._run(self.row_keys.cell(kg, cell))]

    def collect(self, changes: TableChanges, kgs: Mapping[Any, int], written: Written) -> None:
        encode, position = self._type.encode, composite.encode_long
        for cell, change in changes.lists.items():
            prefix = self.row_keys.cell(kgs[base.key_of(cell)], cell)
            if change.replaced:
                self._delete_run(prefix, written)
            numbers = self._positions.take(len(change.items))
            for number, item in zip(numbers, change.items, strict=True):
                written[prefix + position(number)] = encode(item)


class RowMapTable(RowTable):
    """Table of a MAP state: a row for each entry."""

    def __init__(self, spec: TableSpec, number: int, rows: OrderedRows) -> None:
        super().__init__(spec, number, rows)
        assert spec.user_key_type is not None
        self._type = _value_type(spec)
        self._user_key = composite.key_codec(spec.user_key_type)

    def get(self, kg: int, cell: Cell, user_key: Any) -> Any:
        (value,) = self._rows.get([self.row_keys.cell(kg, cell) + self._user_key.encode(user_key)])
        return DELETED if value is None else self._type.decode(value)

    def items(self, kg: int, cell: Cell) -> dict[Any, Any]:
        prefix = self.row_keys.cell(kg, cell)
        decode_key, decode, at = self._user_key.decode, self._type.decode, len(prefix)
        return {decode_key(key, at)[0]: decode(value) for key, value in self._run(prefix)}

    def collect(self, changes: TableChanges, kgs: Mapping[Any, int], written: Written) -> None:
        encode_key, encode = self._user_key.encode, self._type.encode
        for cell, change in changes.maps.items():
            prefix = self.row_keys.cell(kgs[base.key_of(cell)], cell)
            if change.cleared:
                self._delete_run(prefix, written)
            for user_key, value in change.entries.items():
                written[prefix + encode_key(user_key)] = None if value is DELETED else encode(value)


class RowTimerTable(RowTable):
    """Table of timers, which lie in order of time."""

    def due(self, until: int) -> Iterator[Timer]:
        timer_of = self.row_keys.timer_of
        return (timer_of(key) for key, _ in self._rows.scan(self.row_keys.first, self.row_keys.until(until)))

    def contains(self, timer: Timer) -> bool:
        return self._rows.get([self.row_keys.timer(timer)])[0] is not None

    def next_timestamp(self) -> int | None:
        found = next(iter(self._rows.scan(self.row_keys.first, self.row_keys.end)), None)
        return None if found is None else self.row_keys.timestamp(found[0])

    def collect(self, changes: TableChanges, kgs: Mapping[Any, int], written: Written) -> None:
        written.update(
            (self.row_keys.timer(timer), b"" if on else None) for timer, on in changes.timers.items()
        )


def make_table(spec: TableSpec, number: int, rows: OrderedRows, positions: Positions) -> Any:
    """The table of a spec over rows that may hold its state already."""
    match spec.kind:
        case StateKind.LIST:
            return RowListTable(spec, number, rows, positions)
        case StateKind.MAP:
            return RowMapTable(spec, number, rows)
        case StateKind.EVENT_TIMERS | StateKind.PROCESSING_TIMERS:
            return RowTimerTable(spec, number, rows)
    return RowValueTable(spec, number, rows)


def _value_type(spec: TableSpec) -> TypeInformation:
    assert spec.value_type is not None
    return spec.value_type
