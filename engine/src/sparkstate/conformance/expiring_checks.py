"""The checks that an ``ExpiringStore`` must pass. Other stores refuse a time-to-live, and pass all checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from sparkstate.backends.base import (
    ListChange,
    MapChange,
    NamespacedCell,
    ShardStore,
    StateKind,
    TableChanges,
    TableSpec,
    key_of,
)
from sparkstate.backends.expiring import ExpiringStore, SweepPace
from sparkstate.conformance.kit import NUMBERS, Kit, table
from sparkstate.serde.expiring import NO_STAMP, ExpiringType, Times, TimeToLive
from sparkstate.serde.types import Types

TTL: Final = TimeToLive(100)
VALUES: Final = TableSpec(
    "expiring", "values", StateKind.VALUE, Types.STRING(), ExpiringType(Types.LONG(), TTL)
)
LISTS: Final = TableSpec(
    "expiring", "lists", StateKind.LIST, Types.STRING(), ExpiringType(Types.STRING(), TTL)
)
MAPS: Final = TableSpec(
    "expiring", "maps", StateKind.MAP, Types.STRING(), ExpiringType(Types.DOUBLE(), TTL), Types.LONG()
)
LASTING: Final = TableSpec("expiring", "values", StateKind.VALUE, Types.STRING(), Types.LONG())
KGS: Final = {"old": 3, "new": 3, "both": 77, "timeless": 127}
EVERYTHING: Final = SweepPace(1.0, 1000, 1000)
NOTHING: Final = SweepPace(0.0, 0, 0)
CUTOFF: Final = 50
"""``old`` entries are stamped at it."""


def _equal(found: Any, wanted: Any, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted!r}, found {found!r}")


def _expiring_store(kit: Kit) -> Any:
    """An empty store; None if it is not an ``ExpiringStore``."""
    store = kit.store()
    return store if isinstance(store, ExpiringStore) else None


def _fill(store: ShardStore) -> None:
    old, new, timeless = 50, 51, NO_STAMP
    store.commit(
        [
            TableChanges(VALUES, values={"old": (old, 1), "new": (new, 2), "timeless": (timeless, 3)}),
            TableChanges(
                LISTS,
                lists={
                    "old": ListChange(items=[(old, "x")]),
                    "both": ListChange(items=[(old, "x"), (new, "y"), (-5, "z"), (timeless, "t")]),
                },
            ),
            TableChanges(
                MAPS,
                maps={
                    "old": MapChange(entries={1: (old, None)}),
                    "both": MapChange(entries={1: (old, 1.5), 2: (new, None), 3: (-(2**62), 3.5)}),
                },
            ),
        ],
        KGS,
    )


def _content(store: ShardStore) -> dict[str, Any]:
    values, lists, maps = (table(store, spec) for spec in (VALUES, LISTS, MAPS))
    keys = list(KGS)
    return {
        "values": values.get_many([KGS[key] for key in keys], keys),
        "lists": [lists.get(KGS[key], key) for key in keys],
        "maps": [maps.items(KGS[key], key) for key in keys],
    }


_LIVE: Final = {
    "values": [None, (51, 2), None, (NO_STAMP, 3)],
    "lists": [[], [], [(51, "y"), (NO_STAMP, "t")], []],
    "maps": [{}, {}, {2: (51, None)}, {}],
}


def _expire(store: Any, pace: SweepPace) -> int:
    return sum(store.expire(spec, CUTOFF, pace) for spec in (VALUES, LISTS, MAPS))


def check_expired_values_leave_the_store(kit: Kit) -> None:
    """A sweep removes them, however few entries it looks at in a call, and nothing else."""
    for pace in (EVERYTHING, SweepPace(0.0, 1, 1), SweepPace(0.3, 0, 1000)):
        store = _expiring_store(kit)
        if store is None:
            return
        _fill(store)
        _equal(_expire(store, NOTHING), 0, "entries that a sweep without a look removed")
        removed = sum(_expire(store, pace) for _ in range(20))
        _equal(_content(store), _LIVE, f"the content after a sweep ({pace})")
        _equal(removed, 7, "entries removed")
        kit.copy(store, restored := kit.store(), in_canonical=False)
        _equal(_content(restored), _LIVE, "a snapshot after the sweep")


def check_expired_values_are_in_no_canonical_snapshot(kit: Kit) -> None:
    """They are left out once the store knows the time, though no sweep has looked at them."""
    store = _expiring_store(kit)
    if store is None:
        return
    _fill(store)
    before = _content(store)
    kit.copy(store, whole := kit.store(), in_canonical=True)
    _equal(_content(whole), before, "a snapshot at no time")
    _expire(store, NOTHING)
    for target in (kit.store(), kit.reference()):
        kit.copy(store, target, in_canonical=True)
        _equal(_content(target), _LIVE, "a snapshot that knows the time")


def check_values_outlive_a_clock_that_was_ahead(kit: Kit) -> None:
    """An epoch had a time in the future, and the clock was set since. Values that are written now have not expired,
    neither for a sweep nor for a snapshot."""
    store = _expiring_store(kit)
    if store is None:
        return
    store.expire(VALUES, 10 * CUTOFF, NOTHING)
    _fill(store)
    removed = sum(store.expire(VALUES, CUTOFF, EVERYTHING) for _ in range(20))
    _equal(removed, 1, "values removed once the clock was set")
    kit.copy(store, restored := kit.store(), in_canonical=True)
    for found, where in ((store, "the store"), (restored, "a snapshot")):
        _equal(_content(found)["values"], _LIVE["values"], f"values in {where} once the clock was set")


def check_a_sweep_is_not_seen_by_a_snapshot(kit: Kit) -> None:
    """A snapshot that was prepared before holds what the sweep removes, and what a commit adds comes after it."""
    store = _expiring_store(kit)
    if store is None:
        return
    _fill(store)
    before = _content(store)
    for in_canonical in (False, True):
        with kit.snapshot(store, in_canonical=in_canonical) as taken:
            if in_canonical:
                _expire(store, EVERYTHING)
                _expire(store, EVERYTHING)
            restored = kit.store()
            restored.restore(kit.written(taken), taken.format)
        _equal(_content(restored), before, "the snapshot")
    _equal(_content(store), _LIVE, "the store")
    store.commit([TableChanges(LISTS, lists={"both": ListChange(items=[(60, "n")])})], KGS)
    _equal(
        table(store, LISTS).get(77, "both"), [(51, "y"), (NO_STAMP, "t"), (60, "n")], "a list that went on"
    )


def check_a_table_takes_up_a_time_to_live_and_gives_it_up(kit: Kit) -> None:
    """Values without a stamp count as written at the restore; values that had expired do not come back."""
    for in_canonical in (False, True):
        store = _expiring_store(kit)
        if store is None:
            return
        store.commit([TableChanges(LASTING, values={"old": 1, "new": 2})], KGS)
        kit.copy(store, stamped := kit.store(), in_canonical=in_canonical)
        _adopt(stamped, VALUES, 1000)
        stamped.commit([TableChanges(VALUES, values={"both": (1050, 3)})], KGS)
        found = table(stamped, VALUES).get_many([3, 3, 77], ["old", "new", "both"])
        _equal(found, [(1000, 1), (1000, 2), (1050, 3)], "values that were stamped at the restore")
        kit.copy(stamped, lasting := kit.store(), in_canonical=in_canonical)
        _adopt(lasting, LASTING, 1100)
        found = table(lasting, LASTING).get_many([3, 3, 77], ["old", "new", "both"])
        _equal(found, [None, None, 3], "values that no longer expire")


def check_numbers_take_up_a_time_to_live_and_give_it_up(kit: Kit) -> None:
    """The same for values that lie in columns while they do not expire; under null and in namespaces too."""
    cells = {7: 1.5, None: 2.5, NamespacedCell(7, 3): 3.5, NamespacedCell(7, "n"): 4.5}
    groups = {7: 3, None: 77}
    kgs = [groups[key_of(cell)] for cell in cells]
    store = _expiring_store(kit)
    if store is None:
        return
    store.commit([TableChanges(NUMBERS, values=dict(cells))], groups)
    expiring_numbers = replace(NUMBERS, value_type=ExpiringType(Types.DOUBLE(), TTL))
    kit.copy(store, stamped := kit.store(), in_canonical=False)
    _adopt(stamped, expiring_numbers, 1000)
    found = table(stamped, expiring_numbers).get_many(kgs, list(cells))
    _equal(found, [(1000, value) for value in cells.values()], "numbers that were stamped at the restore")
    kit.copy(stamped, lasting := kit.store(), in_canonical=False)
    _adopt(lasting, NUMBERS, 1050)
    _equal(table(lasting, NUMBERS).get_many(kgs, list(cells)), list(cells.values()), "numbers that stay")


def _adopt(store: Any, spec: TableSpec, now: int) -> None:
    store.adopt(spec, Times(now, NO_STAMP))
