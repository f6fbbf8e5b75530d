"""Fires the due timers of an epoch, in order of time.

Event-time timers up to the new watermark fire first, those that they register themselves included, as long as
there are any: a timer that always registers a due one never ends, as in Flink. Then processing-time timers up
to the epoch's processing time; those registered meanwhile wait for the next epoch, because processing time
stands still within one. Event-time timers that these registered follow at once.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sparkstate import errors
from sparkstate.backends.base import Timer
from sparkstate.functions import TimeDomain
from sparkstate.operators.overlay import Overlay, TimerKey, TimerOverlay

if TYPE_CHECKING:
    from sparkstate.operators.runtime import KeyedOperator

CHUNK_TIMERS = 1024
"""How many committed timers are taken at once, so that their keys' state is read in one call."""
FLUSH_ROWS = 65_536


def fire_all(operator: KeyedOperator, overlay: Overlay, watermark: int) -> None:
    """Fire everything that is due at the end of an epoch."""
    operator.bind(overlay, watermark)
    event, processing = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
    _Firing(operator, overlay, event).run(watermark)
    _Firing(operator, overlay, processing).run(overlay.processing_time)
    if any(
        registered and timer[0] <= watermark for timer, registered in overlay.timers[event].changes.items()
    ):
        _Firing(operator, overlay, event).run(watermark)


class _Firing:
    """One pass over the due timers of one domain."""

    def __init__(self, operator: KeyedOperator, overlay: Overlay, domain: TimeDomain) -> None:
        self._operator = operator
        self._overlay = overlay
        self._domain = domain
        self._timers: TimerOverlay = overlay.timers[domain]
        self._chunk: deque[Timer] = deque()
        self._yielded: list[Any] = []
        self._emitted: list[int | None] = []
        self._rejected: list[Any] = []

    def run(self, until: int) -> None:
        operator = self._operator
        operator.cursor.domain = self._domain
        self._timers.start_firing(until, new_ones_too=self._domain is TimeDomain.EVENT_TIME)
        tables = operator.timer_tables(self._domain)
        committed = heapq.merge(*(table.due(until) for table in tables), key=lambda timer: timer.timestamp)
        try:
            for timer in self._in_order(committed):
                self._fire(timer)
                if len(self._yielded) >= FLUSH_ROWS:
                    self._flush()
        finally:
            self._timers.stop_firing()
        self._flush()
        operator.reject(self._overlay, self._rejected)

    def _in_order(self, committed: Iterator[Timer]) -> Iterator[TimerKey]:
        """Committed and own timers by time; each is marked deleted before it fires."""
        changes = self._timers.changes
        while True:
            own = self._timers.peek()
            stored = self._peek_committed(committed)
            if stored is None and own is None:
                return
            if stored is not None and (own is None or stored.timestamp <= own):
                self._chunk.popleft()
                timer = (stored.timestamp, stored.key, stored.namespace)
                if changes.get(timer) is False:
                    continue  # deleted in this epoch, or fired as this epoch's own
            else:
                timer = self._timers.pop()
            changes[timer] = False
            yield timer

    def _peek_committed(self, committed: Iterator[Timer]) -> Timer | None:
        if not self._chunk:
            self._chunk.extend(itertools.islice(committed, CHUNK_TIMERS))
            keys, kgs = [timer.key for timer in self._chunk], [timer.key_group for timer in self._chunk]
            self._operator.prefetch(self._overlay, keys, kgs)
        return self._chunk[0] if self._chunk else None

    def _fire(self, timer: TimerKey) -> None:
        operator, cursor = self._operator, self._operator.cursor
        timestamp, key, cursor.timer_namespace = timer
        cursor.number = self._overlay.numbers[key]
        cursor.stamp = timestamp
        before = len(self._yielded)
        self._overlay.timers_fired += 1
        try:
            result = operator.spec.function.on_timer(timestamp, cursor)
            if result is not None:
                self._yielded.extend(result)
        except Exception as error:
            failure = operator.user_error(self._overlay, error, self._describe(timer))
            if operator.spec.on_error == "fail" or not isinstance(failure, errors.UserCodeError):
                raise failure from error
            operator.undo_record(self._yielded, before)
            # The timer itself stays fired, or it would fail again in every epoch to come.
            self._rejected.append((*(None for _ in operator.spec.row_columns), str(failure)))
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
        stamps = self._emitted if self._operator.spec.emit_timestamps else None
        self._operator.outputs.put(self._overlay, self._yielded, stamps)
        self._yielded, self._emitted = [], []
