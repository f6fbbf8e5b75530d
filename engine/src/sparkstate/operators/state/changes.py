"""The changes of an overlay, as the shard stores take them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sparkstate.backends.base import DELETED, Cell, NamespacedCell, TableChanges, TableSpec, Timer
from sparkstate.functions import TimeDomain
from sparkstate.operators.base import ShardChanges
from sparkstate.operators.state.handles import ListStateHandle, MapStateHandle, StateHandle
from sparkstate.operators.state.overlay import Overlay, TimerKey


def changes_of(
    overlay: Overlay,
    handles: Iterable[StateHandle],
    timer_specs: Mapping[TimeDomain, TableSpec],
    shard_of: Sequence[int],
    timers: Mapping[TimeDomain, Mapping[TimerKey, bool]] | None = None,
) -> ShardChanges:
    """All changes of an overlay, by shard. ``timers``: these instead of the overlay's."""
    shards: ShardChanges = defaultdict(list)
    shard_of_number = [shard_of[kg] for kg in overlay.kgs]
    found: dict[int, TableChanges]
    for handle in handles:
        found = {}
        _collect(handle, overlay, shard_of_number, found)
        for shard, changes in found.items():
            shards[shard].append(changes)
    for domain, spec in timer_specs.items():
        found = {}
        changed = overlay.timers[domain].changes if timers is None else timers[domain]
        for (timestamp, key, namespace), registered in changed.items():
            number = overlay.numbers[key]
            timer = Timer(timestamp, key, overlay.kgs[number], namespace)
            _changes(found, shard_of_number[number], spec).timers[timer] = registered
        for shard, changes in found.items():
            shards[shard].append(changes)
    return dict(shards)


def _changes(found: dict[int, TableChanges], shard: int, spec: TableSpec) -> TableChanges:
    changes = found.get(shard)
    if changes is None:
        changes = found[shard] = TableChanges(spec)
    return changes


def _collect(
    handle: StateHandle, overlay: Overlay, shard_of: Sequence[int], found: dict[int, TableChanges]
) -> None:
    spec, keys, table = handle.spec, overlay.keys, overlay.tables[handle.number]
    if isinstance(handle, ListStateHandle):
        for number, namespace, listed in table.cells():
            if listed.change.replaced or listed.change.items:
                changes = _changes(found, shard_of[number], spec)
                changes.lists[_cell(keys[number], namespace)] = listed.change
    elif isinstance(handle, MapStateHandle):
        for number, namespace, mapped in table.cells():
            if mapped.change.cleared or mapped.change.entries:
                changes = _changes(found, shard_of[number], spec)
                changes.maps[_cell(keys[number], namespace)] = mapped.change
    else:
        for number, namespace, value in table.changed_values():
            changes = _changes(found, shard_of[number], spec)
            changes.values[_cell(keys[number], namespace)] = DELETED if value is None else value


def _cell(key: Any, namespace: Any) -> Cell:
    return key if namespace is None else NamespacedCell(key, namespace)
