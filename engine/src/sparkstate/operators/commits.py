"""From overlays to the shard stores: one commit per shard, for all operators of an epoch at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sparkstate.backends.base import DELETED, NamespacedCell, TableChanges, TableSpec, Timer, key_of
from sparkstate.functions import TimeDomain
from sparkstate.operators.overlay import Overlay, TableOverlay
from sparkstate.operators.states import ListStateHandle, MapStateHandle, StateHandle

ShardChanges = dict[int, list[TableChanges]]
"""By shard."""


def changes_of(
    overlay: Overlay,
    handles: Iterable[StateHandle],
    timer_specs: Mapping[TimeDomain, TableSpec],
    shard_of: Sequence[int],
) -> ShardChanges:
    """All changes of an overlay, by shard."""
    shards: ShardChanges = defaultdict(list)
    of_key = {key: shard_of[kg] for key, kg in overlay.kgs.items()}
    for handle in handles:
        found: dict[int, TableChanges] = {}
        _collect(handle, overlay.tables[handle.number], of_key, found)
        for shard, changes in found.items():
            shards[shard].append(changes)
    for domain, spec in timer_specs.items():
        for shard, changes in _timer_changes(overlay, domain, spec, of_key).items():
            shards[shard].append(changes)
    return dict(shards)


def _changes(found: dict[int, TableChanges], shard: int, spec: TableSpec) -> TableChanges:
    changes = found.get(shard)
    if changes is None:
        changes = found[shard] = TableChanges(spec)
    return changes


def _collect(
    handle: StateHandle, table: TableOverlay, of_key: Mapping[Any, int], found: dict[int, TableChanges]
) -> None:
    spec = handle.spec
    if isinstance(handle, ListStateHandle):
        for cell, listed in table.entries.items():
            if listed.change.replaced or listed.change.items:
                _changes(found, of_key[key_of(cell)], spec).lists[cell] = listed.change
    elif isinstance(handle, MapStateHandle):
        for cell, mapped in table.entries.items():
            if mapped.change.cleared or mapped.change.entries:
                _changes(found, of_key[key_of(cell)], spec).maps[cell] = mapped.change
    else:
        for cell, value in table.changed().items():
            shard = of_key[cell.key if type(cell) is NamespacedCell else cell]
            if shard not in found:
                found[shard] = TableChanges(spec)
            found[shard].values[cell] = DELETED if value is None else value


def _timer_changes(
    overlay: Overlay, domain: TimeDomain, spec: TableSpec, of_key: Mapping[Any, int]
) -> dict[int, TableChanges]:
    found: dict[int, TableChanges] = {}
    for (timestamp, key, namespace), registered in overlay.timers[domain].changes.items():
        timer = Timer(timestamp, key, overlay.kgs[key], namespace)
        _changes(found, of_key[key], spec).timers[timer] = registered
    return found


def merge(
    parts: Sequence[tuple[ShardChanges, Mapping[Any, int]]],
) -> dict[int, list[tuple[list[TableChanges], Mapping[Any, int]]]]:
    """The commits of every shard, as few as can be: one, unless two operators know one key by different key
    groups.

    That happens when keys are equal in Python but not in Spark (the int 1 and the long 1 hash differently):
    then the operators' changes go to the store one after another.
    """
    shards: dict[int, list[tuple[list[TableChanges], Mapping[Any, int]]]] = defaultdict(list)
    for changes_by_shard, kgs in parts:
        for shard, changes in changes_by_shard.items():
            calls = shards[shard]
            if calls and _agree(calls[-1][1], kgs):
                before, known = calls[-1]
                calls[-1] = (before + changes, {**known, **kgs})
            else:
                calls.append((changes, kgs))
    return dict(shards)


def _agree(one: Mapping[Any, int], other: Mapping[Any, int]) -> bool:
    return one is other or all(one[key] == other[key] for key in one.keys() & other.keys())
