"""Timers that wait in a column buffer: which of them are due, and how they come together with stored ones.

Each epoch asks for the next timer, and whether any is due, however many wait. So the least time is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np

from sparkstate.backends import long_index, timer_columns
from sparkstate.backends.rocksdb.column_buffer import ColumnBuffer
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.backends.value_columns import ValueColumns

_NEVER: Final = 1 << 63
"""Later than any time."""
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")


class WaitingTimers:
    """Those of ``buffer`` that stand. Tell it of every change but those that drop what nobody needs."""

    def __init__(self, buffer: ColumnBuffer) -> None:
        self._buffer = buffer
        self._least: int | None = _NEVER
        """The least time; ``_NEVER``: none stands; None: the buffer must be asked."""

    def changed(self, columns: TimerColumns) -> None:
        """The buffer has taken these changes."""
        if self._least is None:
            return
        added, gone = (
            _least_of(columns.timestamps[flags]) for flags in (columns.registered, ~columns.registered)
        )
        self._least = None if gone <= self._least < _NEVER else min(self._least, added)

    def cleared(self) -> None:
        """The buffer is empty."""
        self._least = _NEVER

    def least(self) -> int | None:
        """The least time; None: none stands."""
        found = self._found_least()
        return None if found == _NEVER else found

    def _found_least(self) -> int:
        # A local name: several threads may read.
        found = self._least
        if found is None:
            found = self._least = _least_of(self._buffer.present_keys()["space"])
        return found

    def due(self, until: int) -> TimerColumns | None:
        """Those up to a time, in the order of their rows; None: there are none."""
        if self._found_least() > until:
            return None
        timers = timers_of(self._buffer.present(self._buffer.keys["space"] <= until))
        return timers.select(timers.row_order())


def _least_of(stamps: Any) -> int:
    return int(stamps.min()) if len(stamps) else _NEVER


def pairs_of(timers: TimerColumns) -> Any:
    """Timers as keys of the buffer."""
    return long_index.pairs(timers.keys, timers.timestamps)


def timers_of(columns: ValueColumns) -> TimerColumns:
    """Entries of the buffer as timers."""
    keys = columns.keys
    stamps, longs = np.ascontiguousarray(keys["space"]), np.ascontiguousarray(keys["key"])
    return TimerColumns(stamps, longs, columns.key_groups, columns.present)


def merged(
    stored: Iterator[TimerColumns | None], own: TimerColumns, at_once: int
) -> Iterator[TimerColumns | None]:
    """Both in order of time; ``own`` are in order, and none of them is stored."""
    for part in stored:
        if part is None:
            yield None
            return
        count = _count_before(own, part)
        both = timer_columns.joined(part, own.select(slice(0, count))) if count else part
        own = own.select(slice(count, None))
        yield from _parts(both.select(both.row_order()) if count else both, at_once)
    yield from _parts(own, at_once)


def _count_before(own: TimerColumns, part: TimerColumns) -> int:
    """How many of ``own`` come before the last one of ``part``. Those behind it at the same time come after others that
    are still stored."""
    start, end = (int(np.searchsorted(own.timestamps, part.timestamps[-1], side=side)) for side in _SIDES)
    group, key = part.key_groups[-1], part.keys[-1]
    groups, keys = own.key_groups[start:end], own.keys[start:end]
    return start + int(np.count_nonzero((groups < group) | ((groups == group) & (keys < key))))


def _parts(timers: TimerColumns, at_once: int) -> Iterator[TimerColumns]:
    for start in range(0, len(timers), at_once):
        yield timers.select(slice(start, start + at_once))
