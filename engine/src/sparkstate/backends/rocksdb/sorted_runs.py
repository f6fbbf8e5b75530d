"""Spilled entries of a columnar table as sorted runs, as in an LSM tree: newer runs hide the entries of older ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sparkstate.backends import value_columns
from sparkstate.backends.rocksdb import sorted_run
from sparkstate.backends.rocksdb.sorted_run import SortedRun, last_not_behind
from sparkstate.backends.value_columns import Flags, KeyGroups, ValueColumns, Values

MOST_RUNS: Final = 8
"""So many runs that were merged equally often are merged into one: each look-up searches all runs."""
_ROWS_AT_ONCE: Final = 1 << 13
"""Entries in memory for each step of a write or merge: while it goes on, the overlay still has all of its own."""


class SortedRuns:
    """``path`` begins the names of its files; ``dtype`` is NumPy's type of the values."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self._path = path
        self._dtype = dtype
        self._numbers = itertools.count()
        self._runs: list[SortedRun] = []
        """The oldest first."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._runs

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(run.nbytes for run in self._runs)

    def add(self, columns: ValueColumns) -> None:
        """Fold in these changes, which may be in any order."""
        if not len(columns):
            return
        order = value_columns.row_order(columns.keys, columns.key_groups)
        starts = range(0, len(order), _ROWS_AT_ONCE)
        parts = (columns.select(order[start : start + _ROWS_AT_ONCE]) for start in starts)
        self._runs.append(SortedRun(self._new_path(), parts, len(order)))
        while self._merge_latest():
            pass

    def _merge_latest(self) -> bool:
        latest = self._runs[-MOST_RUNS:]
        level = latest[-1].level
        if len(latest) < MOST_RUNS or any(run.level != level for run in latest):
            return False
        most = sum(run.rows for run in latest)
        merged = SortedRun(self._new_path(), _merged(latest, _ROWS_AT_ONCE), most, level + 1)
        self._runs[-MOST_RUNS:] = [merged]
        for run in latest:
            run.close()
        return True

    def _new_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}-{next(self._numbers)}")

    def get(self, groups: KeyGroups, keys: Any) -> tuple[Values, Flags, Flags]:
        """The last change of each of these cells, which are in order: its value, whether there is one, and whether the
        cell was changed at all."""
        values, present = np.zeros(len(keys), self._dtype), np.zeros(len(keys), np.bool_)
        known = np.zeros(len(keys), np.bool_)
        for run in reversed(self._runs):
            rest = np.flatnonzero(~known)
            if not len(rest):
                break
            into, flags = np.zeros(len(rest), self._dtype), np.zeros(len(rest), np.bool_)
            found = run.look_up(groups[rest], keys[rest], into, flags)
            places = rest[found]
            values[places], present[places], known[places] = into[found], flags[found], True
        return values, present, known

    def parts(
        self, after: tuple[int, Any] | None = None, at_once: int = _ROWS_AT_ONCE
    ) -> Iterator[ValueColumns]:
        """Everything, no cell twice, in the order of the stored rows: about ``at_once`` entries at a time, none of
        the parts empty. ``after``: key group and key of a cell, and nothing up to it."""
        return _merged(self._runs, at_once, after)

    def close(self) -> None:
        """Remove the files. Closing twice is allowed."""
        for run in self._runs:
            run.close()
        self._runs.clear()


class _RunReader:
    """Reads a run from the front, a part at a time; ``at_once`` entries, rounded up to pieces with a checksum."""

    def __init__(self, run: SortedRun, start: int, at_once: int) -> None:
        self._run = run
        self._next = start
        self._at_once = at_once + -at_once % sorted_run.CHECKED
        self.ahead = run.read(start, start)
        """Entries that were read and not taken."""

    def fill(self) -> bool:
        """Whether there is any more."""
        if not len(self.ahead):
            # Up to the end of a piece with a checksum: it would be read and checked twice otherwise.
            first = self._next - self._next % sorted_run.CHECKED
            self.ahead = self._run.read(self._next, first + self._at_once)
            self._next += len(self.ahead)
        return len(self.ahead) > 0

    def last(self) -> tuple[int, Any]:
        """The last cell that was read."""
        return int(self.ahead.key_groups[-1]), self.ahead.keys[-1].item()

    def take(self, until: ValueColumns) -> ValueColumns:
        """The entries up to a cell, of those that were read."""
        ahead = self.ahead
        found = last_not_behind(ahead.key_groups, ahead.keys, until.key_groups, until.keys)
        count = int(found[0]) + 1
        self.ahead = ahead.select(slice(count, None))
        return ahead.select(slice(0, count))


def _merged(
    runs: Sequence[SortedRun], at_once: int, after: tuple[int, Any] | None = None
) -> Iterator[ValueColumns]:
    size = max(1, at_once // max(1, len(runs)))
    readers = [_RunReader(run, 0 if after is None else run.rows_until(*after), size) for run in runs]
    while readers := [reader for reader in readers if reader.fill()]:
        # Of all runs everything is read up to here, so what is newest of a cell is known.
        until = min(readers, key=_RunReader.last).ahead.select(slice(-1, None))
        yield _newest([reader.take(until) for reader in readers])


def _newest(parts: Sequence[ValueColumns]) -> ValueColumns:
    """The entries in order; of one cell that of the last part."""
    if len(parts) == 1:
        return parts[0]
    keys, groups, values, present = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("keys", "key_groups", "values", "present")
    )
    order = value_columns.row_order(keys, groups)
    hidden = keys[order[1:]] == keys[order[:-1]]
    if hidden.any():
        columns = (keys,) if keys.dtype.names is None else (keys["space"], keys["key"])
        order = np.lexsort((*columns, groups))  # leaves equal cells in the order of the parts
        order = order[~np.append(keys[order[1:]] == keys[order[:-1]], False)]
    return ValueColumns(keys, groups, values, present).select(order)
