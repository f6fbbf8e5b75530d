"""A pass over the keys of one state in a slot, as the epoch sees them: ``apply_to_keyed_state``.

Theory. The function that is called for the keys changes state of the key at hand alone. So a key that has not come yet
stands as it stood when the pass began, and a key that the epoch had touched by then can be told from all others at any
time: by a set of the keys in memory, or, where the overlay has been on disk, by its spill. These come first; the keys
of the stores follow, without them. An overlay that has a spill goes there as a whole before the pass begins.

Memory holds one part of keys, what the function changes until the budget moves that to disk, and the keys that the
epoch had in memory when the pass began. Without a budget (HashMap backend) an overlay keeps every key it has seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from sparkstate.backends.keyed_table import KeyParts
from sparkstate.operators.keyed.calls import RecordCalls
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.state.collection_handles import ListStateHandle, MapStateHandle
from sparkstate.operators.state.expiring_handles import ExpiringHandle
from sparkstate.operators.state.handles import StateHandle, ValueStateHandle
from sparkstate.operators.state.overlay import Overlay

KEYS_AT_ONCE: Final = 512
"""So many keys have their values read in one call."""
SETTLE_ELEMENTS: Final = 8_192
"""So many elements of lists and maps that were read or written are weighed before the next key."""

_Keys: TypeAlias = Sequence[tuple[int, Any]]
"""Key groups and keys."""


class KeyScan:
    """One pass over the keys that have something in the state of ``handle``, in the default namespace, each once."""

    def __init__(
        self, calls: RecordCalls, budget: EpochBudget | None, overlay: Overlay, handle: StateHandle
    ) -> None:
        self._calls = calls
        self._tables = calls.tables
        self._budget = budget
        self._overlay = overlay
        self._handle = handle

    def run(self, call: Callable[[Any, StateHandle], object]) -> None:
        """Call for each key, with all state bound to it. Binds the overlay, and leaves it bound."""
        for part, is_stored in self._parts():
            visited = 0
            while visited < len(part) and not self._overlay.dropped:
                visited += self._visit(part[visited:], is_stored, call)

    def _visit(self, part: _Keys, is_stored: bool, call: Callable[[Any, StateHandle], object]) -> int:
        """Visit the first keys of a part; how many. The overlay is weighed behind them."""
        overlay, handle, cursor = self._overlay, self._handle, self._calls.cursor
        self._calls.bind(overlay, overlay.watermark)
        numbers = self._tables.prefetch(overlay, [key for _, key in part], [kg for kg, _ in part])
        tables, visited = overlay.tables, 0
        # What the stores have may have expired, and no sweep has come by.
        is_there = is_stored and not isinstance(handle, ExpiringHandle)
        before = sum([table.elements for table in tables])
        for cursor.number, (_, key) in zip(numbers, part, strict=True):
            visited += 1
            if is_there or _has_something(handle):
                call(key, handle)
                if cursor.namespaced:
                    cursor.reset_namespaces()
            if sum([table.elements for table in tables]) - before >= SETTLE_ELEMENTS:
                break
        if self._budget is not None:
            self._budget.make_room(self._tables, overlay)
        return visited

    def _parts(self) -> Iterator[tuple[_Keys, bool]]:
        """Keys that may have something, each once; and whether they are as the stores have them, which certainly do
        unless it has expired."""
        overlay = self._overlay
        if overlay.spill is not None and self._budget is not None:
            self._budget.move_to_disk(self._tables, overlay)
            spilled: Any = overlay.spill.table(self._handle.spec)
            for part in spilled.keys(KEYS_AT_ONCE):
                yield part, False
            for part in self._stored():
                known = spilled.mentions([kg for kg, _ in part], [key for _, key in part])
                yield [pair for pair, is_known in zip(part, known, strict=True) if not is_known], True
            return
        touched = iter(list(zip(overlay.known.kgs, overlay.known.keys, strict=True)))
        own = set(overlay.known.keys)
        while part := list(itertools.islice(touched, KEYS_AT_ONCE)):
            yield part, False
        for part in self._stored():
            yield [pair for pair in part if pair[1] not in own], True

    def _stored(self) -> KeyParts:
        for store in self._tables.stores.values():
            table: Any = store.table(self._handle.spec)
            yield from table.keys(KEYS_AT_ONCE)


def _has_something(handle: StateHandle) -> bool:
    match handle:
        case ExpiringHandle():
            return handle.has_something()
        case ValueStateHandle():
            return handle.value() is not None
        case ListStateHandle():
            return bool(handle.get())
        case MapStateHandle():
            return not handle.is_empty()
    raise AssertionError(f"a state handle of an unknown kind: {handle!r}. This is a bug, please report")
