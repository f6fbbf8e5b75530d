"""How many rows and bytes the tables of a ``RowStore`` have, counted a part at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sparkstate.backends.base import ShardStats, TableStats
from sparkstate.backends.custom.ordered_rows import OrderedRows, left_early

AT_ONCE: Final = 10_000
"""Rows of one shard for one call, 20 to 30 ms of Python. A slot is asked for the sizes of all its shards within its
sign of life: after the restore of ten million rows it was lost while it counted, and restored and counted again."""


class RowCount:
    """One pass over the tables after another. Rows that are written meanwhile may count or not: sizes are estimates."""

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self._start: bytes | None = None
        """From where on the first of them is not counted; None: nothing of it is."""
        self._counted: list[TableStats] = []

    @property
    def is_under_way(self) -> bool:
        """Whether a pass has begun and has not come to its end."""
        return bool(self._waiting)

    @property
    def so_far(self) -> ShardStats:
        """Sums of the last pass, or of the one that is under way, as far as it has come."""
        rows, size = sum(each.rows for each in self._counted), sum(each.bytes for each in self._counted)
        return ShardStats(rows, size, estimated=True, tables=tuple(self._counted))

    def begin(self, tables: Sequence[Any]) -> None:
        """A pass over these tables."""
        self._waiting, self._start, self._counted = [*tables], None, []

    def go_on(self, rows: OrderedRows, most: int = AT_ONCE) -> None:
        """Count at most so many rows more."""
        while self._waiting and most > 0:
            table = self._waiting[0]
            counted = self._count(table, rows, most)
            most -= counted
            if most > 0:
                self._waiting.pop(0)
                self._start = None

    def _count(self, table: Any, rows: OrderedRows, most: int) -> int:
        """At most so many rows of one table; how many there were."""
        if self._start is None:
            self._start = table.row_keys.first
            self._counted.append(TableStats(table.spec, 0, 0))
        number = size = 0
        with left_early(rows.scan(self._start, table.row_keys.end)) as found:
            for key, value in found:
                number += 1
                size += len(key) + len(value)
                if number == most:
                    self._start = key + b"\0"
                    break
        before = self._counted[-1]
        self._counted[-1] = TableStats(table.spec, before.rows + number, before.bytes + size)
        return number
