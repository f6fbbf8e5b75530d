"""Timers of one epoch as columns, where keys are whole numbers and the function works on batches.

Theory. A timer is a pair of key and timestamp, which an index of pairs gives a place. Flags lie beside it: whether the
timer *stands*, and whether the committed tables may *have* it. A timer that was registered in this epoch, and fires in
it, stands no longer and was never stored, so the commit has nothing to write for it: a window that begins and ends
within an epoch costs no row.

A committed timer that a pass has read and not fired yet does not count as a change either. If the pass ends early, the
timer is read again; its key may be one that the overlay does not know.

Null keys, namespaces and entries on disk have no place in columns, and are rare. Then all timers become objects, as
those of functions per record are, and stay so until the epoch ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkstate.backends import long_index
from sparkstate.backends.long_index import Longs, PairIndex
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.backends.value_columns import Flags, KeyGroups
from sparkstate.operators.state.overlay import TimerKey, TimerOverlay

Places = npt.NDArray[np.int32]
"""Of timers in the index."""


class ColumnTimers(TimerOverlay):
    """Those of event time. ``TimerOverlay`` is what they are once they are objects."""

    def __init__(self) -> None:
        super().__init__()
        self.is_columnar = True
        self._index = PairIndex()
        """By key, and the timestamp in the place of a namespace."""
        self._groups: KeyGroups = np.zeros(0, np.int32)
        self._stands: Flags = np.zeros(0, np.bool_)
        self._may_be_stored: Flags = np.zeros(0, np.bool_)
        self._is_stored: Flags = np.zeros(0, np.bool_)
        """Those that were read from the committed tables."""
        self._joined: list[Places] = []

    @property
    def has_changes(self) -> bool:
        return super().has_changes or self._index.count > 0

    @property
    def column_count(self) -> int:
        return self._index.count

    @property
    def column_bytes(self) -> int:
        arrays = (self._groups, self._stands, self._may_be_stored, self._is_stored)
        return self._index.nbytes + sum(each.nbytes for each in arrays)

    # --- by the function

    def put_columns(self, keys: Longs, groups: KeyGroups, timestamps: Longs, registered: bool) -> None:
        """Register or delete. While a pass fires timers, a new one that is due joins them."""
        places = self._places(keys, groups, timestamps)
        if registered and self._until is not None:
            joins = ~self._stands[places] & (timestamps <= self._until)
            if joins.any():
                self._joined.append(places[joins])
        self._stands[places] = registered
        if not registered:
            self._may_be_stored[places] = True

    def put(self, timer: TimerKey, registered: bool, journal: list[Any] | None) -> None:
        self.leave_columns()
        super().put(timer, registered, journal)

    # --- a pass that fires them

    def start_pass(self, until: int) -> Places:
        """From now on due timers that are registered join the pass. Answers this epoch's own due timers, by time."""
        self._until, self._new_ones_too = until, True
        pairs = self._index.keys
        due = np.flatnonzero(self._stands[: len(pairs)] & (pairs["space"] <= until)).astype(np.int32)
        return self._by_time(due)

    def stop_pass(self) -> None:
        """Nothing fires any more."""
        self._until = None
        self._joined.clear()

    def claim(self, committed: TimerColumns) -> Places:
        """Committed timers that are due; those that were deleted in this epoch are left out."""
        before = self._index.count
        places = self._places(committed.keys, committed.key_groups, committed.timestamps)
        self._stands[places[places >= before]] = True
        self._may_be_stored[places] = self._is_stored[places] = True
        return places[self._stands[places]]

    def take_joined(self) -> Places:
        """Due timers that were registered since the last call, by time."""
        joined, self._joined = self._joined, []
        return self.merged(joined)

    def standing(self, places: Places) -> Flags:
        """Which of them were neither deleted nor fired."""
        return self._stands[places]

    def fire(self, places: Places) -> None:
        """They fire now: each stands no longer, unless it is registered again."""
        self._stands[places] = False

    def timestamps(self, places: Places) -> Longs:
        """Their times."""
        stamps: Longs = self._index.keys["space"][places]
        return stamps

    def keys(self, places: Places) -> Longs:
        """Their keys."""
        keys: Longs = self._index.keys["key"][places]
        return keys

    def groups(self, places: Places) -> KeyGroups:
        """The key groups of those."""
        return self._groups[places]

    def merged(self, parts: Sequence[Places]) -> Places:
        """All of them, none twice, in order of time; of one time in the order given."""
        if not parts:
            return np.zeros(0, np.int32)
        places = np.concatenate(parts)
        distinct, first = np.unique(places, return_index=True)
        return self._by_time(places if len(distinct) == len(places) else places[np.sort(first)])

    def _by_time(self, places: Places) -> Places:
        stamps = self.timestamps(places)
        if not len(stamps) or (stamps == stamps[0]).all():
            return places
        return places[np.argsort(stamps, kind="stable")]

    # --- afterwards

    def changed_columns(self) -> TimerColumns:
        """The changes that the commit has to write."""
        count = self._index.count
        stands, may_be, is_stored = (
            flags[:count] for flags in (self._stands, self._may_be_stored, self._is_stored)
        )
        chosen = np.flatnonzero(np.where(stands, ~is_stored, may_be))
        pairs = self._index.keys[chosen]
        return TimerColumns(
            np.ascontiguousarray(pairs["space"]),
            np.ascontiguousarray(pairs["key"]),
            self._groups[chosen],
            self._stands[chosen],
        )

    def leave_columns(self) -> None:
        """From now on they are objects."""
        if self.is_columnar:
            self.is_columnar = False
            self._to_objects()
            self._joined.clear()

    def take(self) -> dict[TimerKey, bool]:
        self._to_objects()
        return super().take()

    def _to_objects(self) -> None:
        changed = self.changed_columns()
        timers = zip(changed.timestamps.tolist(), changed.keys.tolist(), strict=True)
        for (timestamp, key), registered in zip(timers, changed.registered.tolist(), strict=True):
            self.changes[timestamp, key, None] = registered
        self._index = PairIndex()
        self._groups = np.zeros(0, np.int32)
        self._stands, self._may_be_stored, self._is_stored = (np.zeros(0, np.bool_) for _ in range(3))

    def _places(self, keys: Longs, groups: KeyGroups, timestamps: Longs) -> Places:
        before = self._index.count
        places = self._index.places(long_index.pairs(keys, timestamps))
        count = self._index.count
        if count > len(self._stands):
            room = max(count, 2 * len(self._stands)) - len(self._stands)
            self._groups, self._stands, self._may_be_stored, self._is_stored = (
                np.concatenate([each, np.zeros(room, each.dtype)])
                for each in (self._groups, self._stands, self._may_be_stored, self._is_stored)
            )
        if count > before:
            self._groups[places] = groups
        return places
