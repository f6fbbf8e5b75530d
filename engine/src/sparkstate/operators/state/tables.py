"""The state of one operator in one slot: its tables in the stores of the slot's shards, and what an overlay knows of
them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from sparkstate.backends.base import ShardStore, Spill, StateKind, TableSpec, TimerTable
from sparkstate.functions import TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators.state.handles import StateHandle, TableOf, ValueStateHandle
from sparkstate.operators.state.overlay import Overlay, TableOverlay
from sparkstate.serde.typeinfo import TypeInformation

TIMER_TABLES: Final = {
    TimeDomain.EVENT_TIME: ("_timer_state/event_user-timers", StateKind.EVENT_TIMERS),
    TimeDomain.PROCESSING_TIME: ("_timer_state/processing_user-timers", StateKind.PROCESSING_TIMERS),
}


class OperatorTables:
    """Not thread-safe: the operator calls it under its lock."""

    def __init__(
        self, uid: str, key_type: TypeInformation, stores: Mapping[int, ShardStore], key_space: KeySpace
    ) -> None:
        self.uid = uid
        self.stores = stores
        self.shard_of = [key_space.shard_of_key_group(kg) for kg in range(key_space.max_parallelism)]
        """By key group, also those of other slots."""
        self.owned = {kg for store in stores.values() for kg in _range(store)}
        """The key groups of the slot."""
        self.handles: list[StateHandle] = []
        """By number; complete when the user's function is open."""
        self._key_type = key_type
        self._prefetched: list[ValueStateHandle] = []

    def register(self, spec: TableSpec) -> TableOf:
        """Create a table in every shard's store."""
        tables = {shard: store.table(spec) for shard, store in self.stores.items()}
        shard_of = self.shard_of
        return lambda kg: tables[shard_of[kg]]

    def set_handles(self, handles: Iterable[StateHandle]) -> None:
        """These are all: overlays have an entry for each, and those of value states are read ahead."""
        self.handles = list(handles)
        self._prefetched = [handle for handle in self.handles if isinstance(handle, ValueStateHandle)]

    def empty_tables(self, spill: Spill | None = None) -> list[TableOverlay]:
        """One for each state; what they do not know is read from ``spill``, if there is one."""
        return [
            TableOverlay(isinstance(each, ValueStateHandle), spill and spill.table(each.spec))
            for each in self.handles
        ]

    # --- reading ahead

    def prefetch(self, overlay: Overlay, keys: Sequence[Any], kgs: Sequence[int]) -> list[int]:
        """The numbers of these keys; for new ones their values are read, in one call per shard and state."""
        before = len(overlay.keys)
        numbers = list(map(overlay.numbers.__getitem__, keys))
        new = len(overlay.numbers) - before
        if new:
            # A dict keeps its order of insertion: the new keys are its last ones.
            overlay.keys += list(itertools.islice(reversed(overlay.numbers), new))[::-1]
            overlay.kgs += _key_groups_of_new(numbers, kgs, before, new)
            if self._prefetched:
                self._read_ahead(overlay, before)
        return numbers

    def _read_ahead(self, overlay: Overlay, first: int) -> None:
        by_shard: dict[int, list[int]] = {shard: [] for shard in self.stores}
        for number in range(first, len(overlay.keys)):
            by_shard[self.shard_of[overlay.kgs[number]]].append(number)
        for handle in self._prefetched:
            entries: list[Any] = overlay.tables[handle.number].entries
            entries += [None] * (len(overlay.keys) - first)
            for shard, numbers in by_shard.items():
                if numbers:
                    spilled = overlay.tables[handle.number].spilled
                    table: Any = self.stores[shard].table(handle.spec) if spilled is None else spilled
                    kgs, keys = [overlay.kgs[n] for n in numbers], [overlay.keys[n] for n in numbers]
                    for number, value in zip(numbers, table.get_many(kgs, keys), strict=True):
                        entries[number] = value
            overlay.tables[handle.number].read += entries[first:]

    # --- timers

    def timer_spec(self, domain: TimeDomain) -> TableSpec:
        """The table of the operator's timers in one domain."""
        name, kind = TIMER_TABLES[domain]
        return TableSpec(uid=self.uid, name=name, kind=kind, key_type=self._key_type)

    def timer_tables(self, domain: TimeDomain) -> list[TimerTable]:
        """The committed timer tables of the shards that have one."""
        spec = self.timer_spec(domain)
        name = (spec.uid, spec.name)
        return [
            cast("TimerTable", store.table(spec))
            for store in self.stores.values()
            if any((table.uid, table.name) == name for table in store.tables())
        ]

    def next_timer(self, domain: TimeDomain) -> int | None:
        """The least committed timestamp; None if there is none."""
        least = (table.next_timestamp() for table in self.timer_tables(domain))
        return min((timestamp for timestamp in least if timestamp is not None), default=None)


def _key_groups_of_new(numbers: Sequence[int], kgs: Sequence[int], before: int, new: int) -> list[int]:
    """The key groups of the keys numbered ``before`` and up, of which there are ``new``, in their order."""
    places = np.asarray(numbers) - before
    is_new = places >= 0
    found = np.empty(new, np.int32)
    found[places[is_new]] = np.asarray(kgs)[is_new]
    return found.tolist()


def _range(store: ShardStore) -> range:
    return range(store.key_groups.start, store.key_groups.end + 1)
