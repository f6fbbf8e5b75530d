"""The changes of an overlay, as the shard stores take them."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkstate.backends import long_index, value_columns
from sparkstate.backends.base import (
    DELETED,
    Cell,
    NamespacedCell,
    TableChanges,
    TableSpec,
    Timer,
    key_of,
)
from sparkstate.backends.long_index import Longs
from sparkstate.backends.ordered_spill import LongValues
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.functions import TimeDomain
from sparkstate.operators.base import ShardChanges
from sparkstate.operators.state.collection_handles import ListStateHandle
from sparkstate.operators.state.column_entries import ColumnEntries
from sparkstate.operators.state.handles import StateHandle, ValueStateHandle
from sparkstate.operators.state.known_keys import NULL_KEY, KnownKeys, Numbers
from sparkstate.operators.state.overlay import Overlay, TableOverlay, TimerKey


def changes_of(
    overlay: Overlay,
    handles: Iterable[StateHandle],
    timer_specs: Mapping[TimeDomain, TableSpec],
    shard_of: Sequence[int],
    takes_columns: bool,
    timers: Mapping[TimeDomain, Mapping[TimerKey, bool]] | None = None,
) -> ShardChanges:
    """All changes of an overlay, by shard. ``timers``: these instead of the overlay's."""
    shards: ShardChanges = defaultdict(list)
    known = overlay.known
    # The null key's number may have no key group; then it has no changes either.
    shard_of_number = np.array([*shard_of, -1], np.int16)[known.group_array()]
    for handle in handles:
        table = overlay.tables[handle.number]
        sharded = _ShardedChanges(handle.spec, known, shard_of_number)
        if isinstance(handle, ValueStateHandle):
            handle.note_spaces(table)
            _collect_values(sharded, table, takes_columns)
        else:
            _collect_cells(sharded, table, is_list=isinstance(handle, ListStateHandle))
        for shard, changes in sharded.found.items():
            shards[shard].append(changes)
    for domain, spec in timer_specs.items():
        changed = overlay.timers[domain].changes if timers is None else timers[domain]
        for shard, part in _timers_by_shard(known, changed, shard_of_number).items():
            shards[shard].append(TableChanges(spec, timers=part))
        columns = overlay.timers[domain].changed_columns() if timers is None else None
        if columns is not None:
            for shard, places in _by_shard(np.array(shard_of, np.int16)[columns.key_groups]):
                shards[shard].append(TableChanges(spec, timer_columns=columns.select(places)))
    return dict(shards)


def _timers_by_shard(
    known: KnownKeys, changed: Mapping[TimerKey, bool], shard_of_number: npt.NDArray[np.int16]
) -> dict[int, dict[Timer, bool]]:
    parts: dict[int, dict[Timer, bool]] = defaultdict(dict)
    numbers = known.numbers_of([key for _, key, _ in changed])
    kgs = known.group_array()[numbers].tolist()
    new = tuple.__new__  # Timer(…) does the same through a call of its own, for each timer
    shards = shard_of_number[numbers].tolist()
    for shard, kg, (timer, registered) in zip(shards, kgs, changed.items(), strict=True):
        timestamp, key, namespace = timer
        parts[shard][new(Timer, (timestamp, key, kg, namespace))] = registered
    return parts


def key_groups_of(changes: ShardChanges, known: KnownKeys) -> dict[Any, int]:
    """The key groups of the keys of all cells. Columns and timers carry their own."""
    by_cell = [
        cells
        for of_shard in changes.values()
        for each in of_shard
        for cells in (each.values, each.lists, each.maps)
        if cells
    ]
    return known.groups_of(key_of(cell) for cells in by_cell for cell in cells) if by_cell else {}


def long_values(spec: TableSpec, table: TableOverlay, known: KnownKeys) -> LongValues | None:
    """All changes of a table of values without columns, by whole-number keys; None: some of them are of the null key or
    in a namespace."""
    if table.columns is not None or table.rooms:
        return None
    found = _changed_longs(table, known)
    return None if found is None else LongValues(spec, found[1], known.group_array()[found[0]], found[2])


def _changed_longs(table: TableOverlay, known: KnownKeys) -> tuple[Numbers, Longs, list[Any]] | None:
    """Numbers, keys and values of changed entries in the default namespace; None: a key has no place in an array."""
    is_changed = list(map(operator.is_not, table.entries, table.read))
    numbers = np.flatnonzero(is_changed)
    keys = known.long_array(numbers)
    return None if keys is None else (numbers, keys, list(itertools.compress(table.entries, is_changed)))


