"""Deletion of what a compacted log leaves behind: entries at and below the floor, and bases that nobody reads any more.

The order is what makes it safe: the two newest bases are stored, listed and read back before the first entry that they
stand for is deleted. Whatever a crash leaves lies below the floor, where nobody looks; the next incarnation's
:func:`sweep` deletes it, and so what a writer created there in its sleep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from sparkstate import errors
from sparkstate.log import bases, records
from sparkstate.log.bases import Bases
from sparkstate.log.state import LogState
from sparkstate.storage.objectstore import ObjectStore

UNGUARDED_REST_S = 24 * 3600.0
"""For so long after its successor's claim, in seconds, a driver of a version that knows no floor may wake up and append
where it fell asleep; its entries, and its successor's claim, stay until then."""


def compact(store: ObjectStore, state: LogState, known: Bases) -> Bases:
    """Store ``state`` as the newest base and delete what lies below the new floor; the bases as they are now.

    ``known`` are the bases before this call. Only the driver that owns the lineage may call this, and ``state`` must
    end with an entry of its own.
    """
    bases.write(store, state)
    now = bases.listed(store)
    if _is_sound(store, now):
        first = max(known.floor, state.unguarded_until) + 1
        _delete(store, range(first, now.floor + 1))
        store.delete([bases.key_of(number) for number in now.outdated])
    return now


def sweep(store: ObjectStore, state: LogState) -> int:
    """Delete what crashes left, what was created below the floor, and what versions without a floor left. Returns the
    number of entries. Called once in an incarnation, right after its record, the last that ``state`` knows."""
    now = bases.listed(store)
    if not now.floor or not _is_sound(store, now) or not _has_rested(store, state):
        return 0
    found = [
        int(info.key.rpartition("/")[2])
        for info in store.list(f"{bases.FOLDER}/0")
        if info.size != len(records.COMPACTED)
    ]
    old = [number for number in found if number <= now.floor]
    _delete(store, old)
    store.delete([bases.key_of(number) for number in now.outdated])
    return len(old)


def _is_sound(store: ObjectStore, now: Bases) -> bool:
    """Whether a reader can begin at either of the two newest bases. Read again, for nothing else will say it later."""
    wanted = now.numbers[-2:]
    return all(bases.newest_readable(store, [number])[0] is not None for number in wanted)


def _delete(store: ObjectStore, numbers: Iterable[int]) -> None:
    keys = [records.key_of(number) for number in numbers]
    store.delete(keys)
    if records.key_of(1) in keys:
        # A version that knows no floor, and can read none of the bases, would take a log without its first entry for an
        # empty one. It refuses this mark by name (``UnknownFormat``).
        with contextlib.suppress(errors.AlreadyExists):
            store.put_if_absent(records.key_of(1), records.COMPACTED)


def _has_rested(store: ObjectStore, state: LogState) -> bool:
    """By the storage's own clock."""
    if not state.unguarded_until:
        return True
    try:
        since_ms = store.head(records.key_of(state.unguarded_until)).modified_ms
    except errors.NotFound:
        return True
    now_ms = store.head(records.key_of(state.last_number)).modified_ms
    return now_ms - since_ms > UNGUARDED_REST_S * 1000
