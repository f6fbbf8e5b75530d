"""The checks that a ``DroppingStore`` must pass. Other stores are filled anew instead, and pass all checks."""

from __future__ import annotations

from typing import Any, Final

from sparkstate.backends.base import TableChanges, Timer
from sparkstate.backends.dropping import DroppingStore
from sparkstate.conformance.kit import (
    EVENT_TIMERS,
    FAR_FUTURE,
    KGS,
    NUMBER_TIMERS,
    NUMBERS,
    OTHER,
    TABLES,
    Kit,
    content,
    equal,
    fill,
    table,
)

_GONE: Final = ("op", "numbers", "unknown")
_NUMBER_KGS: Final = {7: 3}


def _filled(kit: Kit) -> Any:
    """A store with state of every kind; None if it is not a ``DroppingStore``."""
    store = kit.store()
    if not isinstance(store, DroppingStore):
        return None
    fill(store)
    store.commit(
        [TableChanges(NUMBERS, values={7: 1.5}), TableChanges(NUMBER_TIMERS, timers={Timer(5, 7, 3): True})],
        _NUMBER_KGS,
    )
    return store


def _dropped(kit: Kit, store: Any, *, in_canonical: bool = False) -> Any:
    """A store that was filled from a snapshot, and has dropped all operators but ``other``."""
    kit.copy(store, restored := kit.store(), in_canonical=in_canonical)
    restored.drop(_GONE)  # type: ignore[attr-defined]
    return restored


def check_dropped_operators_are_in_no_later_snapshot(kit: Kit) -> None:
    """Their tables are gone, also from snapshots in either format; the tables of others are as they were."""
    store = _filled(kit)
    for in_canonical in (False, True) if store is not None else ():
        restored = _dropped(kit, store, in_canonical=in_canonical)
        equal(list(restored.tables()), [OTHER], "tables after a drop")
        for again in (False, True):
            kit.copy(restored, later := kit.store(), in_canonical=again)
            equal(list(later.tables()), [OTHER], "tables of a later snapshot")
            equal(content(later)["other"], content(store)["other"], "another operator's value")


def check_a_dropped_operator_that_comes_back_begins_empty(kit: Kit) -> None:
    """Its tables have neither rows nor timers, and take new ones as the tables of any new operator do."""
    store = _filled(kit)
    if store is None:
        return
    restored = _dropped(kit, store)
    empty = {**content(kit.store()), "other": content(store)["other"]}
    equal(content(restored), empty, "the content after a drop")
    equal(table(restored, NUMBERS).get(3, 7), None, "a number after a drop")
    equal(table(restored, EVENT_TIMERS).next_timestamp(), None, "the next timer after a drop")
    equal(list(table(restored, NUMBER_TIMERS).due(FAR_FUTURE)), [], "timers after a drop")
    fill(restored)
    equal(content(restored), content(store), "the content after a drop and a commit")
    kit.copy(restored, again := kit.store(), in_canonical=False)
    equal(content(again), content(store), "the same from a snapshot")
    equal(len(again.tables()), len(TABLES) + 2, "tables of that snapshot")


def check_the_snapshot_of_a_dropped_operator_keeps_its_state(kit: Kit) -> None:
    """A drop changes no file of the snapshot: another store restored from it has everything."""
    store = _filled(kit)
    if store is None:
        return
    with kit.snapshot(store, in_canonical=False) as taken:
        files = kit.written(taken)
        first, second = kit.store(), kit.store()
        first.restore(files, taken.format)
        first.drop(_GONE)  # type: ignore[attr-defined]
        first.commit([TableChanges(OTHER, values={})], KGS)
        kit.copy(first, kit.store(), in_canonical=False)
        second.restore(files, taken.format)
        equal(content(second), content(store), "another restore of the same snapshot")