class _ShardedChanges:
    """The changes of one table, by the shards of their keys."""

    def __init__(self, spec: TableSpec, known: KnownKeys, shard_of_number: npt.NDArray[np.int16]) -> None:
        self.spec = spec
        self.known = known
        self.found: dict[int, TableChanges] = {}
        self._shards = shard_of_number

    @functools.cached_property
    def _shard_list(self) -> list[int]:
        """For those who ask key by key."""
        return self._shards.tolist()  # type: ignore[no-any-return]

    def of(self, number: int) -> TableChanges:
        """Where the changes of one key go."""
        return self._in(self._shard_list[number])

    def _in(self, shard: int) -> TableChanges:
        changes = self.found.get(shard)
        if changes is None:
            changes = self.found[shard] = TableChanges(self.spec)
        return changes

    def put_columns(
        self, numbers: Numbers, columns_at: Callable[[Any], ValueColumns], name: str = "columns"
    ) -> None:
        """Changes of many keys, for the field ``name``; ``columns_at`` gives the entries at these places of
        ``numbers``. It is asked once for each shard, so that the changes are copied only once: they may be half of what
        fits in memory."""
        for shard, places in _by_shard(self._shards[numbers]):
            setattr(self._in(shard), name, columns_at(places))

    def put_values(self, numbers: list[int], values: list[Any]) -> None:
        """Changes of many keys in the default namespace; ``values`` has an entry for each number, not only these."""
        keys, ordered = self.known.keys, np.array(numbers, np.int64)
        for shard, places in _by_shard(self._shards[ordered]):
            chosen = ordered[places].tolist()
            # A dict made in one step: a loop over keys that are text costs five times as much.
            found = [DELETED if values[number] is None else values[number] for number in chosen]
            self._in(shard).values.update(zip(map(keys.__getitem__, chosen), found, strict=True))


def _by_shard(shards: npt.NDArray[np.int16]) -> Iterator[tuple[int, Any]]:
    """Each shard with its places in the array."""
    if len(shards) and (shards == shards[0]).all():
        yield int(shards[0]), slice(None)
        return
    order = np.argsort(shards, kind="stable")
    ends = np.flatnonzero(np.diff(shards[order], append=-1)) + 1
    for start, end in itertools.pairwise([0, *ends.tolist()]):
        places = order[start:end]
        yield int(shards[places[0]]), places


def _collect_values(sharded: _ShardedChanges, table: TableOverlay, takes_columns: bool) -> None:
    if table.columns is not None:
        singles: Iterable[tuple[int, Any, Any]] = _collect_columns(sharded, table.columns)
        singles = itertools.chain(singles, _collect_pairs(sharded, table), table.changed_in_rooms())
    elif takes_columns and sharded.spec.is_columnar and _collect_list(sharded, table):
        singles = table.changed_in_rooms()
    else:
        sharded.put_values(table.changed_numbers(), table.entries)
        singles = table.changed_in_rooms()
    keys = sharded.known.keys
    for number, namespace, value in singles:
        sharded.of(number).values[_cell(keys[number], namespace)] = DELETED if value is None else value


def _collect_columns(sharded: _ShardedChanges, entries: ColumnEntries) -> list[tuple[int, Any, Any]]:
    """The change of the null key is left, which has no place in an array of keys."""
    numbers, known = entries.changed(), sharded.known  # in order, and the null key's is the least
    has_null = int(numbers[:1].tolist() == [NULL_KEY])
    null, numbers = numbers[:has_null], numbers[has_null:]

    def columns_at(places: Any) -> ValueColumns:
        chosen = numbers[places]
        keys = known.long_array(chosen)
        assert keys is not None
        return ValueColumns(keys, known.group_array()[chosen], *entries.get(chosen))

    sharded.put_columns(numbers, columns_at)
    return [(NULL_KEY, None, value) for value in value_columns.to_objects(*entries.get(null))]


def _collect_pairs(sharded: _ShardedChanges, table: TableOverlay) -> Iterator[tuple[int, Any, Any]]:
    """Those of the null key are left, which has no place in an array of keys."""
    if table.pairs is None or not table.pairs.count:
        return
    pairs, values, present, may_be_stored = table.pairs.changed()
    known = sharded.known
    is_null = pairs["key"] == NULL_KEY
    kept = np.flatnonzero(~is_null)

    def columns_at(places: Any) -> ValueColumns:
        chosen = kept[places]
        numbers = pairs["key"][chosen]
        keys = known.long_array(numbers)
        assert keys is not None
        made = long_index.pairs(keys, pairs["space"][chosen])
        groups = known.group_array()[numbers]
        return ValueColumns(made, groups, values[chosen], present[chosen], may_be_stored[chosen])

    sharded.put_columns(pairs["key"][kept], columns_at, "pairs")
    null = value_columns.to_objects(values[is_null], present[is_null])
    for space, value in zip(pairs["space"][is_null].tolist(), null, strict=True):
        yield NULL_KEY, space, value


def _collect_list(sharded: _ShardedChanges, table: TableOverlay) -> bool:
    """Whether the changes in the default namespace have a place in columns, and went there."""
    found = _changed_longs(table, sharded.known)
    if found is None:
        return False
    numbers, keys, stored = found
    values = value_columns.to_columns(stored, value_columns.dtype_of(sharded.spec.value_type))
    columns = ValueColumns(keys, sharded.known.group_array()[numbers], *values)
    sharded.put_columns(numbers, columns.select)
    return True


def _collect_cells(sharded: _ShardedChanges, table: TableOverlay, is_list: bool) -> None:
    keys = sharded.known.keys
    for number, namespace, change in table.cells():
        if is_list and (change.replaced or change.items):
            sharded.of(number).lists[_cell(keys[number], namespace)] = change
        elif not is_list and (change.cleared or change.entries):
            sharded.of(number).maps[_cell(keys[number], namespace)] = change


def _cell(key: Any, namespace: Any) -> Cell:
    return key if namespace is None else NamespacedCell(key, namespace)
