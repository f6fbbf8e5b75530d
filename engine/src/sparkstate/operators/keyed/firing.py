"""Fires the due timers of an epoch, in order of time.

Processing-time timers up to the epoch's processing time fire first. They see the watermark from before the epoch,
as in Flink, where one that is due fires before the next watermark arrives. Those registered meanwhile wait for the
next epoch, because processing time stands still within one.

Event-time timers follow, if the watermark has advanced. Those that they register themselves are included, as long as
there are any: a timer that always registers a due one never ends, as in Flink. A timer that was registered for a time
behind the watermark waits for this too: only an advance of the watermark fires event-time timers.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from sparkstate import errors
from sparkstate.backends.base import Timer
from sparkstate.functions import TimeDomain
from sparkstate.operators.keyed.calls import Calls
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.memory.spilled_timers import SpilledTimers
from sparkstate.operators.state.overlay import Overlay, TimerKey, TimerOverlay

CHUNK_TIMERS = 1024
"""How many committed timers are taken at once, so that their keys' state is read in one call."""
FLUSH_ROWS = 16_384


def fire_all(calls: Calls, budget: EpochBudget | None, overlay: Overlay, watermark: int) -> None:
    """Fire everything that is due at the end of an epoch."""
    calls.bind(overlay, overlay.watermark)
    _Firing(calls, budget, overlay, TimeDomain.PROCESSING_TIME, overlay.processing_time).run()
    if watermark > overlay.watermark:
        calls.bind(overlay, watermark)
        _Firing(calls, budget, overlay, TimeDomain.EVENT_TIME, watermark).run()


class _Firing:
    """One pass over the due timers of one domain."""

    def __init__(
        self, calls: Calls, budget: EpochBudget | None, overlay: Overlay, domain: TimeDomain, until: int
    ) -> None:
        self._calls = calls
        self._tables = calls.tables
        self._budget = budget
        self._overlay = overlay
        self._domain = domain
        self._timers: TimerOverlay = overlay.timers[domain]
        self._until = until
        self._watermark = calls.cursor.service.watermark
        self._chunk: deque[Timer] = deque()
        self._spilled = SpilledTimers(
            overlay.spill, self._tables.timer_spec(domain), until, CHUNK_TIMERS, self._prefetch
        )
        self._yielded: list[Any] = []
        self._emitted: list[int | None] = []
        self._rejected: list[Any] = []

    def run(self) -> None:
        until = self._until
        self._calls.cursor.domain = self._domain
        self._timers.start_firing(until, new_ones_too=self._domain is TimeDomain.EVENT_TIME)
        committed = heapq.merge(
            *(table.due(until) for table in self._tables.timer_tables(self._domain)),
            key=lambda timer: timer.timestamp,
        )
        try:
            for timer in self._in_order(committed):
                self._fire(timer)
                if len(self._yielded) >= FLUSH_ROWS:
                    self._flush()
                if self._overlay.timers_fired % CHUNK_TIMERS == 0:
                    self._settle()
        finally:
            self._timers.stop_firing()
        self._flush()
        self._calls.reject(self._overlay, self._rejected)

    def _in_order(self, committed: Iterator[Timer]) -> Iterator[TimerKey]:
        """Committed, spilled and own timers by time; each is marked deleted before it fires."""
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
                if timers.changes.get(timer) is False:
                    continue  # deleted in this epoch, or fired as this epoch's own
            elif own is not None:
                timer = timers.pop()
            else:
                return
            timers.changes[timer] = False
            yield timer

    def _peek_committed(self, committed: Iterator[Timer]) -> Timer | None:
        while not self._chunk:
            timers = list(itertools.islice(committed, CHUNK_TIMERS))
            if not timers:
                return None
            self._chunk.extend(self._spilled.standing(timers))
            self._prefetch(self._chunk)
        return self._chunk[0]

    def _prefetch(self, timers: Iterable[Timer]) -> None:
        timers = list(timers)
        keys, kgs = [timer.key for timer in timers], [timer.key_group for timer in timers]
        self._tables.prefetch(self._overlay, keys, kgs)

    def _settle(self) -> None:
        """Between two timers: when the overlay's entries and timers went to disk, look for them there."""
        overlay = self._overlay
        least = self._timers.least_waiting()
        if self._budget is None or not self._budget.settle(self._tables, overlay):
            return
        self._calls.bind(overlay, self._watermark)
        self._spilled.restart(overlay.spill, least)
        self._chunk = deque(self._spilled.standing(list(self._chunk)))
        self._prefetch(self._chunk)

    def _fire(self, timer: TimerKey) -> None:
        calls, cursor = self._calls, self._calls.cursor
        timestamp, key, cursor.timer_namespace = timer
        cursor.number = self._overlay.numbers[key]
        cursor.stamp = timestamp
        before = len(self._yielded)
        self._overlay.timers_fired += 1
        try:
            result = calls.spec.function.on_timer(timestamp, cursor)
            if result is not None:
                self._yielded.extend(result)
        except Exception as error:
            failure = calls.user_error(self._overlay, error, self._describe(timer))
            if calls.spec.on_error == "fail" or not isinstance(failure, errors.UserCodeError):
                raise failure from error
            calls.undo_record(self._yielded, before)
            # The timer itself stays fired, or it would fail again in every epoch to come.
            self._rejected.append((*(None for _ in calls.spec.row_columns), str(failure)))
        if cursor.journal:
            cursor.journal.clear()
        if cursor.namespaced:
            cursor.reset_namespaces()
        stamp = timestamp if self._domain is TimeDomain.EVENT_TIME else None
        self._emitted.extend([stamp] * (len(self._yielded) - before))

    def _describe(self, timer: TimerKey) -> str:
        domain = "event-time" if self._domain is TimeDomain.EVENT_TIME else "processing-time"
        return f"{domain} timer {timer[0]}" + ("" if timer[2] is None else f" of namespace {timer[2]!r}")

    def _flush(self) -> None:
        stamps = self._emitted if self._calls.spec.emit_timestamps else None
        self._calls.outputs.put(self._overlay, self._yielded, stamps)
        self._yielded, self._emitted = [], []
