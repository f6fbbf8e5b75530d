"""Values of many keys, each in a namespace of its own, read together: one call per table, not one per cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sparkstate.backends import long_index
from sparkstate.backends.base import NamespacedCell
from sparkstate.backends.long_index import Longs
from sparkstate.backends.value_columns import Flags, Values
from sparkstate.operators.state.known_keys import NULL_KEY, KnownKeys, Numbers
from sparkstate.operators.state.overlay import TableOverlay

TableOf = Callable[[int], Any]
"""Key group → committed table of the shard that owns it."""


def read_columns(
    table: TableOverlay,
    table_of: TableOf,
    known: KnownKeys,
    numbers: Numbers,
    spaces: Longs,
    newest: int | None,
) -> tuple[Values, Flags]:
    """The values of keys in namespaces, and whether there is one, where the overlay has them in columns. ``newest``: no
    namespace beyond it was committed or is on disk, so nobody needs to look; None: any may be."""
    assert table.pairs is not None
    values, present, is_written = table.pairs.get(numbers, spaces)
    is_open = ~is_written
    if newest is not None:
        is_open &= spaces <= newest
    rest = np.flatnonzero(is_open)
    for committed, places in _by_table(table, table_of, known, numbers, rest):
        is_null = numbers[places] == NULL_KEY
        for place in places[is_null].tolist():
            value = committed.get(known.kgs[NULL_KEY], NamespacedCell(None, int(spaces[place])))
            present[place] = value is not None
            if value is not None:
                values[place] = value
        kept = places[~is_null]
        keys = known.long_array(numbers[kept])
        assert keys is not None
        groups = known.group_array()[numbers[kept]]
        found = committed.get_columns(groups, long_index.pairs(keys, spaces[kept]))
        values[kept], present[kept] = found
    return values, present


def read_objects(
    table: TableOverlay, table_of: TableOf, known: KnownKeys, numbers: Numbers, spaces: Sequence[Any]
) -> list[Any]:
    """The stored values of keys in namespaces, one for each key (None: there is none)."""
    rooms = {space: table.room(space) for space in set(spaces)}
    listed = numbers.tolist()
    cells = list(zip(listed, spaces, strict=True))
    rest = np.array(
        [place for place, (number, space) in enumerate(cells) if number not in rooms[space][0]], np.int64
    )
    keys, kgs = known.keys, known.kgs
    for committed, places in _by_table(table, table_of, known, numbers, rest):
        asked = [cells[place] for place in places.tolist()]
        found = committed.get_many(
            [kgs[number] for number, _ in asked],
            [NamespacedCell(keys[number], space) for number, space in asked],
        )
        for (number, space), value in zip(asked, found, strict=True):
            entries, read = rooms[space]
            entries[number] = read[number] = value
    return [rooms[space][0][number] for number, space in cells]


def _by_table(
    table: TableOverlay, table_of: TableOf, known: KnownKeys, numbers: Numbers, places: Numbers
) -> Iterator[tuple[Any, Numbers]]:
    """The places of keys, by the table that has their committed values."""
    if not len(places):
        return
    if table.spilled is not None:
        yield table.spilled, places
        return
    groups, which = np.unique(known.group_array()[numbers[places]], return_inverse=True)
    tables = [table_of(group) for group in groups.tolist()]
    distinct = {id(each): each for each in tables}
    order = {identity: number for number, identity in enumerate(distinct)}
    table_numbers = np.array([order[id(each)] for each in tables])[which]
    for number, each in enumerate(distinct.values()):
        found = places[table_numbers == number]
        if len(found):
            yield each, found
