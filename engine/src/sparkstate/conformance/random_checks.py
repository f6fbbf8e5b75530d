"""Chapter "random": a long life of random changes, snapshots and restores, beside the hash map backend."""

from __future__ import annotations

import random
from typing import Any, Final

from sparkstate.backends.base import (
    DELETED,
    ListChange,
    MapChange,
    NamespacedCell,
    ShardStore,
    TableChanges,
    Timer,
)
from sparkstate.conformance.kit import EVENT_TIMERS, FAR_FUTURE, LISTS, MAPS, VALUES, Kit, equal, table

_SEED: Final = 20_240
_EPOCHS: Final = 120
_CHANGES: Final = 12
_KEYS: Final = {f"key {number}": number * 5 % 128 for number in range(25)} | {"": 3, None: 77, "\0": 126}
_SPACES: Final = (None, "w", 7, ("w", 1))


class _Epochs:
    """Makes changes, the same for the same seed."""

    def __init__(self) -> None:
        self._random = random.Random(_SEED)
        self._timers: list[Timer] = []

    def cells(self) -> list[tuple[int, Any]]:
        """All cells, with the key groups of their keys."""
        return [
            (group, key if space is None else NamespacedCell(key, space))
            for key, group in _KEYS.items()
            for space in _SPACES
        ]

    def next(self) -> list[TableChanges]:
        """The changes of one epoch."""
        return [
            TableChanges(VALUES, values={cell: self._value() for cell in self._some()}),
            TableChanges(LISTS, lists={cell: self._list() for cell in self._some()}),
            TableChanges(MAPS, maps={cell: self._map() for cell in self._some()}),
            TableChanges(EVENT_TIMERS, timers=self._timer_changes()),
        ]

    def _some(self) -> list[Any]:
        return self._random.sample([cell for _, cell in self.cells()], self._random.randrange(_CHANGES))

    def _value(self) -> Any:
        return self._random.choice([DELETED, 0, 1, self._random.randrange(-(2**63), 2**63)])

    def _list(self) -> ListChange:
        items = ["é" * self._random.randrange(40) for _ in range(self._random.randrange(4))]
        return ListChange(self._random.random() < 0.3, items)

    def _map(self) -> MapChange:
        keys = self._random.sample(range(-5, 5), self._random.randrange(5))
        entries = {key: self._random.choice([DELETED, None, self._random.random()]) for key in keys}
        return MapChange(self._random.random() < 0.2, entries)

    def _timer_changes(self) -> dict[Timer, bool]:
        made: dict[Timer, bool] = {}
        for _ in range(self._random.randrange(_CHANGES)):
            key = self._random.choice(list(_KEYS))
            at = self._random.choice(
                [self._random.randrange(-50, 50), self._random.randrange(-(2**63), 2**63)]
            )
            made[Timer(at, key, _KEYS[key], self._random.choice(_SPACES))] = True
        gone = self._random.sample(self._timers, min(len(self._timers), self._random.randrange(_CHANGES)))
        made.update(dict.fromkeys(gone, False))
        self._timers = [each for each in {*self._timers, *made} if made.get(each, True)]
        return made


def _content(store: ShardStore, cells: list[tuple[int, Any]]) -> dict[str, Any]:
    values, lists, maps, timers = (table(store, spec) for spec in (VALUES, LISTS, MAPS, EVENT_TIMERS))
    found = values.get_many([group for group, _ in cells], [cell for _, cell in cells])
    return {
        "values": {cell: value for (_, cell), value in zip(cells, found, strict=True)},
        "lists": {cell: lists.get(group, cell) for group, cell in cells},
        "maps": {cell: maps.items(group, cell) for group, cell in cells},
        "timers": sorted(timers.due(FAR_FUTURE), key=repr),
    }


def check_a_long_life_is_that_of_the_hash_map_backend(kit: Kit) -> None:
    """After 120 random epochs with snapshots and restores between them, a store holds what the hash map store holds."""
    epochs = _Epochs()
    store, reference = kit.store(), kit.reference()
    cells = epochs.cells()
    for number in range(_EPOCHS):
        made = epochs.next()
        store.commit(made, _KEYS)
        reference.commit(made, _KEYS)
        stamps = [each.timestamp for each in table(store, EVENT_TIMERS).due(FAR_FUTURE)]
        equal(stamps, sorted(stamps), f"the times of the timers after epoch {number}")
        next_at = table(reference, EVENT_TIMERS).next_timestamp()
        equal(table(store, EVENT_TIMERS).next_timestamp(), next_at, f"the next timer after epoch {number}")
        if number % 10 == 9:
            equal(_content(store, cells), _content(reference, cells), f"the content after epoch {number}")
        if number % 30 == 29:
            restored = kit.store()
            kit.copy(store, restored, in_canonical=number % 60 == 29)
            equal(_content(restored, cells), _content(reference, cells), f"a restore after epoch {number}")
            store = restored
