"""The spilled changes of a columnar table: columns as sorted runs, and the rest as rows.

Null keys and namespaces of text have no place in columns, and are rows of the spill's RocksDB. So are single cells of
whole-number namespaces until such namespaces come as columns, because functions called per record read them one by one.
Therefore, entries of the runs are newer than the rows, and hide them.

Runs have filters in memory, for which there is a bound. Beyond it the runs become rows, and so does what comes later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkstate import errors
from sparkstate.backends import column_cells, value_columns
from sparkstate.backends.base import Cell, TableChanges, TableSpec
from sparkstate.backends.keyed_table import KeyParts
from sparkstate.backends.rocksdb import key_filter
from sparkstate.backends.rocksdb.family import Family, FamilyWrites
from sparkstate.backends.rocksdb.sorted_runs import SortedRuns
from sparkstate.backends.rocksdb.store import RocksDBShardStore
from sparkstate.backends.value_columns import Flags, KeyGroups, ValueColumns, Values

_ROWS_AT_ONCE: Final = 4000
"""Entries that become rows of a store at once."""


class SpilledColumns:
    """VALUE, REDUCING and AGGREGATING of numbers by whole-number keys. ``make_rows`` makes the table of the rows, when
    there is the first; ``path`` begins the names of the runs."""

    def __init__(
        self,
        spec: TableSpec,
        path: Path,
        make_rows: Callable[[], Any],
        committed: Mapping[int, Any],
        shard_of: Sequence[int],
    ) -> None:
        self.spec = spec
        self._dtype = value_columns.dtype_of(spec.value_type)
        self._make_rows = make_rows
        self._rows: Any = None
        self._has_left = False
        """Whether everything is in the rows."""
        self._is_closed = False
        self._plain = SortedRuns(path.with_name(f"{path.name}-plain"), self._dtype)
        self._pairs = SortedRuns(path.with_name(f"{path.name}-pairs"), self._dtype)
        self._committed = committed
        self._shard_of = np.array(shard_of, np.int64)

    # --- changes

    def leave_runs(self) -> Iterator[FamilyWrites]:
        """The entries of the runs as rows, to be written; then there are no more runs."""
        self._has_left = True
        for runs in (self._plain, self._pairs):
            for part in runs.parts():
                yield self.writes(self._changes(part), {})
            runs.close()

    def _changes(self, part: ValueColumns) -> TableChanges:
        is_plain = part.keys.dtype.names is None
        return TableChanges(self.spec, columns=part) if is_plain else TableChanges(self.spec, pairs=part)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._plain.nbytes + self._pairs.nbytes

    def most_bytes(self, changes: TableChanges) -> int:
        """How many bytes of memory these changes may add; 0: they are rows."""
        columns = (each for each in (changes.columns, changes.pairs) if each is not None)
        cells = len(changes.values) + sum(map(len, columns))
        return 0 if self._has_left else cells * key_filter.BYTES_PER_CELL

    def take_columns(self, changes: TableChanges, kgs: Mapping[Any, int]) -> TableChanges:
        """Fold in everything that has a place in columns; the rest is for :meth:`writes`."""
        if self._has_left:
            return changes
        for columns, runs in ((changes.columns, self._plain), (changes.pairs, self._pairs)):
            if columns is not None:
                runs.add(columns)
        values = changes.values
        plain = {cell: value for cell, value in values.items() if type(cell) is int}
        self._plain.add(column_cells.plain_columns(plain, kgs, self._dtype))
        pairs: dict[Any, Any] = {}
        if not self._pairs.is_empty:
            pairs = {cell: value for cell, value in values.items() if column_cells.is_pair(cell)}
            self._pairs.add(column_cells.pair_columns(pairs, kgs, self._dtype))
        if plain or pairs:
            values = {
                cell: value for cell, value in values.items() if cell not in plain and cell not in pairs
            }
        return dataclasses.replace(changes, values=values, columns=None, pairs=None)

    def writes(self, changes: TableChanges, kgs: Mapping[Any, int]) -> FamilyWrites:
        """Single values as rows that fold into those already here."""
        if self._rows is None:
            self._rows = self._make_rows()
        writes: FamilyWrites = self._rows.writes(changes, kgs)
        return writes

    @property
    def opened(self) -> Family | None:
        """Has the rows; None: there are none."""
        return None if self._rows is None else self._rows.opened

    # --- reads

    def get(self, kg: int, cell: Cell) -> Any:
        """One value."""
        return self.get_many([kg], [cell])[0]

    def get_many(self, kgs: Sequence[int], cells: Sequence[Cell]) -> list[Any]:
        """Several values, in order."""
        keys, groups = value_columns.long_keys(cells), np.array(kgs, np.int32)
        if keys is not None:
            return value_columns.to_objects(*self.get_columns(groups, keys))
        has_pairs = not self._pairs.is_empty
        plain: list[int] = []
        pairs: list[int] = []
        rest: list[int] = []
        for place, cell in enumerate(cells):
            kind = plain if type(cell) is int else pairs if has_pairs and column_cells.is_pair(cell) else rest
            kind.append(place)
        values: list[Any] = [None] * len(cells)
        for places, read in ((plain, self._read_plain), (pairs, self._read_pairs), (rest, self._below)):
            if places:
                found = read(groups[places], [cells[place] for place in places])
                for place, value in zip(places, found, strict=True):
                    values[place] = value
        return values

    def _read_plain(self, groups: KeyGroups, cells: list[Any]) -> list[Any]:
        return value_columns.to_objects(*self.get_columns(groups, np.array(cells, np.int64)))

    def _read_pairs(self, groups: KeyGroups, cells: list[Any]) -> list[Any]:
        return value_columns.to_objects(*self.get_columns(groups, column_cells.pairs_of(cells)))

    def _below(self, groups: KeyGroups, cells: list[Any]) -> list[Any]:
        """Values of single cells that are in no run."""
        self._check()
        if self._rows is not None:
            found: list[Any] = self._rows.get_many(groups.tolist(), cells)
            return found
        values: list[Any] = [None] * len(cells)
        for table, places in self._by_table(groups):
            chosen = places.tolist()
            stored = table.get_many(groups[places].tolist(), [cells[place] for place in chosen])
            for place, value in zip(chosen, stored, strict=True):
                values[place] = value
        return values

    def get_columns(self, key_groups: KeyGroups, keys: Any) -> tuple[Values, Flags]:
        """As of a shard store's table."""
        self._check()
        is_plain = keys.dtype.names is None
        runs = self._plain if is_plain else self._pairs
        if runs.is_empty:
            return self._columns_below(key_groups, keys)
        order = value_columns.row_order(keys, key_groups)
        values, present, known = runs.get(key_groups[order], keys[order])
        rest = np.flatnonzero(~known)
        if len(rest):
            asked = order[rest]
            values[rest], present[rest] = self._columns_below(key_groups[asked], keys[asked])
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return values[back], present[back]

    def _columns_below(self, key_groups: KeyGroups, keys: Any) -> tuple[Values, Flags]:
        """Values of cells that are in no run."""
        # While there are runs, no whole-number key in the default namespace is in the rows.
        if self._rows is not None and (self._has_left or keys.dtype.names is not None):
            found: tuple[Values, Flags] = self._rows.get_columns(key_groups, keys)
            return found
        values, present = np.zeros(len(keys), self._dtype), np.zeros(len(keys), np.bool_)
        for table, places in self._by_table(key_groups):
            values[places], present[places] = table.get_columns(key_groups[places], keys[places])
        return values, present

    def _check(self) -> None:
        if self._is_closed:
            raise errors.StateError("the state is closed")

    def _by_table(self, key_groups: KeyGroups) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
        shards = self._shard_of[key_groups]
        for shard in np.unique(shards).tolist():
            yield self._committed[shard], np.flatnonzero(shards == shard)

    def keys(self, at_once: int) -> KeyParts:
        """See ``SpilledKeys``. Each part seeks its place anew, because runs are merged meanwhile."""
        after: tuple[int, Any] | None = None
        while (part := next(self._plain.parts(after, at_once), None)) is not None:
            found = list(zip(part.key_groups.tolist(), part.keys.tolist(), strict=True))[:at_once]
            yield found
            after = found[-1]
        if self._rows is None:
            return
        for rows in self._rows.keys(at_once):
            # If the runs were left meanwhile, what they had is here once more.
            if rest := [pair for pair in rows if pair[1] is None or after is None or pair > after]:
                yield rest

    def mentions(self, kgs: Sequence[int], keys: Sequence[Any]) -> list[bool]:
        """See ``SpilledKeys``."""
        if self._has_left:
            of_rows: list[bool] = self._rows.mentions(kgs, keys)
            return of_rows
        known = [False] * len(keys)
        plain = [place for place, key in enumerate(keys) if key is not None]
        if plain:
            groups, longs = (
                np.array(kgs, np.int32)[plain],
                np.array([keys[place] for place in plain], np.int64),
            )
            order = value_columns.row_order(longs, groups)
            flags = self._plain.get(groups[order], longs[order])[2]
            for place, flag in zip(order.tolist(), flags.tolist(), strict=True):
                known[plain[place]] = flag
        if self._rows is not None and len(plain) < len(keys):
            rest = [place for place, key in enumerate(keys) if key is None]
            found = self._rows.mentions([kgs[place] for place in rest], [keys[place] for place in rest])
            for place, flag in zip(rest, found, strict=True):
                known[place] = flag
        return known

    # --- the end

    def copy_runs(self, stores: Mapping[int, RocksDBShardStore]) -> None:
        """Apply the runs to the stores, after the rows."""
        for runs in (self._plain, self._pairs):
            for part in runs.parts():
                for shard, columns in self._by_shard(part):
                    table = stores[shard].table(self.spec)
                    stores[shard].write_rows(self.spec, table.writes(self._changes(columns), {}))

    def _by_shard(self, columns: ValueColumns) -> Iterator[tuple[int, ValueColumns]]:
        """Pieces of one shard each; shards are ranges of key groups, which are in order."""
        shards = self._shard_of[columns.key_groups]
        ends = [*(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)]
        start = 0
        for end in ends:
            for at in range(start, end, _ROWS_AT_ONCE):
                yield int(shards[start]), columns.select(slice(at, min(at + _ROWS_AT_ONCE, end)))
            start = end

    def close(self) -> None:
        """Remove the files of the runs."""
        self._is_closed = True
        self._plain.close()
        self._pairs.close()
