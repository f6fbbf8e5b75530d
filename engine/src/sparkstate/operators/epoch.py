"""The commit of an epoch: the overlays of all operators of a slot become state, in one write per shard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sparkstate import errors
from sparkstate.backends.base import TableChanges
from sparkstate.operators import base

_Calls: TypeAlias = list[tuple[list[TableChanges], Mapping[Any, int]]]
"""Calls of one store's ``commit``."""


def commit_overlays(parts: Sequence[tuple[base.Operator[Any], base.EpochOverlay]]) -> base.Sweep:
    """Make the overlays of one epoch state: all operators' changes in one commit per shard, those of overlays
    that went to disk in many small ones. Then sweep entries that have expired."""
    for operator, overlay in parts:
        if not overlay.finished or overlay.committed:
            problem = "committed already" if overlay.committed else "not finished"
            raise errors.StateError(f"operator {operator.spec.uid!r}: epoch {overlay.epoch} is {problem}")
    for operator, overlay in parts:
        operator.commit_spilled(overlay)
    changed = [operator.changes(overlay) for operator, overlay in parts]
    stores = {shard: store for operator, _ in parts for shard, store in operator.stores.items()}
    for shard, calls in _merge(changed).items():
        for changes, key_groups in calls:
            stores[shard].commit(changes, key_groups)
    sweep = base.Sweep()
    for operator, overlay in parts:
        operator.commit_operator_state(overlay)
        sweep = sweep.beside(operator.expire_state(overlay))
        overlay.committed = True
    return sweep


def _merge(changed: Sequence[base.EpochChanges]) -> dict[int, _Calls]:
    """The commits of every shard, as few as can be: one, unless two operators know one key by different key groups.

    That happens when keys are equal in Python but not in Spark (the int 1 and the long 1 hash differently):
    then the operators' changes go to the store one after another.
    """
    shards: dict[int, _Calls] = defaultdict(list)
    for each in changed:
        for shard, changes in each.by_shard.items():
            calls = shards[shard]
            if calls and _agree(calls[-1][1], each.key_groups):
                before, known = calls[-1]
                calls[-1] = (before + changes, {**known, **each.key_groups})
            else:
                calls.append((changes, each.key_groups))
    return dict(shards)


def _agree(one: Mapping[Any, int], other: Mapping[Any, int]) -> bool:
    return one is other or all(one[key] == other[key] for key in one.keys() & other.keys())
