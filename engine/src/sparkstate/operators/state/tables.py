"""The state of one operator in one slot: its tables in the stores of the slot's shards,
and what an overlay knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from sparkstate import errors
from sparkstate.backends import value_columns
from sparkstate.backends.base import (
    ColumnarStore,
    ShardStore,
    Spill,
    StateKind,
    TableSpec,
    TimerTable,
)
from sparkstate.backends.expiring import ExpiringStore, naming
from sparkstate.backends.timer_columns import TimerColumnsStore
from sparkstate.backends.value_columns import KeyGroups
from sparkstate.functions import TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators.state.column_entries import ColumnEntries
from sparkstate.operators.state.column_timers import ColumnTimers
from sparkstate.operators.state.handles import StateHandle, TableOf, ValueStateHandle
from sparkstate.operators.state.known_keys import (
    NULL_KEY,
    KnownKeys,
    ListedLongKeys,
    LongKeys,
    Numbers,
    ObjectKeys,
)
from sparkstate.operators.state.overlay import Overlay, TableOverlay, TimerOverlay
from sparkstate.serde import expiring
from sparkstate.serde.typeinfo import TypeInformation

TIMER_TABLES: Final = {
    TimeDomain.EVENT_TIME: ("_timer_state/event_user-timers", StateKind.EVENT_TIMERS),
    TimeDomain.PROCESSING_TIME: ("_timer_state/processing_user-timers", StateKind.PROCESSING_TIMERS),
}
_BEFORE_ALL: Final = -(1 << 63)
"""No namespace is less."""


class OperatorTables:
    """Not thread-safe: the operator calls it under its lock."""

    def __init__(
        self,
        uid: str,
        key_type: TypeInformation,
        stores: Mapping[int, ShardStore],
        key_space: KeySpace,
        in_columns: bool = False,
        indexes_longs: bool = False,
    ) -> None:
        """``in_columns``: keys and value states are in columns wherever their types allow it. ``indexes_longs``: for
        functions called per record, keys that are whole numbers are found by an index of arrays."""
        self.uid = uid
        self.stores = stores
        self.shard_of = [key_space.shard_of_key_group(kg) for kg in range(key_space.max_parallelism)]
        """By key group, including those of other slots."""
        self._shards = np.array(self.shard_of, np.int64)
        self.owned = {kg for store in stores.values() for kg in _range(store)}
        """The key groups of the slot."""
        self.handles: list[StateHandle] = []
        """By number; complete when the user's function is open."""
        self.takes_columns = all(
            isinstance(store, ColumnarStore) and store.takes_columns for store in stores.values()
        )
        """Whether changes may be handed over as columns."""
        self.in_columns = in_columns and self.takes_columns and value_columns.has_long_keys(key_type)
        self._has_column_timers = self.in_columns and all(
            isinstance(store, TimerColumnsStore) and store.takes_timer_columns for store in stores.values()
        )
        self.indexes_longs = indexes_longs and value_columns.has_long_keys(key_type)
        """Whether overlays have their keys as ``ListedLongKeys``."""
        self._key_type = key_type
        self._restored = {
            spec.name for store in stores.values() for spec in store.tables() if spec.uid == uid
        }
        """The states that stores had before the function declared any: they may have entries already."""
        self._prefetched: list[ValueStateHandle] = []

    def adopt(self, spec: TableSpec, times: expiring.Times) -> None:
        """Tell every shard's store the time-to-live of a state that the function declares."""
        for store in self.stores.values():
            if isinstance(store, ExpiringStore):
                with naming(spec):
                    store.adopt(spec, times)
            elif expiring.ttl_of(spec.value_type) is not None:
                raise errors.StateError(
                    f"operator {spec.uid!r}: state {spec.name!r} has a time-to-live, which the state backend does not "
                    "know; use hashmap, rocksdb, or a backend whose stores derive from RowStore"
                )

    def register(self, spec: TableSpec) -> TableOf:
        """Create a table in every shard's store."""
        tables = {shard: store.table(spec) for shard, store in self.stores.items()}
        shard_of = self.shard_of
        return lambda kg: tables[shard_of[kg]]

    def set_handles(self, handles: Iterable[StateHandle]) -> None:
        """These are all: overlays have an entry for each, and those of value states are read ahead."""
        self.handles = list(handles)
        for handle in self.handles:
            if isinstance(handle, ValueStateHandle) and handle.spec.name not in self._restored:
                handle.newest_space = _BEFORE_ALL
        self._prefetched = [
            handle for handle in self.handles if isinstance(handle, ValueStateHandle) and not handle.is_spaced
        ]

    @property
    def reads_rows_ahead(self) -> bool:
        """Whether a state that is not numbers in columns is read for each new key."""
        return any(not handle.spec.is_columnar for handle in self._prefetched)

    def no_keys(self, expected: int = 0) -> KnownKeys:
        """For an overlay that begins, or begins anew; about so many keys will come."""
        if self.in_columns:
            return LongKeys(expected)
        return ListedLongKeys(expected) if self.indexes_longs else ObjectKeys()

    def empty_timers(self) -> dict[TimeDomain, TimerOverlay]:
        """For an overlay that begins."""
        event_time = ColumnTimers() if self._has_column_timers else TimerOverlay()
        return {TimeDomain.EVENT_TIME: event_time, TimeDomain.PROCESSING_TIME: TimerOverlay()}

    def empty_tables(self, spill: Spill | None = None) -> list[TableOverlay]:
        """One for each state; what they do not know is read from ``spill``, if there is one."""
        return [self._empty_table(handle, spill) for handle in self.handles]

    def _empty_table(self, handle: StateHandle, spill: Spill | None) -> TableOverlay:
        spec, columns = handle.spec, handle.empty_columns()
        # Only the handles of value states work on columns; folded states go through the handle of the record path.
        if self.in_columns and spec.kind is StateKind.VALUE and spec.is_columnar:
            columns = ColumnEntries(value_columns.dtype_of(spec.value_type))
        return TableOverlay(isinstance(handle, ValueStateHandle), spill and spill.table(spec), columns)

    # --- reading ahead

    def prefetch(self, overlay: Overlay, keys: Sequence[Any], kgs: Sequence[int]) -> list[int]:
        """The numbers of these keys; for new ones their values are read, in one call per shard and state."""
        had_null, before = _has_null(overlay), len(overlay.known)
        numbers = overlay.known.add(keys, kgs)
        self._read_new(overlay, before, had_null)
        return numbers

    def prefetch_longs(
        self, overlay: Overlay, keys: pa.Array, kgs: KeyGroups, each_once: bool = False
    ) -> Numbers:
        """The same for an array of whole numbers, where the overlay has its keys as ``LongKeys``. ``each_once``: all
        of these keys differ."""
        known = overlay.known
        assert isinstance(known, LongKeys)
        had_null, before = known.has_null, len(known)
        valid = keys.is_valid().to_numpy(zero_copy_only=False)
        longs = (keys.fill_null(0) if keys.null_count else keys).to_numpy().astype(np.int64, copy=False)
        if overlay.by_key and not each_once:
            numbers = known.add_stretches(longs, valid, kgs)
        else:
            numbers = known.add_longs(longs, valid, kgs, each_once)
        self._read_new(overlay, before, had_null)
        return numbers

    def _read_new(self, overlay: Overlay, before: int, had_null: bool) -> None:
        if not self._prefetched:
            return
        if len(overlay.known) > before or len(overlay.known) == 1:
            self._read_ahead(overlay, before)
        if not had_null and _has_null(overlay):
            self._read_null(overlay)

    def _read_ahead(self, overlay: Overlay, before: int) -> None:
        count = len(overlay.known)
        shards = self._shards[overlay.known.group_array(before)]
        by_shard = {shard: np.flatnonzero(shards == shard) + before for shard in self.stores}
        for handle in self._prefetched:
            table = overlay.tables[handle.number]
            table.grow(count)
            # A spill is one for all shards.
            parts = by_shard if table.spilled is None else {0: np.arange(before, count)}
            if table.columns is None and self._has_number_values(overlay, handle):
                self._read_numbers(overlay, handle, parts, before)
            else:
                for shard, numbers in parts.items():
                    if len(numbers):
                        self._read(overlay, handle, shard, numbers)
            table.read += table.entries[len(table.read) :]

    def _has_number_values(self, overlay: Overlay, handle: ValueStateHandle) -> bool:
        """Whether keys and values of a state can be read as arrays."""
        return self.takes_columns and isinstance(overlay.known, LongKeys) and handle.spec.is_columnar

    def _read_numbers(
        self, overlay: Overlay, handle: ValueStateHandle, parts: Mapping[int, Numbers], before: int
    ) -> None:
        """Read the values of the keys from number ``before`` on as arrays, and make all of them objects together: a
        third of the time that keys and values take as lists."""
        known, into = overlay.known, overlay.tables[handle.number]
        values = np.zeros(len(known) - before, value_columns.dtype_of(handle.spec.value_type))
        present = np.zeros(len(values), np.bool_)
        for shard, numbers in parts.items():
            if not len(numbers):
                continue
            longs = known.long_array(numbers)
            assert longs is not None  # the null key's number is before all others
            at = numbers - before
            values[at], present[at] = self._stored(handle, shard, into).get_columns(
                known.group_array()[numbers], longs
            )
        into.entries[before:] = value_columns.to_objects(values, present)

    def _read(self, overlay: Overlay, handle: ValueStateHandle, shard: int, numbers: Numbers) -> None:
        known, into = overlay.known, overlay.tables[handle.number]
        table = self._stored(handle, shard, into)
        longs = None if into.columns is None else known.long_array(numbers)
        if into.columns is not None and longs is not None:
            into.columns.put(numbers, *table.get_columns(known.group_array()[numbers], longs))
            return
        all_keys, all_kgs, places = known.keys, known.kgs, numbers.tolist()
        stretch = slice(places[0], places[-1] + 1)
        is_stretch = len(places) == stretch.stop - stretch.start
        if is_stretch:
            values = table.get_many(all_kgs[stretch], all_keys[stretch])
        else:
            values = table.get_many([all_kgs[n] for n in places], [all_keys[n] for n in places])
        if into.columns is not None:
            into.columns.put(numbers, *value_columns.to_columns(values, into.columns.dtype))
        elif is_stretch:
            into.entries[stretch] = values
        else:
            for number, value in zip(places, values, strict=True):
                into.entries[number] = value

    def _stored(self, handle: ValueStateHandle, shard: int, into: TableOverlay) -> Any:
        """The table that has the values which an overlay does not know."""
        return self.stores[shard].table(handle.spec) if into.spilled is None else into.spilled

    def _read_null(self, overlay: Overlay) -> None:
        """The null key came: its number was there before, without a value."""
        shard = self.shard_of[overlay.known.kgs[NULL_KEY]]
        for handle in self._prefetched:
            table = overlay.tables[handle.number]
            self._read(overlay, handle, shard, np.array([NULL_KEY]))
            if table.columns is None:
                table.read[NULL_KEY] = table.entries[NULL_KEY]

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


def _has_null(overlay: Overlay) -> bool:
    """Whether the null key came to an overlay that has its keys in columns."""
    return isinstance(overlay.known, LongKeys) and overlay.known.has_null


def _range(store: ShardStore) -> range:
    return range(store.key_groups.start, store.key_groups.end + 1)
