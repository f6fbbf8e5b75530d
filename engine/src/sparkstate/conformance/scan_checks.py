"""The checks of the conformance kit for the lists of keys that a store's tables give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkstate.backends import long_index
from sparkstate.backends.base import (
    DELETED,
    ColumnarStore,
    ListChange,
    MapChange,
    NamespacedCell,
    ShardStore,
    TableChanges,
    TableSpec,
)
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.conformance.kit import (
    KEYS,
    LISTS,
    MAPS,
    NUMBERS,
    OTHER,
    OTHER_KEY,
    VALUES,
    Kit,
    changes,
    fill,
    table,
)


def _expect(store: ShardStore, spec: TableSpec, wanted: Mapping[Any, int], what: str) -> None:
    """``keys`` gives these keys with their key groups, once each, whatever the parts."""
    for at_once in (1, 2, 3, 1000):
        parts = list(table(store, spec).keys(at_once))
        if any(not 0 < len(part) <= at_once for part in parts):
            raise AssertionError(f"{what}: a part of keys({at_once}) is empty or too large: {parts}")
        found = sorted(((key, kg) for part in parts for kg, key in part), key=repr)
        if found != sorted(wanted.items(), key=repr):
            raise AssertionError(
                f"{what}: expected the keys {wanted!r}, found {found!r} with keys({at_once})"
            )


def check_tables_list_their_keys_once(kit: Kit) -> None:
    """Of values, lists and maps of any length, and of none that has something in other namespaces alone."""
    store = kit.store()
    for spec in (VALUES, LISTS, MAPS, OTHER):
        _expect(store, spec, {}, f"an empty table {spec.name}")
    fill(store)
    for spec in (VALUES, LISTS, MAPS):
        _expect(store, spec, KEYS, spec.name)
    _expect(store, OTHER, {OTHER_KEY: 90}, "keys of two columns")
    spaced: dict[Any, Any] = {
        NamespacedCell(key, space): 1 for key in ("", "b") for space in ("window", 7, ("w", 1))
    }
    lists: dict[Any, ListChange] = {"z": ListChange(replaced=True)}
    lists[NamespacedCell("z", 1)] = ListChange(items=["x"])
    gone = changes(
        values=spaced | dict.fromkeys(("a", "", "b"), DELETED),
        lists=lists,
        maps={"ü": MapChange(entries={1: DELETED, -2: DELETED}), None: MapChange(cleared=True)},
    )
    store.commit(gone, KEYS)
    _expect(store, VALUES, _without("a", "", "b"), "values after deletions")
    _expect(store, LISTS, _without("z"), "lists after one was cleared")
    _expect(store, MAPS, _without("ü", None), "maps after two were emptied")


def _without(*gone: Any) -> dict[Any, int]:
    return {key: kg for key, kg in KEYS.items() if key not in gone}


def check_keys_are_those_of_now_beside_snapshots_and_after_restores(kit: Kit) -> None:
    """Beside two snapshots that hold earlier states, and in a store that was filled from one."""
    store = kit.store()
    fill(store)
    with kit.snapshot(store, in_canonical=True):
        store.commit(changes(values={"a": DELETED, "b": 5}, lists={"": ListChange(True)}), KEYS)
        with kit.snapshot(store, in_canonical=False):
            store.commit(changes(values={"a": 6, "b": DELETED}), KEYS)
            _expect(store, VALUES, _without("b"), "values beside snapshots")
            _expect(store, LISTS, _without(""), "lists beside snapshots")
    for in_canonical in (True, False):
        restored = kit.store()
        kit.copy(store, restored, in_canonical=in_canonical)
        _expect(restored, VALUES, _without("b"), "restored values")
        _expect(restored, MAPS, KEYS, "restored maps")


def check_columns_list_their_keys_once(kit: Kit) -> None:
    """Whole-number keys of numbers: written one by one, and as columns where the store takes them."""
    store = kit.store()
    groups: dict[Any, int] = {0: 0, -(2**63): 1, 2**63 - 1: 2, None: 4}
    cells: dict[Any, Any] = {**dict.fromkeys(groups, 1.5), NamespacedCell(7, 3): 7.0}
    store.commit([TableChanges(NUMBERS, cells)], {**groups, 7: 3})
    _expect(store, NUMBERS, groups, "numbers")
    with kit.snapshot(store, in_canonical=True):
        store.commit([TableChanges(NUMBERS, {0: DELETED, 9: 9.0})], {0: 0, 9: 9})
        del groups[0]
        groups[9] = 9
        _expect(store, NUMBERS, groups, "numbers beside a snapshot")
        if isinstance(store, ColumnarStore) and store.takes_columns:
            _write_columns(store)
            del groups[9]
            groups |= {8: 8, 6: 6}
            _expect(store, NUMBERS, groups, "numbers written as columns")
    _expect(store, NUMBERS, groups, "numbers after the snapshot")


def _write_columns(store: ShardStore) -> None:
    kgs, flags = np.array([8, 9, 6], np.int32), np.array([True, False, True])
    written = ValueColumns(np.array([8, 9, 6]), kgs, np.array([8.5, 0.0, 6.5]), flags)
    pairs = long_index.pairs(np.array([5, 8]), np.array([1, 2]))
    spaced = ValueColumns(pairs, np.array([5, 8], np.int32), np.array([1.0, 2.0]), np.array([True, True]))
    store.commit([TableChanges(NUMBERS, columns=written, pairs=spaced)], {})
