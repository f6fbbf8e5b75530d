"""The due timers of an epoch, in order of time, from the three places where they lie: the committed tables, what the
overlay has on disk, and the overlay itself."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from sparkstate.backends.base import Timer
from sparkstate.functions import TimeDomain
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.memory.spilled_timers import SpilledTimers
from sparkstate.operators.state.overlay import Overlay, TimerKey, TimerOverlay
from sparkstate.operators.state.tables import OperatorTables

CHUNK_TIMERS = 1024
"""How many committed timers are taken at once, so that their keys' state is read in one call."""


class DueTimers:
    """One pass over the due timers of one domain. ``rebind`` points handles at the overlay anew after its entries
    went to disk."""

    def __init__(
        self,
        tables: OperatorTables,
        budget: EpochBudget | None,
        overlay: Overlay,
        domain: TimeDomain,
        until: int,
        rebind: Callable[[], None],
        chunk: int | None = None,
    ) -> None:
        self._tables = tables
        self._budget = budget
        self._overlay = overlay
        self._domain = domain
        self._timers: TimerOverlay = overlay.timers[domain]
        self._until = until
        self._rebind = rebind
        self._committed: Iterator[Timer] = iter(())
        self._chunk: deque[Timer] = deque()
        self._size = CHUNK_TIMERS if chunk is None else chunk
        self._spilled = SpilledTimers(
            overlay.spill, tables.timer_spec(domain), until, self._size, self._prefetch
        )

    def __enter__(self) -> Self:
        self._timers.start_firing(self._until, new_ones_too=self._domain is TimeDomain.EVENT_TIME)
        self._committed = heapq.merge(
            *(table.due(self._until) for table in self._tables.timer_tables(self._domain)),
            key=lambda timer: timer.timestamp,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._timers.stop_firing()

    def __iter__(self) -> Iterator[TimerKey]:
        """Each timer is marked deleted before it is given out. It ends when none is left, and begins again if more
        were registered since."""
        return self._in_order(self._committed)

    def _in_order(self, committed: Iterator[Timer]) -> Iterator[TimerKey]:
        timers, spilled = self._timers, self._spilled
        while True:
            own = timers.peek()
            stored, other = self._peek_committed(committed), spilled.peek()
            from_spill = other is not None and (stored is None or other.timestamp < stored.timestamp)
            first = other if from_spill else stored
            if first is not None and (own is None or first.timestamp <= own):
                if from_spill:
                    spilled.pop()
                else:
                    self._chunk.popleft()
                timer = (first.timestamp, first.key, first.namespace)
                if not timers.may_fire(timer):
                    continue  # deleted in this epoch, or fired as this epoch's own, or to wait for the next
            elif own is not None:
                timer = timers.pop()
            else:
                return
            timers.changes[timer] = False
            yield timer

    def _peek_committed(self, committed: Iterator[Timer]) -> Timer | None:
        while not self._chunk:
            timers = list(itertools.islice(committed, self._size))
            if not timers:
                return None
            self._chunk.extend(self._spilled.standing(timers))
            self._prefetch(self._chunk)
        return self._chunk[0]

    def _prefetch(self, timers: Iterable[Timer]) -> None:
        timers = list(timers)
        keys, kgs = [timer.key for timer in timers], [timer.key_group for timer in timers]
        self._tables.prefetch(self._overlay, keys, kgs)

    def make_room(self, least_taken: int | None = None) -> bool:
        """Between two timers: when the overlay's entries and timers went to disk, look for them there. ``least_taken``:
        the least timestamp of timers that were given out and are registered all the same. Answers whether they went."""
        overlay = self._overlay
        least = min(
            (time for time in (self._timers.least_waiting(), least_taken) if time is not None), default=None
        )
        if self._budget is None or not self._budget.make_room(self._tables, overlay):
            return False
        self._rebind()
        self._spilled.restart(overlay.spill, least)
        self._chunk = deque(self._spilled.standing(list(self._chunk)))
        self._prefetch(self._chunk)
        return True
