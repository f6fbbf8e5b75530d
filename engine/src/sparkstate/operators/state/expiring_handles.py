"""The handles of states whose values expire.

Their entries in the overlay, and so in the stores, are pairs of stamp and stored value (``serde.expiring``). They judge
and stamp at the borders of the handles that they extend: where an entry is read from the overlay, and where it is
written to it.

Theory. In processing time it is always the time of the epoch, by which its processing-time timers fire. In event time a
row is judged by the watermark that it sees, and stamped with its own event time if that is later. An event-time timer
judges and stamps by its own timestamp, so its results do not depend on how much the watermark advanced at once. The
watermark from before its epoch is the least time for it, because a sweep has removed what expired by that. At the end
of time it is the only one: the job may go on later, and its time does so from there.

A function on batches has many rows or timers in one call. ``key_times`` says which of their times counts for a key.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any

from sparkstate.backends.base import DELETED
from sparkstate.functions import TimeDomain
from sparkstate.operators.state import collection_handles, handles, spaced_values
from sparkstate.operators.state.known_keys import KnownKeys, Numbers
from sparkstate.operators.state.overlay import TableOverlay
from sparkstate.serde.expiring import END_OF_TIME, NO_STAMP, Stamped, TimeToLive, is_live, ttl_of
from sparkstate.state.ttl import StateTtlConfig
from sparkstate.state.ttl_options import StateVisibility, UpdateType


def _time_of_timer(timestamp: int, floor: int) -> int:
    """By which an event-time timer judges and stamps. By the end of time nothing expires, all that had expired before
    stays so, and a stamp of that time would never expire."""
    return floor if timestamp == END_OF_TIME else max(timestamp, floor)


class ExpiringHandle(handles.StateHandle):
    """The common part: the two times at hand."""

    config: StateTtlConfig
    """Set by the runtime context, which makes the handle."""

    def bind(self, table: TableOverlay) -> None:
        super().bind(table)
        ttl = ttl_of(self.spec.value_type)
        assert ttl is not None
        service = self._cursor.service
        self._ttl: TimeToLive = ttl
        self._in_event_time = ttl.in_event_time
        self._bound = service.watermark if ttl.in_event_time else service.current_processing_time()
        self._cutoff_bound = ttl.cutoff(self._bound)
        self._refreshes = self.config.update_type is UpdateType.OnReadAndWrite
        self._shows_expired = self.config.state_visibility is StateVisibility.ReturnExpiredIfNotCleanedUp

    def _cutoff(self) -> int:
        """Entries with this stamp or an older one have expired."""
        cursor = self._cursor
        if cursor.firing is TimeDomain.EVENT_TIME and self._in_event_time and cursor.stamp is not None:
            return self._ttl.cutoff(_time_of_timer(cursor.stamp, cursor.floor))
        return self._cutoff_bound

    def _is_visible(self, entry: Stamped) -> bool:
        """Whether a read would return it. Reads themselves may renew the stamp, or remove the entry."""
        return self._shows_expired or is_live(entry[0], self._cutoff())

    @abc.abstractmethod
    def has_something(self) -> bool:
        """Whether the cell has anything to read. Changes nothing: the question does not count as an access."""

    def _now(self) -> int:
        """The stamp of a value that is written now."""
        if self._in_event_time:
            stamp, firing = self._cursor.stamp, self._cursor.firing
            if stamp is not None and firing is TimeDomain.EVENT_TIME:
                return _time_of_timer(stamp, self._cursor.floor)
            if stamp is not None and firing is None:
                return max(stamp, self._bound)
        return self._bound


class ExpiringValueStateHandle(ExpiringHandle, handles.ValueStateHandle):
    """A value state."""

    def has_something(self) -> bool:
        found = super()._stored()
        return found is not None and self._is_visible(found)

    def _stored(self) -> Any:
        found = super()._stored()
        return None if found is None else self._judged(found)

    def _judged(self, found: Stamped) -> Any:
        stamp, stored = found
        if stamp <= self._cutoff() and stamp != NO_STAMP:
            super()._store(None)
            return stored if self._shows_expired else None
        if self._refreshes and (now := self._now()) > stamp:
            super()._store((now, stored))
        return stored

    def _store(self, stored: Any) -> None:
        super()._store(None if stored is None else (self._now(), stored))

    # --- of many keys at once

    def _at_each(self, numbers: list[int], *, reads: bool) -> Iterator[int]:
        """The cursor at each key in turn, and at the event time that counts for it."""
        cursor, times = self._cursor, self._cursor.key_times
        if times is None or not self._in_event_time:
            for cursor.number in numbers:
                yield cursor.number
            return
        stamps = times.of_reads if reads else times.of_writes
        for number in numbers:
            cursor.number, cursor.stamp = number, stamps[number]
            yield number

    def entries_of(self, numbers: list[int]) -> list[Any]:
        return [self.value() for _ in self._at_each(numbers, reads=True)]

    def set_entries(self, numbers: list[int], values: list[Any], *, are_stored: bool) -> None:
        for _, value in zip(self._at_each(numbers, reads=False), values, strict=True):
            self._store(value if are_stored or value is None else self._freeze(value))

    def entries_in(self, numbers: Numbers, spaces: list[int], known: KnownKeys) -> list[Any]:
        spaced_values.read_objects(self._table, self._table_of, known, numbers, spaces)
        found, before = [], self._namespace
        for _, space in zip(self._at_each(numbers.tolist(), reads=True), spaces, strict=True):
            self.set_current_namespace(space)
            found.append(self.value())
        self.set_current_namespace(before)
        return found

    def set_entries_in(
        self, numbers: list[int], spaces: list[int], values: list[Any], *, are_stored: bool
    ) -> None:
        before = self._namespace
        for _, space, value in zip(self._at_each(numbers, reads=False), spaces, values, strict=True):
            self.set_current_namespace(space)
            self._store(value if are_stored or value is None else self._freeze(value))
        self.set_current_namespace(before)


class ExpiringReducingStateHandle(ExpiringValueStateHandle, handles.ReducingStateHandle):
    """A reducing state. Merging two values does not count as an access: the result is as old as the younger one."""

    def take(self) -> Stamped | None:
        found: Stamped | None = handles.ValueStateHandle._stored(self)
        if found is None:
            return None
        handles.ValueStateHandle._store(self, None)
        return found if self._is_visible(found) else None

    def merge(self, taken: Stamped) -> None:
        found: Stamped | None = handles.ValueStateHandle._stored(self)
        merged: Stamped | None = taken
        if found is not None and self._is_visible(found):
            reduced = self._reduced(found[1], taken[1])
            merged = None if reduced is None else (max(found[0], taken[0]), reduced)
        handles.ValueStateHandle._store(self, merged)


class ExpiringAggregatingStateHandle(ExpiringValueStateHandle, handles.AggregatingStateHandle):
    """An aggregating state."""


class ExpiringListStateHandle(ExpiringHandle, collection_handles.ListStateHandle):
    """A list state: each element expires by itself."""

    def has_something(self) -> bool:
        return any(map(self._is_visible, self._elements()))

    def get(self) -> list[Any]:
        found = self._judged(self._elements())
        return [stored if self._immutable else self._thaw(stored) for _, stored in found]

    def _judged(self, elements: list[Stamped]) -> list[Stamped]:
        cutoff = self._cutoff()
        live = [element for element in elements if is_live(element[0], cutoff)]
        now = self._now() if self._refreshes else NO_STAMP
        if self._refreshes and any(stamp < now for stamp, _ in live):
            live = [(max(stamp, now), stored) for stamp, stored in live]
            self._replace(list(live))
        elif len(live) <= len(elements) // 2 and len(live) < len(elements):
            # Writing the whole list anew is worth it only now and then; the sweep removes single elements.
            self._replace(list(live))
        return elements if self._shows_expired else live

    def take(self) -> list[Stamped]:
        return [element for element in super().take() if self._is_visible(element)]

    def add(self, value: Any) -> None:
        item = self._freeze_item(value)
        cell = self._cell()
        self._remember(cell)
        cell.items.append(item)
        self._table.elements += 1

    def _freeze_item(self, value: Any) -> Stamped:
        return self._now(), super()._freeze_item(value)


class ExpiringMapStateHandle(ExpiringHandle, collection_handles.MapStateHandle):
    """A map state: each entry expires by itself."""

    def has_something(self) -> bool:
        return any(map(self._is_visible, super()._all().values()))

    def _stored(self, key: Any) -> Any:
        found = super()._stored(key)
        return DELETED if found is DELETED else self._judged(self._normalize_key(key), found)

    def _judged(self, user_key: Any, found: Stamped) -> Any:
        stamp, stored = found
        if stamp <= self._cutoff() and stamp != NO_STAMP:
            super()._put(user_key, DELETED)
            return stored if self._shows_expired else DELETED
        if self._refreshes and (now := self._now()) > stamp:
            super()._put(user_key, (now, stored))
        return stored

    def _all(self) -> dict[Any, Any]:
        judged = {user_key: self._judged(user_key, found) for user_key, found in super()._all().items()}
        return {user_key: stored for user_key, stored in judged.items() if stored is not DELETED}

    def _put(self, user_key: Any, stored: Any) -> None:
        super()._put(user_key, DELETED if stored is DELETED else (self._now(), stored))
