"""Chapter "namespaces": one key has any number of values, lists, maps and timers, each in a namespace of its own.
Windows keep their state so."""

from __future__ import annotations

from typing import Any, Final

from sparkstate.backends.base import DELETED, ListChange, MapChange, NamespacedCell, ShardStore
from sparkstate.conformance.kit import (
    EVENT_TIMERS,
    FAR_FUTURE,
    KEYS,
    LISTS,
    MAPS,
    VALUES,
    Kit,
    changes,
    equal,
    table,
    timer,
)
from sparkstate.serde import composite

NAMESPACES: Final = (
    None,
    0,
    -1,
    2**62,
    "w",
    "w\0",
    b"\xff",
    (),
    ("w", 1),
    (0, 3_600_000),
    1.5,
    1,
    True,
    1.0,
    (1, "w"),
    (True, "w"),
)
"""Those that a namespace may be, and those that an encoding may mix up. None is the default one."""


def _cell(namespace: Any) -> Any:
    return "a" if namespace is None else NamespacedCell("a", composite.told_apart(namespace))


def _fill(store: ShardStore) -> None:
    numbered = list(enumerate(NAMESPACES))
    store.commit(
        changes(
            values={_cell(space): number for number, space in numbered},
            lists={
                _cell(space): ListChange(items=[f"{number}"] * (number + 1)) for number, space in numbered
            },
            maps={_cell(space): MapChange(entries={number: float(number)}) for number, space in numbered},
            timers={timer(number % 3, "a", composite.told_apart(space)): True for number, space in numbered},
        ),
        KEYS,
    )


def _content(store: ShardStore) -> dict[str, Any]:
    spaces = {repr(space): _cell(space) for space in NAMESPACES}
    timers = [(each.timestamp, repr(each.namespace)) for each in table(store, EVENT_TIMERS).due(FAR_FUTURE)]
    return {
        "values": {name: table(store, VALUES).get(0, cell) for name, cell in spaces.items()},
        "lists": {name: table(store, LISTS).get(0, cell) for name, cell in spaces.items()},
        "maps": {name: table(store, MAPS).items(0, cell) for name, cell in spaces.items()},
        "timers": sorted(timers),
    }


def _wanted() -> dict[str, Any]:
    numbered = {repr(space): number for number, space in enumerate(NAMESPACES)}
    return {
        "values": dict(numbered),
        "lists": {name: [f"{number}"] * (number + 1) for name, number in numbered.items()},
        "maps": {name: {number: float(number)} for name, number in numbered.items()},
        "timers": sorted((number % 3, name) for name, number in numbered.items()),
    }


def check_namespaces_of_a_key_are_apart(kit: Kit) -> None:
    """A key has a value, a list, a map and timers in each of its namespaces, and none sees another's."""
    store = kit.store()
    _fill(store)
    equal(_content(store), _wanted(), "namespaces")


def check_a_change_in_one_namespace_leaves_the_others(kit: Kit) -> None:
    """A change in one namespace leaves the same key's state in all others."""
    store, wanted = kit.store(), _wanted()
    _fill(store)
    store.commit(
        changes(
            values={_cell("w"): DELETED, _cell(None): DELETED},
            lists={_cell("w"): ListChange(True), _cell(0): ListChange(True, ["new"])},
            maps={_cell("w"): MapChange(True), _cell(0): MapChange(entries={1: DELETED})},
            timers={timer(NAMESPACES.index("w") % 3, "a", "w"): False},
        ),
        KEYS,
    )
    wanted["values"] |= {repr("w"): None, repr(None): None}
    wanted["lists"] |= {repr("w"): [], repr(0): ["new"]}
    wanted["maps"] |= {repr("w"): {}, repr(0): {}}
    wanted["timers"].remove((NAMESPACES.index("w") % 3, repr("w")))
    equal(_content(store), wanted, "namespaces")


def check_a_restore_keeps_namespaces(kit: Kit) -> None:
    """They come back from a snapshot of either kind, and go to the hash map backend and back by the canonical one."""
    store, reference, back = kit.store(), kit.reference(), kit.store()
    _fill(store)
    for in_canonical in (True, False):
        restored = kit.store()
        kit.copy(store, restored, in_canonical=in_canonical)
        equal(_content(restored), _wanted(), "restored namespaces")
    kit.copy(store, reference, in_canonical=True)
    equal(_content(reference), _wanted(), "namespaces in the hash map store")
    kit.copy(reference, back, in_canonical=True)
    equal(_content(back), _wanted(), "namespaces that came back from the hash map store")
